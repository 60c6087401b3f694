"""The device below each dataset: fio on its own files, within the time there is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from fastdata_cli.operations.bench.report import Ceiling
from fastdata_cli.operations.bench.subject import Subject
from fastdata_cli.timing.device import DeviceResult, FioJob, device_jobs
from fastdata_cli.timing.fio import find_fio, measure_device

MeasureDevice = Callable[[Iterable[Path], Sequence[FioJob]], Iterator[DeviceResult]]

# What fio takes beside the time it measures: to start, and to report.
_OVERHEAD_S = 0.4
_LONGEST_JOB_S = 2.0
_SHORTEST_JOB_S = 0.25
_JOB_S = 0.6
_COUNTS = (4, 2, 1)


def by_fio(*, scratch: bool = True) -> MeasureDevice:
    """Return the measurement by the fio on PATH, or by the fallback where there is none.

    Args:
        scratch: write a scratch file where a dataset's own are too small; it takes seconds.
    """
    return partial(measure_device, program=find_fio(), scratch=scratch)


def measure_below(
    subject: Subject, order: str, seconds: float, device: MeasureDevice
) -> tuple[DeviceResult, ...]:
    """Measure the device below one dataset: all four jobs, where time is short fewer.

    Then the deep ones, which are its ceiling; or the one of them that fits the loader's order.

    Raises:
        DeviceError: there is nothing that could be read.
    """
    fitting = [count for count in _COUNTS if seconds >= count * _JOB_S] or [1]
    runtime_s = min(max(seconds / fitting[0] - _OVERHEAD_S, _SHORTEST_JOB_S), _LONGEST_JOB_S)
    jobs = device_jobs(_request_bytes(subject), runtime_s=runtime_s)
    if fitting[0] < len(jobs):
        jobs = tuple(job for job in jobs if job.depth > 1)
    if fitting[0] < len(jobs):
        jobs = tuple(job for job in jobs if job.rw == _rw(order))
    return tuple(device(subject.files, jobs))


def device_ceiling(subject: Subject, results: Sequence[DeviceResult], order: str) -> Ceiling | None:
    """Return how many stored samples the device can deliver, in the order of the loader."""
    fitting = [each for each in results if each.rw == _rw(order) and each.bandwidth > 0]
    if not fitting or not subject.facts.stored_bytes:
        return None
    best = max(fitting, key=lambda each: each.bandwidth)
    return Ceiling(
        dataset=subject.name,
        name="device",
        samples_per_s=best.bandwidth / subject.stored_sample_bytes,
        how=f"{best.tool}, {best.name}, {best.bandwidth / 1e6:,.0f} MB/s over"
        f" {subject.stored_sample_bytes:,.0f} stored bytes a sample",
    )


def _request_bytes(subject: Subject) -> int:
    """Return what the dataset reads at a time: a chunk, or a sample."""
    return max(1, round(subject.stored_sample_bytes * min(subject.chunk, subject.facts.samples)))


def _rw(order: str) -> str:
    return "read" if order == "sequential" else "randread"
