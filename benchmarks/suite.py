"""Owns the list of tables, in the order in which they are measured and printed."""

from __future__ import annotations

from benchmarks.row import Table
from benchmarks.rows import cold, convert, encoded, limits, pixels
from fastdata_cli.errors import UsageError

TABLES: tuple[Table, ...] = (
    encoded.LOADER,
    encoded.TORCH,
    encoded.SMALLER,
    encoded.LARGE,
    pixels.LOADER,
    pixels.MEMORY,
    pixels.CODECS,
    pixels.CHUNKS,
    pixels.TORCH,
    cold.PIXELS,
    pixels.BARE,
    convert.BYTES,
    convert.PIXELS,
    limits.MEMORY,
    limits.OPENING,
    limits.OPENING_REST,
    limits.FLAT,
)


def table_named(name: str) -> Table:
    """Return a table.

    Raises:
        UsageError: there is none of that name.
    """
    for table in TABLES:
        if table.name == name:
            return table
    known = ", ".join(table.name for table in TABLES)
    raise UsageError(f"no table is called {name}", hint=f"tables: {known}")
