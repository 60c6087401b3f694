"""The datasets of the damage matrix, each a small one on disk, and another version of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fastdata_cli import registry
from fastdata_cli.sample import Payload, Sample
from fastdata_cli.testing import synthetic

SAMPLES = 26
_PART = 8
_SHAPE = (9, 8, 3)

Make = Callable[[Path, Sequence[Sample]], None]


@dataclass(frozen=True, kw_only=True)
class Layout:
    """One kind of dataset."""

    name: str
    file: str
    """Name of its path in a folder of its own."""
    payload: Payload
    format: str = ""
    """By whose writer it is made; empty for ``make``."""
    options: dict[str, Any] = field(default_factory=dict)
    part: int | None = _PART
    """Samples written at a time; None where the options decide."""
    make: Make | None = None
    """Makes it as others do."""
    has_checksums: bool = True
    """False: what is read wrong from it, nobody can know."""

    def write(self, folder: Path, version: int) -> Path:
        """Write one of two versions that differ in every image and nothing else."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / self.file
        samples = _samples(self.payload, version)
        if self.make is not None:
            self.make(path, samples)
            return path
        row = registry.get(self.format)
        options = row.write_options(**self.options)
        return synthetic.write_dataset(
            row, path, samples, self.payload, options, part_samples=self.part
        )


def _samples(payload: Payload, version: int) -> list[Sample]:
    if payload is Payload.PIXELS:
        plain = synthetic.pixel_samples(SAMPLES, _SHAPE)
        return [Sample(s.key, s.image ^ version, s.label, s.metadata) for s in plain]
    return [
        Sample(
            s.key,
            np.frombuffer(synthetic.png(7, 6, 100 * version + i), np.uint8),
            s.label,
            s.metadata,
        )
        for i, s in enumerate(synthetic.encoded_samples(SAMPLES))
    ]


def _parquet(path: Path, samples: Sequence[Sample]) -> None:
    import pyarrow
    import pyarrow.parquet

    images = [
        {"bytes": sample.image.tobytes(), "path": f"{i}.png"} for i, sample in enumerate(samples)
    ]
    table = pyarrow.table({"image": images, "label": [i % 3 for i in range(len(samples))]})
    pyarrow.parquet.write_table(table, path, row_group_size=_PART, write_page_checksum=True)


def _npy(path: Path, samples: Sequence[Sample]) -> None:
    path.mkdir()
    for index, sample in enumerate(samples[:6]):
        np.save(path / f"{index}.npy", sample.image)


def _both(
    name: str, format_name: str, file: str, *, part: int | None = _PART, **options: Any
) -> list[Layout]:
    return [
        Layout(
            name=f"{name}, {payload.value}",
            file=file,
            payload=payload,
            format=format_name,
            options=options,
            part=part,
        )
        for payload in Payload
    ]


def _layouts() -> dict[str, Layout]:
    all_of_them = [
        *_both("raw", "raw", "set.raw"),
        *_both("zarr", "zarr", "set.zarr", part=None),
        Layout(
            name="zarr chunks, pixels",
            file="set.zarr",
            payload=Payload.PIXELS,
            format="zarr",
            options={"chunk": 4, "codec": "lz4"},
        ),
        Layout(
            name="zarr shards, pixels",
            file="set.zarr",
            payload=Payload.PIXELS,
            format="zarr",
            options={"shard_samples": 8},
        ),
        *_both("hdf5", "hdf5", "set.h5"),
        Layout(
            name="hdf5 chunks, pixels",
            file="set.h5",
            payload=Payload.PIXELS,
            format="hdf5",
            options={"chunk": 4, "codec": "gzip"},
        ),
        *_both("lmdb", "lmdb", "set.lmdb"),
        *_both("webdataset", "webdataset", "set.tar"),
        *_both("webdataset shards", "webdataset", "set-%03d.tar", shard_samples=10),
        *_both("tree", "tree", "set"),
        *_both("tfrecord", "tfrecord", "set.tfrecord"),
        *_both("tfrecord shards", "tfrecord", "set-%03d.tfrecord", shard_samples=10),
        Layout(
            name="parquet",
            file="set.parquet",
            payload=Payload.ENCODED,
            make=_parquet,
            has_checksums=False,
        ),
        Layout(name="npy", file="set", payload=Payload.PIXELS, make=_npy, has_checksums=False),
    ]
    return {layout.name: layout for layout in all_of_them}


LAYOUTS = _layouts()
