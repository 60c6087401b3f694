"""Images of any reader in batches of one shape: read, decoded, resized into place. NumPy alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.contract import Reader
from fastdata_cli.errors import BadSampleError, UnsupportedError, UsageError
from fastdata_cli.imaging import ImagePolicy
from fastdata_cli.imaging.borrowed import borrowed_pixels
from fastdata_cli.imaging.decode import decode
from fastdata_cli.imaging.probe import probe
from fastdata_cli.imaging.resize import Fit, Interpolation, resize
from fastdata_cli.keys import printable
from fastdata_cli.loading.samplers import Positions
from fastdata_cli.sample import Batch, Payload

Image = NDArray[Any]
Allocate = Callable[[tuple[int, ...], np.dtype[Any]], NDArray[Any]]
"""Makes the array of a batch, of a shape and dtype; its content does not matter."""

_BYTES = np.dtype(np.uint8)


class ImageSource:
    """Fills batches with the images of a reader. Any number of threads may use it at once.

    Args:
        reader: any dataset's.
        size: (height, width) that images are brought to; None leaves them as they are.
        fit: ``crop``, ``pad`` or ``stretch``, where the aspect differs.
        interpolation: ``area``, ``linear``, ``cubic`` or ``lanczos``.
        policy: how encoded images are judged and decoded.
        decode: False leaves encoded images as they are.
        verify: compare every image with its stored checksum when it is read.

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
        self.resizes = size is not None and stored is not None and stored[:2] != size
        if self.resizes and (stored is None or stored[2:] != (3,) or dtype != "uint8"):
            raise UnsupportedError(
                f"{reader.path}: only RGB of 8 bits is resized, not {dtype} of shape {stored}",
                hint="leave size out, and resize in a transform",
            )

    def shape(self, first: int) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """Return the shape and dtype of one image in a batch.

        Args:
            first: position of the image that decides where nothing else does: images that are
                encoded, and come at their own size.

        Raises:
            BadSampleError: that image cannot be read.
        """
        if self.size is not None:
            return (*self.size, 3), _BYTES
        if not self.encoded:
            return tuple(self.reader.schema.image_shape or ()), np.dtype(self.reader.schema.dtype)
        try:
            return (*probe(self.reader.read(first).image.data, self._policy).size, 3), _BYTES
        except BadSampleError as problem:
            raise self._named(problem, first) from problem

    def pixels(self, indices: Positions, allocate: Allocate = np.empty) -> tuple[Image, Positions]:
        """Return the images at ``indices`` as pixels in one array, and their labels.

        Returns:
            N×H×W×C in an array from ``allocate``, and int64[N].

        Raises:
            BadSampleError: an image cannot be read or decoded, or fails its checksum.
            UsageError: encoded images of several sizes, and no size to bring them to.
        """
        if self.encoded or self.resizes:
            batch = self.stored(indices)
            return self._gathered(batch, indices, allocate), batch.labels
        schema = self.reader.schema
        out = allocate((len(indices), *(schema.image_shape or ())), np.dtype(schema.dtype))
        return out, self.stored(indices, out).labels

    def stored(self, indices: Positions, out: Image | None = None) -> Batch:
        """Return the samples at ``indices`` as the reader does; errors name the sample's key."""
        try:
            batch = self.reader.read_many(indices, out)
        except BadSampleError as problem:
            if not problem.key:
                self._name_bad(indices)
            raise
        if self.verify:
            images = [batch.image(at) for at in range(len(batch))]
            for wrong in self._wrong(indices, images).values():
                raise wrong
        return batch

    def stored_each(self, indices: Positions) -> Sequence[Image | BadSampleError]:
        """Return each of the stored images at ``indices``, or why it cannot be read.

        They may be read-only views of where they are stored.
        """
        try:
            images = self.reader.read_each(indices)
        except BadSampleError:
            return [self._stored_one(index) for index in indices.tolist()]
        if not self.verify:
            return images
        wrong = self._wrong(indices, images)
        return [
            wrong.get(index, image) for index, image in zip(indices.tolist(), images, strict=True)
        ]

    def own(self, image: Image, index: int) -> Image:
        """Return a stored image as it is asked for: H×W×C, or 1-D if not decoded.

        Args:
            image: as stored; may be returned, or a view of it.
            index: its position, for errors.

        Raises:
            BadSampleError: it cannot be decoded; names its key.
        """
        if self.decodes:
            try:
                image = decode(image.data, self._policy, at_least=self.size).pixels
            except BadSampleError as problem:
                raise self._named(problem, index) from problem
        return image if self.size is None else self._fitted(image, self.size)

    def put(self, image: Image, index: int, out: Image) -> None:
        """Bring a stored image into its place in a batch.

        Args:
            image: as stored.
            index: its position, for errors.
            out: its place, H×W×3, C-contiguous.

        Raises:
            BadSampleError: it cannot be decoded; names its key.
            UsageError: it has another size, and there is none to bring it to.
        """
        size = (out.shape[0], out.shape[1])
        if self.decodes:
            try:
                image = borrowed_pixels(image.data, self._policy, self.size, out)
            except BadSampleError as problem:
                raise self._named(problem, index) from problem
        if self.size is None and image.shape[:2] != size:
            raise self._mixed(image.shape, index, size)
        if image.base is not out:  # else it was decoded into its place
            self._fitted(image, size, out)

    def _stored_one(self, index: int) -> Image | BadSampleError:
        try:
            return self.stored(np.array([index])).image(0)
        except BadSampleError as problem:
            return problem

    def _fitted(self, image: Image, size: tuple[int, int], out: Image | None = None) -> Image:
        background = self._policy.background
        return resize(image, size, self._fit, self._interpolation, out, background)

    def _gathered(self, batch: Batch, indices: Positions, allocate: Allocate) -> Image:
        """Bring images into one array."""
        positions = indices.tolist()
        if self.size is None and positions:
            first = self.own(batch.image(0), positions[0])
            out = allocate((len(batch), *first.shape), _BYTES)
            out[0] = first
        else:
            out = allocate((len(batch), *(self.size or (0, 0)), 3), _BYTES)
        for at in range(self.size is None, len(batch)):
            self.put(batch.image(at), positions[at], out[at])
        return out

    def _named(self, problem: BadSampleError, index: int) -> BadSampleError:
        key = problem.key or self.reader.keys()[index]
        return BadSampleError(key=key, reason=problem.reason, detail=problem.detail)

    def _mixed(self, found: Sequence[int], index: int, size: tuple[int, int]) -> UsageError:
        key = printable(self.reader.keys()[index])
        return UsageError(
            f"{self.reader.path}: an image of {found[0]}x{found[1]} ({key})"
            f" does not fit into a batch of {size[0]}x{size[1]}",
            hint="give size=(height, width), or a transform that makes them alike",
        )

    def _name_bad(self, indices: Positions) -> None:
        """Read the samples singly, so that the bad one raises an error that names it."""
        for index in indices.tolist():
            self.reader.read(index)

    def _wrong(self, indices: Positions, images: Sequence[Image]) -> dict[int, BadSampleError]:
        """Return what was read and is not what was written, by position."""
        return {
            found.index: BadSampleError(key=found.key, reason=found.kind, detail=found.detail)
            for found in self.reader.compare(indices, images)
        }
