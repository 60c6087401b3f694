"""FastDataset: any dataset of the registry as a map-style dataset of torch.

The one module of the package that cannot be imported without torch.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np

from fastdata_cli.errors import MissingDependencyError, UnsupportedError
from fastdata_cli.loading.samplers import Positions
from fastdata_cli.loading.samples import EncodedImages, Samples, call_transform
from fastdata_cli.loading.shared import Loan

try:
    import torch
    from torch import Tensor
    from torch.utils.data import Dataset, default_collate, get_worker_info
except ImportError as problem:
    raise MissingDependencyError("FastDataset needs torch", hint="pip install torch") from problem

from fastdata_cli.loading.handover import Memory, handed_over


class FastBatch(Sequence[tuple[Any, ...]]):
    """A batch as ``FastDataset.__getitems__`` makes it: whole arrays that look like samples.

    ``FastDataset.collate`` takes the arrays as they are; any other collate function sees a
    sequence of samples, whose images are views.
    """

    __slots__ = ("images", "loan", "rest")

    def __init__(
        self, images: Tensor | EncodedImages, *rest: Tensor, loan: Loan | None = None
    ) -> None:
        self.images = images
        self.rest = rest
        """Labels and, when asked for, positions."""
        self.loan = loan
        """Of the slot that the images lie in; in a worker only."""

    def __len__(self) -> int:
        return len(self.rest[0])

    def __getitem__(self, position: Any) -> Any:
        if isinstance(position, slice):
            return [self[each] for each in range(*position.indices(len(self)))]
        if not -len(self) <= position < len(self):
            raise IndexError(f"sample {position} of a batch of {len(self)}")
        position %= len(self)
        if isinstance(self.images, EncodedImages):
            data, offsets = self.images
            image = data[offsets[position] : offsets[position + 1]]
        else:
            image = self.images[position]
        return (image, *(_plain(column[position]) for column in self.rest))


class FastDataset(Samples, Dataset[Any]):
    """A dataset of any format of the registry; sample ``i`` is ``(image, label)``.

    Images are uint8 tensors H×W×C (RGB), or what ``transform`` returns; labels are ints, -1 for
    samples without one. Nothing is converted to floating point: do that on the GPU.

    It pickles as the path and its arguments, so workers may be forked or spawned; files are
    opened by the process that reads them. Given ``collate_fn=dataset.collate``, a batch is filled
    in place, in memory that the worker shares with the training process and fills again once
    nothing there sees it any more::

        loader = DataLoader(dataset, batch_size=64, collate_fn=dataset.collate, num_workers=8)

    torch's own collate function works too, and copies every batch once more. It also stacks what
    a ``transform`` returns.

    Args:
        source, size, fit, interpolation, policy, transform, decode, labels, with_index, verify:
            as for Samples.

    Raises:
        UsageError: arguments that contradict each other or the dataset.
        UnsupportedError: images that torch has no dtype for, or pixels that cannot be resized.
        BadSampleError: when read: a sample is damaged; names its key.
    """

    def _check(self) -> None:
        super()._check()
        for values in (np.empty(0, self.reader.schema.dtype), self.labels[:0]):
            try:
                torch.from_numpy(values)
            except (TypeError, ValueError) as problem:
                message = f"{self.reader.path}: torch has no dtype for {values.dtype}"
                raise UnsupportedError(message) from problem

    def __getitem__(self, index: SupportsIndex) -> tuple[Any, ...]:
        position = operator.index(index)
        if not -len(self) <= position < len(self):
            raise IndexError(f"sample {position} of {len(self)} in {self.reader.path}")
        found: tuple[Any, ...] = self._read(np.array([position % len(self)]))[0]
        return found

    def __getitems__(self, indices: Sequence[int] | Positions) -> Sequence[tuple[Any, ...]]:
        """Return the samples at ``indices``, read together, for a collate function."""
        return self._read(np.array(indices, np.int64))

    @staticmethod
    def collate(samples: Sequence[tuple[Any, ...]]) -> Sequence[Any]:
        """Return ``images, labels`` (and positions) of a batch; the ``collate_fn`` to use.

        Images are one uint8 tensor N×H×W×C, or ``EncodedImages``.
        """
        if isinstance(samples, FastBatch):
            columns = (samples.images, *samples.rest)
            return columns if get_worker_info() is None else handed_over(columns, samples.loan)
        collated: Sequence[Any] = default_collate(list(samples))
        return collated

    def worker_init(self, worker_id: int) -> None:
        """Keep OpenCV from starting a thread per core in every worker; the ``worker_init_fn``."""
        if self.images.encoded or self.transform is not None:
            import cv2

            cv2.setNumThreads(0)  # 1 hangs in a forked worker once the parent used the pool

    def _read(self, indices: Positions) -> Sequence[tuple[Any, ...]]:
        if self.transform is not None:
            batch = self.images.stored(indices)
            columns = self._columns(indices, batch.labels)
            return [
                (
                    call_transform(self.transform, self.images.own(batch.image(at), index)),
                    *map(_plain, row),
                )
                for at, (index, *row) in enumerate(zip(indices.tolist(), *columns, strict=True))
            ]
        if not self.decode:
            files, stored = self._files(indices)
            return FastBatch(files, *self._columns(indices, stored))
        memory = Memory()
        pixels, stored = self.images.pixels(indices, memory.empty)
        images = torch.from_numpy(pixels)
        return FastBatch(images, *self._columns(indices, stored), loan=memory.loan)

    def _columns(self, indices: Positions, stored: Positions) -> list[Tensor]:
        """Return what stands beside the images: labels and, when asked for, positions."""
        columns = [stored if self._labels is None else self._labels[indices]]
        if self.with_index:
            columns.append(indices)
        return [torch.from_numpy(column) for column in columns]

    def _files(self, indices: Positions) -> tuple[EncodedImages, Positions]:
        batch = self.images.stored(indices)
        assert batch.offsets is not None, "checked when made"
        return EncodedImages(*map(torch.from_numpy, (batch.images, batch.offsets))), batch.labels


def _plain(value: Tensor) -> int | Tensor:
    return value if value.ndim or value.is_floating_point() else int(value)
