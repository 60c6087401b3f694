"""Arrays of others whose axes are in another order, through the command line and as readers."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import webdataset
import zarr
from numpy.typing import NDArray

from fastdata_cli import registry
from fastdata_cli.contract import Capability
from fastdata_cli.errors import UsageError
from fastdata_cli.formats.axes import AxisOrder, guess_order
from tests.conftest import Run

Array = NDArray[Any]
Write = Callable[[Path, Array], Path]

IMAGES = np.random.default_rng(5).integers(0, 256, (7, 12, 10, 3), np.uint8)


def as_zarr(folder: Path, array: Array) -> Path:
    """Write a Zarr 3 store with zarr-python."""
    chunks = (min(2, len(array)), *array.shape[1:])
    zarr.create_array(folder / "a.zarr", name="x", data=array, chunks=chunks)
    return folder / "a.zarr"


def as_zarr2(folder: Path, array: Array) -> Path:
    """Write a Zarr 2 store, cut across all axes, with zarr-python."""
    chunks = tuple(min(3, side) for side in array.shape)
    zarr.create_array(folder / "b.zarr", name="x", data=array, chunks=chunks, zarr_format=2)
    return folder / "b.zarr"


def as_hdf5(folder: Path, array: Array) -> Path:
    """Write an HDF5 file with h5py."""
    with h5py.File(folder / "a.h5", "w") as file:
        file.create_dataset("x", data=array, chunks=(1, *array.shape[1:]), compression="gzip")
    return folder / "a.h5"


def as_hdf5_contiguous(folder: Path, array: Array) -> Path:
    """Write an HDF5 file without chunks, with h5py."""
    with h5py.File(folder / "b.h5", "w") as file:
        file["x"] = array
    return folder / "b.h5"


def as_npy(folder: Path, array: Array) -> Path:
    """Write a ``.npy`` with NumPy."""
    np.save(folder / "a.npy", array)
    return folder / "a.npy"


WRITERS = pytest.mark.parametrize(
    "write", [as_zarr, as_zarr2, as_hdf5, as_hdf5_contiguous, as_npy], ids=lambda f: f.__name__
)
LAYOUTS = {
    "NHWC": IMAGES,
    "NCHW": IMAGES.transpose(0, 3, 1, 2),
    "NCWH": IMAGES.transpose(0, 3, 2, 1),
    "NHW": IMAGES[..., 0],
    "HWC": IMAGES[3],
    "CHW": IMAGES[3].transpose(2, 0, 1),
    "HW": IMAGES[3, ..., 0],
}


def expected(layout: str) -> Array:
    """Return the images N×H×W×C that an array of this layout holds."""
    images = IMAGES if "N" in layout else IMAGES[3:4]
    return images if "C" in layout else images[..., :1]


@WRITERS
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_command_line_reads_any_order(
    run: Run, tmp_path: Path, write: Write, layout: str
) -> None:
    path = write(tmp_path, np.ascontiguousarray(LAYOUTS[layout]))
    run("convert", path, tmp_path / "out.raw", "--layout", layout)
    images = expected(layout)
    stored = np.fromfile(tmp_path / "out.raw" / "data.raw", np.uint8).reshape(images.shape)
    assert np.array_equal(stored, images)
    report = json.loads(run("inspect", path, "--layout", layout, "--json").stdout)
    assert (report["samples"], report["image_shape"]) == (len(images), list(images.shape[1:]))
    run("inspect", "--diff", path, tmp_path / "out.raw", "--layout", layout)


@pytest.mark.parametrize("name", ["out.zarr", "out.h5"])
def test_ours_keep_their_own_order_in_a_comparison(run: Run, tmp_path: Path, name: str) -> None:
    path = as_hdf5(tmp_path, np.ascontiguousarray(LAYOUTS["NCWH"]))
    run("convert", path, tmp_path / name, "--layout", "NCWH")
    run("inspect", "--diff", path, tmp_path / name, "--layout", "NCWH")


@WRITERS
def test_channels_first_is_seen_and_said(run: Run, tmp_path: Path, write: Write) -> None:
    path = write(tmp_path, np.ascontiguousarray(LAYOUTS["NCHW"]))
    said = run("convert", path, tmp_path / "out.raw").stderr
    assert "7×3×12×10: read as N×C×H×W" in said
    assert "--layout NHWC if it is not" in said
    stored = np.fromfile(tmp_path / "out.raw" / "data.raw", np.uint8).reshape(IMAGES.shape)
    assert np.array_equal(stored, IMAGES)


@WRITERS
def test_one_picture_or_three_is_asked(run: Run, tmp_path: Path, write: Write) -> None:
    path = write(tmp_path, np.ascontiguousarray(LAYOUTS["CHW"]))
    refused = run("inspect", path, code=2).stderr
    assert "3×12×10 may be N×H×W or C×H×W: say which with --layout" in refused


@WRITERS
@pytest.mark.parametrize(
    ("layout", "words"),
    [
        ("HWCN", "samples are read along the first axis only"),
        ("NXYZ", "--layout does not know 'NXYZ'"),
        ("NCH", "--layout does not know 'NCH'"),
        ("NHHW", "--layout does not know 'NHHW'"),
    ],
)
def test_orders_that_there_are_not(
    run: Run, tmp_path: Path, write: Write, layout: str, words: str
) -> None:
    path = write(tmp_path, IMAGES)
    assert words in run("inspect", path, "--layout", layout, code=2).stderr


@WRITERS
def test_an_order_that_does_not_fit_is_refused(run: Run, tmp_path: Path, write: Write) -> None:
    path = write(tmp_path, IMAGES)
    refused = run("convert", path, tmp_path / "out.raw", "--layout", "NCHW", code=2)
    assert "N×C×H×W" in refused.stderr
    assert not (tmp_path / "out.raw").exists()


@WRITERS
def test_readers_keep_their_promises(tmp_path: Path, write: Write) -> None:
    reader = registry.open_reader(write(tmp_path, np.ascontiguousarray(LAYOUTS["NCHW"])))
    assert not reader.capabilities & (Capability.LOCATE | Capability.ZERO_COPY)
    out = np.empty((3, 12, 10, 3), np.uint8)
    batch = pickle.loads(pickle.dumps(reader)).read_many([5, 0, 5], out)  # noqa: S301 - our own
    assert batch.images is out
    assert np.array_equal(out, IMAGES[[5, 0, 5]])
    assert np.array_equal(reader.read(-1).image, IMAGES[6])
    assert [part for span in reader.spans(3) for part in span] == list(range(7))
    scanned = [sample.image for span in reader.spans(2) for sample in reader.scan(span)]  # type: ignore[union-attr]
    assert np.array_equal(np.stack(scanned), IMAGES)
    assert reader.describe()["layout"] in ("NCHW", "CHW")
    reader.close()


def as_tar(folder: Path, pictures: Array) -> Path:
    """Write a ``.npy`` a picture with the webdataset library."""
    with webdataset.TarWriter(str(folder / "a.tar")) as writer:
        for number, picture in enumerate(pictures):
            sides = {"cls": str(number), "json": {"id": number}, "txt": f"picture {number}"}
            writer.write({"__key__": f"{number}", "npy": picture, **sides})
    return folder / "a.tar"


@pytest.mark.parametrize("layout", ["HWC", "CHW", "NCWH", "HW"])
def test_arrays_in_tars(run: Run, tmp_path: Path, layout: str) -> None:
    order = "NHW" if layout == "HW" else f"N{layout.removeprefix('N')}"
    stored = {**LAYOUTS, "NHWC": IMAGES}[order]
    path = as_tar(tmp_path, np.ascontiguousarray(stored))
    run("convert", path, tmp_path / "out.raw", "--layout", layout)
    run("inspect", "--diff", path, tmp_path / "out.raw", "--layout", layout)
    copy = np.fromfile(tmp_path / "out.raw" / "data.raw", np.uint8)
    assert np.array_equal(copy, expected(order).reshape(-1))
    copied = registry.open_reader(tmp_path / "out.raw")
    assert copied.labels().tolist() == list(range(7))
    for number in range(7):
        sides = {"id": number, "txt": f"picture {number}"}
        assert copied.read(number).metadata == sides


def test_arrays_in_tars_with_channels_first_are_seen(run: Run, tmp_path: Path) -> None:
    path = as_tar(tmp_path, LAYOUTS["NCHW"])
    said = run("convert", path, tmp_path / "out.raw").stderr
    assert "3×12×10 read as C×H×W (--layout HWC if it is not)" in said
    copy = np.fromfile(tmp_path / "out.raw" / "data.raw", np.uint8)
    assert np.array_equal(copy, IMAGES.reshape(-1))
    refused = run("inspect", path, "--layout", "HW", code=2).stderr
    assert "--layout HW: pictures of 3×12×10 are not so" in refused


def test_a_word_of_lower_case_and_commas() -> None:
    assert AxisOrder.parse("n,c,h,w").letters == "NCHW"


@pytest.mark.parametrize(
    ("shape", "order", "said"),
    [
        ((9, 20, 30, 3), "NHWC", False),
        ((9, 3, 20, 30), "NCHW", True),
        ((9, 4, 20, 3), "NHWC", True),
        ((9, 7, 20, 30), "NHWC", False),
        ((9, 20, 30), "NHW", False),
        ((1, 20, 30), "NHW", False),
    ],
)
def test_what_a_shape_tells(shape: tuple[int, ...], order: str, said: bool) -> None:
    found, remarks = guess_order(shape, "x")
    assert (str(found), bool(remarks)) == (order, said)


def test_a_picture_is_no_stack() -> None:
    with pytest.raises(UsageError, match="20×30×3 may be N×H×W or H×W×C"):
        guess_order((20, 30, 3), "x")
