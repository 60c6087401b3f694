"""Owns how further columns of a row become the metadata of its sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastdata_cli.errors import BadSampleError, words_of
from fastdata_cli.extents import Column
from fastdata_cli.formats.parquet.groups import RowBlocks
from fastdata_cli.sample import metadata_text

_AS_THEY_ARE = (str, int, float, type(None))


def metadata_texts(blocks: RowBlocks, indices: Column) -> list[str | None]:
    """Return what stands in the blocks' columns as JSON, one object or nothing a row.

    Nulls are left out; what JSON does not have (times, decimal numbers) becomes text.

    Raises:
        BadSampleError: a block cannot be decoded, or holds a text that is not UTF-8.
    """
    texts: list[str | None] = [None] * len(indices)
    for block, positions, rows in blocks.rows(indices):
        for position, row in zip(positions.tolist(), rows.tolist(), strict=True):
            texts[position] = metadata_text(_plain(_row(block, row)))
    return texts


def _row(block: Any, row: int) -> Mapping[str, Any]:
    import pyarrow

    try:
        (found,) = block.slice(row, 1).to_pylist()
    except (pyarrow.ArrowException, ValueError, ArithmeticError) as problem:
        detail = f"its further columns cannot be read ({words_of(problem)})"
        raise BadSampleError(reason="corrupt", detail=detail) from problem
    return dict(found)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items() if each is not None}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value if isinstance(value, _AS_THEY_ARE) else str(value)
