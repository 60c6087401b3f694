"""Owns fetching values of an LMDB file as images, whoever wrote it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import chain
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.errors import BadSampleError, DamagedDatasetError
from fastdata_cli.formats.base import Images, IndexedReader
from fastdata_cli.formats.lmdb.file import DataFile
from fastdata_cli.formats.lmdb.page import Extent
from fastdata_cli.sample import Payload
from fastdata_cli.storage.gather import take_ranges

_Ranges = tuple[NDArray[np.int64], NDArray[np.int64]]


class Located(Protocol):
    """An open file that knows where the values of samples lie."""

    file: DataFile

    def locate(self, indices: NDArray[np.int64]) -> list[Extent]:
        """Return where the images at checked ``indices`` lie."""
        ...


class ValueReader(IndexedReader[Located]):
    """A reader whose images are values of an LMDB file."""

    def _close(self, handle: Located) -> None:
        """Nothing to do: the file is closed with its last view."""

    def _fetch(
        self, handle: Located, indices: NDArray[np.int64], out: NDArray[Any] | None
    ) -> Images:
        begins, lengths = self._locate(handle, indices)
        if self.schema.payload is Payload.ENCODED:
            return Images(*take_ranges(handle.file.data, begins, lengths, out))
        if out is None:
            assert self.schema.image_shape is not None
            out = np.empty((len(indices), *self.schema.image_shape), self.schema.dtype)
        take_ranges(handle.file.data, begins, lengths, out.reshape(-1).view(np.uint8))
        return Images(out)

    def head(self, index: int, size: int) -> NDArray[np.uint8]:
        """Return the first bytes of one encoded image; the rest is not read."""
        handle = self._handle.get()
        begins, lengths = self._locate(handle, self._checked([index]))
        begin = int(begins[0])
        return handle.file.data[begin : begin + min(size, int(lengths[0]))].copy()

    def _locate(self, handle: Located, indices: NDArray[np.int64]) -> _Ranges:
        """Return where values begin and how long they are; the system is fetching them already."""
        with _bad_samples():
            extents = handle.locate(indices)
        numbers = np.fromiter(chain.from_iterable(extents), np.int64, 2 * len(extents))
        begins, lengths = numbers[::2], numbers[1::2]
        self._check_lengths(lengths)
        handle.file.expect(extents)
        return begins, lengths

    def _check_lengths(self, lengths: NDArray[np.int64]) -> None:
        """Refuse lengths that cannot be, before memory is taken for them."""
        exact, most = self.schema.pixel_bytes, self.schema.max_image_bytes or 0
        wrong = lengths[lengths != exact if exact else lengths > most]
        if len(wrong):
            detail = f"its record has {wrong[0]} bytes, and {exact or most} are expected"
            raise BadSampleError(reason="corrupt", detail=detail)


@contextlib.contextmanager
def _bad_samples() -> Iterator[None]:
    """Turn damage met on the way to a sample into an error of that sample."""
    try:
        yield
    except DamagedDatasetError as problem:
        raise BadSampleError(reason="corrupt", detail=problem.message) from problem
