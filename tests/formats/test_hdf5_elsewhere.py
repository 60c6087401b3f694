"""HDF5 datasets that lie in other files, wholly or in part: what is missing there must not be 0."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from fastdata_cli import registry
from fastdata_cli.errors import BadSampleError, DamagedDatasetError, UnsupportedError
from fastdata_cli.formats.hdf5 import FORMAT
from fastdata_cli.formats.hdf5.reader import Hdf5ReadOptions

SHAPE = (4, 8, 8, 3)
PIXELS = np.random.default_rng(1).integers(1, 256, SHAPE, np.uint8)

Source = h5py.VirtualSource


def halves(first: str = "a.h5", second: str = "b.h5", name: str = "d") -> list[tuple[slice, Any]]:
    half = (2, *SHAPE[1:])
    return [(slice(0, 2), Source(first, name, half)), (slice(2, 4), Source(second, name, half))]


def virtual(path: Path, sources: list[tuple[slice, Any]], shape: Any = SHAPE) -> Path:
    layout = h5py.VirtualLayout(shape, "u1")
    for rows, source in sources:
        layout[rows] = source
    with h5py.File(path, "w") as file:
        file.create_virtual_dataset("images", layout, fillvalue=0)
    return path


def external(path: Path, *files: tuple[str, int, int]) -> Path:
    with h5py.File(path, "w") as file:
        file.create_dataset("images", SHAPE, "u1", external=list(files))
    return path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two files of two images each, and one of bytes; it is the current one."""
    folder = tmp_path / "set"
    folder.mkdir()
    for name, part in (("a.h5", PIXELS[:2]), ("b.h5", PIXELS[2:])):
        with h5py.File(folder / name, "w") as file:
            file["d"] = part
    (folder / "bytes").write_bytes(bytes(5) + PIXELS.tobytes())
    (tmp_path / "secret").write_bytes(PIXELS.tobytes())
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["d"] = PIXELS[:2]
    monkeypatch.chdir(folder)
    return folder


def pixels(path: Path) -> Any:
    reader = registry.open_reader(path)
    return np.stack([sample.image for sample in map(reader.read, range(len(reader)))])


WHOLE: dict[str, Callable[[Path], Path]] = {
    "virtual": lambda path: virtual(path, halves()),
    "absolute": lambda path: virtual(path, halves(str(path.parent / "a.h5"))),
    "moved": lambda path: virtual(path, halves("/nowhere/a.h5")),
    "external": lambda path: external(path, ("bytes", 5, PIXELS.nbytes)),
    "the rest": lambda path: external(path, ("bytes", 5, 100), ("bytes", 105, h5py.h5f.UNLIMITED)),
}


@pytest.mark.parametrize("case", WHOLE)
def test_parts_in_the_same_folder_are_read(folder: Path, case: str) -> None:
    assert np.array_equal(pixels(WHOLE[case](folder / "set.h5")), PIXELS)


def test_a_virtual_dataset_of_its_own_file(folder: Path) -> None:
    path = virtual(folder / "set.h5", [(slice(0, 4), Source(".", "d", SHAPE))])
    with h5py.File(path, "a") as file:
        file.create_dataset("d", data=PIXELS, chunks=(1, *SHAPE[1:]))
    found = FORMAT.open_reader(path, Hdf5ReadOptions(array="images"))
    assert np.array_equal(found.read(3).image, PIXELS[3])


def test_external_files_beside_the_dataset(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = WHOLE["external"](folder / "set.h5")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DamagedDatasetError, match="missing"):
        registry.open_reader(path.rename(tmp_path / "set.h5"))


@pytest.mark.parametrize("kind", ["gone", "empty", "shorter", "chunks"])
def test_sources_that_are_not_whole(folder: Path, kind: str) -> None:
    path = virtual(folder / "set.h5", halves())
    (folder / "b.h5").unlink()
    if kind != "gone":
        with h5py.File(folder / "b.h5", "w") as file:
            if kind == "shorter":
                file["d"] = PIXELS[2:3]
            elif kind == "chunks":
                file.create_dataset("d", (2, *SHAPE[1:]), "u1", chunks=(1, *SHAPE[1:]))[0] = 1
    with pytest.raises(DamagedDatasetError, match="truncated" if kind == "shorter" else "missing"):
        registry.open_reader(path)


def test_virtual_datasets_with_holes(folder: Path) -> None:
    path = virtual(folder / "set.h5", halves()[:1])
    with pytest.raises(DamagedDatasetError, match="384 of 768 values are in none"):
        registry.open_reader(path)


@pytest.mark.parametrize("size", [None, 300])
def test_external_files_that_are_not_whole(folder: Path, size: int | None) -> None:
    path = WHOLE["external"](folder / "set.h5")
    if size is None:
        os.remove("bytes")
    else:
        os.truncate("bytes", size)
    with pytest.raises(DamagedDatasetError, match="missing" if size is None else "truncated"):
        registry.open_reader(path)


def test_names_are_taken_as_hdf5_takes_them(folder: Path) -> None:
    """Without a folder `sub` there is no `sub/../a.h5`, though its sense is `a.h5`."""
    for path in (
        virtual(folder / "one.h5", halves("sub/../a.h5")),
        external(folder / "two.h5", ("sub/../bytes", 5, PIXELS.nbytes)),
    ):
        with pytest.raises(DamagedDatasetError, match="missing"):
            registry.open_reader(path)
        (folder / "sub").mkdir()
        assert np.array_equal(pixels(path), PIXELS)
        (folder / "sub").rmdir()


def test_a_link_to_the_file_does_not_matter(folder: Path, tmp_path: Path) -> None:
    path = virtual(folder / "set.h5", halves(str(folder / "a.h5"), str(folder / "b.h5")))
    (tmp_path / "link.h5").symlink_to(path)
    assert np.array_equal(pixels(tmp_path / "link.h5"), PIXELS)


@pytest.mark.parametrize("case", ["virtual", "external"])
def test_links_that_lead_out_of_the_folder_are_refused(folder: Path, case: str) -> None:
    path = WHOLE[case](folder / "set.h5")
    for name, secret in (("a.h5", "secret.h5"), ("bytes", "secret")):
        (folder / name).unlink()
        (folder / name).symlink_to(folder.parent / secret)
    with pytest.raises(UnsupportedError, match="outside of its folder"):
        registry.open_reader(path)


OUTSIDE: dict[str, Callable[[Path], Path]] = {
    "virtual": lambda path: virtual(path, halves("../secret.h5")),
    "absolute": lambda path: virtual(path, halves(str(path.parent.parent / "secret.h5"))),
    "external": lambda path: external(path, ("../secret", 0, PIXELS.nbytes)),
    "root": lambda path: external(path, (str(path.parent.parent / "secret"), 0, PIXELS.nbytes)),
}


@pytest.mark.parametrize("case", OUTSIDE)
def test_parts_outside_of_the_folder_are_refused(folder: Path, case: str) -> None:
    with pytest.raises(UnsupportedError, match="outside of its folder"):
        registry.open_reader(OUTSIDE[case](folder / "set.h5"))


def test_a_source_whose_own_parts_are_outside(folder: Path) -> None:
    external(folder / "inner.h5", ("../secret", 0, PIXELS.nbytes))
    path = virtual(folder / "set.h5", [(slice(0, 4), Source("inner.h5", "images", SHAPE))])
    with pytest.raises(UnsupportedError, match="outside of its folder"):
        registry.open_reader(path)


@pytest.mark.parametrize("name", ["images", "labels", "keys"])
def test_links_to_other_files_are_refused(folder: Path, name: str) -> None:
    columns = {"images": PIXELS, "labels": np.arange(4), "keys": ["a", "b", "c", "d"]}
    with h5py.File(folder / "other.h5", "w") as other, h5py.File(folder / "set.h5", "w") as file:
        other["x"] = columns.pop(name)
        file["x"] = other["x"][:]
        file[name] = h5py.ExternalLink("other.h5", "/x")
        for each, column in columns.items():
            file[each] = column
    with pytest.raises(UnsupportedError, match="another file"):
        FORMAT.open_reader(folder / "set.h5", Hdf5ReadOptions(array="images"))


def test_virtual_datasets_made_of_themselves(folder: Path) -> None:
    path = virtual(folder / "set.h5", [(slice(0, 4), Source(".", "images", SHAPE))])
    with pytest.raises(DamagedDatasetError, match="of itself"):
        registry.open_reader(path)


def test_a_virtual_dataset_that_grows(folder: Path) -> None:
    with h5py.File(folder / "set.h5", "w") as file:
        layout = h5py.VirtualLayout(SHAPE, "u1", maxshape=(None, *SHAPE[1:]))
        source = Source("a.h5", "d", (2, *SHAPE[1:]), maxshape=(None, *SHAPE[1:]))
        layout[0 : h5py.h5s.UNLIMITED] = source[0 : h5py.h5s.UNLIMITED]
        file.create_virtual_dataset("images", layout)
    with pytest.raises(UnsupportedError, match="grows"):
        registry.open_reader(folder / "set.h5")


def test_single_images_elsewhere(folder: Path) -> None:
    with h5py.File(folder / "set.h5", "w") as file:
        file["a"] = PIXELS[0]
        file.create_dataset("b", SHAPE[1:], "u1", external=[("../secret", 0, 192)])
    with pytest.raises(UnsupportedError, match="outside of its folder"):
        registry.open_reader(folder / "set.h5")


def test_a_shape_beyond_all_that_was_written(folder: Path) -> None:
    """A table of all chunks that it claims would take 1.5 TiB."""
    from fastdata_cli.formats.hdf5.index import read_table

    with h5py.File(folder / "set.h5", "w") as file:
        dataset = file.create_dataset("images", (1 << 36, 2, 2, 3), "u1", chunks=(1, 2, 2, 3))
        dataset[3], dataset[(1 << 36) - 1] = 1, 2
        table = read_table(dataset)
        assert table is not None
        assert table.number.tolist() == [3, (1 << 36) - 1]
        assert table.find(np.array([(1 << 36) - 1, 3]), "images").tolist() == [1, 0]
        for lost in (0, 4, 1 << 35):
            with pytest.raises(BadSampleError, match=f"chunk {lost} of images was never written"):
                table.find(np.array([3, lost]), "images")


def test_a_dataset_that_was_never_written(folder: Path) -> None:
    with h5py.File(folder / "set.h5", "w") as file:
        file.create_dataset("images", (1 << 36, 8, 8, 3), "u1", chunks=(1, 8, 8, 3))
    with pytest.raises(DamagedDatasetError, match="never written"):
        registry.open_reader(folder / "set.h5")
