"""Batches of one shape from any reader: read, decoded, resized into one array. NumPy alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.contract import Reader
from fastdata_cli.errors import BadSampleError, UnsupportedError, UsageError
from fastdata_cli.imaging import ImagePolicy
from fastdata_cli.imaging.decode import decode
from fastdata_cli.imaging.resize import Fit, Interpolation, resize
from fastdata_cli.keys import printable
from fastdata_cli.sample import Batch, Payload

Allocate = Callable[[tuple[int, ...], np.dtype[Any]], NDArray[Any]]
"""Makes the array of a batch, of a shape and dtype; its content does not matter."""


class ImageSource:
    """Fills batches with the images of a reader.

    Args:
        reader: any dataset's.
        size: (height, width) that images are brought to; None leaves them as they are.
        fit: ``crop``, ``pad`` or ``stretch``, where the aspect differs.
        interpolation: ``area``, ``linear``, ``cubic`` or ``lanczos``.
        policy: how encoded images are judged and decoded.
        verify: compare every image with its stored checksum; reads each a second time.

    Raises:
        UsageError: an unknown word.
        UnsupportedError: the images are pixels that cannot be resized.
    """

    def __init__(
        self,
        reader: Reader,
        *,
        size: tuple[int, int] | None = None,
        fit: Fit = "crop",
        interpolation: Interpolation = "area",
        policy: ImagePolicy | None = None,
        verify: bool = False,
    ) -> None:
        for word, words in ((fit, get_args(Fit)), (interpolation, get_args(Interpolation))):
            if word not in words:
                raise UsageError(f"{word!r} is not known here", hint="one of: " + ", ".join(words))
        self.reader = reader
        self.size = size
        self.verify = verify
        self._fit: Fit = fit
        self._interpolation: Interpolation = interpolation
        self._policy = policy or ImagePolicy()
        self.encoded = reader.schema.payload is Payload.ENCODED
        stored = reader.schema.image_shape
        self._resizes = size is not None and stored is not None and stored[:2] != size
        if self._resizes and (stored is None or stored[2:] != (3,) or self._dtype != np.uint8):
            raise UnsupportedError(
                f"{reader.path}: only RGB of 8 bits can be resized, not {self._dtype} of {stored}",
                hint="leave size out, and resize in a transform",
            )

    @property
    def _dtype(self) -> np.dtype[Any]:
        return np.dtype(self.reader.schema.dtype)

    def pixels(
        self, indices: NDArray[np.int64], allocate: Allocate = np.empty
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return the images at ``indices`` as pixels.

        Returns:
            N×H×W×C in an array from ``allocate``, and int64[N] labels.

        Raises:
            BadSampleError: an image cannot be read or decoded, or fails its checksum.
            UsageError: encoded images of several sizes, and no size to bring them to.
        """
        if self.encoded or self._resizes:
            batch = self.stored(indices)
            images = (self._image(batch, position) for position in range(len(batch)))
            return self._gathered(batch, images, allocate), batch.labels
        out = allocate((len(indices), *(self.reader.schema.image_shape or ())), self._dtype)
        return out, self.stored(indices, out).labels

    def stored(self, indices: NDArray[np.int64], out: NDArray[Any] | None = None) -> Batch:
        """Return the samples at ``indices`` as the reader does; errors name the sample's key."""
        try:
            batch = self.reader.read_many(indices, out)
        except BadSampleError as problem:
            if not problem.key:
                self._name_bad(indices)
            raise
        if self.verify:
            self._verify(indices)
        return batch

    def _image(self, batch: Batch, position: int) -> NDArray[np.uint8]:
        image: NDArray[np.uint8] = batch.image(position)
        if not self.encoded:
            return image
        try:
            return decode(image.data, self._policy, at_least=self.size).pixels
        except BadSampleError as problem:
            raise BadSampleError(
                key=batch.keys[position], reason=problem.reason, detail=problem.detail
            ) from problem

    def _gathered(self, batch: Batch, images: Any, allocate: Allocate) -> NDArray[Any]:
        """Bring decoded images, which come one at a time, into one array."""
        background = self._policy.background
        out, size = None, self.size
        for position, image in enumerate(images):
            if out is None:
                size = size or image.shape[:2]
                out = allocate((len(batch), *size, 3), np.dtype(np.uint8))
            if self.size is None and image.shape[:2] != size:
                raise self._mixed(batch.keys, position, image.shape, out.shape[1:])
            resize(image, out.shape[1:3], self._fit, self._interpolation, out[position], background)
        if out is None:
            return allocate((0, *(self.size or (0, 0)), 3), np.dtype(np.uint8))
        return out

    def _mixed(
        self, keys: Sequence[str], position: int, found: Sequence[int], first: Sequence[int]
    ) -> UsageError:
        sizes = [
            f"{shape[0]}x{shape[1]} ({printable(key)})"
            for shape, key in ((first, keys[0]), (found, keys[position]))
        ]
        return UsageError(
            f"{self.reader.path}: images of {sizes[0]} and {sizes[1]} do not fit into one batch",
            hint="give FastDataset(..., size=(height, width)), or batches of one",
        )

    def _name_bad(self, indices: NDArray[np.int64]) -> None:
        """Read the samples singly, so that the bad one raises an error that names it."""
        for index in indices.tolist():
            self.reader.read(index)

    def _verify(self, indices: NDArray[np.int64]) -> None:
        for index in indices.tolist():
            for found in self.reader.verify(range(index, index + 1)):
                raise BadSampleError(key=found.key, reason=found.kind, detail=found.detail)
