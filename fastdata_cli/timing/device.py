"""What is asked of the device below a dataset, and what comes back: jobs and results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fastdata_cli.errors import FastdataError

ReadOrder = Literal["read", "randread"]

ALIGNMENT = 4096
_LARGEST_BLOCK = 4 << 20
_SEQUENTIAL_BLOCK = 1 << 20
_DEEP = 16
_DEEPER = 32


class DeviceError(FastdataError):
    """The device below a dataset could not be measured."""


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
        warnings: what limits the meaning of the numbers, in sentences.
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
    warnings: tuple[str, ...] = ()


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
