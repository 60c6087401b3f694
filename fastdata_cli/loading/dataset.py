"""FastDataset: any dataset of the registry as a map-style dataset of torch.

The one module of the package that cannot be imported without torch.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastdata_cli import registry
from fastdata_cli.contract import Reader
from fastdata_cli.errors import MissingDependencyError, UnsupportedError, UsageError
from fastdata_cli.imaging import ImagePolicy
from fastdata_cli.imaging.resize import Fit, Interpolation
from fastdata_cli.loading.images import ImageSource
from fastdata_cli.loading.samplers import Positions

try:
    import torch
    from torch import Tensor
    from torch.utils.data import Dataset, default_collate, get_worker_info
except ImportError as problem:
    raise MissingDependencyError("FastDataset needs torch", hint="pip install torch") from problem

Transform = Callable[[NDArray[Any]], Any]


class EncodedImages(NamedTuple):
    """The files of N images, one after another; a batch of a dataset with ``decode=False``."""

    data: Tensor
    """uint8, 1-D."""
    offsets: Tensor
    """int64[N + 1]: image ``i`` is ``data[offsets[i]:offsets[i + 1]]``."""

    def split(self) -> list[Tensor]:
        """Return one 1-D uint8 tensor for each image: what ``decode_jpeg`` of torchvision takes."""
        return [self.data[begin:end] for begin, end in pairwise(self.offsets.tolist())]


class FastBatch(Sequence[tuple[Any, ...]]):
    """A batch as ``FastDataset.__getitems__`` makes it: whole arrays that look like samples.

    ``FastDataset.collate`` takes the arrays as they are; any other collate function sees a
    sequence of samples, whose images are views.
    """

    __slots__ = ("images", "rest")

    def __init__(self, images: Tensor | EncodedImages, *rest: Tensor) -> None:
        self.images = images
        self.rest = rest
        """Labels and, when asked for, positions."""

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


class FastDataset(Dataset[Any]):
    """A dataset of any format of the registry; sample ``i`` is ``(image, label)``.

    Images are uint8 tensors H×W×C (RGB), or what ``transform`` returns; labels are ints, -1 for
    samples without one. Nothing is converted to floating point: do that on the GPU.

    It pickles as the path and these arguments, so workers may be forked or spawned; files are
    opened by the process that reads them. Given ``collate_fn=dataset.collate``, a batch is filled
    in place, in the shared memory through which a worker hands it over::

        loader = DataLoader(dataset, batch_size=64, collate_fn=dataset.collate, num_workers=8)

    torch's own collate function works too, and copies every batch once more.

    Args:
        source: path of a dataset, or a reader.
        size: (height, width) or one number for both: what images are brought to, as by ``convert
            --size``; JPEGs are decoded at a reduced scale where that is enough. Encoded images of
            different sizes need it, or a ``transform``.
        fit: ``crop``, ``pad`` or ``stretch``, where the aspect differs.
        interpolation: ``area``, ``linear``, ``cubic`` or ``lanczos``.
        policy: how encoded images are judged and decoded.
        transform: applied to each image, an array H×W×C, of any size where none is given; what it
            returns is stacked by torch's own collate function.
        decode: False leaves encoded images encoded: 1-D uint8.
        labels: one for each sample, in place of the stored ones; of any dtype and shape.
        with_index: make samples ``(image, label, index)``; ``keys[index]`` names the sample.
        verify: compare every image with its stored checksum; reads each a second time.

    Attributes:
        reader: the reader of the dataset.

    Raises:
        UsageError: arguments that contradict each other or the dataset.
        UnsupportedError: images that torch has no dtype for, or pixels that cannot be resized.
        BadSampleError: when read: a sample is damaged; names its key.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | Reader,
        *,
        size: int | tuple[int, int] | None = None,
        fit: Fit = "crop",
        interpolation: Interpolation = "area",
        policy: ImagePolicy | None = None,
        transform: Transform | None = None,
        decode: bool = True,
        labels: ArrayLike | None = None,
        with_index: bool = False,
        verify: bool = False,
    ) -> None:
        if isinstance(source, str | os.PathLike):
            source = registry.open_reader(Path(source))
        self.reader = source
        self.transform = transform
        self.decode = decode
        self.with_index = with_index
        self._source = ImageSource(
            self.reader,
            size=_checked_size(size),
            fit=fit,
            interpolation=interpolation,
            policy=policy,
            decode=decode,
            verify=verify,
        )
        self._labels = None if labels is None else np.asarray(labels)
        self.reader.labels()  # reads what stands beside the images, once for all forked workers
        self._check()

    def _check(self) -> None:
        where, count = self.reader.path, len(self.reader)
        if self._labels is not None and len(self._labels) != count:
            raise UsageError(f"{where}: {len(self._labels)} labels for {count} samples")
        if not self.decode and (not self._source.encoded or self._source.size is not None):
            fault = "size has no meaning" if self._source.encoded else "its images are pixels"
            raise UsageError(f"{where}: decode=False, and {fault}")
        for values in (np.empty(0, self.reader.schema.dtype), self.labels[:0]):
            try:
                torch.from_numpy(values)
            except (TypeError, ValueError) as problem:
                message = f"{where}: torch has no dtype for {values.dtype}"
                raise UnsupportedError(message) from problem

    def __len__(self) -> int:
        return len(self.reader)

    def __getitem__(self, index: SupportsIndex) -> tuple[Any, ...]:
        position = operator.index(index)
        if not -len(self) <= position < len(self):
            raise IndexError(f"sample {position} of {len(self)} in {self.reader.path}")
        found: tuple[Any, ...] = self._read(np.array([position % len(self)]))[0]
        return found

    def __getitems__(self, indices: Sequence[int] | Positions) -> Sequence[tuple[Any, ...]]:
        """Return the samples at ``indices``, read together, for a collate function."""
        return self._read(np.array(indices, np.int64))

    @property
    def labels(self) -> NDArray[Any]:
        """One label for each sample: int64[N], or those given."""
        return self.reader.labels() if self._labels is None else self._labels

    @property
    def classes(self) -> tuple[str, ...]:
        """Name of label 0, 1, …; empty where the dataset has none."""
        return self.reader.schema.class_names

    @property
    def keys(self) -> Sequence[str]:
        """The key of each sample: its path below the root that it came from."""
        return self.reader.keys()

    @staticmethod
    def collate(samples: Sequence[tuple[Any, ...]]) -> Sequence[Any]:
        """Return ``images, labels`` (and positions) of a batch; the ``collate_fn`` to use.

        Images are one uint8 tensor N×H×W×C, or ``EncodedImages``.
        """
        if isinstance(samples, FastBatch):
            return (samples.images, *samples.rest)
        collated: Sequence[Any] = default_collate(list(samples))
        return collated

    def worker_init(self, worker_id: int) -> None:
        """Keep OpenCV from starting a thread per core in every worker; the ``worker_init_fn``."""
        if self._source.encoded or self.transform is not None:
            import cv2

            cv2.setNumThreads(0)  # 1 hangs in a forked worker once the parent used the pool

    def _read(self, indices: Positions) -> Sequence[tuple[Any, ...]]:
        if self.transform is not None:
            views, stored = self._source.images(indices)
            columns = self._columns(indices, stored)
            rows = zip(views, *columns, strict=True)
            return [(self.transform(view), *map(_plain, row)) for view, *row in rows]
        images, stored = self._pixels(indices) if self.decode else self._files(indices)
        return FastBatch(images, *self._columns(indices, stored))

    def _columns(self, indices: Positions, stored: Positions) -> list[Tensor]:
        """Return what stands beside the images: labels and, when asked for, positions."""
        columns = [stored if self._labels is None else self._labels[indices]]
        if self.with_index:
            columns.append(indices)
        return [torch.from_numpy(column) for column in columns]

    def _pixels(self, indices: Positions) -> tuple[Tensor, Positions]:
        buffers: list[Tensor] = []

        def allocate(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
            buffers.append(_empty(shape, dtype))
            array: NDArray[Any] = buffers[-1].numpy()
            return array

        _, labels = self._source.pixels(indices, allocate)
        return buffers[-1], labels

    def _files(self, indices: Positions) -> tuple[EncodedImages, Positions]:
        batch = self._source.stored(indices)
        assert batch.offsets is not None, "checked when made"
        return EncodedImages(*map(torch.from_numpy, (batch.images, batch.offsets))), batch.labels


def _empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Tensor:
    """Return an uninitialised tensor; in a worker, in memory that is handed over as it is."""
    empty = torch.from_numpy(np.empty(0, dtype))
    if get_worker_info() is None:
        return torch.empty(shape, dtype=empty.dtype)
    # As torch's own collate function does: else the queue copies the batch into such memory.
    size = math.prod(shape) * dtype.itemsize
    storage = torch.UntypedStorage._new_shared(size)  # type: ignore[no-untyped-call]
    return empty.set_(storage).view(shape)


def _plain(value: Tensor) -> int | Tensor:
    return value if value.ndim or value.is_floating_point() else int(value)


def _checked_size(size: int | tuple[int, int] | None) -> tuple[int, int] | None:
    if size is None:
        return None
    sides = (size, size) if isinstance(size, int) else tuple(size)
    if len(sides) != 2 or not all(isinstance(side, int) and side > 0 for side in sides):
        raise UsageError(f"size must be (height, width) in pixels, not {size!r}")
    return (sides[0], sides[1])
