"""What the fuzzer found, each made again by code: an error of ours must come, and come soon."""

from __future__ import annotations

import io
import json
import re
import struct
import tarfile
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fastdata_cli import registry
from fastdata_cli.errors import BadSampleError, DamagedDatasetError, FastdataError, UnsupportedError
from fastdata_cli.formats.parquet.compact import parse
from fastdata_cli.formats.sharded.index import FOOTER_BYTES, digest, footer_line
from fastdata_cli.formats.zarr import FORMAT
from fastdata_cli.formats.zarr.index import read_shard_index, shard_index
from fastdata_cli.formats.zarr.options import ZarrReadOptions
from fastdata_cli.imaging.exif import read_exif
from fastdata_cli.imaging.probe import probe
from fastdata_cli.sample import Payload
from fastdata_cli.storage.gather import SWITCH
from fastdata_cli.storage.table import npy_array, npy_bytes
from fastdata_cli.testing.synthetic import png
from tests.fuzz import exercise, seeds
from tests.fuzz.seeds import Maker

pytestmark = pytest.mark.timeout(60)  # some of it hung for ever

DEEP = "[" * 5000 + "]" * 5000
GIF = b"GIF89a\x08\0\x08\0\0\0\0"


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


@pytest.mark.parametrize("gather", ["on", "off"])
def test_a_shuffle_of_items_without_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gather: str
) -> None:
    import h5py

    monkeypatch.setenv(SWITCH, gather)
    path, shape = tmp_path / "set.h5", (2, 6, 5, 3)
    with h5py.File(path, "w") as file:
        file.create_dataset("images", shape, "u1", chunks=(1, 6, 5, 3), shuffle=True)[:] = 7
    change(path, b"shuffle\0\1\0\0\0", b"shuffle\0\0\0\0\0")
    with pytest.raises(BadSampleError, match="filter"):
        read_all(path)


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


def test_a_codec_whose_settings_are_of_another_kind(tmp_path: Path) -> None:
    import numcodecs

    path = seeds.foreign_zarr(
        tmp_path, zarr_format=2, compressors=numcodecs.Shuffle(1), chunks=(1, 6, 5, 3)
    )
    edit_json(path / "images" / ".zarray", "compressor", "elementsize", value="x")
    with pytest.raises(FastdataError):
        read_all(path)


def test_an_index_of_a_shard_whose_sums_are_small() -> None:
    import numpy as np

    stored = shard_index(np.array([[2**64 - 10, 20]], np.uint64))
    with pytest.raises(BadSampleError, match="beyond its end"):
        read_shard_index(np.frombuffer(stored, np.uint8), "set", 1, at_end=True)


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


def test_a_chunk_that_tells_of_blocks_of_a_byte(tmp_path: Path) -> None:
    """Their table would take 11 TiB."""
    import numcodecs

    path = seeds.foreign_zarr(
        tmp_path, zarr_format=2, compressors=numcodecs.Blosc(), chunks=(2, 6, 5, 3)
    )
    chunk = 600 * 3_000_000
    (path / "images/0.0.0.0").write_bytes(
        struct.pack("<4B3I", 2, 1, 0x30, 1, chunk, 1, 80) + bytes(64)
    )
    edit_json(path / "images/.zarray", "shape", value=[1 << 20, 1000, 1000, 3])
    edit_json(path / "images/.zarray", "chunks", value=[600, 1000, 1000, 3])
    with pytest.raises(BadSampleError, match="in blocks of 1"):
        FORMAT.open_reader(path / "images", ZarrReadOptions()).read(0)


def test_shards_that_tell_of_chunks_which_they_cannot_hold(tmp_path: Path) -> None:
    """Their index would take 4 TiB."""
    path = seeds.foreign_zarr(tmp_path, chunks=(1, 6, 5, 3), shards=(3, 6, 5, 3))
    edit_json(
        path / "images/zarr.json", "chunk_grid", "configuration", "chunk_shape", 0, value=1 << 38
    )
    with pytest.raises(BadSampleError, match="cannot hold the index"):
        registry.open_reader(path).read(0)


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


@pytest.mark.parametrize("kind", ["webdataset", "tfrecord"])
def test_a_name_in_an_index_that_no_file_can_have(tmp_path: Path, kind: str) -> None:
    folder = seeds.own(kind, Payload.ENCODED, shard_samples=2)(tmp_path)
    (index,) = folder.glob("*.fastdata.json")
    name = json.loads(index.read_text())["shards"][0]["name"]
    change(index, name.encode(), (name + "x" * 300).encode())
    with pytest.raises(DamagedDatasetError, match="is missing"):
        registry.open_reader(folder)


# -- indexes in shards: every checksum can be computed by whoever changes what it is of


def change_index(path: Path, *names: str, value: Any) -> None:
    """Change the layout in a shard of ours, or its footer, and make the checksums agree."""
    data = path.read_bytes()
    at = data.rindex(b'{"fastdata_footer"')
    begin, length, _ = json.loads(data[at : at + FOOTER_BYTES])["manifest"]
    manifest = json.loads(data[begin : begin + length])
    if names:
        inner = manifest["layout"]
        for name in names[:-1]:
            inner = inner[name]
        inner[names[-1]] = value
    text = json.dumps(manifest, separators=(",", ":")).encode().ljust(length)
    assert len(text) == length
    place: Any = [begin, length, digest(text)] if names else value
    line = footer_line(len(data), place)
    path.write_bytes(data[:begin] + text + data[begin + length : at] + line + data[at + 512 :])


@pytest.mark.parametrize("name", ["webdataset", "tfrecord"])
@pytest.mark.parametrize(
    ("names", "value"),
    [
        ((), [-1, 10, "x"]),
        ((), [1 << 70, 10, "x"]),
        ((), [None, "a", "x"]),
        ((), []),
        (("columns",), None),
        (("columns",), {}),
        (("columns",), []),
        (("columns", "begins"), None),
        (("columns", "begins"), [None, 10, "x"]),
        (("columns", "labels"), ["a", 10, "x"]),
        (("columns", "lengths"), [1 << 70, 10, "x"]),
        (("columns", "keys"), [-5, 10, "x"]),
        (("columns", "keys"), [5, -10, "x"]),
        (("columns", "keys"), [5, 1 << 40, "x"]),
        (("columns", "keys"), [True, 10, "x"]),
        (("columns", "keys"), [5, 10, "x"]),
        (("columns", "keys"), [5, 10, ["x"]]),
        (("shards",), "one"),
        (("shards",), None),
    ],
    ids=repr,
)
def test_places_that_an_index_tells_of(
    tmp_path: Path, name: str, names: tuple[str, ...], value: Any
) -> None:
    path = seeds.own(name, Payload.ENCODED)(tmp_path)
    change_index(path, *names, value=value)
    with pytest.raises(DamagedDatasetError, match=re.escape(path.name)):
        read_all(path)


@pytest.mark.parametrize("name", ["webdataset", "tfrecord"])
@pytest.mark.parametrize("begin", [-1, -(1 << 62), 1 << 62, 1 << 20])
def test_places_in_a_column_of_an_index(tmp_path: Path, name: str, begin: int) -> None:
    path = seeds.own(name, Payload.ENCODED)(tmp_path)
    shard = registry.open_reader(path)
    data = path.read_bytes()
    at = data.rindex(b'{"fastdata_footer"')
    start, length, _ = json.loads(data[at : at + FOOTER_BYTES])["manifest"]
    first, size, _ = json.loads(data[start : start + length])["layout"]["columns"]["begins"]
    column = npy_array(data[first : first + size], where="")
    column[len(shard) // 2] = begin
    content = npy_bytes(column)
    path.write_bytes(data[:first] + content + data[first + size :])
    change_index(path, "columns", "begins", value=[first, size, digest(content)])
    with pytest.raises(DamagedDatasetError, match="outside of the file"):
        read_all(path)


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


@pytest.mark.parametrize("name", ["labels", "checksums", "begin", "length"])
@pytest.mark.parametrize("how", ["scalar", "texts", "matrix", "floats", "objects"])
def test_columns_of_a_raw_folder(tmp_path: Path, name: str, how: str) -> None:
    import numpy as np

    path = seeds.own("raw", Payload.ENCODED)(tmp_path)
    file = path / f"{name}.npy"
    column = np.load(file)
    changes: dict[str, Any] = {
        "scalar": np.int64(1),
        "texts": column.astype("U"),
        "matrix": column.reshape(-1, 1),
        "floats": column.astype(np.float64),
        "objects": column.astype(object),
    }
    np.save(file, changes[how])
    with pytest.raises(DamagedDatasetError, match=rf"{name}\.npy"):
        read_all(path)


@pytest.mark.parametrize("name", ["raw", "hdf5", "zarr"])
@pytest.mark.parametrize("large", [1 << 62, -(1 << 63), (1 << 63) - 1])
def test_places_whose_sum_is_small(tmp_path: Path, name: str, large: int) -> None:
    import h5py
    import numpy as np
    import zarr

    path = seeds.own(name, Payload.ENCODED)(tmp_path)
    if name == "raw":
        for each in ("begin", "length"):
            column = np.load(path / f"{each}.npy")
            column[1] = large
            np.save(path / f"{each}.npy", column)
    else:
        container: Any = h5py.File(path, "r+") if name == "hdf5" else zarr.open_group(path)
        for each in ("begin", "length"):
            container[each][1:2] = np.array([large])
        if isinstance(container, h5py.File):
            container.close()
    with pytest.raises(DamagedDatasetError, match="outside"):
        read_all(path)


@pytest.mark.parametrize("how", ["dtype", "offsets"])
def test_names_of_a_sidecar(tmp_path: Path, how: str) -> None:
    import numpy as np

    path = seeds.tree_with_sidecar(tmp_path)
    folder = path.parent / "set.fastdata"
    blob, offsets = (np.load(folder / f"{name}.npy") for name in ("keys", "key_offsets"))
    np.save(folder / "names.npy", blob.astype(np.float32) if how == "dtype" else blob)
    np.save(folder / "name_offsets.npy", offsets * 2 if how == "offsets" else offsets)
    with pytest.raises(DamagedDatasetError, match=r"set\.fastdata"):
        registry.open_reader(path)


# -- zip and TFRecord


def test_a_zip_of_a_later_version(tmp_path: Path) -> None:
    path = seeds.zipped_zarr(tmp_path, zipfile.ZIP_STORED)
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\x01\x02") + 6] = 127  # the version that is needed to extract
    path.write_bytes(data)
    with pytest.raises(UnsupportedError, match="zip"):
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


@pytest.mark.parametrize("kept", [0, 1])
def test_members_that_are_gone_for_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    monkeypatch.setenv(SWITCH, "off")
    path = seeds.foreign_tar(tmp_path)
    reader = registry.open_reader(path)
    data = path.read_bytes()
    with tarfile.open(path) as tar:
        end = tar.getmembers()[kept].offset
    path.write_bytes(data[:end] + bytes(len(data) - end))
    with pytest.raises(BadSampleError, match="no member at byte"):
        reader.read(len(reader) - 1)


# -- walks that did not move on, or by a few bytes only


@pytest.mark.parametrize(
    "record", [b"0 a=b\nXY", b"-7 a=b\n", b"2 a=b\n", b"9 a=b\n", b"6 a=b", b"1" * 999, b" 7 a=b\n"]
)
def test_pax_records_of_an_impossible_length(tmp_path: Path, record: bytes) -> None:
    described = tarfile.TarInfo("PaxHeaders")
    described.size, described.type = len(record), b"x"
    path, picture = tmp_path / "set.tar", png(8, 8, seed=1)
    with tarfile.open(path, "w") as tar:
        member = tarfile.TarInfo("a.png")
        member.size = len(picture)
        tar.addfile(member, io.BytesIO(picture))
        tar.addfile(described, io.BytesIO(record))
    reader = registry.open_reader(path)
    assert list(reader.keys()) == ["a.png"]
    assert [reject.reason for reject in reader.rejects] == ["damaged-container"]


@pytest.mark.parametrize(
    "data",
    [
        GIF + bytes(1 << 20),
        GIF + b"!x\0" * (2 << 20),
        GIF + b"!x" + b"\1x" * (2 << 20),
        b"\xff\xd8" + b"\xff\xd0" * (2 << 20),
    ],
    ids=["stray", "empty", "short", "bare"],
)
def test_pictures_without_an_end(data: bytes) -> None:
    with pytest.raises(BadSampleError, match="corrupt"):
        probe(data)


def test_exif_that_begins_again_and_again() -> None:
    assert read_exif(b"Exif\0\0" * 2_000_000).broken


@pytest.mark.parametrize("kind", [b"\x19", b"\x1c", b"\x1b\x01\x99"], ids=["list", "struct", "map"])
def test_footers_nested_without_end(kind: bytes) -> None:
    with pytest.raises(ValueError, match="too deeply"):
        parse(b"\x19" + kind * 5000)
