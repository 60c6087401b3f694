"""Parquet files of others: by the library datasets, by pyarrow, odd ones and damaged ones."""

from __future__ import annotations

import json
import os
import pickle
import sys
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from fastdata_cli import registry
from fastdata_cli.contract import Capability, Reader
from fastdata_cli.errors import (
    BadSampleError,
    DamagedDatasetError,
    FastdataError,
    MissingDependencyError,
    UnsupportedError,
    UsageError,
)
from fastdata_cli.formats.parquet import FORMAT, groups
from fastdata_cli.formats.parquet.footers import read_footers
from fastdata_cli.formats.parquet.reader import ParquetReadOptions
from fastdata_cli.sample import Reject, Sample
from fastdata_cli.testing.reader_conformance import digests, in_children
from fastdata_cli.testing.synthetic import png

from .fixtures.make_tfrecords import FOLDER, pixels

FIXTURE = FOLDER / "datasets.parquet"
IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
PICTURES = [png(3 + index % 5, 4, index) for index in range(40)]


def images(paths: list[str | None] | None = None, pictures: list[bytes] = PICTURES) -> Any:
    names = paths or [f"{index}.png" for index in range(len(pictures))]
    return pa.array([{"bytes": p, "path": n} for p, n in zip(pictures, names, strict=True)], IMAGE)


def write(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    path.parent.mkdir(exist_ok=True)
    pyarrow.parquet.write_table(pa.table(columns), path, row_group_size=7, **options)
    return path


def read(reader: Reader) -> list[Sample]:
    found = list(reader.scan())
    samples = [each for each in found if isinstance(each, Sample)]
    assert len(samples) == len(found) == len(reader)
    return samples


@pytest.fixture
def file(tmp_path: Path) -> Path:
    labels = pa.array([index % 3 for index in range(40)], pa.int32())
    return write(tmp_path / "set.parquet", {"image": images(), "label": labels})


# -- what others wrote


def test_written_by_the_library_datasets() -> None:
    assert registry.recognise(FIXTURE).name == "parquet"
    reader = registry.open_reader(FIXTURE)
    assert reader.schema.class_names == ("cat", "dog", "Ä")
    assert reader.describe()["row_groups"] == 2
    for index, sample in enumerate(read(reader)):
        image = cv2.imdecode(sample.image, cv2.IMREAD_COLOR_RGB)
        assert image is not None
        assert image.tobytes() == pixels(index)
        assert (sample.key, sample.label) == (f"{index}.png", index % 3)
        caption = {"caption": f"number {index} ü"} if index else {}
        assert sample.metadata == {"boxes": [0.5] * index, **caption}
    assert list(reader.verify()) == []


@pytest.mark.parametrize("codec", ["none", "snappy", "zstd", "gzip", "lz4", "brotli"])
def test_any_codec_in_any_order(tmp_path: Path, codec: str) -> None:
    path = write(tmp_path / "set.parquet", {"image": images()}, compression=codec)
    reader = registry.open_reader(path)
    assert Capability.RANDOM_ACCESS not in reader.capabilities
    order = np.random.default_rng(0).integers(0, 40, 100)
    batch = reader.read_many(order)
    assert [batch.image(row).tobytes() for row in range(100)] == [PICTURES[at] for at in order]
    assert batch.labels.tolist() == [-1] * 100
    assert reader.describe()["codec"] == ("uncompressed" if codec == "none" else codec)


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_a_column_of_bytes(tmp_path: Path, kind: Any) -> None:
    columns = {
        "name": [f"{n}.jpg" for n in range(40)],
        "jpg": pa.array(PICTURES, kind),
        "y": pa.array(range(40), pa.uint8()),
        "size": [4] * 40,
    }
    samples = read(registry.open_reader(write(tmp_path / "a.parquet", columns)))
    assert [sample.image.tobytes() for sample in samples] == PICTURES
    assert (samples[5].key, samples[5].label) == ("5.jpg", 5)
    assert samples[5].metadata == {"size": 4}


def test_a_folder_and_a_pattern(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    for part in range(3):
        pictures = PICTURES[10 * part : 10 * part + 10]
        names: list[str | None] = [f"{part}-{n}.png" for n in range(10)]
        columns = {"image": images(names, pictures)}
        write(folder / f"train-{part:05d}-of-00003.parquet", columns)
    (tmp_path / "README.md").write_text("# card")
    for path in (folder, tmp_path, folder / "train-%05d-of-00003.parquet"):
        reader = registry.open_reader(path)
        assert [sample.image.tobytes() for sample in read(reader)] == PICTURES[:30]
        assert (reader.notes, reader.describe().get("notes")) == ({}, None)
    write(folder / "test-00000-of-00001.parquet", {"image": images()})
    assert registry.open_reader(folder).describe()["notes"] == [
        "files of 2 kinds are read as one: test, train"
    ]
    (folder / "train-00001-of-00003.parquet").unlink()
    assert registry.open_reader(folder).notes == {"missing-shard": 1}


def test_spans_end_between_row_groups(file: Path) -> None:
    reader = registry.open_reader(file)
    assert [(span.start, span.stop) for span in reader.spans(3)] == [(0, 14), (14, 28), (28, 40)]
    assert [index for span in reader.spans(100) for index in span] == list(range(40))


def test_rows_of_a_large_group_come_in_blocks(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "BLOCK_BYTES", 2 * len(PICTURES[0]))
    monkeypatch.setattr(groups, "_KEPT_BYTES", 4 * len(PICTURES[0]))
    reader = registry.open_reader(file)
    for order in (range(40), reversed(range(40)), [39, 0, 20, 39, 1]):
        for at in order:
            assert reader.read(at).image.tobytes() == PICTURES[at]


def test_blocks_that_come_again_count_once(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "BLOCK_BYTES", 2 * len(PICTURES[0]))
    monkeypatch.setattr(groups, "_KEPT_BYTES", 20 * len(PICTURES[0]))
    blocks = groups.RowBlocks(read_footers([file], None).groups, [("image", "bytes")])
    for at in np.random.default_rng(0).integers(0, 40, 300).tolist():
        list(blocks.rows(np.array([at])))
    assert blocks._kept_bytes == sum(each.nbytes for each in blocks._kept.values())
    assert len(blocks._kept) > 3


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_processes(file: Path) -> None:
    reader = registry.open_reader(file)
    before = digests(reader)
    assert digests(pickle.loads(pickle.dumps(reader))) == before  # noqa: S301 - our own bytes
    assert in_children("fork", reader, 2) == [before] * 2
    assert in_children("spawn", reader, 1) == [before]
    reader.close()
    assert digests(reader) == before


# -- keys, labels, metadata


def test_paths_that_repeat_get_their_row(tmp_path: Path) -> None:
    names: list[str | None] = [None, "a/x.png", "a/x.png", "", *[f"{n}.png" for n in range(36)]]
    reader = registry.open_reader(write(tmp_path / "s.parquet", {"image": images(names)}))
    found = list(reader.keys())
    assert found[:5] == [
        "00000000-00000000",
        "a/00000001-x.png",
        "a/00000002-x.png",
        "00000003-00000003",
        "00000004-0.png",
    ]
    assert len(set(found)) == 40


def test_labels_that_are_none(tmp_path: Path) -> None:
    values = pa.array([None if n == 3 else n % 2 for n in range(40)], pa.int64())
    reader = registry.open_reader(write(tmp_path / "s.parquet", {"image": images(), "y": values}))
    assert reader.labels().tolist()[:5] == [0, 1, 0, -1, 0]
    texts = {"image": images(), "label": ["cat"] * 40}
    reader = registry.open_reader(write(tmp_path / "t.parquet", texts))
    assert set(reader.labels().tolist()) == {-1}
    assert reader.describe()["notes"] == [
        "label holds string: not used as labels, which are whole numbers"
    ]
    assert reader.read(0).metadata == {"label": "cat"}


def test_one_of_several_class_columns(tmp_path: Path) -> None:
    columns = {"img": images(), "fine": [n % 4 for n in range(40)], "coarse": [0] * 40}
    classes = {name: {"_type": "ClassLabel", "names": ["a", "b"]} for name in ("fine", "coarse")}
    noted = {"info": {"features": {**classes, "img": {"_type": "Image"}}}}
    table = pa.table(columns).replace_schema_metadata({"huggingface": json.dumps(noted)})
    pyarrow.parquet.write_table(table, tmp_path / "s.parquet")
    reader = registry.open_reader(tmp_path / "s.parquet")
    assert reader.labels().tolist()[:4] == [0, 1, 2, 3]
    assert reader.read(1).metadata == {"coarse": 0}
    assert reader.describe()["notes"] == ["labels are those of fine; metadata: coarse"]


@pytest.mark.parametrize("noted", ["{", "[]", '{"info": 3}', '{"info": {"features": {"y": 1}}}'])
def test_notes_of_the_library_that_are_none(tmp_path: Path, noted: str) -> None:
    table = pa.table({"image": images()}).replace_schema_metadata({"huggingface": noted})
    pyarrow.parquet.write_table(table, tmp_path / "s.parquet")
    assert len(read(registry.open_reader(tmp_path / "s.parquet"))) == 40


def test_values_that_json_has_not(tmp_path: Path) -> None:
    columns = {
        "image": images(),
        "when": pa.array([0] * 40, pa.timestamp("s")),
        "price": pa.array(["1.50"] * 40).cast(pa.decimal128(5, 2)),
        "blob": pa.array([[b"x"]] * 40, pa.list_(pa.binary())),
        "place": pa.array([{"x": 1, "y": None}] * 40),
    }
    reader = registry.open_reader(write(tmp_path / "s.parquet", columns))
    assert reader.read(2).metadata == {
        "when": "1970-01-01 00:00:00",
        "price": "1.50",
        "place": {"x": 1},
    }
    assert reader.notes == {"field-blob": 40}


@pytest.mark.parametrize(
    "column",
    [
        pa.array([b"1" * 16] * 40, pa.binary(16)),
        pa.array([b"1"] * 40, pa.binary_view()),
        pa.array([b"1"] * 40).dictionary_encode(),
        pa.array([b"1" * 16] * 40, pa.uuid()),
        pa.array([{"x": [b"1" * 2]}] * 40, pa.struct([("x", pa.list_(pa.binary(2)))])),
    ],
    ids=lambda column: str(column.type),
)
def test_columns_of_bytes_of_any_kind_are_left_out(tmp_path: Path, column: Any) -> None:
    columns = {"image": images(), "digest": column, "size": [1] * 40}
    reader = registry.open_reader(write(tmp_path / "s.parquet", columns))
    assert reader.read_many([3]).metadata == ['{"size":1}']
    assert reader.notes == {"field-digest": 40}


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), None], ids=str)
def test_keys_of_any_kind_of_text(tmp_path: Path, kind: Any) -> None:
    names = pa.array([f"a/{n}.png" for n in range(40)], kind)
    columns = {"image": PICTURES, "filename": names if kind else names.dictionary_encode()}
    reader = registry.open_reader(write(tmp_path / "s.parquet", columns))
    assert list(reader.keys())[:2] == ["a/0.png", "a/1.png"]
    assert reader.read(0).metadata is None


def test_names_with_dots(tmp_path: Path) -> None:
    columns = {
        "image.bytes": PICTURES,
        "image": [f"{n}" for n in range(40)],
        "a": pa.array([{"b": n} for n in range(40)]),
        "a.b": list(range(40)),
    }
    found = read(registry.open_reader(write(tmp_path / "s.parquet", columns)))
    assert [sample.image.tobytes() for sample in found] == PICTURES
    assert found[7].metadata == {"image": "7", "a": {"b": 7}, "a.b": 7}


def test_a_struct_beside_a_name_with_a_dot(tmp_path: Path) -> None:
    columns = {"image": images(), "image.bytes": [b"x"] * 40, "image.path": ["y"] * 40}
    path = write(tmp_path / "s.parquet", columns)
    found = read(FORMAT.open_reader(path, ParquetReadOptions(field="image")))
    assert [sample.image.tobytes() for sample in found] == PICTURES
    assert (found[3].key, found[3].metadata) == ("3.png", {"image.path": "y"})


# -- what is refused


def test_images_that_lie_elsewhere_are_refused(tmp_path: Path) -> None:
    outside = pa.array([{"bytes": None, "path": f"/data/{n}.png"} for n in range(40)], IMAGE)
    path = write(tmp_path / "s.parquet", {"image": outside})
    with pytest.raises(UnsupportedError, match="its images lie elsewhere") as caught:
        registry.open_reader(path)
    assert "fastdata convert -" in caught.value.hint


def test_a_row_without_bytes_is_named(tmp_path: Path) -> None:
    rows = images().to_pylist()
    rows[3]["bytes"], rows[20] = None, None
    path = write(tmp_path / "s.parquet", {"image": pa.array(rows, IMAGE)})
    reader = registry.open_reader(path)
    bad = [found for found in reader.scan() if isinstance(found, Reject)]
    assert [(each.key, each.reason, each.index) for each in bad] == [
        ("3.png", "missing-image", 3),
        ("00000020", "missing-image", 20),
    ]
    with pytest.raises(BadSampleError, match="row 3 has no bytes"):
        reader.read(3)


def test_several_columns_of_images_need_a_choice(tmp_path: Path) -> None:
    path = write(tmp_path / "s.parquet", {"left": images(), "right": images()})
    with pytest.raises(UsageError, match="2 columns may be the image: left, right"):
        registry.open_reader(path)
    reader = FORMAT.open_reader(path, ParquetReadOptions(field="right"))
    assert reader.notes == {"field-left": 40}
    with pytest.raises(UsageError, match="--field middle is not there"):
        FORMAT.open_reader(path, ParquetReadOptions(field="middle"))


def test_tables_without_images(tmp_path: Path) -> None:
    path = write(tmp_path / "s.parquet", {"text": ["a"] * 3})
    with pytest.raises(UnsupportedError, match=r"no column holds images, only text \(string\)"):
        registry.open_reader(path)
    with pytest.raises(UnsupportedError, match="can be read but not written"):
        registry.for_destination(tmp_path / "new.parquet")


def test_files_of_different_tables(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", {"image": images(), "label": [1] * 40})
    write(tmp_path / "b.parquet", {"image": images()})
    with pytest.raises(UnsupportedError, match=r"b\.parquet: has no column label"):
        registry.open_reader(tmp_path)


@pytest.mark.parametrize("kind", [pa.binary(), pa.struct([("bytes", pa.binary())])], ids=str)
def test_files_whose_image_is_of_another_kind(tmp_path: Path, kind: Any) -> None:
    write(tmp_path / "a.parquet", {"image": images()})
    values = PICTURES if kind == pa.binary() else [{"bytes": each} for each in PICTURES]
    write(tmp_path / "b.parquet", {"image": pa.array(values, kind)})
    with pytest.raises(UnsupportedError, match=r"b\.parquet: has no column image\."):
        registry.open_reader(tmp_path)


def test_without_pyarrow_there_are_words(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingDependencyError, match="needs the library pyarrow") as caught:
        registry.open_reader(file)
    assert caught.value.hint == "pip install 'fastdata-cli[parquet]'"


# -- damage


def outcome(path: Path, wanted: list[tuple[str, int, bytes]]) -> str:
    """Return ``said``, ``same`` or ``silent``: what a damaged file gives beside the sound one."""
    try:
        found = list(registry.open_reader(path).scan())
    except FastdataError:
        return "said"
    if any(isinstance(each, Reject) for each in found):
        return "said"
    rows = [(s.key, s.label, s.image.tobytes()) for s in found if isinstance(s, Sample)]
    return "same" if rows == wanted else "silent"


def test_flipped_bytes_with_page_checksums(tmp_path: Path) -> None:
    columns = {"image": images(pictures=PICTURES[:8]), "label": list(range(8))}
    path = write(tmp_path / "s.parquet", columns, write_page_checksum=True)
    wanted = [(s.key, s.label, s.image.tobytes()) for s in read(registry.open_reader(path))]
    whole = path.read_bytes()
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    outcomes = []
    for at in range(0, len(whole), 11):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x21]) + whole[at + 1 :])
        outcomes.append((at < footer, outcome(path, wanted)))
    assert (True, "silent") not in outcomes
    assert (True, "said") in outcomes


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.7, 0.99])
def test_a_cut_file_is_one_error(file: Path, share: float) -> None:
    os.truncate(file, int(file.stat().st_size * share))
    with pytest.raises(DamagedDatasetError, match=r"footer cannot be read|named like parquet"):
        registry.open_reader(file)


def test_a_damaged_group_costs_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "s.parquet"
    write(path, {"image": images()}, write_page_checksum=True, compression="none")
    whole = bytearray(path.read_bytes())
    whole[whole.index(PICTURES[10][-60:-20])] ^= 1
    path.write_bytes(whole)
    found = list(registry.open_reader(path).scan())
    bad = [each for each in found if isinstance(each, Reject)]
    assert [each.index for each in bad] == list(range(7, 14))
    assert {each.reason for each in bad} == {"corrupt"}
    assert "row group 1" in bad[0].detail
    assert [each.index for each in registry.open_reader(path).verify()] == list(range(7, 14))


def test_a_file_that_goes_after_it_was_opened(file: Path) -> None:
    reader = registry.open_reader(file)
    reader.keys()
    file.unlink()
    with pytest.raises(BadSampleError, match="row group 0"):
        reader.read(0)
