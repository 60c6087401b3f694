"""A consumer that computes for a fixed time per batch, as a GPU does: would it be kept busy?"""

from __future__ import annotations

import time

from fastdata_cli.operations.bench.loader_case import loader_options
from fastdata_cli.operations.bench.report import ConsumerRow
from fastdata_cli.operations.bench.settings import BenchOptions
from fastdata_cli.operations.bench.stream import SkippingDataset, Stream
from fastdata_cli.operations.bench.subject import Subject

_FEWEST_STEPS = 3


def measure_consumer(
    subject: Subject, options: BenchOptions, workers: int, seconds: float
) -> ConsumerRow:
    """Run the consumer over one dataset for about ``seconds``.

    What workers made ahead before the first step is taken away unused, and the first step is not
    counted: neither would be there in the middle of an epoch.

    Raises:
        FastdataError: the loader failed.
    """
    step_s = (options.step_ms or 0.0) / 1000
    dataset = SkippingDataset(subject.reader, size=subject.size, with_index=True)
    stream = Stream(dataset, loader_options(subject, options, workers))
    subject.check_unchanged()
    try:
        stream.start()
        stream.fill()
        stream.take()
        time.sleep(step_s)
        computed, steps, begin = 0.0, 0, time.perf_counter()
        deadline = begin + seconds
        while steps < _FEWEST_STEPS or time.perf_counter() < deadline:
            stream.take()
            step_begin = time.perf_counter()
            time.sleep(step_s)
            computed += time.perf_counter() - step_begin
            steps += 1
        wall = time.perf_counter() - begin
    finally:
        stream.stop()
    return ConsumerRow(
        dataset=subject.name,
        workers=workers,
        step_ms=options.step_ms or 0.0,
        utilisation=computed / wall if wall else 0.0,
        steps=steps,
    )
