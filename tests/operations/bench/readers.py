"""Readers and datasets of known behaviour, and quick settings, for the tests of bench."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli import registry
from fastdata_cli.contract import Reader
from fastdata_cli.errors import BadSampleError
from fastdata_cli.operations.bench.constant import ConstantReader
from fastdata_cli.operations.bench.settings import BenchOptions
from fastdata_cli.operations.bench.subject import Subject, open_subject
from fastdata_cli.operations.events import Silent
from fastdata_cli.sample import Batch, Payload, Sample
from fastdata_cli.testing import write_dataset

SHAPE = (64, 64, 3)


class SlowReader(ConstantReader):
    """Each request takes ``delay_s``, or longer where the machine is busy: see ``took_s``."""

    delay_s = 0.005

    def __init__(self, samples: int, shape: tuple[int, ...], dtype: str = "uint8") -> None:
        super().__init__(samples, shape, dtype)
        self.took_s: list[float] = []

    def read_many(
        self, indices: Sequence[int] | NDArray[np.int64], out: NDArray[Any] | None = None
    ) -> Batch:
        begin = time.perf_counter()
        batch = super().read_many(indices, out)
        time.sleep(max(0.0, begin + self.delay_s - time.perf_counter()))
        self.took_s.append(time.perf_counter() - begin)
        return batch


class PartlyBadReader(ConstantReader):
    """Samples of ``bad`` cannot be read."""

    bad = frozenset({3, 11})

    def read_many(
        self, indices: Sequence[int] | NDArray[np.int64], out: NDArray[Any] | None = None
    ) -> Batch:
        for index in np.asarray(indices).tolist():
            if index in self.bad:
                raise BadSampleError(key=f"{index}.jpg", reason="corrupt")
        return super().read_many(indices, out)

    def keys(self) -> Sequence[str]:
        return [f"{index}.jpg" for index in range(len(self))]


class Notices(Silent):
    """Keeps what was said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def notice(self, text: str) -> None:
        self.lines.append(text)


def quick(**changes: Any) -> BenchOptions:
    """Return settings for a run of about a second."""
    settings = {"seconds": 0.5, "repeats": 1, "batch_size": 16, "workers": "0", "no_device": True}
    return BenchOptions(**{**settings, **changes})


def write_raw(path: Path, count: int = 200, seed: int = 1) -> Path:
    """Write ``count`` images of noise as raw pixels."""
    rng = np.random.default_rng(seed)
    samples = [
        Sample(f"{index:04d}.png", rng.integers(0, 256, SHAPE, np.uint8), index % 3)
        for index in range(count)
    ]
    return write_dataset(registry.get("raw"), path, samples, Payload.PIXELS)


def named(path: Path) -> tuple[str, Reader, str]:
    """Return what bench takes for the dataset at a path."""
    return str(path), registry.open_reader(path), registry.recognise(path).name


def subject_of(path: Path, **changes: Any) -> Subject:
    """Open the dataset at a path as bench does."""
    return open_subject(*named(path), quick(**changes), Silent())


def subject_over(reader: Reader) -> Subject:
    """Open a reader as bench does."""
    return open_subject("made", reader, "made", quick(), Silent())
