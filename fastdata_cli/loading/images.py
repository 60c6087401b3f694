"""Batches of one shape from any reader: read, decoded, resized into one array. NumPy alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.contract import Reader
from fastdata_cli.errors import BadSampleError, UnsupportedError, UsageError
from fastdata_cli.imaging import ImagePolicy
from fastdata_cli.imaging.decode import decode
from fastdata_cli.imaging.resize import Fit, Interpolation, resize
from fastdata_cli.keys import printable
from fastdata_cli.loading.samplers import Positions
from fastdata_cli.sample import Batch, Payload

Image = NDArray[Any]
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
        decode: False leaves encoded images as they are.
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
        decode: bool = True,
        verify: bool = False,
    ) -> None:
        for word, words in ((fit, get_args(Fit)), (interpolation, get_args(Interpolation))):
            if word not in words:
                raise UsageError(f"{word!r} is not known here", hint="one of: " + ", ".join(words))
        self.reader = reader
        self.size = size
        self.verify = verify
        self.encoded = reader.schema.payload is Payload.ENCODED
        self.decodes = self.encoded and decode
        self._fit: Fit = fit
        self._interpolation: Interpolation = interpolation
        self._policy = policy or ImagePolicy()
        stored, dtype = reader.schema.image_shape, reader.schema.dtype
        self._resizes = size is not None and stored is not None and stored[:2] != size
        if self._resizes and (stored is None or stored[2:] != (3,) or dtype != "uint8"):
            raise UnsupportedError(
                f"{reader.path}: only RGB of 8 bits is resized, not {dtype} of shape {stored}",
                hint="leave size out, and resize in a transform",
            )

    def pixels(self, indices: Positions, allocate: Allocate = np.empty) -> tuple[Image, Positions]:
        """Return the images at ``indices`` as pixels in one array, and their labels.

        Returns:
            N×H×W×C in an array from ``allocate``, and int64[N].

        Raises:
            BadSampleError: an image cannot be read or decoded, or fails its checksum.
            UsageError: encoded images of several sizes, and no size to bring them to.
        """
        if self.encoded or self._resizes:
            batch = self.stored(indices)
            return self._gathered(batch, allocate), batch.labels
        schema = self.reader.schema
        out = allocate((len(indices), *(schema.image_shape or ())), np.dtype(schema.dtype))
        return out, self.stored(indices, out).labels

    def images(self, indices: Positions) -> tuple[Iterator[Image], Positions]:
        """Return the images at ``indices`` one at a time, in any size, and their labels.

        Returns:
            H×W×C pixels, or 1-D uint8 where nothing is decoded, and int64[N].

        Raises:
            BadSampleError: as ``pixels``, while the images are taken.
        """
        batch = self.stored(indices)
        images = (self._image(batch, position) for position in range(len(batch)))
        if self.size is None:
            return images, batch.labels
        return (self._fitted(image, self.size) for image in images), batch.labels

    def stored(self, indices: Positions, out: Image | None = None) -> Batch:
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

    def _image(self, batch: Batch, position: int) -> Image:
        image = batch.image(position)
        if not self.decodes:
            return image
        try:
            return decode(image.data, self._policy, at_least=self.size).pixels
        except BadSampleError as problem:
            raise BadSampleError(
                key=batch.keys[position], reason=problem.reason, detail=problem.detail
            ) from problem

    def _fitted(self, image: Image, size: tuple[int, int], out: Image | None = None) -> Image:
        background = self._policy.background
        return resize(image, size, self._fit, self._interpolation, out, background)

    def _gathered(self, batch: Batch, allocate: Allocate) -> Image:
        """Bring images into one array: one is decoded at a time."""
        size, dtype = self.size, np.dtype(np.uint8)
        out = None
        for position in range(len(batch)):
            image = self._image(batch, position)
            if size is None:
                size = (image.shape[0], image.shape[1])
            if self.size is None and image.shape[:2] != size:
                raise self._mixed(batch.keys, position, image.shape, size)
            if out is None:
                out = allocate((len(batch), *size, 3), dtype)
            self._fitted(image, size, out[position])
        return allocate((0, *(size or (0, 0)), 3), dtype) if out is None else out

    def _mixed(
        self, keys: Sequence[str], position: int, found: Sequence[int], first: Sequence[int]
    ) -> UsageError:
        sizes = [
            f"{shape[0]}x{shape[1]} ({printable(key)})"
            for shape, key in ((first, keys[0]), (found, keys[position]))
        ]
        return UsageError(
            f"{self.reader.path}: images of {sizes[0]} and {sizes[1]} do not fit into one batch",
            hint="give size=(height, width), or a transform that makes them alike",
        )

    def _name_bad(self, indices: Positions) -> None:
        """Read the samples singly, so that the bad one raises an error that names it."""
        for index in indices.tolist():
            self.reader.read(index)

    def _verify(self, indices: Positions) -> None:
        for index in indices.tolist():
            for found in self.reader.verify(range(index, index + 1)):
                raise BadSampleError(key=found.key, reason=found.kind, detail=found.detail)
