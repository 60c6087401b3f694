"""What a loader loads: a dataset's images as they are asked for, with labels. NumPy alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastdata_cli import registry
from fastdata_cli.contract import Reader
from fastdata_cli.errors import DamagedDatasetError, UsageError
from fastdata_cli.imaging import ImagePolicy
from fastdata_cli.imaging.resize import Fit, Interpolation
from fastdata_cli.loading.images import ImageSource
from fastdata_cli.loading.samplers import whole

Transform = Callable[[NDArray[Any]], Any]


def call_transform(transform: Transform, image: NDArray[Any]) -> Any:
    """Return what a transform makes of an image.

    Raises:
        RuntimeError: it raised StopIteration, which would pass for the end of the epoch (as in
            generators, PEP 479).
    """
    try:
        return transform(image)
    except StopIteration as problem:
        raise RuntimeError("the transform raised StopIteration") from problem


class EncodedImages(NamedTuple):
    """The files of N images, one after another; a batch where ``decode=False``."""

    data: Any
    """uint8, 1-D."""
    offsets: Any
    """int64[N + 1]: image ``i`` is ``data[offsets[i]:offsets[i + 1]]``."""

    def split(self) -> list[Any]:
        """Return one 1-D uint8 tensor (or array) for each image, as ``decode_jpeg`` takes it."""
        return [self.data[begin:end] for begin, end in pairwise(self.offsets.tolist())]


class Samples:
    """The samples of a dataset: image, label and, when asked for, position.

    Args:
        source: path of a dataset, or a reader.
        size: (height, width) or one number for both: what images are brought to, as by ``convert
            --size``; JPEGs are decoded at a reduced scale where that is enough. Encoded images of
            different sizes need it, or a ``transform``.
        fit: ``crop``, ``pad`` or ``stretch``, where the aspect differs.
        interpolation: ``area``, ``linear``, ``cubic`` or ``lanczos``.
        policy: how encoded images are judged and decoded.
        transform: applied to each image, an array H×W×C, of any size where none is given; what it
            returns is stacked.
        decode: False leaves encoded images encoded: 1-D uint8.
        labels: one for each sample, in place of the stored ones; of any dtype and shape.
        with_index: add positions to what a batch holds; ``keys[index]`` names the sample.
        verify: compare every image with its stored checksum when it is read, and labels and keys
            once, here.

    Attributes:
        reader: the reader of the dataset.

    Raises:
        UsageError: arguments that contradict each other or the dataset.
        UnsupportedError: pixels that cannot be resized.
        DamagedDatasetError: with ``verify``: labels, keys or metadata are not what was written.
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
        self.images = ImageSource(
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
        changed = self.reader.check_table() if self.images.verify else None
        if changed is not None:
            raise DamagedDatasetError(f"{where}: {changed.detail}", path=str(where))
        if self._labels is not None and len(self._labels) != count:
            raise UsageError(f"{where}: {len(self._labels)} labels for {count} samples")
        if not self.decode and (not self.images.encoded or self.images.size is not None):
            fault = "size has no meaning" if self.images.encoded else "its images are pixels"
            raise UsageError(f"{where}: decode=False, and {fault}")

    def __len__(self) -> int:
        return len(self.reader)

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


def _checked_size(size: int | tuple[int, int] | None) -> tuple[int, int] | None:
    if size is None:
        return None
    try:
        height, width = size if isinstance(size, Sequence) else (size, size)
        return whole("size", height, 1), whole("size", width, 1)
    except ValueError as problem:
        raise UsageError(f"size must be (height, width) in pixels, not {size!r}") from problem
