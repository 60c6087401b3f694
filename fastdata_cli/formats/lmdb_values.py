"""Owns fetching values of an LMDB file as images, whoever wrote it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.errors import BadSampleError, DamagedDatasetError
from fastdata_cli.formats.base import Images, IndexedReader
from fastdata_cli.formats.lmdb_file import DataFile
from fastdata_cli.formats.lmdb_page import Extent
from fastdata_cli.sample import Payload
from fastdata_cli.storage.gather import arena_for


class Located(Protocol):
    """An open file that knows where the values of samples lie."""

    file: DataFile

    def locate(self, indices: NDArray[np.int64]) -> list[Extent]:
        """Return where the images at checked ``indices`` lie."""
        ...


class ValueReader(IndexedReader[Located]):
    """A reader whose images are values of an LMDB file."""

    def _close(self, handle: Located) -> None:
        handle.file.close()

    def _fetch(
        self, handle: Located, indices: NDArray[np.int64], out: NDArray[Any] | None
    ) -> Images:
        with _bad_samples():
            extents = handle.locate(indices)
        self._check_lengths(extents)
        if self.schema.payload is Payload.ENCODED:
            offsets, arena = arena_for(np.array([e.length for e in extents], np.int64), out)
            _read_all(handle.file, extents, arena)
            return Images(arena, offsets)
        if out is None:
            assert self.schema.image_shape is not None
            out = np.empty((len(extents), *self.schema.image_shape), self.schema.dtype)
        _read_all(handle.file, extents, out.reshape(-1).view(np.uint8))
        return Images(out)

    def head(self, index: int, size: int) -> NDArray[np.uint8]:
        """Return the first bytes of one encoded image; the rest is not read."""
        handle = self._handle.get()
        with _bad_samples():
            (extent,) = handle.locate(self._checked([index]))
            begin = Extent(extent.begin, min(size, extent.length))
            return np.frombuffer(handle.file.read(begin), np.uint8)

    def _check_lengths(self, extents: Sequence[Extent]) -> None:
        """Refuse lengths that cannot be, before memory is taken for them."""
        exact, most = self.schema.pixel_bytes, self.schema.max_image_bytes
        for _, length in extents:
            if length != exact if exact else most is not None and length > most:
                detail = f"its record has {length} bytes, and {exact or most} are expected"
                raise BadSampleError(reason="corrupt", detail=detail)


def _read_all(file: DataFile, extents: Sequence[Extent], arena: NDArray[np.uint8]) -> None:
    """Read values end to end into an arena."""
    # Smaller values lie in the page of the tree that has just been read.
    for extent in extents if len(extents) > 1 else ():
        if extent.length > file.layout.page_size // 2:
            file.expect(extent)
    at = 0
    with _bad_samples():
        for extent in extents:
            file.read_into(extent, arena[at : at + extent.length])
            at += extent.length


@contextlib.contextmanager
def _bad_samples() -> Iterator[None]:
    """Turn damage met on the way to a sample into an error of that sample."""
    try:
        yield
    except DamagedDatasetError as problem:
        raise BadSampleError(reason="corrupt", detail=problem.message) from problem
    except OSError as problem:
        raise BadSampleError(reason="unreadable", detail=str(problem.strerror)) from problem
