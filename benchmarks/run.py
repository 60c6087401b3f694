"""Owns the command line of the comparison: ``python -m benchmarks.run --help``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measuring import Settings, run_tables
from benchmarks.row import Table
from benchmarks.suite import TABLES, table_named
from fastdata_cli.errors import EXIT_INTERRUPTED, FastdataError, UsageError

_ROOT = Path(__file__).resolve().parents[1]


def main(words: Sequence[str] | None = None) -> int:
    """Measure what is asked for; return the exit code."""
    asked = _parser().parse_args(words)
    if asked.list:
        for table in TABLES:
            for row in table.rows:
                print(f"{row.name:28} {row.what}")
        return 0
    try:
        run_tables(
            _chosen(asked.only),
            Settings(
                work=asked.work,
                photos=asked.photos,
                samples=asked.samples,
                decoded=asked.decoded,
                many=asked.many,
                rounds=asked.rounds,
                seconds=asked.seconds,
                save=asked.save,
                fresh=asked.fresh,
                peers=not asked.no_peers,
            ),
        )
    except FastdataError as problem:
        print(
            f"error: {problem}" + (f"\nhint: {problem.hint}" if problem.hint else ""),
            file=sys.stderr,
        )
        return problem.exit_code
    except KeyboardInterrupt:
        print("interrupted: a record has the tables that were done", file=sys.stderr)
        return EXIT_INTERRUPTED
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    add = parser.add_argument
    add("--only", nargs="+", metavar="ROW", help="tables or rows (pixels, pixels/raw); default all")
    add("--list", action="store_true", help="list the rows, and measure nothing")
    add("--rounds", type=int, default=5, help="measured rounds (default 5)")
    add("--samples", type=int, default=3000, help="samples of a set (default 3000)")
    add("--decoded", type=int, default=1000, help="of them, where each is decoded (default 1000)")
    add("--many", type=int, default=1_000_000, help="samples of sets that are large by number")
    add("--seconds", type=float, default=0.6, help="least seconds of a repeat (default 0.6)")
    add(
        "--photos",
        type=Path,
        default=os.environ.get("PHOTOS") or None,
        help="a folder of JPEG files",
    )
    add("--work", type=Path, default=_ROOT / "build" / "bench", help="where data is made and kept")
    add("--save", type=Path, help="write the record there, after each result")
    add("--fresh", action="store_true", help="make images and containers anew")
    add("--no-peers", action="store_true", help="without other libraries")
    return parser


def _chosen(only: Sequence[str] | None) -> list[Table]:
    """Return the tables asked for, by name or by names of their rows and peers."""
    if not only:
        return [table for table in TABLES if table.by_default]
    tables = {name: table_named(name.partition("/")[0]) for name in only}
    found: dict[str, Table] = {}
    for name, table in tables.items():
        if "/" not in name:
            found[table.name] = table
            continue
        known = [table.case_name(side) for side in table.sides]
        if name not in known:
            raise UsageError(f"no row is called {name}", hint=f"in its table: {', '.join(known)}")
        same = [other for other, its in tables.items() if its is table]
        found.setdefault(table.name, table.only(same))
    return list(found.values())


if __name__ == "__main__":
    sys.exit(main())
