"""Owns how further columns of a row become the metadata of its sample."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from fastdata_cli.extents import Column
from fastdata_cli.formats.parquet.groups import RowBlocks
from fastdata_cli.sample import metadata_text

_AS_TEXT = (datetime, date, time, timedelta, Decimal)


def metadata_texts(blocks: RowBlocks, indices: Column) -> list[str | None]:
    """Return what stands in the blocks' columns as JSON, one object or nothing a row.

    Nulls are left out; times and decimal numbers become text.

    Raises:
        BadSampleError: a block cannot be decoded.
    """
    texts: list[str | None] = [None] * len(indices)
    for block, positions, rows in blocks.rows(indices):
        for position, row in zip(positions.tolist(), rows.tolist(), strict=True):
            (found,) = block.slice(row, 1).to_pylist()
            texts[position] = metadata_text(_plain(found))
    return texts


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items() if each is not None}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, _AS_TEXT) else value
