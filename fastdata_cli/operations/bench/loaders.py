"""The real DataLoader over each dataset: steady rate, first batch, resources, correctness.

One stream runs over many epochs without a pause, as a long epoch of a large dataset does. Before
the time is taken, as many batches are taken as workers may have made ahead: what is timed was made
while it was timed. It ends after a whole round of the workers, whose batches come in bursts. With
``--cache cold`` there is one epoch, timed from its first batch on: what is read again is cached.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fastdata_cli.errors import FastdataError
from fastdata_cli.loading.loader import LoaderOptions, loader_line
from fastdata_cli.operations.bench.arrivals import Arrivals, PlainRead
from fastdata_cli.operations.bench.cachecontrol import CacheControl
from fastdata_cli.operations.bench.report import LoaderRow
from fastdata_cli.operations.bench.settings import BenchOptions
from fastdata_cli.operations.bench.stream import (
    ENDLESS,
    SkippingDataset,
    Stream,
    arrays_of,
    size_of,
)
from fastdata_cli.operations.bench.subject import Subject
from fastdata_cli.timing.doubts import MIN_REPEAT_S
from fastdata_cli.timing.measure import Case, Work, measure
from fastdata_cli.timing.measurement import Failure, Measurement
from fastdata_cli.timing.resource_use import Resources
from fastdata_cli.timing.resources import ResourceWatch

OnResult = Callable[[Measurement], None]

# What starting, filling and ending a stream takes beside the time that is measured, about.
_OVERHEAD_S, _OVERHEAD_OF_WORKER_S = 0.4, 0.15
_SHORTEST_RUN_S = 0.4
_LONGEST_RUN_S = 5.0
_CHECK_SHARE = 0.2
_SHORTEST_CHECK_S, _QUICK_CHECK_S = 1.0, 0.4


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """A row, and what the loading took of the machine in its last repeat."""

    row: LoaderRow
    resources: Resources | None


def measure_loaders(
    subjects: Sequence[Subject],
    options: BenchOptions,
    seconds: float,
    on_result: OnResult,
    extra: Sequence[LoaderCase] = (),
    beside: Callable[[Subject, BenchOptions, PlainRead], LoaderCase] | None = None,
) -> tuple[Loaded, ...]:
    """Measure the DataLoader over all datasets, interleaved.

    Args:
        beside: makes another loader over each dataset, to be measured alike; those come last.
        extra: cases that are measured among them, and of which nothing is told or returned.

    Raises:
        MissingDependencyError: there is no torch (this module cannot be imported then).
    """
    plain = [(subject, PlainRead(subject)) for subject in subjects]
    cases = [
        LoaderCase(each, loader_options(each, options, workers), options.cache, plain=read)
        for each, read in plain
        for workers in options.worker_counts
    ]
    cases += [beside(each, options, read) for each, read in plain] if beside else []
    every = [*cases, *extra]
    _share_out(seconds, cases, every, options)
    by_name = {case.name: case for case in every}
    own = {case.name for case in cases}

    def settle(measurement: Measurement) -> None:
        by_name[measurement.name].settle(measurement)
        if measurement.name in own:
            on_result(measurement)

    try:
        results = measure(
            [Case(name=case.name, run=case.run, prepare=case.prepare) for case in every],
            repeats=options.repeats,
            warmup=0,
            budget_s=seconds,
            min_repeat_s=MIN_REPEAT_S,
            on_result=settle,
        )
    finally:
        for case in every:
            case.stop()
    for case, result in zip(every, results, strict=True):
        case.measurement = result
    return tuple(Loaded(row=case.row(), resources=case.resources) for case in cases)


def _share_out(
    seconds: float,
    checked: Sequence[LoaderCase],
    every: Sequence[LoaderCase],
    options: BenchOptions,
) -> None:
    """Tell each case how long it may run, and look at what arrives."""
    check_s = _CHECK_SHARE * seconds
    share = (seconds - check_s) / max(1, len(every) * options.repeats)
    shortest = _QUICK_CHECK_S if options.quick else _SHORTEST_CHECK_S
    for case in every:
        case.run_s = min(max(share - case.overhead_s, _SHORTEST_RUN_S), _LONGEST_RUN_S)
    for case in checked:
        case.check_s = max(shortest, check_s / (2 * len(checked)))


def loader_options(subject: Subject, options: BenchOptions, workers: int) -> LoaderOptions:
    """Return the options of the loader over one dataset."""
    return LoaderOptions(
        batch_size=options.batch_size,
        order=subject.order(options.order),
        workers=workers,
        prefetch_factor=options.prefetch_factor,
        pin_memory=options.pin_memory,
        persistent_workers=options.persistent_workers,
        start_method=options.start_method,
    )


class LoaderCase:
    """The DataLoader over one dataset with one set of options."""

    def __init__(
        self,
        subject: Subject,
        options: LoaderOptions,
        cache: str,
        *,
        plain: PlainRead | None = None,
        label: str = "",
    ) -> None:
        workers = options.workers
        self.name = f"{subject.name} · loader {label or options.order}, {workers} worker(s)"
        self.run_s = _SHORTEST_RUN_S
        self.check_s = 0.0
        """Seconds to check what arrives; 0 leaves it out."""
        self.measurement: Measurement | None = None
        self.resources: Resources | None = None
        self.dataset = SkippingDataset(subject.reader, size=subject.size, with_index=True)
        self.arrivals: Arrivals | None = None
        self._subject = subject
        self._options = options
        self._plain = plain or PlainRead(subject)
        self._cold = cache == "cold"
        self._cache = CacheControl(subject, cache)
        self._stream: Stream | None = None
        self._watch: ResourceWatch | None = None
        self._first_batch_s: list[float] = []

    @property
    def overhead_s(self) -> float:
        """Seconds that a repeat takes beside what is timed, about."""
        return _OVERHEAD_S + _OVERHEAD_OF_WORKER_S * self._options.workers

    def prepare(self) -> None:
        """Start a stream, and take what workers make ahead; the first time, look at an epoch."""
        self.stop()
        with self._subject.in_words():
            if self._cold and self.arrivals is None and self.check_s:
                self._look(self._start())  # timed when nothing is cached, and once only
                self.stop()
            self._cache.prepare()
            stream = self._start()
            if not self._cold:
                self._fill(stream)
        self._watch = ResourceWatch([self._subject.reader.path])
        self._watch.__enter__()

    def run(self) -> Work:
        """Take batches until the time is over and the workers have had equally many turns."""
        stream = self._stream
        assert stream is not None, "prepared"
        turns = max(1, self._options.workers)
        stop_at = time.perf_counter() + self.run_s
        waits: list[float] = []
        samples = size = 0
        while True:
            begin = time.perf_counter()
            batch = stream.take()
            end = time.perf_counter()
            if batch is None:
                break
            waits.append(end - begin)
            count, length = size_of(batch)
            samples, size = samples + count, size + length
            if end >= stop_at and (len(waits) % turns == 0 or end >= stop_at + self.run_s):
                break
        if not samples:
            self._subject.check_unchanged()
        return Work(samples=samples, bytes=size, latencies_s=np.array(waits))

    def settle(self, so_far: Measurement) -> None:
        """End a repeat: stop the workers, look at the cache."""
        self.stop()
        self._cache.settle(so_far)

    def stop(self) -> None:
        """End the stream, and with it the workers."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.__exit__(None, None, None)
            self.resources = watch.resources
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.stop()
            if stream.first_batch_s is not None:
                self._first_batch_s.append(stream.first_batch_s)

    def row(self) -> LoaderRow:
        """Return what was measured."""
        measurement = self.measurement or Measurement(name=self.name)
        resources = self.resources
        rates, each_once, same_bytes = measurement.seconds_per_sample, None, None
        try:
            each_once, same_bytes = self._judge()
        except FastdataError as problem:
            failure = Failure(
                kind=type(problem).__name__, message=problem.message, hint=problem.hint
            )
            measurement = replace(measurement, failure=measurement.failure or failure)
        return LoaderRow(
            dataset=self._subject.name,
            workers=self._options.workers,
            order=self._options.order,
            batch_size=self._options.batch_size,
            measurement=measurement,
            samples_per_s=measurement.samples_per_s,
            first_batch_s=float(np.median(self._first_batch_s)) if self._first_batch_s else None,
            wait_ms_per_sample=1000 * float(np.median(rates)) if rates else None,
            memory_bytes=resources.memory.peak if resources else None,
            cpu_share=resources.cpu_mean if resources else None,
            each_once=each_once,
            same_bytes=same_bytes,
            cache=self._cache.facts(),
            line=loader_line(self._subject.reader, self._options),
        )

    def _start(self) -> Stream:
        self._stream = self._stream_of()
        self._stream.start()
        return self._stream

    def _stream_of(self) -> Stream:
        return Stream(self.dataset, self._options, epochs=1 if self._cold else ENDLESS)

    def _fill(self, stream: Stream) -> None:
        if self.arrivals is None and self.check_s:
            self._look(stream)
        else:
            stream.fill()

    def _look(self, stream: Stream) -> None:
        epoch = -(-self._subject.facts.samples // self._options.batch_size)
        self.arrivals = collect(stream, epoch, self.check_s)

    def _judge(self) -> tuple[bool | None, bool | None]:
        """Return whether each sample came once, and with the bytes of a plain read."""
        if self.arrivals is None:
            return None, None
        once = self.arrivals.each_once(self._subject)
        return once, self.arrivals.same_bytes(self._plain, self.check_s)


def collect(stream: Stream, epoch: int, seconds: float) -> Arrivals:
    """Take what workers made ahead, and go on to the end of the first epoch if there is time.

    Args:
        stream: started.
        epoch: batches of an epoch.
        seconds: since the start, after which it is left at what was made ahead.

    Returns:
        what arrived of the first epoch.
    """
    found = Arrivals()
    taken = 0
    while (batch := stream.take()) is not None:
        if taken < epoch:
            images, positions = arrays_of(batch)
            found.add(positions, images)
        taken += 1
        found.whole = taken >= epoch
        if stream.is_filled(taken) and (found.whole or stream.age_s >= seconds):
            break
    return found
