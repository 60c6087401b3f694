"""The device measured without fio: threads of this process that read blocks by ``preadv``."""

from __future__ import annotations

import itertools
import mmap
import os
import random
import threading
import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import numpy as np

from fastdata_cli.timing.device import DeviceError, DeviceResult, FioJob, Latency, too_short
from fastdata_cli.timing.device_target import Target, path_of
from fastdata_cli.timing.page_cache import drop

TOOL = "python fallback"

_MOST_BLOCKS = 1 << 20


def measure_by_threads(job: FioJob, target: Target) -> DeviceResult:
    """Read blocks of ``target`` by as many threads as the job is deep, for its runtime.

    Raises:
        DeviceError: a read failed.
    """
    direct = job.direct and target.direct
    with ExitStack() as stack:
        descriptors = [_reopened(descriptor, direct) for descriptor in target.descriptors]
        for descriptor in descriptors:
            stack.callback(os.close, descriptor)
            if not direct:
                drop(descriptor)
        blocks = _blocks(job, target, descriptors, endless=direct)
        readers = _Readers(blocks, target.block_bytes, job.runtime_s)
        times, seconds = readers.run(job.depth)
    if not len(times):
        raise DeviceError(f"{target.names[0]}: nothing was read in {job.runtime_s:g} s")
    p50, p95, p99 = (float(value) for value in np.percentile(times, (50, 95, 99)))
    return DeviceResult(
        name=job.name,
        rw=job.rw,
        block_bytes=target.block_bytes,
        depth=job.depth,
        direct=direct,
        engine="preadv",
        bandwidth=len(times) * target.block_bytes / seconds,
        iops=len(times) / seconds,
        latency=Latency(mean=float(times.mean()), p50=p50, p95=p95, p99=p99),
        seconds=seconds,
        tool=TOOL,
        file_count=len(descriptors),
        scratch=target.scratch,
        warnings=(*target.warnings, *too_short(job, seconds)),
    )


class _Readers:
    """Threads that take blocks from one iterator and time the reading of each."""

    def __init__(
        self, blocks: Iterator[tuple[int, int]], block_bytes: int, runtime_s: float
    ) -> None:
        self._blocks = blocks
        self._block_bytes = block_bytes
        self._runtime_s = runtime_s
        self._turn = threading.Lock()
        self._over = threading.Event()

    def run(self, threads: int) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], float]:
        """Return the seconds of every read, and the seconds that all took together."""
        begin = time.perf_counter()
        deadline = begin + self._runtime_s
        with ThreadPoolExecutor(threads) as pool:
            try:
                running = [pool.submit(self._read_until, deadline) for _ in range(threads)]
                times = [one.result() for one in running]
            except OSError as problem:
                raise DeviceError(f"a read failed: {problem.strerror}") from problem
            finally:
                self._over.set()
        return np.array(list(itertools.chain(*times))), time.perf_counter() - begin

    def _read_until(self, deadline: float) -> list[float]:
        times = []
        with mmap.mmap(-1, self._block_bytes) as buffer:  # aligned, as O_DIRECT wants it
            while not self._over.is_set():
                with self._turn:
                    block = next(self._blocks, None)
                begin = time.perf_counter()
                if block is None or begin >= deadline:
                    break
                os.preadv(block[0], [buffer], block[1])
                times.append(time.perf_counter() - begin)
        return times


def _blocks(
    job: FioJob, target: Target, descriptors: list[int], *, endless: bool
) -> Iterator[tuple[int, int]]:
    """Yield (descriptor, offset) of whole blocks, in order or at random.

    Through the page cache no block is yielded twice, or memory would answer.
    """
    counts = [size // target.block_bytes for size in target.sizes]
    ends = list(itertools.accumulate(counts))
    for index in _order(job, ends[-1], endless):
        file = bisect_right(ends, index)
        first = ends[file] - counts[file]
        yield descriptors[file], (index - first) * target.block_bytes


def _order(job: FioJob, count: int, endless: bool) -> Iterable[int]:
    if job.rw == "read":
        passes = itertools.repeat(range(count)) if endless else [range(count)]
        return itertools.chain.from_iterable(passes)
    dice = random.Random()
    if endless:
        return iter(lambda: dice.randrange(count), None)
    return dice.sample(range(count), min(count, _MOST_BLOCKS))


def _reopened(descriptor: int, direct: bool) -> int:
    flags = os.O_RDONLY | os.O_CLOEXEC | (os.O_DIRECT if direct else 0)
    return os.open(path_of(descriptor), flags)
