"""Where the chunks of an HDF5 dataset are in its file, and what undoes their filters."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.errors import BadSampleError
from fastdata_cli.extents import AS_STORED, Codec, Column
from fastdata_cli.formats.chunked import ChunkedRows, StoredChunks
from fastdata_cli.formats.hdf5.decoding import codec_for
from fastdata_cli.formats.hdf5.filters import Filter, filters_of
from fastdata_cli.storage.mapping import FileMaps, MappedFile


@dataclass(frozen=True, slots=True)
class ChunkTable:
    """Where blocks of rows are that were written: chunks, or all of a dataset that has none.

    Of several chunks to a block, the last one counts. One row a block that is whole, B of them.
    """

    rows: int
    """Of a block."""
    blocks: int
    """How many there are, written or not."""
    number: Column
    """int64[B], the numbers of those that are whole, rising."""
    address: Column
    size: Column
    """Bytes that are stored."""
    skipped: Column
    """Filters that a chunk did not go through: bit i is filter i."""

    def has(self, first: int, last: int) -> bool:
        """Tell whether all blocks from one to another, itself included, are whole."""
        begin, end = np.searchsorted(self.number, (first, last + 1)).tolist()
        return bool(end - begin == last + 1 - first)

    def find(self, blocks: Column, name: str) -> Column:
        """Return the rows of some blocks of the dataset ``name``.

        Raises:
            BadSampleError: one of them was never written.
        """
        if len(self.number) == self.blocks > 0 and self.number[-1] == self.blocks - 1:
            return blocks  # all are there, as nearly always: each in the row of its number
        found = np.searchsorted(self.number, blocks)
        lost = found == len(self.number)
        lost[~lost] = self.number[found[~lost]] != blocks[~lost]
        if lost.any():
            detail = f"chunk {blocks[np.argmax(lost)]} of {name} was never written"
            raise BadSampleError(reason="missing", detail=detail)
        return found


def read_table(dataset: Any) -> ChunkTable | None:
    """Read where the chunks of a dataset are; None where HDF5 alone can tell."""
    from h5py import h5d

    kind = dataset.id.get_create_plist().get_layout()
    if kind == h5d.CONTIGUOUS and not dataset.external:
        offset = dataset.id.get_offset()
        one = [] if offset is None else [(0, offset, dataset.size * dataset.dtype.itemsize, 0)]
        columns = np.array(one, np.int64).reshape(-1, 4).T
        return ChunkTable(max(len(dataset), 1), 1, *columns)
    if kind != h5d.CHUNKED:
        return None
    rows = dataset.chunks[0]
    blocks, columns = -(-len(dataset) // rows), _whole_blocks(dataset)
    return ChunkTable(rows, blocks, *columns)


def _whole_blocks(dataset: Any) -> NDArray[np.int64]:
    """Return the columns of a table, int64[4, B], from the chunks that are there."""
    rows = dataset.chunks[0]
    # A shape may claim any number of chunks; only these take memory.
    found = array("q")

    def note(chunk: Any) -> None:
        found.extend((chunk.chunk_offset[0] // rows, chunk.byte_offset, chunk.size))
        found.append(chunk.filter_mask)

    dataset.id.chunk_iter(note)
    chunks = np.array(found, np.int64).reshape(-1, 4)
    chunks = chunks[np.argsort(chunks[:, 0], kind="stable")]
    sides = zip(dataset.shape[1:], dataset.chunks[1:], strict=True)
    wanted = prod(-(-side // chunk) for side, chunk in sides)
    _, first, count = np.unique(chunks[:, 0], return_index=True, return_counts=True)
    last = (first + count - 1)[count >= wanted]
    return np.ascontiguousarray(chunks[last].T)


def is_located(dataset: Any) -> bool:
    """Return whether it can be said where the rows of a dataset are stored, and what undoes it."""
    from h5py import h5d, h5t

    kind = dataset.id.get_create_plist().get_layout()
    in_file = kind == h5d.CHUNKED or (kind == h5d.CONTIGUOUS and not dataset.external)
    whole_rows = dataset.chunks is None or dataset.chunks[1:] == dataset.shape[1:]
    no_user_block = dataset.file.userblock_size == 0  # addresses count from behind it
    # HDF5 has numbers of which some bits do not count; NumPy's dtype does not tell.
    as_in_memory = dataset.dtype.isnative and dataset.id.get_type() == h5t.py_create(dataset.dtype)
    return bool(in_file and whole_rows and no_user_block and as_in_memory) and _are_known(dataset)


def _are_known(dataset: Any) -> bool:
    try:
        codec_for(filters_of(dataset))
    except LookupError:
        return False
    return True


class ChunkPlaces:
    """The chunks of a dataset that ``is_located``: a ``ChunkIndex``.

    Args:
        dataset: an open dataset.
        path: of its file.
    """

    def __init__(self, dataset: Any, path: Path) -> None:
        table = read_table(dataset)
        assert table is not None, "it is located"
        self._table, self._name = table, dataset.name
        self.files = FileMaps.single(MappedFile(str(path)))
        self.codecs, self._codec = _codecs(filters_of(dataset), table.skipped)
        row_bytes = prod(dataset.shape[1:]) * dataset.dtype.itemsize
        self.rows = ChunkedRows(self, table.blocks, table.rows, row_bytes)
        """Where the rows of the dataset are."""

    def find(self, chunks: Column) -> StoredChunks:
        """Return where chunks are."""
        table = self._table
        at = table.find(chunks, self._name)
        columns = (np.zeros_like(chunks), table.address[at], table.size[at])
        return StoredChunks(*columns, self._codec[at])


def _codecs(filters: list[Filter], skipped: Column) -> tuple[tuple[Codec, ...], Any]:
    """Return the codecs that are needed, and which of them each chunk went through."""
    codecs: list[Codec] = []
    which = np.full(len(skipped), AS_STORED, np.int8)
    for mask in np.unique(skipped).tolist():
        codec = codec_for(filters, mask)
        if codec is not None:
            which[skipped == mask] = len(codecs)
            codecs.append(codec)
    return tuple(codecs), which
