"""One loader over one dataset: a stream that is started, filled, timed, watched and checked.

One stream runs over many epochs without a pause, as a long epoch of a large dataset does. The time
is taken from a moment at which nothing lies ready: before it, as many batches are taken as may
have been made ahead, since the start or while samples were looked at. What is timed was made while
it was timed. It ends after a whole round of the workers, whose batches come in bursts. With
``--cache cold`` there is one epoch, as what is read again is cached; it is timed from when each
worker has made its first batch, and with the start of the workers where no more follow.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from fastdata_cli.errors import FastdataError
from fastdata_cli.loading.loader import LoaderOptions, loader_line
from fastdata_cli.operations.bench.arrivals import Arrivals, PlainRead
from fastdata_cli.operations.bench.cachecontrol import CacheControl
from fastdata_cli.operations.bench.report import LoaderRow, case_name, workers_words
from fastdata_cli.operations.bench.settings import BenchOptions
from fastdata_cli.operations.bench.stream import (
    ENDLESS,
    SkippingDataset,
    Stream,
    arrays_of,
    size_of,
)
from fastdata_cli.operations.bench.subject import Subject
from fastdata_cli.timing.measure import Work
from fastdata_cli.timing.measurement import Failure, Measurement
from fastdata_cli.timing.resource_use import Resources
from fastdata_cli.timing.resources import ResourceWatch

# What starting, filling and ending a stream takes beside the time that is measured, about.
_OVERHEAD_S, _OVERHEAD_OF_WORKER_S = 0.4, 0.15
SHORTEST_RUN_S = 0.4


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
    """The DataLoader over one dataset with one set of options.

    Args:
        subject: the dataset.
        options: of the loader.
        cache: see ``BenchOptions.cache``.
        plain: what arrives is compared with it.
        label: in place of the order, tells the case from others in its name.
    """

    loader = "DataLoader"

    def __init__(
        self,
        subject: Subject,
        options: LoaderOptions,
        cache: str,
        *,
        plain: PlainRead | None = None,
        label: str = "",
    ) -> None:
        workers = [workers_words(options.workers)] if self.loader == "DataLoader" else []
        self.name = case_name(subject.name, self.loader, label or options.order, *workers)
        self.run_s = SHORTEST_RUN_S
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
        self._left: int | None = None  # batches of a cold epoch that are still to be timed

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
            self._fill(self._start())
        self._watch = ResourceWatch([self._subject.reader.path])
        self._watch.__enter__()

    def run(self) -> Work:
        """Take batches until the time is over and the workers have had equally many turns."""
        stream = self._stream
        assert stream is not None, "prepared"
        turns = self._turns
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
            if len(waits) == self._left:  # to ask for more would wait for the workers to end
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
            line=self._line(),
            loader=self.loader,
        )

    def _line(self) -> str:
        return loader_line(self._subject.reader, self._options)

    def _start(self) -> Stream:
        self._stream = self._stream_of()
        self._stream.start()
        return self._stream

    def _stream_of(self) -> Stream:
        return Stream(self.dataset, self._options, epochs=1 if self._cold else ENDLESS)

    @property
    def _turns(self) -> int:
        """Batches in which each worker has its turn."""
        return max(1, self._options.workers)

    @property
    def _epoch(self) -> int:
        """Batches of an epoch."""
        return -(-self._subject.facts.samples // self._options.batch_size)

    def _fill(self, stream: Stream) -> None:
        if self._cold:
            ready = self._turns if self._epoch > self._turns else 0
            for _ in range(ready):
                stream.take()
            self._left = self._epoch - ready
            return
        if self.arrivals is None and self.check_s:
            self._look(stream)  # slower than the loader, which gets ahead meanwhile
        stream.fill()

    def _look(self, stream: Stream) -> None:
        self.arrivals = collect(stream, self._epoch, self.check_s)

    def _judge(self) -> tuple[bool | None, bool | None]:
        """Return whether each sample came once, and with the bytes of a plain read."""
        if self.arrivals is None:
            return None, None
        once = self.arrivals.each_once(self._subject)
        return once, self.arrivals.same_bytes(self._plain, self.check_s)


def collect(stream: Stream, epoch: int, seconds: float) -> Arrivals:
    """Take batches to the end of the first epoch, if there is time, and look at them.

    Args:
        stream: started.
        epoch: batches of an epoch.
        seconds: since the start, after which no more are taken.

    Returns:
        what arrived of the first epoch.
    """
    found = Arrivals()
    taken = 0
    while not found.whole and (batch := stream.take()) is not None:
        images, positions = arrays_of(batch)
        found.add(positions, images)
        taken += 1
        found.whole = taken >= epoch
        if stream.age_s >= seconds:
            break
    return found
