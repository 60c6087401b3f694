"""Owns reading rows of Parquet files, in any order, in bounded memory.

Row groups are decoded as they come, in blocks of some rows, and the last blocks are kept: rows of
a block cost little, and a jump into a large row group costs all of it up to there. A page is the
least that can be decoded: some writers put a thousand images into one.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.errors import BadSampleError, words_of
from fastdata_cli.extents import Column
from fastdata_cli.formats.parquet.columns import ColumnPath, dotted

BLOCK_BYTES = 32 << 20
_KEPT_BYTES = 96 << 20


@dataclass(frozen=True, slots=True)
class Groups:
    """The row groups of some files, in order; G of them."""

    paths: tuple[Path, ...]
    file: Column
    """int64[G], the file that each is in."""
    number: Column
    """int64[G], its number in the file."""
    firsts: Column
    """int64[G + 1], the first row of each in the dataset; the last is the number of rows."""
    sizes: Column
    """int64[G], its bytes when decoded, as the footer has it."""

    def __len__(self) -> int:
        return len(self.file)

    @property
    def rows(self) -> Column:
        """int64[G], how many rows each has."""
        return np.diff(self.firsts)

    def name(self, group: int) -> str:
        """Return how messages call a row group."""
        return f"{self.paths[int(self.file[group])]}, row group {int(self.number[group])}"


class RowBlocks:
    """Decoded blocks of some columns; threads share it and take turns.

    Args:
        groups: the row groups.
        columns: what is read of them.
    """

    def __init__(self, groups: Groups, columns: Sequence[ColumnPath]) -> None:
        self._groups, self._columns = groups, columns
        each = np.maximum(groups.sizes // np.maximum(groups.rows, 1), 1)
        self._block_rows = np.maximum(BLOCK_BYTES // each, 1)
        self._kept: OrderedDict[tuple[int, int], Any] = OrderedDict()
        self._kept_bytes = 0
        self._broken: dict[int, tuple[int, str]] = {}
        self._stream: tuple[int, Iterator[Any]] = (-1, iter(()))
        self._next = 0
        self._turn = threading.Lock()

    def rows(self, indices: Column) -> Iterator[tuple[Any, Column, Column]]:
        """Yield each block that holds some of the rows, once.

        Yields:
            The block, a ``pyarrow.RecordBatch``; the positions in ``indices`` of the rows that it
            holds; and where in the block these rows are.

        Raises:
            BadSampleError: a block cannot be decoded.
        """
        group = np.searchsorted(self._groups.firsts, indices, "right") - 1
        inside = indices - self._groups.firsts[group]
        block, row = np.divmod(inside, self._block_rows[group])
        order = np.lexsort((block, group))
        cuts = np.flatnonzero(np.diff(group[order]) | np.diff(block[order])) + 1
        for positions in np.split(order, cuts) if len(order) else ():
            first = positions[0]
            yield self._block(int(group[first]), int(block[first])), positions, row[positions]

    def _block(self, group: int, block: int) -> Any:
        with self._turn:
            found = self._kept.get((group, block))
            if found is not None:
                self._kept.move_to_end((group, block))
                return found
            return self._decode_up_to(group, block)

    def _decode_up_to(self, group: int, block: int) -> Any:
        if self._stream[0] != group or self._next > block:
            broken, detail = self._broken.get(group, (block + 1, ""))
            if broken <= block:  # known: not worth decoding all before it again for each row
                raise BadSampleError(reason="corrupt", detail=detail)
            self._stream, self._next = (group, self._open(group)), 0
        while True:
            decoded = self._decode_next(group)
            if self._next > block:
                return decoded

    def _decode_next(self, group: int) -> Any:
        import pyarrow

        each = int(self._block_rows[group])
        wanted = min(each, int(self._groups.rows[group]) - self._next * each)
        try:
            decoded = next(self._stream[1], None)
            if decoded is None or decoded.num_rows != wanted:
                raise ValueError("it has fewer rows than the footer says")
            decoded = decoded.select([path[0] for path in self._columns])
            decoded.validate()
        except (pyarrow.ArrowException, OSError, ValueError, KeyError, MemoryError) as problem:
            self._stream = (-1, iter(()))
            detail = f"{self._groups.name(group)}: {words_of(problem)}"
            self._broken[group] = self._next, detail
            raise BadSampleError(reason="corrupt", detail=detail) from problem
        self._keep((group, self._next), decoded)
        self._next += 1
        return decoded

    def _open(self, group: int) -> Iterator[Any]:
        groups = self._groups
        file = open_file(groups.paths[int(groups.file[group])])
        # Lazily: what is wrong with the file then shows where the first block is asked for.
        yield from file.iter_batches(
            batch_size=int(self._block_rows[group]),
            row_groups=[int(groups.number[group])],
            columns=list(map(dotted, self._columns)),
            use_threads=False,
        )

    def _keep(self, key: tuple[int, int], decoded: Any) -> None:
        again = self._kept.pop(key, None)  # on the way to a block behind it
        self._kept_bytes += decoded.nbytes - (0 if again is None else again.nbytes)
        self._kept[key] = decoded
        while self._kept_bytes > _KEPT_BYTES and len(self._kept) > 1:
            self._kept_bytes -= self._kept.popitem(last=False)[1].nbytes


def open_file(path: Path) -> Any:
    """Open a Parquet file: not mapped, because a file that is cut while it is mapped kills.

    Returns:
        The ``pyarrow.parquet.ParquetFile``; checksums of pages are compared where there are any.
    """
    import pyarrow.parquet

    return pyarrow.parquet.ParquetFile(
        path, memory_map=False, buffer_size=1 << 20, page_checksum_verification=True
    )


def binary_views(values: Any, rows: NDArray[np.int64]) -> list[NDArray[np.uint8] | None]:
    """Return the bytes of some rows of a binary array, as views; None for nulls."""
    import pyarrow.types

    wide = pyarrow.types.is_large_binary(values.type)
    _, ends, content = values.buffers()
    offsets = np.frombuffer(ends, np.int64 if wide else np.int32, len(values) + 1 + values.offset)
    offsets = offsets[values.offset :]
    data = np.frombuffer(content, np.uint8) if content is not None else np.empty(0, np.uint8)
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    return [data[offsets[row] : offsets[row + 1]] if valid[row] else None for row in rows.tolist()]
