"""Files of records that others made: by TensorFlow, by the package tfrecord, and odd ones."""

from __future__ import annotations

import contextlib
import gzip
import shutil
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastdata_cli import registry
from fastdata_cli.contract import Capability, Reader
from fastdata_cli.errors import UnsupportedError, UsageError
from fastdata_cli.formats.sharded.find import gaps
from fastdata_cli.formats.tfrecord import FORMAT, framing
from fastdata_cli.formats.tfrecord.example import (
    Place,
    bytes_value,
    features_in,
    messages,
    values_of,
)
from fastdata_cli.formats.tfrecord.reader import TfRecordReadOptions
from fastdata_cli.sample import Sample
from fastdata_cli.storage.gather import SWITCH
from fastdata_cli.testing.synthetic import png

from .fixtures.make_tfrecords import CLASSES, COUNT, FOLDER, HEIGHT, WIDTH, pixels

Features = dict[str, list[bytes] | list[int] | list[float]]


def example(features: Features) -> bytes:
    made = messages().example()
    for name, values in features.items():
        feature = made.features.feature[name]
        kinds = {bytes: feature.bytes_list, int: feature.int64_list, float: feature.float_list}
        kinds[type(values[0])].value.extend(values)
    return bytes(made.SerializeToString())


def framed(*records: bytes) -> bytes:
    return b"".join(
        framing.header(len(data)) + data + framing.footer(framing.masked_crc(data))
        for data in records
    )


def opened(path: Path, *records: Features, **options: str) -> Reader:
    path.write_bytes(framed(*map(example, records)))
    return FORMAT.open_reader(path, TfRecordReadOptions(**options))


def read(reader: Reader) -> list[Sample]:
    found = [each for each in reader.scan() if isinstance(each, Sample)]
    assert len(found) == len(reader)
    return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "some.tfrecord"


# -- files by the other tools' own libraries


@pytest.mark.parametrize("gather", ["on", "off"])
@pytest.mark.parametrize("name", ["imagenet-style", "datasets-style", "package"])
def test_images_of_other_tools(name: str, gather: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, gather)
    options = TfRecordReadOptions(field="image" if name == "package" else None)
    path = FOLDER / f"{name}.tfrecord"
    assert registry.recognise(path).name == "tfrecord"
    reader = FORMAT.open_reader(path, options)
    assert len(reader) == COUNT
    for index, sample in enumerate(read(reader)):
        image = cv2.imdecode(sample.image, cv2.IMREAD_COLOR_RGB)
        assert image is not None
        assert image.shape == (HEIGHT, WIDTH, 3)
        assert image.tobytes() == pixels(index)
    assert list(reader.verify()) == []
    assert not reader.rejects


def test_names_labels_and_metadata_of_imagenet() -> None:
    reader = registry.open_reader(FOLDER / "imagenet-style.tfrecord")
    assert reader.schema.class_names == ("0", "tench", "goldfish")
    assert Capability.ZERO_COPY not in reader.capabilities  # every byte is checked
    for index, sample in enumerate(read(reader)):
        assert (sample.key, sample.label) == (f"n0144_{index}.PNG", 1 + index % 2)
        boxes = {"image/object/bbox/xmin": [0.25, 0.5]} if index % 3 == 0 else {}
        synset = CLASSES[index % 2][0].decode()
        assert sample.metadata == {"image/class/synset": synset, **boxes}


def test_names_of_tensorflow_datasets() -> None:
    for index, sample in enumerate(read(registry.open_reader(FOLDER / "datasets-style.tfrecord"))):
        assert (sample.key, sample.label) == (f"img/{index}.png", index % 3)
        assert sample.metadata is None


def test_an_image_is_chosen_among_several() -> None:
    path = FOLDER / "package.tfrecord"
    with pytest.raises(UsageError, match="2 features may be the image: image, mask") as caught:
        registry.open_reader(path)
    assert "--field" in caught.value.hint
    masks = read(FORMAT.open_reader(path, TfRecordReadOptions(field="mask")))
    assert len({mask.image.tobytes() for mask in masks}) == 1
    assert masks[1].key == "00000001"
    assert masks[1].metadata == {"score": 0.5, "tags": ["a", "b"]}


def test_our_frames_are_those_of_tensorflow() -> None:
    whole = (FOLDER / "imagenet-style.tfrecord").read_bytes()
    found = [each for each in framing.records(memoryview(whole)) if not _is_damage(each)]
    assert framed(*(whole[each.begin : each.begin + each.size] for each in found)) == whole  # type: ignore[union-attr]


def _is_damage(found: object) -> bool:
    return isinstance(found, framing.Damage)


# -- odd ones


def test_shards_by_their_names_in_a_folder(tmp_path: Path) -> None:
    whole = (FOLDER / "datasets-style.tfrecord").read_bytes()
    for shard in (0, 1, 3):
        (tmp_path / f"set-train.tfrecord-{shard:05d}-of-00005").write_bytes(whole)
    (tmp_path / "features.json").write_text("{}")
    reader = registry.open_reader(tmp_path)
    assert len(reader) == 3 * COUNT
    assert reader.notes == {"missing-shard": 2}
    assert reader.describe()["notes"] == [
        "missing: set-train.tfrecord-00002-of-00005",
        "missing: set-train.tfrecord-00004-of-00005",
    ]
    keys = list(reader.keys())
    assert len(set(keys)) == len(keys)  # the same files, three times
    assert keys[7] == "img/00000007-1.png"


def test_gaps_in_numbers_of_how_many() -> None:
    assert gaps([f"x-{n:05d}-of-00003" for n in range(3)]) == ([], 0)
    assert gaps(["x-00001-of-00002"]) == (["missing: x-00000-of-00002"], 1)


def test_labels_keys_and_texts(file: Path) -> None:
    picture = [png(3, 3, 0)]
    reader = opened(
        file,
        {"jpg": picture, "label": [2], "filename": [b"a.png"], "image/class/text": [b"x"]},
        {"jpg": picture, "label": [1, 2], "filename": [b""], "note": ["ü".encode(), b"b"]},
        {"jpg": picture, "blob": [b"\xff"], "label": [0.5], "filename": [b"\xff.png"]},
    )
    samples = read(reader)
    assert [sample.label for sample in samples] == [2, -1, -1]
    assert [sample.key for sample in samples] == ["a.png", "00000001", "\udcff.png"]
    assert [sample.metadata for sample in samples] == [
        None,
        {"label": [1, 2], "filename": "", "note": ["ü", "b"]},
        {"label": 0.5},
    ]
    assert reader.schema.class_names == ("0", "1", "x")
    assert reader.notes == {"unlabelled": 2}


def test_texts_that_disagree_name_no_class(file: Path) -> None:
    rows: list[Features] = [
        {"image/encoded": [png(3, 3, 0)], "image/class/label": [0], "image/class/text": [text]}
        for text in (b"cat", b"dog")
    ]
    reader = opened(file, *rows)
    assert reader.schema.class_names == ()
    assert read(reader)[1].metadata == {"image/class/text": "dog"}


def test_further_images_are_counted(file: Path) -> None:
    row: Features = {"image/encoded": [png(3, 3, 0)], "image/segmentation": [png(3, 3, 1)]}
    reader = opened(file, row, row)
    assert reader.notes == {"field-image/segmentation": 2}
    assert read(reader)[0].metadata is None


def test_a_record_without_image_is_a_reject(file: Path) -> None:
    reader = opened(file, {"image/encoded": [png(3, 3, 0)]}, {"label": [1]})
    assert [(each.key, each.reason) for each in reader.rejects] == [
        ("some.tfrecord#1", "missing-image")
    ]
    assert "only label" in reader.rejects[0].detail


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([example({"x": [1], "y": [b"no image"]})], "only x, y"),
        ([b""], "no features at all"),
        ([b"no protobuf"], "no features at all"),
    ],
)
def test_records_of_something_else(file: Path, records: list[bytes], message: str) -> None:
    file.write_bytes(framed(*records))
    with pytest.raises(UnsupportedError, match=message):
        registry.open_reader(file)


def test_compressed_files_are_refused(file: Path) -> None:
    file.write_bytes(gzip.compress((FOLDER / "package.tfrecord").read_bytes()))
    with pytest.raises(UnsupportedError, match="gzip-compressed") as caught:
        registry.open_reader(file)
    assert caught.value.hint == "unpack it first: gunzip some.tfrecord"


def test_a_copy_under_any_name_is_recognised(tmp_path: Path) -> None:
    shutil.copy(FOLDER / "package.tfrecord", tmp_path / "records.bin")
    assert registry.recognise(tmp_path / "records.bin").name == "tfrecord"


# -- our way through a message, against protobuf's


_VALUES = st.one_of(
    st.lists(st.binary(max_size=200), min_size=1, max_size=3),
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=3),
    st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=3),
)


@given(st.dictionaries(st.text(max_size=8), _VALUES, max_size=5), st.booleans())
def test_the_way_to_a_value_is_protobufs(features: dict[str, Any], twice: bool) -> None:
    raw = example(features) + (example(features) if twice else b"")
    data = memoryview(b"before" + raw + b"behind")
    found = features_in(data, Place(6, 6 + len(raw)))
    assert found.keys() == features.keys()
    for name, values in features.items():
        assert list(values_of(data, found[name])) == values
        place = bytes_value(data, found[name])
        if len(values) == 1 and isinstance(values[0], bytes):
            assert place is not None
            assert data[place.begin : place.end] == values[0]
        else:
            assert place is None


@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_none(raw: bytes) -> None:
    data = memoryview(raw)
    with contextlib.suppress(ValueError):  # and nothing else
        for place in features_in(data, Place(0, len(raw))).values():
            bytes_value(data, place)
            values_of(data, place)


def test_many_records_at_once(file: Path) -> None:
    pictures = [png(3 + index % 4, 3, index) for index in range(200)]
    rows: list[Features] = [{"image/encoded": [picture]} for picture in pictures]
    reader = opened(file, *rows)
    order = np.random.default_rng(0).integers(0, 200, 500)
    batch = reader.read_many(order)
    assert [batch.image(row).tobytes() for row in range(500)] == [pictures[at] for at in order]
