"""Zarr stores that are one zip, written by zarr-python and by zip tools."""

from __future__ import annotations

import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.codecs import GzipCodec
from zarr.storage import ZipStore

from fastdata_cli import registry
from fastdata_cli.contract import Capability, Reader
from fastdata_cli.errors import BadSampleError, DamagedDatasetError, FastdataError, UnsupportedError
from fastdata_cli.testing.reader_conformance import digests, in_children
from tests.conftest import Run

IMAGES = np.random.default_rng(2).integers(0, 256, (11, 6, 7, 3), np.uint8)


def zipped(path: Path, zarr_format: Any = 3, **options: Any) -> Path:
    """Write a zip store with zarr-python: images and labels in a group."""
    options = {"chunks": (2, 6, 7, 3), **options}
    with ZipStore(path, mode="w") as store:
        group = zarr.create_group(store, zarr_format=zarr_format)
        nested = group.create_group("train", attributes={"class_names": ["ant", "bee"]})
        nested.create_array("pictures", data=IMAGES, **options)
        nested.create_array("labels", data=np.arange(11) % 2, chunks=(4,))
    return path


def folder(path: Path, zarr_format: Any = 3) -> Path:
    """Write a store in a folder with zarr-python."""
    group = zarr.open_group(path, mode="w", zarr_format=zarr_format)
    group.create_array("images", data=IMAGES, chunks=(2, 6, 7, 3))
    return path


def zip_of(source: Path, target: Path, *, method: int, top: str = "") -> Path:
    """Pack a folder with Python's zipfile, as zip and 7z do."""
    with zipfile.ZipFile(target, "w", method) as file:
        for each in sorted(source.rglob("*")):
            file.write(each, top + str(each.relative_to(source)))
    return target


def images_of(reader: Reader) -> Any:
    """Return all images; the last read again by the reader's pickled twin."""
    twin = pickle.loads(pickle.dumps(reader))  # noqa: S301 - our own bytes
    found = reader.read_many(range(len(reader))).images
    assert np.array_equal(twin.read(len(reader) - 1).image, found[-1])
    return found


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("name", ["a.zarr.zip", "a.zip", "a.zarr", "a"])
def test_the_command_line_reads_it(run: Run, tmp_path: Path, zarr_format: int, name: str) -> None:
    path = zipped(tmp_path / name, zarr_format)
    assert "zip" in run("inspect", path).stdout
    run("convert", path, tmp_path / "out.raw")
    run("inspect", "--diff", path, tmp_path / "out.raw")
    reader = registry.open_reader(tmp_path / "out.raw")
    assert np.array_equal(images_of(reader), IMAGES)
    assert reader.labels().tolist() == [0, 1] * 5 + [0]
    assert reader.schema.class_names == ("ant", "bee")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"compressors": None},
        {"shards": (4, 6, 7, 3)},
        {"chunks": (3, 6, 7, 3), "filters": None, "compressors": GzipCodec()},
        {"chunks": (3, 4, 4, 3)},
    ],
    ids=["zstd", "none", "shards", "gzip", "cut across"],
)
@pytest.mark.parametrize("gather", ["on", "off"])
def test_any_chunks(
    tmp_path: Path, options: dict[str, Any], gather: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FASTDATA_GATHER", gather)
    assert np.array_equal(
        images_of(registry.open_reader(zipped(tmp_path / "a.zip", **options))), IMAGES
    )


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("top", ["", "set.zarr/"])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_made_by_zip(tmp_path: Path, method: int, top: str, zarr_format: int) -> None:
    path = zip_of(
        folder(tmp_path / "set.zarr", zarr_format), tmp_path / "a.zip", method=method, top=top
    )
    reader = registry.open_reader(path)
    assert np.array_equal(images_of(reader), IMAGES)
    assert (Capability.LOCATE in reader.capabilities) == (method == zipfile.ZIP_STORED)


@pytest.mark.parametrize("payload", ["pixels", "encoded"])
def test_ours_may_be_zipped(run: Run, tree: Path, tmp_path: Path, payload: str) -> None:
    run("convert", tree, tmp_path / "a.zarr", "--payload", payload)
    path = zip_of(tmp_path / "a.zarr", tmp_path / "a.zarr.zip", method=zipfile.ZIP_STORED)
    run("inspect", path, "--verify")
    run("inspect", "--diff", tmp_path / "a.zarr", path)
    path = zip_of(tmp_path / "a.zarr", tmp_path / "b.zip", method=zipfile.ZIP_DEFLATED)
    assert "zip -0 -r" in run("inspect", path, code=2).stderr


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_processes(tmp_path: Path, method: int) -> None:
    """Also with another order of axes, whose reader stands around that of the store."""
    stored = np.ascontiguousarray(IMAGES.transpose(0, 3, 1, 2))
    zarr.create_array(tmp_path / "a.zarr", data=stored, chunks=(2, 3, 6, 7))
    reader = registry.open_reader(zip_of(tmp_path / "a.zarr", tmp_path / "a.zip", method=method))
    assert np.array_equal(images_of(reader), IMAGES)
    before = digests(reader)
    assert in_children("fork", reader, 2) == [before] * 2
    assert in_children("spawn", reader, 1) == [before]


def test_shards_that_are_compressed_again_are_refused(tmp_path: Path) -> None:
    source = zarr.create_array(
        tmp_path / "a.zarr", data=IMAGES, chunks=(1, 6, 7, 3), shards=(4, 6, 7, 3)
    )
    assert source.shape == IMAGES.shape
    path = zip_of(tmp_path / "a.zarr", tmp_path / "a.zip", method=zipfile.ZIP_DEFLATED)
    with pytest.raises(UnsupportedError, match="compressed once more"):
        registry.open_reader(path).read(0)


def test_any_cut_is_one_error(tmp_path: Path) -> None:
    data = zipped(tmp_path / "a.zarr.zip").read_bytes()
    for length in range(0, len(data), 97):
        (tmp_path / "a.zarr.zip").write_bytes(data[:length])
        with pytest.raises(FastdataError) as caught:
            registry.open_reader(tmp_path / "a.zarr.zip")
        if length > 60:
            assert isinstance(caught.value, DamagedDatasetError)
            assert "a zip without its directory" in str(caught.value)


def test_a_cut_zip_is_named_as_one_whatever_it_was(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "photos.zip", "w") as file:
        file.writestr("a.jpg", bytes(999))
    with pytest.raises(FastdataError, match="no format recognises"):
        registry.open_reader(tmp_path / "photos.zip")
    os.truncate(tmp_path / "photos.zip", 500)
    with pytest.raises(DamagedDatasetError, match="a zip without its directory"):
        registry.open_reader(tmp_path / "photos.zip")


def test_a_zip_of_a_later_version_is_not_called_damaged(run: Run, tmp_path: Path) -> None:
    data = bytearray(zipped(tmp_path / "a.zip").read_bytes())
    data[data.index(b"PK\x01\x02") + 6] = 200  # the version needed to extract, in the directory
    (tmp_path / "a.zip").write_bytes(data)
    assert "zip file version 20.0" in run("inspect", tmp_path / "a.zip", code=2).stderr


def test_a_store_that_was_not_closed_says_so(run: Run, tmp_path: Path) -> None:
    store = ZipStore(tmp_path / "a.zip", mode="w")
    zarr.create_array(store, data=IMAGES, chunks=(2, 6, 7, 3))
    (tmp_path / "copy.zip").write_bytes((tmp_path / "a.zip").read_bytes())
    store.close()
    assert "did not close it" in run("inspect", tmp_path / "copy.zip", code=1).stderr


@pytest.mark.parametrize("options", [{"compressors": None}, {}])
def test_any_flipped_byte_is_found_or_harmless(tmp_path: Path, options: dict[str, Any]) -> None:
    path = zipped(tmp_path / "a.zip", **options)
    data = path.read_bytes()
    for at in range(0, len(data), 61):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :])
        try:
            reader = registry.open_reader(path)
            found = reader.read_many(range(len(reader))).images
        except FastdataError:
            continue
        assert np.array_equal(found, IMAGES)


def test_a_chunk_that_is_not_there_is_missing(tmp_path: Path) -> None:
    source = folder(tmp_path / "a.zarr")
    next(source.glob("images/c/1/*/*/*")).unlink()
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        reader = registry.open_reader(zip_of(source, tmp_path / "a.zip", method=method))
        assert np.array_equal(reader.read(0).image, IMAGES[0])
        with pytest.raises(BadSampleError, match=r"a\.zip/images/c/1/0/0/0 is not there"):
            reader.read(2)
        assert "a.zip/images/c/1/0/0/0" in [str(each)[-22:] for each in reader.files()]


def test_other_zips_are_no_stores(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", images=IMAGES)
    with pytest.raises(FastdataError, match="no format recognises this"):
        registry.open_reader(tmp_path / "a.npz")
