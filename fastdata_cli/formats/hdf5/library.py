"""Images through h5py: what cannot be located, and what ours is compared with."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.errors import BadSampleError
from fastdata_cli.extents import Bytes, Column, cut
from fastdata_cli.formats.hdf5.heaps import HeapValues
from fastdata_cli.formats.hdf5.index import read_table
from fastdata_cli.formats.hdf5.open import open_file, reason

# The least that HDF5's cache of decompressed chunks gets; a single larger chunk always fits.
_CHUNK_CACHE = 4 << 20


class RowsLibrary:
    """Images that are rows of a dataset, or runs of its rows.

    Args:
        path: of the file.
        array: name of the dataset.
        runs: as of ``ChunkedImages``.
    """

    def __init__(self, path: Path, array: str, runs: tuple[Column, Column] | None = None) -> None:
        self._file = open_file(path)
        self._dataset, self._runs = _with_chunk_cache(self._file, array), runs
        self._table = read_table(self._dataset)

    def images(self, indices: Column) -> list[Bytes]:
        """Return the images."""
        starts, counts = indices, np.ones_like(indices)
        if self._runs is not None:
            starts, counts = (column[indices] for column in self._runs)
        if self._table is not None:  # HDF5 reads what was never written as fill values
            self._table.find(cut(starts, counts, self._table.rows)[1], self._dataset.name)
        dataset = self._dataset
        rows = np.empty((int(counts.sum()), *dataset.shape[1:]), dataset.dtype.newbyteorder("="))
        self._read(starts, counts, rows)
        each = prod(dataset.shape[1:]) * dataset.dtype.itemsize
        flat, ends = rows.reshape(-1).view(np.uint8), (np.cumsum(counts) * each).tolist()
        return [flat[end - count * each : end] for end, count in zip(ends, counts, strict=True)]

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _read(self, starts: Column, counts: Column, out: NDArray[Any]) -> None:
        # In the order of the file, so that each chunk is decompressed once.
        for start, stop, position in sorted(_joined(starts, counts)):
            where = slice(position, position + stop - start)
            try:
                self._dataset.read_direct(out, np.s_[start:stop], np.s_[where])
            except (OSError, RuntimeError) as problem:
                raise BadSampleError(reason="corrupt", detail=reason(problem)) from problem


class RaggedLibrary:
    """Images that are the elements of a dataset: sequences of bytes, each of its own length.

    Args:
        path: of the file.
        array: name of the dataset.
    """

    def __init__(self, path: Path, array: str) -> None:
        self._file = open_file(path)  # HDF5 then lets nobody change it
        self._values = HeapValues(self._file[array])

    def images(self, indices: Column) -> list[Bytes]:
        """Return the images."""
        return [np.frombuffer(value, np.uint8) for value in self._values.read(indices)]

    def close(self) -> None:
        """Close the file."""
        self._values.close()
        self._file.close()


def _with_chunk_cache(file: Any, name: str) -> Any:
    import h5py

    dataset = file[name]
    if dataset.chunks is None:
        return dataset
    access = h5py.h5p.create(h5py.h5p.DATASET_ACCESS)
    chunk_bytes = prod(dataset.chunks) * dataset.dtype.itemsize
    access.set_chunk_cache(521, max(_CHUNK_CACHE, chunk_bytes), 1.0)
    return h5py.Dataset(h5py.h5d.open(file.id, name.encode(), access))


def _joined(starts: Column, counts: Column) -> Iterator[tuple[int, int, int]]:
    """Yield first row, last row + 1 and place in the batch of runs, joined where both follow on."""
    if not len(starts):
        return
    breaks = np.flatnonzero(starts[1:] != (starts + counts)[:-1]) + 1
    places = np.cumsum(counts) - counts
    for begin, end in zip([0, *breaks.tolist()], [*breaks.tolist(), len(starts)], strict=True):
        yield int(starts[begin]), int(starts[end - 1] + counts[end - 1]), int(places[begin])
