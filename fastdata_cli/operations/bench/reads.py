"""Plain reads, as fio does them: orders, by sample and by batch, threads, latencies, device bytes.

The bytes of an image that a reader only maps are touched, one in each page: else nothing would have
been read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.errors import BadSampleError
from fastdata_cli.loading.orders import SAMPLERS
from fastdata_cli.loading.samplers import Positions
from fastdata_cli.operations.bench.cachecontrol import CacheControl
from fastdata_cli.operations.bench.report import ReadRow, case_name, read_words
from fastdata_cli.operations.bench.settings import BenchOptions
from fastdata_cli.operations.bench.subject import Subject
from fastdata_cli.operations.bench.workloads import GRAINS, Requests
from fastdata_cli.timing.doubts import MIN_REPEAT_S
from fastdata_cli.timing.measure import Case, Work, measure
from fastdata_cli.timing.measurement import Measurement

_PAGE = 4096
_LONGEST_RUN_S = 1.0
_USED = 0.85  # of the time; the rest is for the cache

OnResult = Callable[[Measurement], None]


def measure_reads(
    subjects: Sequence[Subject], options: BenchOptions, seconds: float, on_result: OnResult
) -> tuple[ReadRow, ...]:
    """Measure plain reads of all datasets against each other."""
    cases = [
        ReadCase(subject, order, by, threads, options)
        for subject in subjects
        for order in (SAMPLERS if subject.facts.random_access else ("sequential",))
        for by in (GRAINS[1:] if options.quick else GRAINS)
        for threads in options.thread_counts
    ]
    if not cases:
        return ()
    warmup = 0 if options.cache == "cold" else 1
    share = _USED * seconds / (len(cases) * (options.repeats + warmup))
    for case in cases:
        case.run_s = min(max(share, MIN_REPEAT_S), _LONGEST_RUN_S)
    by_name = {case.name: case for case in cases}

    def settle(measurement: Measurement) -> None:
        by_name[measurement.name].settle(measurement)
        on_result(measurement)

    results = measure(
        [Case(name=case.name, run=case.run, prepare=case.prepare) for case in cases],
        repeats=options.repeats,
        warmup=warmup,
        budget_s=seconds,
        min_repeat_s=MIN_REPEAT_S,
        on_result=settle,
    )
    return tuple(case.row(result) for case, result in zip(cases, results, strict=True))


class ReadCase:
    """Plain reads of one dataset in one order, a given time long."""

    def __init__(
        self, subject: Subject, order: str, by: str, threads: int, options: BenchOptions
    ) -> None:
        self.name = case_name(subject.name, "read", read_words(order, by, threads))
        self.run_s = MIN_REPEAT_S
        self._subject = subject
        self._order, self._by, self._threads = order, by, threads
        self._batch_size = options.batch_size
        self._once = options.cache == "cold"
        self._cache = CacheControl(subject, options.cache)
        size = None if by == "sample" else options.batch_size
        self._requests = Requests(subject, order, size, once=self._once)
        self._device_bytes: int | None = 0

    def prepare(self) -> None:
        """Bring the cache into its state."""
        self._cache.prepare()
        if self._once:
            self._requests.restart()

    def run(self) -> Work:
        """Serve requests until the time is over, or a cold epoch is."""
        before = device_bytes_read()
        stop_at = time.perf_counter() + self.run_s
        with self._subject.in_words():
            tallies = self._serve_all(stop_at)
        after = device_bytes_read()
        if before is None or after is None or self._device_bytes is None:
            self._device_bytes = None
        else:
            self._device_bytes += after - before
        return Work(
            samples=sum(tally.samples for tally in tallies),
            bytes=sum(tally.bytes for tally in tallies),
            latencies_s=np.concatenate([np.array(tally.latencies) for tally in tallies]),
            facts={"device_bytes": self._device_bytes},
        )

    def settle(self, so_far: Measurement) -> None:
        """End a repeat."""
        self._device_bytes = 0
        self._cache.settle(so_far)

    def row(self, measurement: Measurement) -> ReadRow:
        """Return what was measured."""
        cache = self._cache.facts()
        samples = sum(repeat.samples for repeat in measurement.repeats)
        device = [repeat.facts.get("device_bytes") for repeat in measurement.repeats]
        known = [each for each in device if each is not None]
        device_bytes = sum(known) if known and len(known) == len(device) else None
        used = round(samples * self._subject.stored_sample_bytes)
        from_device = bool(device_bytes) and cache.before != "warm"
        # From the median, as the samples are: each table row then fits together.
        requests = measurement.latencies / samples if samples else 0.0
        return ReadRow(
            dataset=self._subject.name,
            order=self._order,
            by=self._by,
            threads=self._threads,
            measurement=measurement,
            samples_per_s=measurement.samples_per_s,
            megabytes_per_s=measurement.megabytes_per_s,
            requests_per_s=requests * measurement.samples_per_s
            if measurement.samples_per_s
            else None,
            latency_ms={name: 1000 * value for name, value in measurement.latency_s.items()},
            cache=cache,
            device_bytes=device_bytes,
            used_bytes=used,
            amplification=(device_bytes or 0) / used if from_device and used else None,
        )

    def _serve_all(self, stop_at: float) -> list[_Tally]:
        if self._threads == 1:
            return [self._serve_until(stop_at)]
        with ThreadPoolExecutor(self._threads) as pool:
            running = [pool.submit(self._serve_until, stop_at) for _ in range(self._threads)]
            return [each.result() for each in running]

    def _serve_until(self, stop_at: float) -> _Tally:
        tally = _Tally([])
        serve = self._one if self._by == "sample" else self._batch
        out = self._buffer()
        while (request := self._requests.take()) is not None:
            begin = time.perf_counter()
            try:
                size = serve(request, out)
            except BadSampleError:
                self._subject.learn(request)
            else:
                tally.latencies.append(time.perf_counter() - begin)
                tally.samples += len(request)
                tally.bytes += size
            if time.perf_counter() >= stop_at:
                break
        return tally

    def _buffer(self) -> NDArray[Any] | None:
        schema = self._subject.reader.schema
        if self._by == "sample" or schema.image_shape is None:
            return None
        return np.empty((self._batch_size, *schema.image_shape), schema.dtype)

    def _one(self, request: Positions, out: NDArray[Any] | None) -> int:
        image = self._subject.reader.read(int(request[0])).image
        if self._subject.zero_copy:
            _touch(image)
        return image.nbytes

    def _batch(self, request: Positions, out: NDArray[Any] | None) -> int:
        batch = self._subject.reader.read_many(
            request, None if out is None else out[: len(request)]
        )
        return batch.images.nbytes if batch.offsets is None else int(batch.offsets[-1])


@dataclass(slots=True)
class _Tally:
    """What one thread has read."""

    latencies: list[float]
    samples: int = 0
    bytes: int = 0


def device_bytes_read() -> int | None:
    """Return the bytes that storage delivered for this process; None where that is not told."""
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return None
    found = (line.partition(": ")[2] for line in lines if line.startswith("read_bytes:"))
    return next((int(text) for text in found), None)


def _touch(image: NDArray[Any]) -> None:
    """Look at one byte of each page of an image, so that it is really there."""
    image.reshape(-1).view(np.uint8)[::_PAGE].max(initial=0)
