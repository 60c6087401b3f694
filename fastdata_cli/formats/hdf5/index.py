"""Where the chunks of an HDF5 dataset are in its file, and what undoes their filters."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from fastdata_cli.errors import BadSampleError
from fastdata_cli.extents import AS_STORED, Codec, Column
from fastdata_cli.formats.chunked import ChunkedRows, StoredChunks
from fastdata_cli.formats.hdf5.decoding import codec_for
from fastdata_cli.formats.hdf5.filters import Filter, filters_of
from fastdata_cli.storage.mapping import FileMaps, MappedFile


@dataclass(frozen=True, slots=True)
class ChunkTable:
    """Where each block of rows is: a chunk, or all of a dataset that is not chunked.

    Of several chunks to a block, the last one counts.
    """

    rows: int
    """Of a block."""
    address: Column
    """-1 where a chunk of the block was never written."""
    size: Column
    """Bytes that are stored."""
    skipped: Column
    """Filters that a chunk did not go through: bit i is filter i."""

    def check(self, blocks: Column, name: str) -> None:
        """Raise BadSampleError if one of the blocks was never written."""
        lost = self.address[blocks] < 0
        if lost.any():
            detail = f"chunk {blocks[np.argmax(lost)]} of {name} was never written"
            raise BadSampleError(reason="missing", detail=detail)


def read_table(dataset: Any) -> ChunkTable | None:
    """Read where the chunks of a dataset are; None where HDF5 alone can tell."""
    from h5py import h5d

    kind = dataset.id.get_create_plist().get_layout()
    if kind == h5d.CONTIGUOUS and not dataset.external:
        offset = dataset.id.get_offset()
        address = np.array([-1 if offset is None else offset], np.int64)
        size = np.array([dataset.size * dataset.dtype.itemsize])
        return ChunkTable(max(len(dataset), 1), address, size, np.zeros(1, np.int64))
    if kind != h5d.CHUNKED:
        return None
    rows = dataset.chunks[0]
    table = np.zeros((-(-len(dataset) // rows), 3), np.int64)
    present = np.zeros(len(table), np.int64)

    def note(chunk: Any) -> None:
        block = chunk.chunk_offset[0] // rows
        table[block] = chunk.byte_offset, chunk.size, chunk.filter_mask
        present[block] += 1

    dataset.id.chunk_iter(note)
    columns = zip(dataset.shape[1:], dataset.chunks[1:], strict=True)
    table[present < prod(-(-side // chunk) for side, chunk in columns), 0] = -1
    return ChunkTable(rows, *np.ascontiguousarray(table.T))


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
        self.rows = ChunkedRows(self, len(table.address), table.rows, row_bytes)
        """Where the rows of the dataset are."""

    def find(self, chunks: Column) -> StoredChunks:
        """Return where chunks are."""
        table = self._table
        table.check(chunks, self._name)
        columns = (np.zeros_like(chunks), table.address[chunks], table.size[chunks])
        return StoredChunks(*columns, self._codec[chunks])


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
