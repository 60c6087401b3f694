"""Owns reading Parquet files with image files in a column, as the library ``datasets`` has them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.contract import Capability
from fastdata_cli.errors import BadSampleError, DamagedDatasetError, words_of
from fastdata_cli.extents import Bytes, Column
from fastdata_cli.formats.base import Images, IndexedReader
from fastdata_cli.formats.foreign import distinct_keys
from fastdata_cli.formats.parquet.columns import dotted, values_at
from fastdata_cli.formats.parquet.footers import read_footers
from fastdata_cli.formats.parquet.groups import RowBlocks, binary_views, open_file
from fastdata_cli.formats.parquet.metadata import metadata_texts
from fastdata_cli.formats.sharded.find import find_shards
from fastdata_cli.formats.sharded.kind import ShardNames
from fastdata_cli.key_table import KeyTable
from fastdata_cli.keys import to_text
from fastdata_cli.options import Options, option
from fastdata_cli.sample import UNLABELLED, Batch, Payload, Schema
from fastdata_cli.storage.gather import arena_for
from fastdata_cli.storage.table import SampleTable

_MAGIC = b"PAR1"


def _is_parquet(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


PARQUETS = ShardNames(".parquet", re.compile(r"\.parquet$", re.IGNORECASE), _is_parquet)
"""Parquet files, which may be shards of one dataset."""


@dataclass(frozen=True, kw_only=True)
class ParquetReadOptions(Options):
    """How Parquet files are read."""

    field: str | None = option(None, "column of the images; found by type unless given")


@dataclass(frozen=True, slots=True)
class _Opened:
    images: RowBlocks
    metadata: RowBlocks | None


class ParquetReader(IndexedReader[_Opened]):
    """Reads one file, or a folder or pattern of them, row group by row group."""

    capabilities = Capability(0)
    options: ParquetReadOptions

    def _start(self) -> None:
        self._shards = shards = find_shards(self.path, PARQUETS)
        self._footers = footers = read_footers(shards.paths, self.options.field)
        self.schema = Schema(
            payload=Payload.ENCODED,
            num_samples=int(footers.groups.firsts[-1]),
            class_names=footers.columns.class_names,
        )
        notes = {f"field-{name}": len(self) for name in footers.columns.ignored}
        self.notes = notes | ({"missing-shard": shards.missing} if shards.missing else {})

    def _open(self) -> _Opened:
        groups, columns = self._footers.groups, self._footers.columns
        others = [(name,) for name in columns.others]
        metadata = RowBlocks(groups, others) if others else None
        return _Opened(RowBlocks(groups, [columns.image]), metadata)

    def _close(self, handle: _Opened) -> None:
        """Nothing to do: files are closed with the blocks."""

    def _load_table(self) -> SampleTable:
        labels: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
        keys: list[KeyTable] = []
        first = 0
        for path in self._shards.paths:
            found = self._side(path, first)
            keys.append(found[0])
            labels.append(found[1])
            first += len(found[1])
        joined = np.concatenate(labels)
        if len(joined) != len(self):
            raise DamagedDatasetError(
                f"{self.path}: {len(joined)} rows, and the footers say {len(self)}",
                path=str(self.path),
            )
        unknown = np.broadcast_to(np.int64(0), len(self))
        keys_of_all = distinct_keys(KeyTable.concatenate(keys))
        return SampleTable(keys_of_all, joined, np.empty(0, np.uint64), unknown)

    def _side(self, path: Path, first: int) -> tuple[KeyTable, NDArray[np.int64]]:
        """Return keys and labels of one file, whose first row has that position."""
        import pyarrow

        columns = self._footers.columns
        label = None if columns.label is None else (columns.label,)
        wanted = [dotted(each) for each in (columns.key, label) if each is not None]
        try:
            file = open_file(path)
            table = file.read(columns=wanted, use_threads=False)
            count = file.metadata.num_rows
            labels = np.full(count, UNLABELLED, np.int64)
            if label is not None:
                labels = _whole_numbers(values_at(table, label))
            paths = [None] * count if columns.key is None else _names(values_at(table, columns.key))
        except (pyarrow.ArrowException, OSError, ValueError, MemoryError) as problem:
            raise DamagedDatasetError(
                f"{path}: labels and names cannot be read ({words_of(problem)})", path=str(path)
            ) from problem
        names = (to_text(each) if each else f"{first + at:08d}" for at, each in enumerate(paths))
        return KeyTable.from_texts(names), labels

    def _fetch(self, handle: _Opened, indices: Column, out: NDArray[Any] | None) -> Images:
        found: list[Bytes] = [np.empty(0, np.uint8)] * len(indices)
        for block, positions, rows in handle.images.rows(indices):
            for position, view in zip(positions.tolist(), self._views(block, rows), strict=True):
                if view is None:
                    raise self._without_bytes(int(indices[position]))
                found[position] = view
        offsets, arena = arena_for(np.array([image.size for image in found], np.int64), out)
        if found:
            np.concatenate(found, out=arena[: offsets[-1]])
        return Images(arena, offsets)

    def _views(self, block: Any, rows: Column) -> list[Bytes | None]:
        return binary_views(values_at(block, self._footers.columns.image), rows)

    def _without_bytes(self, index: int) -> BadSampleError:
        key = self._table.get().keys[index]
        detail = f"row {index} has no bytes of an image"
        return BadSampleError(key=key, reason="missing-image", detail=detail)

    def read_many(self, indices: Sequence[int] | Column, out: NDArray[Any] | None = None) -> Batch:
        """Return the samples at ``indices``; further columns are their metadata."""
        batch, metadata = super().read_many(indices, out), self._handle.get().metadata
        if metadata is None:
            return batch
        return replace(batch, metadata=metadata_texts(metadata, self._checked(indices)))

    def spans(self, at_most: int) -> Sequence[range]:
        """Cut between row groups."""
        firsts = self._footers.groups.firsts
        count = max(1, min(at_most, len(firsts) - 1))
        cuts = firsts[np.linspace(0, len(firsts) - 1, count + 1).astype(np.int64)].tolist()
        return [range(begin, end) for begin, end in pairwise(cuts) if begin < end or count == 1]

    def files(self) -> Iterator[Path]:
        """Yield the files."""
        yield from self._shards.paths

    def describe(self) -> Mapping[str, Any]:
        """Return the columns that are read, and how rows are grouped."""
        groups, columns = self._footers.groups, self._footers.columns
        rows = groups.rows.tolist()
        facts: dict[str, Any] = {
            "files": len(self._shards.paths),
            "row_groups": len(groups),
            "rows_per_group": [min(rows, default=0), max(rows, default=0)],
            "codec": ", ".join(self._footers.codecs),
            "image": dotted(columns.image),
            "label": columns.label,
        }
        remarks = [*self._shards.remarks, *columns.remarks, *_kinds(self._shards.paths)]
        return {**facts, "notes": remarks} if remarks else facts


def _names(column: Any) -> list[str | None]:
    """Return a column of texts."""
    import pyarrow

    names: list[str | None] = column.cast(pyarrow.string()).to_pylist()
    return names


def _whole_numbers(column: Any) -> NDArray[np.int64]:
    """Return a column of integers; null means no label."""
    import pyarrow

    found: NDArray[np.int64] = column.cast(pyarrow.int64()).fill_null(UNLABELLED).to_numpy()
    return found


def _kinds(paths: Sequence[Path]) -> list[str]:
    """Return what to say of files whose names tell of several splits."""
    kinds = sorted({re.split(r"[-_.]?\d", path.stem, maxsplit=1)[0] for path in paths})
    if len(kinds) < 2:
        return []
    listed = ", ".join(kinds[:10])
    return [f"files of {len(kinds)} kinds are read as one: {listed}"]
