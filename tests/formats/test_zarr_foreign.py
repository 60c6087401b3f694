"""Zarr stores that others wrote: whatever zarr-python can write, with other names and codecs."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
from numpy.typing import NDArray
from zarr.codecs import BloscCodec, Crc32cCodec, GzipCodec, TransposeCodec, ZstdCodec

from fastdata_cli import registry
from fastdata_cli.contract import Capability, Reader
from fastdata_cli.errors import (
    BadSampleError,
    DamagedDatasetError,
    NotADatasetError,
    UnsupportedError,
    UsageError,
)
from fastdata_cli.formats.zarr.options import ZarrReadOptions
from fastdata_cli.sample import Reject

COUNT, SHAPE = 23, (12, 10, 3)
IMAGES = np.random.default_rng(5).integers(1, 256, (COUNT, *SHAPE), np.uint8)
IMAGES[::2] //= 64  # some chunks compress, some do not

V3: dict[str, dict[str, Any]] = {
    "default": {"chunks": (1, *SHAPE)},
    "zstd chunks": {"chunks": (5, *SHAPE)},
    "one chunk larger than all": {"chunks": (50, *SHAPE)},
    "blosc, its own blocks": {"chunks": (20, *SHAPE), "compressors": [BloscCodec(cname="lz4")]},
    "blosc, odd blocks": {
        "chunks": (20, *SHAPE),
        "compressors": [BloscCodec(cname="zstd", blocksize=500, shuffle="bitshuffle")],
    },
    "gzip": {"chunks": (5, *SHAPE), "compressors": [GzipCodec(level=1)]},
    "not compressed": {"chunks": (5, *SHAPE), "compressors": None},
    "with checksums": {"chunks": (5, *SHAPE), "compressors": [ZstdCodec(), Crc32cCodec()]},
    "cut in height and width": {"chunks": (5, 7, 6, 3)},
    "chunks wider than the image": {"chunks": (5, 16, 16, 3)},
    "transposed": {"chunks": (5, *SHAPE), "filters": [TransposeCodec(order=(3, 0, 1, 2))]},
    "shards": {"chunks": (2, *SHAPE), "shards": (8, *SHAPE)},
    "shards cut in height": {"chunks": (2, 6, 10, 3), "shards": (8, *SHAPE)},
    "dotted keys": {
        "chunks": (5, *SHAPE),
        "chunk_key_encoding": {"name": "default", "separator": "."},
    },
    "keys as in version 2": {
        "chunks": (5, *SHAPE),
        "chunk_key_encoding": {"name": "v2", "separator": "/"},
    },
}
V2: dict[str, dict[str, Any]] = {
    "default": {"chunks": (5, *SHAPE)},
    "zlib": {"chunks": (5, *SHAPE), "compressors": numcodecs.Zlib()},
    "bz2": {"chunks": (5, *SHAPE), "compressors": numcodecs.BZ2()},
    "lzma": {"chunks": (5, *SHAPE), "compressors": numcodecs.LZMA()},
    "lz4": {"chunks": (1, *SHAPE), "compressors": numcodecs.LZ4()},
    "filters": {"chunks": (5, *SHAPE), "filters": [numcodecs.Delta(dtype="u1")]},
    "Fortran order": {"chunks": (5, *SHAPE), "order": "F"},
    "cut in height": {"chunks": (5, 7, 10, 3)},
    "not compressed": {"chunks": (5, *SHAPE), "compressors": None},
}
ALL = [(3, name) for name in V3] + [(2, name) for name in V2]


@pytest.mark.parametrize(("zarr_format", "name"), ALL)
def test_any_codec_and_chunks(tmp_path: Path, zarr_format: int, name: str) -> None:
    options = (V3 if zarr_format == 3 else V2)[name]
    path = store(tmp_path, zarr_format, IMAGES, **options)
    reader = registry.open_reader(path)
    assert reader.manifest is None
    assert reader.schema.image_shape == SHAPE
    wanted = [22, 0, 7, 7, 8, 9, 10, 3]
    assert np.array_equal(reader.read_many(wanted).images, IMAGES[wanted])
    for index, sample in enumerate(reader.scan()):
        assert not isinstance(sample, Reject)
        assert np.array_equal(sample.image, IMAGES[index])
        assert (sample.key, sample.label) == (f"img {index}%41.png", index % 3)
    assert reader.schema.class_names == ("a", "b", "c")
    assert list(reader.verify()) == []
    assert reader.describe()["chunk"] == options["chunks"][0]


@pytest.mark.parametrize(("zarr_format", "name"), ALL)
def test_a_missing_chunk_is_no_black_image(tmp_path: Path, zarr_format: int, name: str) -> None:
    options = (V3 if zarr_format == 3 else V2)[name]
    path = store(tmp_path, zarr_format, IMAGES, **options)
    before = registry.open_reader(path).read_many(range(COUNT)).images
    files = sorted(
        entry
        for entry in (path / "deep" / "pictures").rglob("*")
        if entry.is_file() and "z" not in entry.name
    )
    files[len(files) // 2].unlink()
    reader = registry.open_reader(path)
    findings = list(reader.verify())
    lost = {finding.index for finding in findings}
    assert lost
    assert {finding.kind for finding in findings} == {"missing"}
    for index in range(COUNT):
        if index in lost:
            with pytest.raises(BadSampleError, match="missing"):
                reader.read(index)
        else:
            assert np.array_equal(reader.read(index).image, before[index])


@pytest.mark.parametrize(("zarr_format", "name"), ALL)
def test_a_cut_chunk_is_named(tmp_path: Path, zarr_format: int, name: str) -> None:
    options = (V3 if zarr_format == 3 else V2)[name]
    path = store(tmp_path, zarr_format, IMAGES, **options)
    files = sorted(
        entry
        for entry in (path / "deep" / "pictures").rglob("*")
        if entry.is_file() and "z" not in entry.name
    )
    for keep in (0, 7, files[-1].stat().st_size - 1):
        files[-1].write_bytes(files[-1].read_bytes()[:keep])
        findings = list(registry.open_reader(path).verify())
        assert findings
        assert {finding.kind for finding in findings} == {"corrupt"}
        assert all("pictures" in finding.detail for finding in findings)


def test_a_chunk_that_a_shard_never_got(tmp_path: Path) -> None:
    """zarr-python leaves chunks of zeros out; nobody can tell them from lost ones."""
    images = IMAGES.copy()
    images[4:6] = 0
    for name in ("shards", "shards cut in height"):
        path = store(tmp_path / name, 3, images, **V3[name])
        found = [(finding.index, finding.kind) for finding in registry.open_reader(path).verify()]
        assert found == [(4, "missing"), (5, "missing")]


def test_labels_of_class_zero_are_left_out_by_zarr_python(tmp_path: Path) -> None:
    path = tmp_path / "set.zarr"
    group = zarr.open_group(path, mode="w")
    add(group, "images", IMAGES, chunks=(5, *SHAPE))
    add(group, "label", np.zeros(COUNT, np.uint8), chunks=(COUNT,))
    assert not (path / "label" / "c").exists()
    assert registry.open_reader(path).labels().tolist() == [0] * COUNT


@pytest.mark.parametrize(
    ("images", "shape", "dtype"),
    [
        (IMAGES[..., 0], (12, 10, 1), "uint8"),
        (IMAGES.astype(np.uint16) * 200, SHAPE, "uint16"),
        (IMAGES.astype(">u2") * 200, SHAPE, "uint16"),
        (IMAGES.astype(np.float32), SHAPE, "float32"),
    ],
    ids=["grey", "uint16", "big-endian", "float"],
)
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_the_schema_tells_what_is_there(
    tmp_path: Path, zarr_format: int, images: NDArray[Any], shape: tuple[int, ...], dtype: str
) -> None:
    path = store(tmp_path, zarr_format, images, chunks=(4, *images.shape[1:]))
    reader = registry.open_reader(path)
    assert (reader.schema.image_shape, reader.schema.dtype) == (shape, dtype)
    found = reader.read_many([3, 22]).images
    assert found.dtype == dtype
    assert np.array_equal(found, images[[3, 22]].reshape(2, *shape))


def test_a_store_that_is_one_array(tmp_path: Path) -> None:
    for zarr_format in (2, 3):
        path = tmp_path / f"{zarr_format}.zarr"
        array: Any = zarr.create_array(
            str(path), shape=IMAGES.shape, dtype="u1", chunks=(4, *SHAPE), zarr_format=zarr_format
        )
        array[:] = IMAGES
        reader = registry.open_reader(path)
        assert np.array_equal(reader.read(9).image, IMAGES[9])
        assert reader.labels().tolist() == [-1] * COUNT
        assert reader.keys()[9] == "00000009"


def test_an_array_is_chosen_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "set.zarr"
    group = zarr.open_group(path, mode="w")
    for split, count in (("train", 7), ("val", 4)):
        add(group, f"{split}/x", IMAGES[:count], chunks=(2, *SHAPE))
        add(group, f"{split}/y", np.arange(count), chunks=(count,))
    add(group, "masks", IMAGES[:7, ..., 0], chunks=(1, 12, 10))
    with pytest.raises(UsageError, match="train/x, val/x") as caught:
        registry.open_reader(path)
    assert "--array" in caught.value.hint
    reader = registry.open_reader(path, ZarrReadOptions(array="val/x"))
    assert reader.labels().tolist() == [0, 1, 2, 3]
    assert reader.describe()["array"] == "val/x"
    grey = registry.open_reader(path, ZarrReadOptions(array="/masks"))
    assert grey.schema.image_shape == (12, 10, 1)
    for wrong in ("val/y", "val", "nowhere"):
        with pytest.raises(UsageError, match="no array of images") as caught:
            registry.open_reader(path, ZarrReadOptions(array=wrong))
        assert "train/x uint8 [7, 12, 10, 3]" in caught.value.hint


@pytest.mark.filterwarnings("ignore:The data type")
@pytest.mark.parametrize("dtype", ["c8", "S3", "U3"])
@pytest.mark.parametrize("layout", [None, "NHWC"])
def test_arrays_of_no_numbers_cannot_be_chosen(
    tmp_path: Path, dtype: str, layout: str | None
) -> None:
    path = tmp_path / "set.zarr"
    zarr.create_group(path).create_array("x", data=np.ones((4, 8, 8, 3), dtype))
    with pytest.raises(UsageError, match="no array of images"):
        registry.open_reader(path, ZarrReadOptions(array="x", layout=layout))


def test_an_array_of_truth_values_can_be_chosen(tmp_path: Path) -> None:
    path = tmp_path / "set.zarr"
    zarr.create_group(path).create_array("x", data=np.ones((4, 8, 8, 3), bool))
    assert registry.open_reader(path, ZarrReadOptions(array="x")).read(3).image.all()


def test_labels_that_do_not_fit_are_told(tmp_path: Path) -> None:
    column, few, hot = np.arange(COUNT)[:, None], np.arange(3), np.eye(COUNT)
    for name, labels in (("column", column), ("few", few), ("hot", hot)):
        group = zarr.open_group(tmp_path / f"{name}.zarr", mode="w")
        add(group, "images", IMAGES, chunks=(COUNT, *SHAPE))
        add(group, "labels", labels, chunks=labels.shape)
    assert registry.open_reader(tmp_path / "column.zarr").labels().tolist() == list(range(COUNT))
    with pytest.raises(DamagedDatasetError, match="23 images, 3 labels"):
        registry.open_reader(tmp_path / "few.zarr")
    chosen = registry.open_reader(tmp_path / "few.zarr", ZarrReadOptions(array="images"))
    for reader in (chosen, registry.open_reader(tmp_path / "hot.zarr")):
        assert reader.labels().tolist() == [-1] * COUNT
    (remark,) = reader.describe()["notes"]
    assert "labels holds float64[23, 23]" in remark


def test_both_versions_give_version_3_and_say_so(tmp_path: Path) -> None:
    older = store(tmp_path / "two", 2, IMAGES // 2, chunks=(1, *SHAPE))
    newer = store(tmp_path / "three", 3, IMAGES, chunks=(1, *SHAPE))
    for entry in older.rglob(".z*"):
        target = newer / entry.relative_to(older)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(entry.read_bytes())
    reader = registry.open_reader(newer)
    assert np.array_equal(reader.read(1).image, IMAGES[1])
    assert reader.describe()["zarr_format"] == 3
    assert any("zarr 3 was read" in note for note in reader.describe()["notes"])
    assert reader.notes


def test_consolidated_metadata_changes_nothing(tmp_path: Path) -> None:
    for zarr_format in (2, 3):
        path = store(tmp_path / str(zarr_format), zarr_format, IMAGES, chunks=(2, *SHAPE))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            zarr.consolidate_metadata(str(path))
        assert np.array_equal(registry.open_reader(path).read(1).image, IMAGES[1])


@pytest.mark.parametrize("dtype", ["S20", "U20"])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_keys_of_fixed_width(tmp_path: Path, zarr_format: int, dtype: str) -> None:
    path = tmp_path / "set.zarr"
    names = np.array([f"{index:03d}.png" for index in range(COUNT)], dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of dtypes without a specification
        group = zarr.open_group(path, mode="w", zarr_format=zarr_format)  # type: ignore[arg-type]
        add(group, "images", IMAGES, chunks=(5, *SHAPE))
        add(group, "filenames", names, chunks=(10,))
    assert list(registry.open_reader(path).keys()) == [f"{index:03d}.png" for index in range(COUNT)]


def test_pickled_values_are_refused(tmp_path: Path) -> None:
    path = store(tmp_path, 2, IMAGES, chunks=(1, *SHAPE))
    keys = path / "deep" / "names"
    (keys / ".zarray").write_text((keys / ".zarray").read_text().replace('"vlen-utf8"', '"pickle"'))
    (keys / "0").write_bytes(pickle.dumps(["x"] * COUNT))
    with pytest.raises(UnsupportedError, match=r"names/.zarray: its values are pickled"):
        registry.open_reader(path)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("array", ["pictures", "labels"])
def test_an_unknown_codec_is_named(tmp_path: Path, zarr_format: int, array: str) -> None:
    path = store(tmp_path, zarr_format, IMAGES, chunks=(1, *SHAPE))
    meta = path / "deep" / array / ("zarr.json" if zarr_format == 3 else ".zarray")
    codec = '"zstd"' if zarr_format == 3 else '"blosc"'
    text = meta.read_text()
    assert codec in text
    meta.write_text(text.replace(codec, '"made_up"'))
    with pytest.raises(UnsupportedError, match=f"'deep/{array}' needs .*made_up"):
        registry.open_reader(path)


def test_no_images_at_all(tmp_path: Path) -> None:
    path = tmp_path / "set.zarr"
    group = zarr.open_group(path, mode="w")
    with pytest.raises(NotADatasetError, match="without an array of images") as caught:
        registry.open_reader(path)
    assert caught.value.hint == "arrays there: none"
    add(group, "table", np.arange(9), chunks=(9,))
    with pytest.raises(NotADatasetError) as caught:
        registry.open_reader(path)
    assert "table int64 [9]" in caught.value.hint


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"node_type": "array"}'])
def test_broken_metadata_is_named(tmp_path: Path, text: str) -> None:
    path = store(tmp_path, 3, IMAGES, chunks=(1, *SHAPE))
    (path / "deep" / "pictures" / "zarr.json").write_text(text)
    with pytest.raises((DamagedDatasetError, NotADatasetError), match=r"pictures|without an array"):
        registry.open_reader(path)


def test_chunks_that_depend_on_their_neighbours_are_not_random(tmp_path: Path) -> None:
    def is_random(reader: Reader) -> bool:
        return Capability.RANDOM_ACCESS in reader.capabilities

    for name, random in (("default", True), ("zstd chunks", False), ("blosc, odd blocks", True)):
        path = store(tmp_path / name, 3, IMAGES, **V3[name])
        assert is_random(registry.open_reader(path)) is random


def store(folder: Path, zarr_format: int, images: NDArray[Any], **options: Any) -> Path:
    """Write a nested store with zarr-python."""
    path = folder / "set.zarr"
    root: Any = zarr.open_group(path, mode="w", zarr_format=zarr_format)  # type: ignore[arg-type]
    group = root.create_group("deep")
    add(group, "pictures", images, **options)
    labels = add(group, "labels", np.arange(COUNT) % 3, chunks=(10,))
    labels.attrs["class_names"] = ["a", "b", "c"]
    names = group.create_array("names", shape=(COUNT,), dtype=str, chunks=(COUNT,))
    names[:] = np.array([f"img {index}%41.png" for index in range(COUNT)], object)
    return path


def add(group: Any, name: str, values: NDArray[Any], **options: Any) -> Any:
    array = group.create_array(name, shape=values.shape, dtype=values.dtype, **options)
    array[:] = values
    return array
