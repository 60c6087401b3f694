"""What is asked of the device below a dataset, and what comes back: jobs and results."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from fastdata_cli.errors import FastdataError

ReadOrder = Literal["read", "randread"]

ALIGNMENT = 4096
_LARGEST_BLOCK = 4 << 20
_SEQUENTIAL_BLOCK = 1 << 20
_DEEP = 16
_DEEPER = 32
_SHORT_S = 0.1


class DeviceError(FastdataError):
    """The device below a dataset could not be measured."""


class DeviceDoubt(StrEnum):
    """Why a result says less about the device than it seems to."""

    BUFFERED = "buffered"
    SCRATCH = "scratch"
    SMALL = "small"
    IN_MEMORY = "in-memory"
    REMOTE = "remote"
    OWN_CACHE = "own-cache"
    NO_FIO = "no-fio"
    ENGINE = "engine"
    SHORT = "short"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceWarning:
    """One reason for doubt; ``text`` says what was done or seen, and what to do."""

    kind: DeviceDoubt
    text: str


@dataclass(frozen=True, kw_only=True)
class FioJob:
    """One measurement of a device, in fio's words.

    Attributes:
        name: what to call it.
        rw: ``read`` from begin to end, or ``randread`` at random blocks.
        block_bytes: bytes of one read; a multiple of 4096.
        depth: reads on their way at a time.
        direct: whether the page cache is bypassed (O_DIRECT).
        runtime_s: seconds to measure.
        engine: how fio submits reads: ``libaio``, or ``psync`` with as many threads as ``depth``.
    """

    name: str
    rw: ReadOrder
    block_bytes: int
    depth: int = 1
    direct: bool = True
    runtime_s: float = 2.0
    engine: str = "libaio"


@dataclass(frozen=True, kw_only=True)
class Latency:
    """Seconds that single reads took, from submission to completion; None where not reported."""

    mean: float | None = None
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None


@dataclass(frozen=True, kw_only=True)
class DeviceResult:
    """What one job measured.

    Attributes:
        name, rw, block_bytes, depth, direct, engine: as it was run, which may differ from the job;
            ``warnings`` then say why.
        bandwidth: bytes per second.
        iops: reads per second.
        latency: of single reads, in seconds.
        seconds: how long it ran.
        tool: ``fio 3.33`` or ``python fallback``.
        file_count: number of files that were read.
        scratch: whether a scratch file beside the dataset was read, not the dataset's own files.
        command: what was run, without the file names; empty for the fallback.
        warnings: what limits the meaning of the numbers.
    """

    name: str
    rw: ReadOrder
    block_bytes: int
    depth: int
    direct: bool
    engine: str
    bandwidth: float
    iops: float
    latency: Latency
    seconds: float
    tool: str
    file_count: int
    scratch: bool
    command: str = ""
    warnings: tuple[DeviceWarning, ...] = ()


def device_jobs(sample_bytes: int, *, runtime_s: float = 2.0) -> tuple[FioJob, ...]:
    """Return the jobs that bound what a dataset can be read with.

    Args:
        sample_bytes: bytes that the dataset reads at a time: of a stored sample, or of a chunk.
            Random reads use it rounded up to 4 KiB, at least 4 KiB and at most 4 MiB.
        runtime_s: seconds of each of the four jobs.
    """
    blocks = -(-sample_bytes // ALIGNMENT)
    random_block = min(max(blocks, 1) * ALIGNMENT, _LARGEST_BLOCK)

    def job(name: str, rw: ReadOrder, block_bytes: int, depth: int) -> FioJob:
        engine = "psync" if depth == 1 else "libaio"
        return FioJob(
            name=name,
            rw=rw,
            block_bytes=block_bytes,
            depth=depth,
            runtime_s=runtime_s,
            engine=engine,
        )

    return (
        job("sequential", "read", _SEQUENTIAL_BLOCK, 1),
        job("sequential deep", "read", _SEQUENTIAL_BLOCK, _DEEP),
        job("random", "randread", random_block, 1),
        job("random deep", "randread", random_block, _DEEPER),
    )


def too_short(job: FioJob, seconds: float) -> tuple[DeviceWarning, ...]:
    """Return a warning if a job ended so early that its numbers mean little."""
    if seconds >= min(_SHORT_S, 0.8 * job.runtime_s):
        return ()
    text = f"it ran {seconds:.3f} s only, too short to be believed: measure a larger dataset"
    return (DeviceWarning(kind=DeviceDoubt.SHORT, text=text),)
