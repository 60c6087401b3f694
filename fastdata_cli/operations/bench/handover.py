"""What it costs to hand a batch from a worker to the process that trains. Needs torch: late."""

from __future__ import annotations

import time

import numpy as np

from fastdata_cli.loading.loader import LoaderOptions
from fastdata_cli.operations.bench.constant import ConstantReader
from fastdata_cli.operations.bench.stream import SkippingDataset, Stream
from fastdata_cli.operations.bench.subject import BatchShape

_FEWEST_BATCHES = 8


def handover_seconds(
    image: BatchShape, batch_size: int, start_method: str | None, seconds: float
) -> float:
    """Return the seconds a sample that one worker takes longer than none, over a free input.

    The real DataLoader loads one image in memory, by one worker and by none, for about ``seconds``
    together. Both fill a batch; what differs is the hand-over: the queue, the shared memory and
    the first look at it from the other side. 0 where the worker's work hides it.

    Args:
        image: shape and dtype of an image in a batch.
        batch_size: samples of a batch.
        start_method: how the worker is started.
        seconds: to measure; starting the worker comes on top.
    """
    took = [
        _batch_seconds(image, batch_size, start_method, workers, seconds / 2) for workers in (0, 1)
    ]
    return max(0.0, took[1] - took[0]) / batch_size


def _batch_seconds(
    image: BatchShape, batch_size: int, start_method: str | None, workers: int, seconds: float
) -> float:
    """Return the median seconds from one batch to the next."""
    dataset = SkippingDataset(ConstantReader(batch_size * 64, *image), with_index=True)
    options = LoaderOptions(
        batch_size=batch_size, order="sequential", workers=workers, start_method=start_method
    )
    stream = Stream(dataset, options)
    try:
        stream.start()
        stream.fill()
        took: list[float] = []
        deadline = time.perf_counter() + seconds
        while len(took) < _FEWEST_BATCHES or time.perf_counter() < deadline:
            begin = time.perf_counter()
            batch = stream.take()
            assert batch is not None, "endless"
            took.append(time.perf_counter() - begin)
    finally:
        stream.stop()
    return float(np.median(took))
