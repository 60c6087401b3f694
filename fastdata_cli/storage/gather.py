"""The gather core: moves samples from where they are stored into a caller's batch.

A reader says where (``Extents``); how bytes get from there into the batch is decided here alone.
Files are mapped, not read: no call per sample, and no lock held while bytes move. What is stored
as it is moves in one call for the whole batch. What went through a codec is decoded from the map
straight into its place; where only a part of a decoded piece is wanted, into memory that is used
again.
"""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Sequence
from itertools import groupby, repeat

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.errors import BadSampleError
from fastdata_cli.extents import AS_STORED, Bytes, Column, Extents, Packing, Rows, Window
from fastdata_cli.storage.copying import copy
from fastdata_cli.storage.decoded import DecodedChunks
from fastdata_cli.storage.mapping import FileMaps, MappedFile
from fastdata_cli.storage.readahead import ReadAhead, ask

SWITCH = "FASTDATA_GATHER"
"""Set to ``off`` in the environment, the container's own library reads everything."""

_NO_ROWS = np.empty(0, np.int64)


def gather_enabled() -> bool:
    """Return whether the gather core is to be used."""
    return os.environ.get(SWITCH, "").strip().lower() != "off"


class Gather:
    """Moves the samples of one reader; threads may share it.

    Args:
        files: the files that extents refer to.
    """

    def __init__(self, files: FileMaps) -> None:
        self.files = files
        self._chunks = DecodedChunks()
        self._ahead = ReadAhead()
        self._scratch = threading.local()

    def fill(self, extents: Extents, out: Bytes) -> None:
        """Fill ``out`` with the samples, end to end.

        Args:
            extents: where they are.
            out: 1-D and contiguous, of at least their total size.

        Raises:
            BadSampleError: a file is missing or shorter than it should be, or a codec refuses.
        """
        files = self._mapped(extents.file)
        _check_ends(files, extents)
        begun = self._ahead.begin(files, extents.offset, extents.length)
        if extents.packing is None:
            copy(files, extents.offset, extents.length, out)
        else:
            self._unpack(files, extents, extents.packing, out)
        self._ahead.end(begun)

    def take(self, rows: Rows, indices: Column, out: Bytes) -> bool:
        """Fill ``out`` with rows, end to end; False if that is not to be done in this short way.

        It is ``fill`` without anything that costs time for each batch: nothing is asked for ahead,
        so it serves only files that are in memory.

        Args:
            rows: where they are.
            indices: which, checked to be among them.
            out: as ``fill``.

        Raises:
            BadSampleError: as ``fill``.
        """
        file = self.files.get(rows.file)
        end = rows.start + rows.each * rows.count
        if self._ahead.is_cold or not rows.each or end > file.size:
            return False
        begun = self._ahead.begin((), _NO_ROWS, _NO_ROWS)
        table = file.data[rows.start : end].reshape(rows.count, rows.each)
        # With its default mode NumPy buffers ``out``, at half the speed.
        table.take(indices, 0, out[: len(indices) * rows.each].reshape(-1, rows.each), "clip")
        self._ahead.end(begun)
        return True

    def expect(self, extents: Extents) -> None:
        """Have the system fetch samples that will be asked for soon; worth it if ``is_cold``.

        Raises:
            BadSampleError: as ``fill``.
        """
        files = self._mapped(extents.file)
        _check_ends(files, extents)
        ask(files, extents.offset, extents.length)

    @property
    def is_cold(self) -> bool:
        """Whether the files are taken to be on disk, and not in memory."""
        return self._ahead.is_cold

    def view(self, extents: Extents) -> Bytes:
        """Return the bytes of one row that is stored as it is, where they lie.

        Raises:
            BadSampleError: as ``fill``.
        """
        file = self.files.get(int(extents.file[0]))
        _check_ends([file], extents)
        return file.data[int(extents.offset[0]) : int(extents.offset[0] + extents.length[0])]

    def views(self, extents: Extents) -> list[Bytes]:
        """Return the bytes of rows that are stored as they are, where they lie.

        The system is asked to fetch them, all at once: a disk has them on their way while the
        first ones are looked at.

        Raises:
            BadSampleError: as ``fill``.
        """
        files = self._mapped(extents.file)
        _check_ends(files, extents)
        each = files if len(files) == len(extents) else repeat(files[0])
        ranges = zip(each, extents.offset.tolist(), extents.length.tolist(), strict=False)
        found = []
        for file, begin, length in ranges:
            file.advise(mmap.MADV_WILLNEED, begin, length)
            found.append(file.data[begin : begin + length])
        return found

    def _mapped(self, numbers: Column) -> list[MappedFile]:
        """Return the file of each row; only one if it is the same for all."""
        if len(numbers) and (numbers == numbers[0]).all():
            return [self.files.get(int(numbers[0]))]
        return [self.files.get(number) for number in numbers.tolist()]

    def _unpack(
        self, files: list[MappedFile], extents: Extents, packing: Packing, out: Bytes
    ) -> None:
        rows = _Rows(files * len(extents) if len(files) == 1 else files, extents, packing, out)
        as_stored = packing.codec == AS_STORED
        whole = (packing.begin == 0) & (packing.size == packing.whole) & ~as_stored
        for row in np.flatnonzero(whole).tolist():
            rows.decode(row, rows.slot(row))
        for row in np.flatnonzero(as_stored).tolist():
            rows.copy(row)
        parts = np.flatnonzero(~whole & ~as_stored)
        if len(parts):
            self._unpack_parts(rows, parts)

    def _unpack_parts(self, rows: _Rows, parts: Column) -> None:
        """Decode each piece once and hand out its parts; pieces that others decode come last."""
        pieces = rows.pieces(parts)
        self._chunks.reserve(sum(rows.decoded_bytes(piece[0]) for piece in pieces))
        later = [piece for piece in pieces if not self._unpack_piece(rows, piece, wait=False)]
        for piece in later:
            self._unpack_piece(rows, piece, wait=True)

    def _unpack_piece(self, rows: _Rows, piece: Sequence[int], *, wait: bool) -> bool:
        first = piece[0]
        size = rows.decoded_bytes(first)
        if not rows.keeps(first):
            decoded = self._scratch_memory(size)
            rows.decode(first, decoded)
            rows.hand_out(piece, decoded)
            return True
        key = rows.key(first)
        with self._chunks.hold(key, size, lambda to: rows.decode(first, to), wait=wait) as chunk:
            if chunk is not None:
                rows.hand_out(piece, chunk)
            return chunk is not None

    def _scratch_memory(self, size: int) -> Window:
        """Return memory of this thread, good until it asks again."""
        memory: Window | None = getattr(self._scratch, "memory", None)
        if memory is None or memory.size < size:
            memory = self._scratch.memory = Window.over(np.empty(size, np.uint8))
        return memory.part(0, size)


class _Rows:
    """The rows of packed extents, as plain numbers, and the places that they go to."""

    def __init__(
        self, files: Sequence[MappedFile], extents: Extents, packing: Packing, out: Bytes
    ) -> None:
        self._files, self._out, self._codecs = files, Window.over(out), packing.codecs
        self._numbers, self._codec = extents.file.tolist(), packing.codec.tolist()
        self._offset, self._length = extents.offset.tolist(), extents.length.tolist()
        self._whole, self._begin = packing.whole.tolist(), packing.begin.tolist()
        self._size = packing.size.tolist()
        self._slot = (np.cumsum(packing.size) - packing.size).tolist()

    def slot(self, row: int) -> Window:
        """Return where the bytes of a row go."""
        return self._out.part(self._slot[row], self._size[row])

    def copy(self, row: int) -> None:
        """Put a row that is stored as it is into its place."""
        start = self._offset[row] + self._begin[row]
        self.slot(row).array[:] = self._files[row].data[start : start + self._size[row]]

    def decode(self, row: int, out: Window) -> None:
        """Decode all that is stored for a row."""
        file = self._files[row]
        stored = Window(file.data, file.address, self._offset[row], self._length[row])
        try:
            self._codecs[self._codec[row]].decode(stored, out)
        except ValueError as problem:
            raise corrupt(file.path, str(problem)) from problem

    def key(self, row: int) -> tuple[int, int]:
        """Return what tells the stored range of a row from others."""
        return self._numbers[row], self._offset[row]

    def keeps(self, row: int) -> bool:
        """Return whether what a row is decoded to is worth keeping."""
        codec: int = self._codec[row]
        return self._codecs[codec].keeps

    def decoded_bytes(self, row: int) -> int:
        """Return how many bytes all that is stored for a row decodes to."""
        size: int = self._whole[row]
        return size

    def pieces(self, parts: Column) -> list[list[int]]:
        """Group rows by the stored range that they are parts of, in the order of the files."""
        ordered = sorted(parts.tolist(), key=self.key)
        return [list(rows) for _, rows in groupby(ordered, key=self.key)]

    def hand_out(self, piece: Sequence[int], decoded: Window) -> None:
        """Put rows into their places that are parts of what was decoded."""
        for row in piece:
            self.slot(row).array[:] = decoded.part(self._begin[row], self._size[row]).array


def arena_for(
    lengths: Column, out: NDArray[np.uint8] | None
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return the offsets of images of these lengths, and an arena that holds them (or ``out``).

    Raises:
        ValueError: ``out`` is too small.
    """
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    total = int(offsets[-1])
    if out is None:
        return offsets, np.empty(total, np.uint8)
    if out.size < total:
        raise ValueError(f"out holds {out.size} bytes; these samples need {total}")
    return offsets, out


def corrupt(path: str, detail: str) -> BadSampleError:
    """Return the error for a file whose content is wrong."""
    return BadSampleError(reason="corrupt", detail=f"{path}: {detail}")


def _check_ends(files: Sequence[MappedFile], extents: Extents) -> None:
    """Refuse ranges outside of their files: reading there would kill the process (SIGBUS)."""
    sizes = np.array([file.size for file in files])
    offset, length = extents.offset, extents.length
    outside = (offset < 0) | (length < 0) | (offset > sizes - length)
    if outside.any():
        row = int(np.argmax(outside))
        end = int(offset[row]) + int(length[row])
        file = files[row % len(files)]
        detail = f"{file.size} bytes, and a sample reaches to byte {end}: it was cut short"
        raise corrupt(file.path, detail)
