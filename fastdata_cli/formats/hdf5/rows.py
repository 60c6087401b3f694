"""Moves rows of an HDF5 dataset into a batch: mapped bytes where they lie plain, else by HDF5.

A row is what one position of the first axis holds: an image of N×H×W×C, a byte of encoded data.
Unfiltered chunks are copied from the mapped file, past HDF5 and the lock that h5py holds over all
its calls, so that threads read side by side. Everything else goes through HDF5.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.errors import BadSampleError, DamagedDatasetError
from fastdata_cli.formats.hdf5.filters import filters_of
from fastdata_cli.formats.hdf5.open import reason
from fastdata_cli.storage.gather import take_ranges

# The least that HDF5's cache of decompressed chunks gets; a single larger chunk always fits.
_CHUNK_CACHE = 4 << 20


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one open dataset.

    Build it with ``open_rows``. ``address`` says where each block of ``block_rows`` rows lies in
    the file, -1 where it was never written; None when only HDF5 can tell.
    """

    dataset: Any
    row_bytes: int
    block_rows: int
    address: NDArray[np.int64] | None
    mapped: NDArray[np.uint8] | None
    """The bytes of the file, if rows lie in it as they are; else None."""

    def fetch(
        self, starts: NDArray[np.int64], counts: NDArray[np.int64], out: NDArray[Any]
    ) -> None:
        """Fill ``out`` with runs of rows, end to end.

        Args:
            starts: int64[K], first row of each run.
            counts: int64[K], rows in each run.
            out: C-contiguous; the dataset's row shape behind as many rows as the runs have.

        Raises:
            BadSampleError: a row was never written, or HDF5 cannot decompress it.
        """
        blocks, first, stop = self._pieces(starts, counts)
        if self.address is not None and (self.address[blocks] < 0).any():
            lost = int(blocks[self.address[blocks] < 0][0])
            raise BadSampleError(
                reason="missing", detail=f"chunk {lost} of {self.dataset.name} was never written"
            )
        if self.mapped is None or self.address is None:
            self._read(starts, counts, out)
            return
        begins = self.address[blocks] + (first - blocks * self.block_rows) * self.row_bytes
        flat = out.reshape(-1).view(np.uint8)
        take_ranges(self.mapped, begins, (stop - first) * self.row_bytes, flat)

    def _pieces(
        self, starts: NDArray[np.int64], counts: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Cut runs at block borders: block, first row and last row + 1 of each piece."""
        low = starts // self.block_rows
        number = np.where(counts > 0, (starts + counts - 1) // self.block_rows - low + 1, 0)
        run = np.repeat(np.arange(len(starts)), number)
        blocks = low[run] + np.arange(len(run)) - np.repeat(np.cumsum(number) - number, number)
        first = np.maximum(starts[run], blocks * self.block_rows)
        stop = np.minimum((starts + counts)[run], (blocks + 1) * self.block_rows)
        return blocks, first, stop

    def _read(
        self, starts: NDArray[np.int64], counts: NDArray[np.int64], out: NDArray[Any]
    ) -> None:
        # In the order of the file, so that each chunk is decompressed once.
        for start, stop, position in sorted(_joined(starts, counts)):
            where = slice(position, position + stop - start)
            try:
                self.dataset.read_direct(out, np.s_[start:stop], np.s_[where])
            except (OSError, RuntimeError) as problem:
                raise BadSampleError(reason="corrupt", detail=reason(problem)) from problem


def open_rows(file: Any, name: str, path: Path) -> Rows:
    """Find out how the rows of ``file[name]`` are best read."""
    dataset = _with_chunk_cache(file, name)
    row_shape = dataset.shape[1:]
    row_bytes = prod(row_shape) * dataset.dtype.itemsize
    block_rows = dataset.chunks[0] if dataset.chunks else max(len(dataset), 1)
    address = _addresses(dataset, block_rows)
    mapped = None
    if address is not None and _lies_plain(dataset):
        mapped = np.memmap(path, np.uint8, "r").view(np.ndarray)
        end = int(address.max(initial=0)) + block_rows * row_bytes
        if end > len(mapped):
            raise DamagedDatasetError(
                f"{path}: {len(mapped)} bytes, and {dataset.name} reaches to byte {end}",
                path=str(path),
                expected=end,
                found=len(mapped),
            )
    return Rows(dataset, row_bytes, block_rows, address, mapped)


def _with_chunk_cache(file: Any, name: str) -> Any:
    import h5py

    dataset = file[name]
    if dataset.chunks is None:
        return dataset
    access = h5py.h5p.create(h5py.h5p.DATASET_ACCESS)
    chunk_bytes = prod(dataset.chunks) * dataset.dtype.itemsize
    access.set_chunk_cache(521, max(_CHUNK_CACHE, chunk_bytes), 1.0)
    return h5py.Dataset(h5py.h5d.open(file.id, name.encode(), access))


def _addresses(dataset: Any, block_rows: int) -> NDArray[np.int64] | None:
    """Return where each block of rows lies; of several chunks to a block, the last one counts."""
    from h5py import h5d

    kind = dataset.id.get_create_plist().get_layout()
    if kind == h5d.CONTIGUOUS and not dataset.external:
        offset = dataset.id.get_offset()
        return np.array([-1 if offset is None else offset], np.int64)
    if kind != h5d.CHUNKED:
        return None
    address = np.full(-(-len(dataset) // block_rows), -1, np.int64)
    present = np.zeros(len(address), np.int64)

    def note(chunk: Any) -> None:
        block = chunk.chunk_offset[0] // block_rows
        address[block] = chunk.byte_offset
        present[block] += 1

    dataset.id.chunk_iter(note)
    columns = zip(dataset.shape[1:], dataset.chunks[1:], strict=True)
    address[present < prod(-(-side // chunk) for side, chunk in columns)] = -1
    return address


def _lies_plain(dataset: Any) -> bool:
    """Return whether rows can be taken from the file as they are."""
    whole_rows = dataset.chunks is None or dataset.chunks[1:] == dataset.shape[1:]
    no_user_block = dataset.file.userblock_size == 0  # addresses count from behind it
    return bool(whole_rows and no_user_block and dataset.dtype.isnative and not filters_of(dataset))


def _joined(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> Iterator[tuple[int, int, int]]:
    """Yield first row, last row + 1 and place in the batch of runs, joined where both follow on."""
    if not len(starts):
        return
    breaks = np.flatnonzero(starts[1:] != (starts + counts)[:-1]) + 1
    places = np.cumsum(counts) - counts
    for begin, end in zip([0, *breaks.tolist()], [*breaks.tolist(), len(starts)], strict=True):
        yield int(starts[begin]), int(starts[end - 1] + counts[end - 1]), int(places[begin])
