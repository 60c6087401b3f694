"""Pixels that are not in the page cache: how fast, and how much is read for what is used."""

from __future__ import annotations

import gc
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.data import BATCH, SIDE, Data, files_of
from benchmarks.loops import drained, first, threaded
from benchmarks.ours import Place, pixels
from benchmarks.row import MakeReady, Ready, Row, Side, Table
from benchmarks.rows.pixels import PLAIN
from fastdata_cli.errors import StorageError
from fastdata_cli.loading.samplers import Positions
from fastdata_cli.timing.cache import evict
from fastdata_cli.timing.measure import Work
from fastdata_cli.timing.process_tree import ProcessTree

READ = "device_bytes_a_byte"
"""The fact of a run: bytes fetched from storage for each byte of the samples."""


class _Cold:
    """Runs that begin with files proven to be out of the page cache, and count what is fetched.

    Args:
        files: what is evicted.
        make: opens them, untimed, and returns the run.
        close: closes what ``make`` has opened: mapped pages stay in the cache.
    """

    def __init__(
        self,
        files: Sequence[Path],
        make: Callable[[], Callable[[], Work]],
        close: Callable[[], None],
    ) -> None:
        self._files = files
        self._make = make
        self._close = close
        self._run: Callable[[], Work] | None = None

    def before(self) -> None:
        """Evict the files and open them.

        Raises:
            StorageError: they stay in the page cache; says why.
        """
        self._run = None
        self._close()
        gc.collect()  # what is mapped by an object in a cycle stays mapped, and in the cache
        found = evict(self._files)
        if found.state != "cold":
            raise StorageError(f"the files stay in the page cache: {' '.join(found.notes)}")
        self._run = self._make()

    def run(self) -> Work:
        """Read all samples once."""
        assert self._run is not None, "before comes first"
        tree = ProcessTree()
        before = tree.counters().device_read_bytes
        work = self._run()
        after = tree.counters().device_read_bytes
        if before is None or after is None:
            return work
        return Work(
            samples=work.samples, bytes=work.bytes, facts={READ: (after - before) / work.bytes}
        )


def _loader(place: Place) -> MakeReady:
    def ready(data: Data) -> Ready:
        from fastdata_cli.loading import FastLoader
        from fastdata_cli.registry import open_reader

        reader = open_reader(place(data.few))

        def make() -> Callable[[], Work]:
            loader = FastLoader(reader, batch_size=BATCH)
            return drained(lambda: loader, first)

        cold = _Cold(files_of(reader), make, reader.close)
        return Ready(run=cold.run, before=cold.before)

    return ready


def _memmap(data: Data) -> Ready:
    # Not the file of the raw row: it stays mapped there, and so in the cache.
    file = Path(data.few.work) / "cold.raw"
    if not file.exists():
        shutil.copyfile(pixels("raw")(data.few) / "data.raw", file)
    samples: list[NDArray[np.uint8]] = []

    def fill(batch: Positions, out: NDArray[np.uint8]) -> None:
        np.take(samples[0], batch, axis=0, out=out, mode="clip")

    def make() -> Callable[[], Work]:
        samples.append(np.memmap(file, np.uint8, "r").reshape(-1, SIDE, SIDE, 3))
        return threaded(len(samples[0]), data.threads, fill)

    cold = _Cold([file], make, samples.clear)
    return Ready(run=cold.run, before=cold.before)


MEMMAP = Side(
    name="memmap-cold",
    what='plain threads: np.take(memmap, out=, mode="clip") over the raw file',
    ready=_memmap,
)

PIXELS = Table(
    name="cold",
    title="Pixels → shuffled batches, from a cold cache",
    text="The files are proven to be out of the page cache before every repeat.",
    min_repeat_s=0.0,
    fact=READ,
    column="read / used",
    rows=tuple(
        Row(
            name=f"cold/{name}",
            what=f"{name}, FastLoader",
            ready=_loader(place),
            reference=MEMMAP,
        )
        for name, (place, _, _) in PLAIN.items()
    ),
)
