"""What clean prints: paths or JSON lines on stdout as they come, and tables of the whole."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterator
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from fastdata_cli.cli import tables
from fastdata_cli.keys import printable, to_bytes
from fastdata_cli.operations.clean.quarantine import RestoreReport
from fastdata_cli.operations.clean.record import verdict_record
from fastdata_cli.operations.clean.report import CleanReport
from fastdata_cli.quality.checks import CHECKS, Check
from fastdata_cli.quality.verdict import Verdict


class PathPrinter:
    """Writes names to stdout, byte for byte as they came in, each as soon as it is known.

    To a terminal they go with what it would obey as ``%XX``; to a pipe, one write for each, so that
    whoever reads it never waits.

    Args:
        nul: end each with NUL instead of a newline.
    """

    def __init__(self, *, nul: bool) -> None:
        self._end = b"\0" if nul else b"\n"
        self._stream = sys.stdout.buffer
        self._terminal = sys.stdout.isatty()
        self._at_once = not _is_file(self._stream)
        self.broken_lines = 0
        """Names that hold a newline, and were ended by one."""

    def write(self, name: bytes) -> None:
        """Write one name."""
        self.broken_lines += self._end == b"\n" and b"\n" in name
        if self._terminal:
            name = printable(name.decode("utf-8", "surrogateescape")).encode()
        self._stream.write(name + self._end)
        if self._at_once:
            self._stream.flush()


class PathEmitter:
    """Passes the good images' names on, or with ``invert`` the others'."""

    def __init__(self, printer: PathPrinter, *, invert: bool) -> None:
        self._printer = printer
        self._wanted = not invert

    def __call__(self, verdict: Verdict, moved_to: str | None) -> None:
        """Print the name if it is wanted."""
        if verdict.kept is self._wanted:
            self._printer.write(to_bytes(verdict.key))


class JsonEmitter:
    """Prints one JSON object for each image."""

    def __init__(self) -> None:
        self._at_once = not _is_file(sys.stdout.buffer)

    def __call__(self, verdict: Verdict, moved_to: str | None) -> None:
        """Print the object."""
        sys.stdout.write(json.dumps(verdict_record(verdict, moved_to)) + "\n")
        if self._at_once:
            sys.stdout.flush()


def _is_file(stream: Any) -> bool:
    """Return whether a stream is a regular file, which nobody waits for."""
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except OSError:
        return False


def summary_tables(report: CleanReport, left: int = 0) -> Iterator[RenderableType]:
    """Yield the tables of a run.

    Args:
        left: rejects that the quarantine left in place.
    """
    rate = report.looked_at / report.seconds if report.seconds else 0
    yield tables.facts_table(
        "Cleaned",
        [
            ("source", report.source),
            ("looked at", f"{report.looked_at:,}"),
            ("kept", f"{report.kept:,}"),
            ("held back", f"{report.bad:,}"),
            ("moved", f"{report.moved:,}" if report.moved or left else None),
            ("left in place", f"{left:,}" if left else None),
            ("groups", f"{report.groups_found:,}" if report.groups_found else None),
            ("notes", tables.pairs_text(report.notes)),
            ("from the cache", f"{report.cached:,}" if report.cached else None),
            ("time", f"{tables.time_text(report.seconds)}, {rate:,.0f} images/s"),
        ],
    )
    if report.reasons:
        yield tables.counts_table("Held back", "reason", report.reasons)


def restore_table(report: RestoreReport) -> RenderableType:
    """Return what became of a quarantine folder."""
    return tables.facts_table(
        "Restored",
        [
            ("restored", f"{report.restored:,}"),
            ("stay", "\n".join(report.refused)),
            ("gone", f"{report.gone:,}" if report.gone else None),
        ],
    )


def checks_table() -> RenderableType:
    """Return the checks with what each measures, where that comes from, and what to begin with."""
    table = Table(box=box.SIMPLE_HEAD)
    for head in ("check", "reason", "suggested"):
        table.add_column(head, no_wrap=True)
    table.add_column("what is measured", overflow="fold")
    for check in CHECKS:
        record = check_record(check)
        suggested = "" if isinstance(check.suggested, bool) else _threshold(check)
        measured = Text(f"{check.score} = {check.formula}")
        measured.append(f"\n{check.source}", style="dim")
        table.add_row(Text(f"--{check.name}", style="bold"), record["reason"], suggested, measured)
    more = "--duplicates exact|pixels|near compares images with each other: docs/duplicates.md.\n"
    more += "Files that cannot be used are held back in any case: docs/image-policy.md."
    return Group(table, Text(more))


def _threshold(check: Check) -> str:
    value = check.suggested
    if value is None:
        return ""
    return f"{value:g} {check.unit}".strip() if isinstance(value, float) else str(value)


def check_record(check: Check) -> dict[str, Any]:
    """Return a check as JSON-able data."""
    return {
        "name": check.name,
        "score": check.score,
        "reason": check.reason,
        "unit": check.unit,
        "suggested": check.suggested,
        "formula": check.formula,
        "source": check.source,
        "needs": check.needs.value,
    }
