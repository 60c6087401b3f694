"""Labels below -1, which others use for "none" or "crowd": no class has such a number."""

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

from fastdata_cli import registry
from fastdata_cli.formats.tfrecord.example import example_bytes
from fastdata_cli.formats.tfrecord.framing import footer, header, masked_crc
from fastdata_cli.operations.subset import Renumbered
from fastdata_cli.testing.synthetic import png
from tests.conftest import Run

LABELS = np.array([-5, 0, -1, 2, -(1 << 40)])
PIXELS = np.arange(5 * 8 * 9 * 3, dtype=np.uint8).reshape(5, 8, 9, 3)
PICTURES = [png(4, 4, seed) for seed in range(len(LABELS))]

Write = Callable[[Path], Path]


def as_tar(folder: Path) -> Path:
    with tarfile.open(folder / "set.tar", "w") as tar:
        for index, (picture, label) in enumerate(zip(PICTURES, LABELS, strict=True)):
            for name, content in ((f"{index}.png", picture), (f"{index}.cls", b"%d" % label)):
                member = tarfile.TarInfo(name)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    return folder / "set.tar"


def as_tfrecord(folder: Path) -> Path:
    path = folder / "set.tfrecord"
    with open(path, "wb") as file:
        for picture, label in zip(PICTURES, LABELS.tolist(), strict=True):
            data = example_bytes({"image/encoded": picture, "image/class/label": label})
            file.write(header(len(data)) + data + footer(masked_crc(data)))
    return path


def as_parquet(folder: Path) -> Path:
    pq.write_table(pa.table({"image": PICTURES, "label": LABELS}), folder / "set.parquet")
    return folder / "set.parquet"


def as_hdf5(folder: Path) -> Path:
    with h5py.File(folder / "set.h5", "w") as file:
        file["images"], file["labels"] = PIXELS, LABELS
    return folder / "set.h5"


def as_hdf5_channels_first(folder: Path) -> Path:
    with h5py.File(folder / "set.h5", "w") as file:
        file["images"], file["labels"] = PIXELS.transpose(0, 3, 1, 2), LABELS
    return folder / "set.h5"


def as_zarr(folder: Path) -> Path:
    group = zarr.open_group(folder / "set.zarr", mode="w")
    group.create_array("images", data=PIXELS, chunks=(1, 8, 9, 3))
    group.create_array("labels", data=LABELS)
    return folder / "set.zarr"


def as_npy(folder: Path) -> Path:
    (folder / "set").mkdir()
    np.save(folder / "set" / "images.npy", PIXELS)
    np.save(folder / "set" / "labels.npy", LABELS)
    return folder / "set"


WRITERS = (
    as_tar, as_tfrecord, as_parquet, as_hdf5, as_hdf5_channels_first, as_zarr, as_npy
)  # fmt: skip


@pytest.mark.parametrize("write", WRITERS)
def test_they_are_none_and_are_counted(run: Run, tmp_path: Path, write: Write) -> None:
    reader = registry.open_reader(write(tmp_path))
    assert reader.labels().tolist() == [-1, 0, -1, 2, -1]
    assert reader.read_many([0, 3, 4]).labels.tolist() == [-1, 2, -1]
    assert [reader.read(index).label for index in range(5)] == [-1, 0, -1, 2, -1]
    assert reader.notes["negative-label"] == 2
    text = run("convert", reader.path, tmp_path / "out.raw").output
    assert "negative-label=2" in text
    assert np.load(tmp_path / "out.raw" / "labels.npy").tolist() == [-1, 0, -1, 2, -1]


def test_class_names_of_a_listing_are_not_counted_from_their_end(tmp_path: Path) -> None:
    classes = tmp_path / "classes.txt"
    classes.write_text("cat\ndog\ncow\n")
    found = registry.get("npy")
    options = found.read_options.from_mapping({"classes": str(classes)}, owner="npy")
    reader = found.open_reader(as_npy(tmp_path), options)
    assert reader.labels().tolist() == [-1, 0, -1, 2, -1]


def test_renumbered_labels_are_not_counted_from_the_end(tmp_path: Path) -> None:
    """Readers of plug-ins may give any number."""
    reader = registry.open_reader(as_hdf5(tmp_path))
    reader.labels = lambda: LABELS  # type: ignore[method-assign]
    renumbered = Renumbered(reader, [0, 1, 3, 4], np.array([7, 8, 9, -1]), ("a",) * 10)
    assert renumbered.labels().tolist() == [-1, 7, 9, -1]
