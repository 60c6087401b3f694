"""Readers of layouts of others, and around other readers: what all readers owe."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import h5py
import lmdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from numpy.typing import NDArray

from fastdata_cli import registry
from fastdata_cli.contract import Reader
from fastdata_cli.formats.tfrecord.example import example_bytes
from fastdata_cli.formats.tfrecord.framing import footer, header, masked_crc
from fastdata_cli.operations.subset import Renumbered, Subset
from fastdata_cli.sample import Payload, Sample
from fastdata_cli.testing import ReaderConformance, encoded_samples, pixel_samples, write_dataset

Made = tuple[Reader, Sequence[Sample]]

COUNT = 43
KEYS = [f"{index:08d}" for index in range(COUNT)]
LABELS = [index % 4 - 1 for index in range(COUNT)]
PIXELS = [sample.image for sample in pixel_samples(COUNT, (16, 20, 3))]
PICTURES = [sample.image for sample in encoded_samples(COUNT)]
NUMBERS = [index % 3 for index in range(COUNT)]
TEXTS = [f"picture {index}" for index in range(COUNT)]


def samples(
    images: Sequence[NDArray[np.uint8]],
    keys: Sequence[str] = KEYS,
    labels: Sequence[int] = LABELS,
    name: str = "",
) -> list[Sample]:
    """Samples, with a text each under a name."""
    texts = [{name: text} if name else None for text in TEXTS]
    columns = zip(keys, images, labels, texts, strict=True)
    return [Sample(key, image, label, text) for key, image, label, text in columns]


def opened(path: Path) -> Reader:
    return registry.open_reader(path)


def npy_files(folder: Path) -> Made:
    keys = [f"{'ab'[index // 22]}/{name}.npy" for index, name in enumerate(KEYS)]
    for key, image in zip(keys, PIXELS, strict=True):
        (folder / "set" / key).parent.mkdir(parents=True, exist_ok=True)
        np.save(folder / "set" / key, image)
    return opened(folder / "set"), samples(PIXELS, keys, [index // 22 for index in range(COUNT)])


def npy_stack_channels_first(folder: Path) -> Made:
    np.save(folder / "set.npy", np.stack(PIXELS).transpose(0, 3, 1, 2))
    return opened(folder / "set.npy"), samples(PIXELS, labels=[-1] * COUNT)


def parquet(folder: Path) -> Made:
    images = [image.tobytes() for image in PICTURES]
    columns = {"image": images, "label": LABELS, "filename": KEYS, "caption": TEXTS}
    pq.write_table(pa.table(columns), folder / "set.parquet", row_group_size=9)
    return opened(folder / "set.parquet"), samples(PICTURES, name="caption")


def write_tar(path: Path, field: str, contents: Sequence[bytes]) -> None:
    with tarfile.open(path, "w") as tar:
        for key, content, label, text in zip(KEYS, contents, NUMBERS, TEXTS, strict=True):
            sides = {field: content, "cls": b"%d" % label, "json": json.dumps({"t": text}).encode()}
            for name, each in sides.items():
                member = tarfile.TarInfo(f"{key}.{name}")
                member.size = len(each)
                tar.addfile(member, io.BytesIO(each))


def tar(folder: Path) -> Made:
    write_tar(folder / "set.tar", "png", [image.tobytes() for image in PICTURES])
    keys = [f"{key}.png" for key in KEYS]
    return opened(folder / "set.tar"), samples(PICTURES, keys, NUMBERS, name="t")


def tar_channels_first(folder: Path) -> Made:
    contents = []
    for image in PIXELS:
        out = io.BytesIO()
        np.save(out, np.ascontiguousarray(image.transpose(2, 0, 1)))
        contents.append(out.getvalue())
    write_tar(folder / "set.tar", "npy", contents)
    keys = [f"{key}.npy" for key in KEYS]
    return opened(folder / "set.tar"), samples(PIXELS, keys, NUMBERS, name="t")


def tfrecord(folder: Path) -> Made:
    names = ("image/encoded", "image/class/label", "image/filename", "caption")
    with open(folder / "set.tfrecord", "wb") as file:
        for image, label, key, text in zip(PICTURES, LABELS, KEYS, TEXTS, strict=True):
            values = (image.tobytes(), label, key.encode(), text.encode())
            data = example_bytes(dict(zip(names, values, strict=True)))
            file.write(header(len(data)) + data + footer(masked_crc(data)))
    return opened(folder / "set.tfrecord"), samples(PICTURES, name="caption")


def lmdb_of_pictures(folder: Path) -> Made:
    environment = lmdb.open(str(folder / "set.lmdb"), map_size=1 << 24)
    with environment, environment.begin(write=True) as transaction:
        for key, image in zip(KEYS, PICTURES, strict=True):
            transaction.put(key.encode(), image.tobytes())
    return opened(folder / "set.lmdb"), samples(PICTURES, labels=[-1] * COUNT)


def hdf5(folder: Path) -> Made:
    with h5py.File(folder / "set.h5", "w") as file:
        file.create_dataset("images", data=np.stack(PIXELS), chunks=(4, 16, 20, 3), shuffle=True)
        file["labels"] = LABELS
    return opened(folder / "set.h5"), samples(PIXELS)


def hdf5_of_datasets(folder: Path) -> Made:
    keys = [f"{'ab'[index // 22]}/{name}" for index, name in enumerate(KEYS)]
    with h5py.File(folder / "set.h5", "w") as file:
        for key, image in zip(keys, PICTURES, strict=True):
            file[key] = image
    return opened(folder / "set.h5"), samples(PICTURES, keys, [i // 22 for i in range(COUNT)])


def zarr_channels_first(folder: Path) -> Made:
    group = zarr.open_group(folder / "set.zarr", mode="w")
    group.create_array("images", data=np.stack(PIXELS).transpose(0, 3, 1, 2), chunks=(4, 3, 16, 20))
    group.create_array("labels", data=np.array(LABELS))
    return opened(folder / "set.zarr"), samples(PIXELS)


def tree(folder: Path) -> Made:
    keys = [f"{'ab'[index // 22]}/{name}.png" for index, name in enumerate(KEYS)]
    for key, image in zip(keys, PICTURES, strict=True):
        (folder / "set" / key).parent.mkdir(parents=True, exist_ok=True)
        (folder / "set" / key).write_bytes(image.tobytes())
    return opened(folder / "set"), samples(PICTURES, keys, [i // 22 for i in range(COUNT)])


def subset(folder: Path) -> Made:
    whole = encoded_samples(60)
    chosen = [*range(59, 30, -1), *range(15)]
    path = write_dataset(registry.get("raw"), folder / "set.raw", whole, Payload.ENCODED)
    return Subset(opened(path), chosen), [whole[index] for index in chosen]


def renumbered(folder: Path) -> Made:
    reader, wanted = hdf5(folder)
    numbers, names = np.array([2, 0, 1, -1]), ("x", "y", "z")
    there = [replace(each, label=int(numbers[each.label])) for each in wanted]
    return Renumbered(reader, range(COUNT), numbers, names), there


MAKERS: tuple[Callable[[Path], Made], ...] = (
    npy_files,
    npy_stack_channels_first,
    parquet,
    tar,
    tar_channels_first,
    tfrecord,
    lmdb_of_pictures,
    hdf5,
    hdf5_of_datasets,
    zarr_channels_first,
    tree,
    subset,
    renumbered,
)


class TestReaders(ReaderConformance):
    @pytest.fixture(params=MAKERS, ids=lambda maker: maker.__name__)
    def made(self, request: pytest.FixtureRequest, tmp_path: Path) -> Made:
        made: Made = request.param(tmp_path)
        return made

    @pytest.fixture
    def reader(self, made: Made) -> Reader:
        return made[0]

    @pytest.fixture
    def samples(self, made: Made) -> list[Sample]:
        return list(made[1])


def test_findings_have_the_positions_of_a_subset(tmp_path: Path) -> None:
    whole = pixel_samples(60)
    path = write_dataset(registry.get("raw"), tmp_path / "set.raw", whole, Payload.PIXELS)
    data = bytearray((path / "data.raw").read_bytes())
    data[50 * whole[0].image.nbytes] ^= 1
    (path / "data.raw").write_bytes(data)
    reader = Subset(opened(path), [59, 50, 3])
    for findings in (
        reader.verify(),
        reader.verify(range(1, 2)),
        reader.compare([2, 1], reader.read_each([2, 1])),
    ):
        assert [(found.index, found.key) for found in findings] == [(1, whole[50].key)]
