"""What the fuzzer found, each made again by code: an error of ours must come, and come soon."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fastdata_cli import registry
from fastdata_cli.errors import BadSampleError, DamagedDatasetError, FastdataError, UnsupportedError
from fastdata_cli.sample import Payload
from fastdata_cli.storage.gather import SWITCH
from fastdata_cli.testing.synthetic import png
from tests.fuzz import exercise, seeds
from tests.fuzz.seeds import Maker

pytestmark = pytest.mark.timeout(60)  # some of it hung for ever

DEEP = "[" * 5000 + "]" * 5000


def change(file: Path, old: bytes, new: bytes, count: int = -1) -> None:
    data = file.read_bytes()
    assert old in data
    file.write_bytes(data.replace(old, new, count))


def edit_json(file: Path, *path: str | int, value: Any) -> None:
    record = json.loads(file.read_text())
    inner = record
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    file.write_text(json.dumps(record).replace('"deep"', DEEP))


def read_all(path: Path) -> None:
    """Read every sample; the first thing wrong is raised."""
    reader = registry.open_reader(path)
    list(reader.keys())
    for index in range(len(reader)):
        reader.read(index)


# -- JSON


@pytest.mark.parametrize("value", ["deep", float("inf"), -1, "x", 1 << 70, True], ids=repr)
def test_numbers_of_a_manifest(tmp_path: Path, value: Any) -> None:
    path = seeds.own("raw", Payload.PIXELS)(tmp_path)
    edit_json(path / "meta.json", "manifest", "schema", "num_samples", value=value)
    with pytest.raises(DamagedDatasetError, match=r"meta\.json"):
        registry.open_reader(path)


@pytest.mark.parametrize(
    "text", ["[", "7", DEEP, '"\\ud800"'], ids=["cut", "number", "deep", "text"]
)
@pytest.mark.parametrize("name", ["raw", "tree"])
def test_metadata_that_are_no_object(tmp_path: Path, name: str, text: str) -> None:
    path = seeds.own(name, Payload.ENCODED)(tmp_path)
    if name == "raw":
        file = path / "metadata.jsonl"
        file.write_text(f"{text}\n" * 4)
        with pytest.raises(BadSampleError, match=r"cat/photo\.v1\.jpg: corrupt: its metadata"):
            registry.open_reader(path).read(0)
    else:
        file = path.parent / "set.fastdata" / "metadata.npy"
        change(file, b'{"index":1', b'["index":1')
        exercise.dataset(path)


# -- HDF5: a free object of size 0 in the global heap, over which the library loops for ever


def endless(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for found in re.finditer(b"GCOL", bytes(data)):
        at = found.start() + 16
        while data[at]:  # objects up to the free one
            at += 16 + -(-int.from_bytes(data[at + 8 : at + 16], "little") // 8) * 8
        data[at + 8 : at + 16] = bytes(8)
    path.write_bytes(data)


@pytest.mark.parametrize("dataset", [{}, {"chunks": (1, 6, 5, 3)}], ids=["old", "new"])
def test_class_names_in_an_endless_heap_are_left_out(
    tmp_path: Path, dataset: dict[str, Any]
) -> None:
    path = seeds.foreign_hdf5(tmp_path, encoded=False, **dataset)
    assert registry.open_reader(path).schema.class_names == ("cat", "dog")
    endless(path)
    reader = registry.open_reader(path)
    assert reader.schema.class_names == ()
    with pytest.raises(FastdataError, match="heap"):
        list(reader.keys())


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_images_in_an_endless_heap_are_refused(tmp_path: Path, compression: str | None) -> None:
    import h5py
    import numpy as np

    path = tmp_path / "set.h5"
    with h5py.File(path, "w") as file:
        images = file.create_dataset(
            "images", (3,), h5py.vlen_dtype(np.uint8), compression=compression
        )
        for number in range(2):  # the last stays empty
            images[number] = np.frombuffer(png(3, 4, number), np.uint8)
    reader = registry.open_reader(path)
    assert [reader.read(index).image.size > 0 for index in range(3)] == [True, True, False]
    endless(path)
    with pytest.raises(BadSampleError, match=r"the heap at byte \d+ is damaged"):
        registry.open_reader(path).read(0)


def test_a_length_that_the_heap_has_not(tmp_path: Path) -> None:
    path = seeds.foreign_hdf5(tmp_path, encoded=True)
    data = path.read_bytes()
    sizes = [len(png(3, 4, number)) for number in range(3)]
    first, second = (size.to_bytes(4, "little") for size in sizes[1:])
    places = (at for at in range(len(data)) if data[at : at + 4] == first)
    place = next(at for at in places if data[at + 16 : at + 20] == second)
    path.write_bytes(data[:place] + (0x7FFFFFFF).to_bytes(4, "little") + data[place + 4 :])
    reader = registry.open_reader(path)
    assert reader.read(0).image.size == sizes[0]
    with pytest.raises(BadSampleError, match="has no 2147483647 bytes there"):
        reader.read(1)


def test_a_type_with_damaged_bits_does_not_matter(tmp_path: Path) -> None:
    """HDF5 crashed while it converted from it."""
    path = seeds.foreign_hdf5(tmp_path, encoded=True)
    wanted = registry.open_reader(path).read(0).image.tobytes()
    change(path, b"\x19\0\0\0\x10\0\0\0", b"\x19\x7f\0\0\x10\0\0\0", 1)
    exercise.dataset(path)
    assert registry.open_reader(path).read(0).image.tobytes() == wanted


# -- LMDB


def test_a_column_without_pieces(tmp_path: Path) -> None:
    path = seeds.own("lmdb", Payload.ENCODED)(tmp_path)
    change(path / "data.mdb" if path.is_dir() else path, b'"pieces": 1', b'"pieces": 0')
    with pytest.raises(DamagedDatasetError, match="its manifest is damaged"):
        list(registry.open_reader(path).keys())


def test_a_page_beyond_the_file_is_not_left_to_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SWITCH, "off")
    path = seeds.foreign_lmdb(tmp_path)
    reader = registry.open_reader(path)
    data = path.read_bytes()
    at = data.index(b"\x01\0\x01\x002")  # a big value, a key of one byte: 2
    path.write_bytes(data[: at + 5] + (1 << 20).to_bytes(8, "little") + data[at + 13 :])
    reader.close()
    with pytest.raises(BadSampleError, match="is damaged"):
        reader.read(2)


# -- Parquet: what Arrow's view of a footer ended the process over


@pytest.mark.parametrize("codec", [14, 200])
def test_an_unknown_codec_in_a_footer(tmp_path: Path, codec: int) -> None:
    path = seeds.parquet(tmp_path)
    data = path.read_bytes()
    # The last of path_in_schema, then field 4, the codec: a number in zigzag form.
    place = data.index(b"\x05image\x05bytes\x15\x02") + 13
    path.write_bytes(data[:place] + bytes((codec,)) + data[place + 1 :])
    with pytest.raises(FastdataError):
        read_all(path)


def test_changed_bytes_of_a_footer(tmp_path: Path) -> None:
    path = seeds.parquet(tmp_path)
    whole = path.read_bytes()
    begin = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    for at in range(begin, len(whole), 3):
        path.write_bytes(whole[:at] + bytes((whole[at] ^ 0x1C,)) + whole[at + 1 :])
        exercise.dataset(path)


# -- Zarr


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("shape", 0), float("inf")),
        (("chunk_grid", "configuration", "chunk_shape", 0), 0),
        (("chunk_key_encoding",), {"name": "v2", "configuration": {"separator": "/../../"}}),
        (("chunk_key_encoding",), {"name": "default", "configuration": {"separator": 1.5}}),
        (("codecs",), "deep"),
        (("shape",), [1 << 40, 1 << 40, 3, 3]),
    ],
)
def test_array_metadata(tmp_path: Path, place: tuple[str | int, ...], value: Any) -> None:
    path = seeds.foreign_zarr(tmp_path, chunks=(1, 6, 5, 3))
    edit_json(path / "images" / "zarr.json", *place, value=value)
    with pytest.raises((DamagedDatasetError, UnsupportedError), match=r"zarr\.json|images"):
        read_all(path)


def test_a_shuffle_of_another_kind(tmp_path: Path) -> None:
    path = seeds.own("zarr", Payload.PIXELS, codec="lz4", chunk=1)(tmp_path)
    file = path / "images" / "zarr.json"
    record = json.loads(file.read_text())
    place = next(at for at, codec in enumerate(record["codecs"]) if codec["name"] == "blosc")
    edit_json(file, "codecs", place, "configuration", "shuffle", value={})
    exercise.dataset(path)


@pytest.mark.parametrize("gather", ["on", "off"])
@pytest.mark.parametrize("damage", ["negative", "longer", "bomb", "short"])
def test_blosc_headers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gather: str, damage: str
) -> None:
    import numcodecs

    monkeypatch.setenv(SWITCH, gather)
    path = seeds.foreign_zarr(
        tmp_path, zarr_format=2, compressors=numcodecs.Blosc(), chunks=(1, 6, 5, 3)
    )
    for name in ("labels/0", "images/0.0.0.0"):
        file = path / name
        label = numcodecs.Blosc().encode(b"0" * 24)
        data = bytearray(file.read_bytes() if name[0] == "i" else label)
        at, size = (12, len(data) + 4096) if damage == "longer" else (4, 0xFFFFFFF0)
        data[at : at + 4] = (0x7FFFFFFF if damage == "bomb" else size).to_bytes(4, "little")
        file.write_bytes(data[:9] if damage == "short" else data)
    with pytest.raises(FastdataError):
        registry.open_reader(path).read(0)
    exercise.dataset(path)


# -- indexes of shard sets


@pytest.mark.parametrize("make", [seeds.own("webdataset", Payload.ENCODED, shard_samples=2)])
@pytest.mark.parametrize(
    ("field", "value"),
    [("name", "../set-000000.tar"), ("name", []), ("name", "x\0"), ("samples", "2"),
     ("samples", float("inf")), ("bytes", -1), ("footer", None)],
)  # fmt: skip
def test_entries_of_a_set_index(tmp_path: Path, make: Maker, field: str, value: Any) -> None:
    folder = make(tmp_path)
    (index,) = folder.glob("*.fastdata.json")
    edit_json(index, "shards", 0, field, value=value)
    with pytest.raises(DamagedDatasetError, match="index of the shards is broken"):
        registry.open_reader(folder)


# -- columns


@pytest.mark.parametrize("name", ["labels", "key_offsets", "checksums"])
@pytest.mark.parametrize("how", ["dtype", "shape", "values"])
def test_columns_of_another_kind(tmp_path: Path, name: str, how: str) -> None:
    import numpy as np

    path = seeds.tree_with_sidecar(tmp_path)
    file = path.parent / "set.fastdata" / f"{name}.npy"
    column = np.load(file)
    changes: dict[str, Callable[[], Any]] = {
        "dtype": partial(column.astype, np.float32),
        "shape": lambda: column.reshape(-1, 1),
        "values": lambda: column[::-1].copy() if name == "key_offsets" else column[:-1],
    }
    np.save(file, changes[how]())
    with pytest.raises(DamagedDatasetError, match=r"set\.fastdata"):
        registry.open_reader(path)


# -- zip and TFRecord


def test_a_zip_of_a_later_version(tmp_path: Path) -> None:
    path = seeds.zipped_zarr(tmp_path, zipfile.ZIP_STORED)
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\x01\x02") + 6] = 127  # the version that is needed to extract
    path.write_bytes(data)
    with pytest.raises(DamagedDatasetError, match="zip"):
        registry.open_reader(path)


def test_records_that_are_gone_for_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SWITCH, "off")
    path = seeds.own("tfrecord", Payload.ENCODED)(tmp_path)
    reader = registry.open_reader(path)
    data = bytearray(path.read_bytes())
    data[8] ^= 1  # the checksum of the first length: no record can be found
    path.write_bytes(data)
    with pytest.raises(BadSampleError, match="corrupt"):
        reader.read(0)
