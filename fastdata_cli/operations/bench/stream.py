"""A running DataLoader: batches until it is stopped. Needs torch, so it is imported late."""

from __future__ import annotations

import mmap
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.errors import BadSampleError, FastdataError, StorageError
from fastdata_cli.loading.dataset import FastDataset
from fastdata_cli.loading.loader import LoaderOptions, make_loader
from fastdata_cli.loading.samplers import Positions

ENDLESS = 1 << 30
"""Epochs of a stream that nobody sees the end of."""

_PREFETCH = 2  # torch's default
_LONGEST_FILL_S = 4.0

MakeLoader = Callable[..., Any]
"""As ``loading.make_loader``."""


class SkippingDataset(FastDataset):
    """A FastDataset that leaves bad samples out of its batches; which, their positions tell."""

    def __getitems__(self, indices: Sequence[int] | Positions) -> Sequence[tuple[Any, ...]]:
        """Return those of the samples that can be read."""
        try:
            return super().__getitems__(indices)
        except BadSampleError:
            good = [index for index in np.asarray(indices).tolist() if self._is_good(index)]
            return super().__getitems__(np.array(good, np.int64))

    def _is_good(self, index: int) -> bool:
        try:
            super().__getitems__([index])
        except BadSampleError:
            return False
        return True


class Stream:
    """One iteration of a DataLoader over several epochs; workers start with ``start``.

    Args:
        dataset: with positions in its batches (``with_index``).
        options: of the loader.
        epochs: how many until it ends.
        make: makes the loader.

    Attributes:
        first_batch_s: seconds from the start of the workers to the first batch, once it is there.
    """

    def __init__(
        self,
        dataset: FastDataset,
        options: LoaderOptions,
        *,
        epochs: int = ENDLESS,
        make: MakeLoader = make_loader,
    ) -> None:
        self._dataset = dataset
        self._options = options
        self._epochs = epochs
        self._make = make
        self._batches: Any = None
        self._begun = 0.0
        self.first_batch_s: float | None = None

    def start(self) -> None:
        """Start the workers; they load ahead from here on."""
        self.stop()
        self._begun = time.perf_counter()
        with words_of(self._dataset), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # more workers than cores: asked for
            self._batches = self._iterate()

    def _iterate(self) -> Any:
        return iter(self._make(self._dataset, self._options, epochs=self._epochs))

    @property
    def age_s(self) -> float:
        """Seconds since ``start``."""
        return time.perf_counter() - self._begun

    def take(self) -> Sequence[Any] | None:
        """Wait for the next batch: images, labels, positions. None when the epochs are over.

        It is looked at, as training does: see ``look_at``.

        Raises:
            FastdataError: a worker ended, or could not read.
        """
        assert self._batches is not None, "started"
        with words_of(self._dataset):
            batch: Sequence[Any] | None = next(self._batches, None)
        if self.first_batch_s is None:
            self.first_batch_s = self.age_s
        if batch is not None:
            look_at(batch)
        return batch

    @property
    def ahead(self) -> int:
        """Batches that may lie ready before they are asked for."""
        return self._options.workers * (self._options.prefetch_factor or _PREFETCH)

    def fill(self) -> None:
        """Take all that may lie ready, and one more: what comes next is made while waited for.

        Nothing lies ready any more where that takes long, as every batch is waited for then: after
        one from each worker it is left at that.
        """
        begin, taken = time.perf_counter(), 0
        while taken <= self.ahead and self.take() is not None:
            taken += 1
            waited = time.perf_counter() - begin
            if taken > self._options.workers and waited >= _LONGEST_FILL_S:
                break

    def stop(self) -> None:
        """End the workers."""
        self._batches = None  # the last reference: its destructor ends and joins them


def arrays_of(batch: Sequence[Any]) -> tuple[NDArray[Any], Positions]:
    """Return images and positions of a batch as arrays, without a copy."""
    return batch[0].numpy(), batch[-1].numpy()


def look_at(batch: Sequence[Any]) -> None:
    """Look at one byte of each page of the images.

    What a worker put into shared memory is mapped by this process only when it is first looked at.
    Training looks at all of it, and pays for that; a loop that never looked would not.
    """
    images, _ = arrays_of(batch)
    images.reshape(-1).view(np.uint8)[:: mmap.PAGESIZE].max(initial=0)


def size_of(batch: Sequence[Any]) -> tuple[int, int]:
    """Return samples and bytes of a batch."""
    images = batch[0]
    return len(batch[-1]), images.numel() * images.element_size()


class words_of:  # noqa: N801 - reads as a word of the with statement
    """Turns what torch says about its workers into a FastdataError with the name of the dataset."""

    def __init__(self, dataset: FastDataset) -> None:
        self._name = dataset.reader.path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        if isinstance(problem, FastdataError) or not isinstance(problem, RuntimeError | OSError):
            return
        lines = [line for line in str(problem).splitlines() if line.strip()]
        said = lines[-1].strip() if lines else type(problem).__name__
        raise StorageError(
            f"{self._name}: the DataLoader ended: {said}",
            hint="fewer --workers, or a smaller --batch-size, take less shared memory",
        ) from problem


def host_to_device(shape: tuple[int, ...], seconds: float) -> str:
    """Say how fast a batch of uint8 is copied to a GPU from pinned memory, or why not."""
    import torch

    if not torch.cuda.is_available():
        return "not measured: torch sees no CUDA device"
    pinned = torch.zeros(shape, dtype=torch.uint8).pin_memory()
    pinned.to("cuda", non_blocking=True)  # the context is made by the first
    torch.cuda.synchronize()
    copies, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        for _ in range(10):
            pinned.to("cuda", non_blocking=True)
        torch.cuda.synchronize()
        copies += 10
    took = (time.perf_counter() - begin) / copies
    rate = pinned.numel() / took / 1e9
    return (
        f"{shape[0] / took:,.0f} samples/s, {rate:.1f} GB/s to {torch.cuda.get_device_name()}"
        " (pinned, non-blocking)"
    )
