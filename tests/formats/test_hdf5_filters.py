"""HDF5 filters undone without HDF5: the same bytes as h5py gives, and h5py for all others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import pytest
from numpy.typing import NDArray

from fastdata_cli import registry
from fastdata_cli.contract import Capability, Reader
from fastdata_cli.errors import BadSampleError
from fastdata_cli.storage.gather import SWITCH

COUNT, SHAPE = 30, (12, 10, 3)
WANTED = [29, 0, 3, 3, 17, 16, 4, 28]

LOCATED: dict[str, dict[str, Any]] = {
    "none": {},
    "gzip": {"compression": "gzip"},
    "gzip, shuffled": {"compression": "gzip", "shuffle": True},
    "shuffled": {"shuffle": True},
    "lz4": dict(hdf5plugin.LZ4()),
    "lz4 in blocks": dict(hdf5plugin.LZ4(nbytes=512)),
    "lz4, shuffled": {**hdf5plugin.LZ4(), "shuffle": True},
    "zstd": dict(hdf5plugin.Zstd(clevel=3)),
    "blosc lz4": dict(hdf5plugin.Blosc(cname="lz4", shuffle=hdf5plugin.Blosc.NOSHUFFLE)),
    "blosc zstd": dict(hdf5plugin.Blosc(cname="zstd", shuffle=hdf5plugin.Blosc.BITSHUFFLE)),
    "blosc blosclz": dict(hdf5plugin.Blosc(cname="blosclz")),
}
LEFT_TO_HDF5: dict[str, dict[str, Any]] = {
    "lzf": {"compression": "lzf"},
    "fletcher32": {"fletcher32": True},
    "gzip, fletcher32": {"compression": "gzip", "fletcher32": True},
    "bitshuffle": dict(hdf5plugin.Bitshuffle()),
    "blosc2": dict(hdf5plugin.Blosc2()),
    "scaled": {"scaleoffset": 0},
}


def images(dtype: str) -> NDArray[Any]:
    """Return pictures that shrink, among them some that do not."""
    flat = np.arange(COUNT * np.prod(SHAPE)).reshape(COUNT, *SHAPE) // 11 % 251
    rng = np.random.default_rng(1)
    flat[::4] = rng.integers(0, 256, flat[::4].shape)
    return flat.astype(dtype)


def write(path: Path, data: NDArray[Any], **options: Any) -> Path:
    with h5py.File(path, "w") as file:
        file.create_dataset("images", data=data, **options)
    return path


def is_located(reader: Reader) -> bool:
    return Capability.LOCATE in reader.capabilities


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32"])
@pytest.mark.parametrize("chunk", [1, 7])
@pytest.mark.parametrize("case", LOCATED)
def test_as_h5py_has_it(tmp_path: Path, case: str, chunk: int, dtype: str) -> None:
    data = images(dtype)
    path = write(tmp_path / "a.h5", data, chunks=(chunk, *SHAPE), **LOCATED[case])
    reader = registry.open_reader(path)
    assert is_located(reader)
    assert np.array_equal(reader.read_many(WANTED).images, data[WANTED])


@pytest.mark.parametrize("case", LEFT_TO_HDF5)
def test_other_filters_are_left_to_hdf5(tmp_path: Path, case: str) -> None:
    data = images("uint8")
    path = write(tmp_path / "a.h5", data, chunks=(7, *SHAPE), **LEFT_TO_HDF5[case])
    reader = registry.open_reader(path)
    assert not is_located(reader)
    assert np.array_equal(reader.read_many(WANTED).images, data[WANTED])


LAYOUTS: dict[str, tuple[bool, dict[str, Any]]] = {
    "contiguous": (True, {}),
    "chunks across a picture": (False, {"chunks": (7, 6, 10, 3)}),
    "other byte order": (False, {"dtype": ">u2"}),
    "chunks that grew": (True, {"chunks": (4, *SHAPE), "maxshape": (None, *SHAPE)}),
}


@pytest.mark.parametrize("case", LAYOUTS)
@pytest.mark.parametrize("libver", ["earliest", "v110", "latest"])
def test_layouts(tmp_path: Path, case: str, libver: str) -> None:
    located, options = LAYOUTS[case]
    data = images("uint16")
    with h5py.File(tmp_path / "a.h5", "w", libver=(libver, "latest")) as file:
        file.create_dataset("images", data=data, **options)
    reader = registry.open_reader(tmp_path / "a.h5")
    assert is_located(reader) is located
    assert np.array_equal(reader.read_many(WANTED).images, data[WANTED])


def test_a_user_block_moves_all_addresses(tmp_path: Path) -> None:
    data = images("uint8")
    with h5py.File(tmp_path / "a.h5", "w", userblock_size=512) as file:
        file.create_dataset("images", data=data, chunks=(1, *SHAPE))
    reader = registry.open_reader(tmp_path / "a.h5")
    assert np.array_equal(reader.read_many(WANTED).images, data[WANTED])


def test_numbers_of_which_not_all_bits_count(tmp_path: Path) -> None:
    kind = h5py.h5t.STD_U16LE.copy()
    kind.set_precision(12)
    data = images("uint16")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        space = h5py.h5s.create_simple(data.shape)
        dataset = h5py.h5d.create(file.id, b"images", kind, space)
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, data)
    reader = registry.open_reader(tmp_path / "a.h5")
    assert not is_located(reader)
    assert np.array_equal(reader.read_many(WANTED).images, data[WANTED])


@pytest.mark.parametrize("chunk", [1, 5])
@pytest.mark.parametrize("case", ["gzip", "gzip, shuffled", "blosc lz4"])
def test_chunks_that_skipped_filters(tmp_path: Path, case: str, chunk: int) -> None:
    """HDF5 stores a chunk without a filter that does not make it smaller, and says so."""
    data = images("uint8")
    path = write(tmp_path / "a.h5", data, chunks=(chunk, *SHAPE), **LOCATED[case])
    with h5py.File(path, "r+") as file:
        count = file["images"].id.get_create_plist().get_nfilters()
        for number, skipped in ((0, (1 << count) - 1), (2, (1 << count) - 1)):
            start = number * chunk
            chunk_data = data[start : start + chunk].tobytes()
            file["images"].id.write_direct_chunk((start, 0, 0, 0), chunk_data, skipped)
    reader = registry.open_reader(path)
    assert is_located(reader)
    assert np.array_equal(reader.read_many(WANTED).images, data[WANTED])
    with h5py.File(path) as file:
        assert np.array_equal(file["images"][:], data), "so HDF5 reads it as well"


@pytest.mark.parametrize("switch", ["on", "off"])
def test_what_was_never_written_is_missing(
    tmp_path: Path, switch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SWITCH, switch)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        array = file.create_dataset("images", (COUNT, *SHAPE), "u1", chunks=(5, *SHAPE))
        array[:10] = images("uint8")[:10]
    reader = registry.open_reader(tmp_path / "a.h5")
    assert len(reader.read_many(range(10))) == 10
    with pytest.raises(BadSampleError) as caught:
        reader.read_many([9, 10])
    assert caught.value.reason == "missing"


@pytest.mark.parametrize("case", ["gzip", "lz4", "zstd", "blosc lz4"])
def test_a_damaged_chunk_costs_only_its_pictures(tmp_path: Path, case: str) -> None:
    data = images("uint8")
    path = write(tmp_path / "a.h5", data, chunks=(5, *SHAPE), **LOCATED[case])
    with h5py.File(path) as file:
        where = file["images"].id.get_chunk_info(2)
    with open(path, "r+b") as raw:
        raw.seek(where.byte_offset)
        raw.write(bytes(12))
    reader = registry.open_reader(path)
    for index in (9, 15):
        assert np.array_equal(reader.read(index).image, data[index])
    with pytest.raises(BadSampleError) as caught:
        reader.read(12)
    assert (caught.value.reason, str(path) in caught.value.detail) == ("corrupt", True)
