"""Readers that only say where images are stored: the gather core moves them.

A format subclasses ``LocatedReader`` and writes two short classes: a ``Locator``, which says where,
and a ``Library``, which has the container's own library read the same images. The second serves
what the first cannot say, and everything when ``FASTDATA_GATHER=off``; the two must agree.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.contract import Capability
from fastdata_cli.errors import BadSampleError, UnsupportedError
from fastdata_cli.extents import Bytes, Column, Extents, Rows
from fastdata_cli.formats.base import Images, IndexedReader
from fastdata_cli.options import Options
from fastdata_cli.sample import Batch, Payload, Sample, Schema
from fastdata_cli.storage.gather import Gather, arena_for, gather_enabled
from fastdata_cli.storage.mapping import FileMaps


class Locator(ABC):
    """Says where the images of a dataset are stored; threads may share it."""

    files: FileMaps
    """The files that its extents refer to."""
    rows: Rows | None = None
    """Where all images are, if they are the rows of one table: they are then moved without asking
    ``locate``."""

    @abstractmethod
    def locate(self, indices: Column) -> Extents:
        """Return where the images at checked ``indices`` are.

        Raises:
            BadSampleError: one is missing, or what leads to it is damaged.
        """

    def close(self) -> None:
        """Let go of the files; each is unmapped with the last view of it."""
        self.files.clear()


class Library(Protocol):
    """Has the container's own library read images; threads may share it."""

    def images(self, indices: Column) -> Sequence[Bytes]:
        """Return the bytes of each image, 1-D: pixels in C order and native byte order.

        Raises:
            BadSampleError: one is missing or damaged.
        """
        ...

    def close(self) -> None:
        """Release the library's handles."""
        ...


class StoredRanges(Locator):
    """A Locator of images that are stored as they are, and whose places are all known.

    Args:
        files: the files that they lie in.
        begins: int64[N], where each image begins in its file.
        lengths: int64[N], its bytes.
        firsts: int64[F], the first image of each file; by default there is one file.
    """

    def __init__(
        self, files: FileMaps, begins: Column, lengths: Column, firsts: Column | None = None
    ) -> None:
        self.files = files
        self._begins, self._lengths, self._firsts = begins, lengths, firsts

    def locate(self, indices: Column) -> Extents:
        """Return where the images are."""
        file = np.zeros_like(indices)
        if self._firsts is not None:
            file = np.searchsorted(self._firsts, indices, "right") - 1
        begins, lengths = self._begins[indices], self._lengths[indices]
        return Extents(self.files.path_of, file, begins, lengths)


class LocatedReader(IndexedReader["_Gathered | _Asked"]):
    """A Reader whose images are moved by the gather core, or else read by the library.

    A format whose ``_start`` takes LOCATE from ``capabilities`` has all images read by the library.
    """

    capabilities = Capability.RANDOM_ACCESS | Capability.LOCATE

    def __init__(self, path: Any, options: Options) -> None:
        super().__init__(path, options)
        if not gather_enabled():
            self.capabilities &= ~(Capability.LOCATE | Capability.ZERO_COPY)

    @abstractmethod
    def _open_locator(self) -> Locator:
        """Return what says where the images are, for this process."""

    @abstractmethod
    def _open_library(self) -> Library:
        """Return what reads the images by the container's library, for this process."""

    def locate(self, indices: Sequence[int] | Column) -> Extents:
        """Return where the images at ``indices`` are stored."""
        return self._gathered().locator.locate(self._checked(indices))

    def read(self, index: int) -> Sample:
        """Return one sample; with ZERO_COPY its image is a read-only view of the mapped file."""
        if Capability.ZERO_COPY not in self.capabilities or not -len(self) <= index < len(self):
            return super().read(index)
        at, table = np.array([index % len(self)]), self._table.get()
        try:
            image = self._gathered().view(at)
        except BadSampleError:
            return super().read(index)  # the same error, with the key of the sample
        encoded = self.schema.payload is Payload.ENCODED
        return Batch(
            table.keys.take(at),
            np.asarray(table.labels[at], np.int64),
            image if encoded else _as_pixels(image, self.schema, 1),
            np.array([0, image.size]) if encoded else None,
            table.metadata_texts(at),
        ).sample(0)

    def read_each(self, indices: Sequence[int] | Column) -> Sequence[NDArray[Any]]:
        """Return the images at ``indices`` one by one; views, where they are stored as they are."""
        images = self._handle.get().each(self._checked(indices))
        if self.schema.payload is Payload.ENCODED:
            return images
        return [_as_pixels(image, self.schema, 1)[0] for image in images]

    def head(self, index: int, size: int) -> NDArray[np.uint8]:
        """Return the first bytes of one image; no more of it is read than that needs."""
        if Capability.LOCATE not in self.capabilities:
            return super().head(index, size)
        found = self._gathered()
        extents = found.locator.locate(self._checked([index])).first(size)
        start = np.empty(int(extents.sizes.sum()), np.uint8)
        found.gather.fill(extents, start)
        return start

    def _expect(self, span: range) -> None:
        handle = self._handle.get()
        if len(span) and isinstance(handle, _Gathered):
            handle.expect(np.arange(span.start, span.stop))

    def _gathered(self) -> _Gathered:
        handle = self._handle.get()
        if not isinstance(handle, _Gathered):
            raise UnsupportedError(f"{self.path}: only its own library can tell where images are")
        return handle

    def _open(self) -> _Gathered | _Asked:
        if Capability.LOCATE in self.capabilities:
            return _Gathered(self._open_locator(), self.schema)
        return _Asked(self._open_library(), self.schema)

    def _close(self, handle: _Gathered | _Asked) -> None:
        handle.close()

    def _fetch(
        self, handle: _Gathered | _Asked, indices: Column, out: NDArray[Any] | None
    ) -> Images:
        return handle.fetch(indices, out)


class _Gathered:
    """Images through the gather core."""

    def __init__(self, locator: Locator, schema: Schema) -> None:
        self.locator, self._schema = locator, schema
        self.gather = Gather(locator.files)

    def fetch(self, indices: Column, out: NDArray[Any] | None) -> Images:
        rows = self.locator.rows
        if rows is not None and out is not None:
            flat = out.reshape(-1).view(np.uint8)
            if self.gather.take(rows, indices, flat):
                return Images(out)
        extents = self.locator.locate(indices)
        images = _images_for(extents.sample_sizes(len(indices)), self._schema, out)
        self.gather.fill(extents, images.data.reshape(-1).view(np.uint8))
        return images

    def each(self, indices: Column) -> Sequence[Bytes]:
        """Return the bytes of each image; views of the files where no codec is in the way."""
        extents = self.locator.locate(indices)
        sizes = extents.sample_sizes(len(indices))
        if extents.packing is None and extents.sample is None:
            _check_sizes(sizes, self._schema)
            return self.gather.views(extents)
        images = _images_for(sizes, self._schema, None)
        flat, ends = images.data.reshape(-1).view(np.uint8), np.cumsum(sizes)
        self.gather.fill(extents, flat)
        return [flat[end - size : end] for end, size in zip(ends.tolist(), sizes, strict=True)]

    def expect(self, indices: Column) -> None:
        """Have the system fetch images; what is wrong with them is said when they are read."""
        if self.gather.is_cold:
            with contextlib.suppress(BadSampleError):
                self.gather.expect(self.locator.locate(indices))

    def view(self, index: Column) -> Bytes:
        """Return the bytes of one image that is stored as it is."""
        extents = self.locator.locate(index)
        _check_sizes(extents.sample_sizes(1), self._schema)
        return self.gather.view(extents)

    def close(self) -> None:
        self.locator.close()


class _Asked:
    """Images through the container's own library."""

    def __init__(self, library: Library, schema: Schema) -> None:
        self._library, self._schema = library, schema

    def fetch(self, indices: Column, out: NDArray[Any] | None) -> Images:
        found = self._library.images(indices)
        lengths = np.array([image.nbytes for image in found], np.int64)
        images = _images_for(lengths, self._schema, out)
        if len(found):
            flat = images.data.reshape(-1).view(np.uint8)
            np.concatenate(found, out=flat[: int(lengths.sum())])
        return images

    def each(self, indices: Column) -> Sequence[Bytes]:
        """Return the bytes of each image."""
        found = self._library.images(indices)
        _check_sizes(np.array([image.nbytes for image in found], np.int64), self._schema)
        return found

    def close(self) -> None:
        self._library.close()


def _images_for(lengths: Column, schema: Schema, out: NDArray[Any] | None) -> Images:
    """Return memory for images of these lengths: ``out`` if given."""
    _check_sizes(lengths, schema)
    if schema.payload is Payload.PIXELS:
        shape = (len(lengths), *(schema.image_shape or ()))
        return Images(np.empty(shape, schema.dtype) if out is None else out)
    offsets, arena = arena_for(lengths, out)
    return Images(arena, offsets)


def _check_sizes(lengths: Column, schema: Schema) -> None:
    """Refuse lengths that cannot be, before memory is taken for them."""
    if schema.payload is Payload.PIXELS:
        expected = schema.pixel_bytes
        wrong = lengths != expected
    elif schema.max_image_bytes is not None:
        expected = schema.max_image_bytes
        wrong = lengths > expected
    else:
        return
    if wrong.any():
        found = lengths[np.argmax(wrong)]
        detail = f"an image of {found} bytes is stored, and {expected} are expected"
        raise BadSampleError(reason="corrupt", detail=detail)


def _as_pixels(data: Bytes, schema: Schema, count: int) -> NDArray[Any]:
    return data.view(schema.dtype).reshape(count, *(schema.image_shape or ()))
