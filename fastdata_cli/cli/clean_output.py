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
from fastdata_cli.cli.clean_gallery import command_line
from fastdata_cli.keys import printable, to_bytes
from fastdata_cli.operations.clean.quarantine import Quarantine, RestoreReport
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


def summary_tables(
    report: CleanReport, quarantine: Quarantine | None = None, listed_in: str | None = None
) -> Iterator[RenderableType]:
    """Yield the tables of a run; what is held back is named where it is little.

    Args:
        quarantine: where it was moved.
        listed_in: the file of --report.
    """
    rate = report.looked_at / report.seconds if report.seconds else 0
    left = quarantine.left if quarantine is not None else 0
    moved = f"{report.moved:,}" if report.moved or left else None
    undo = None
    if report.moved and quarantine is not None:
        moved = f"{report.moved:,}, to {quarantine.folder}"
        undo = command_line(["clean", "--restore", str(quarantine.folder)])
    yield tables.facts_table(
        "Cleaned",
        [
            ("source", report.source),
            ("looked at", f"{report.looked_at:,}"),
            ("kept", f"{report.kept:,}"),
            ("held back", f"{report.bad:,}"),
            ("listed in", listed_in),
            ("moved", moved),
            ("put back by", undo),
            ("left in place", f"{left:,}" if left else None),
            ("groups", f"{report.groups_found:,}" if report.groups_found else None),
            ("notes", tables.notes_text(report.notes)),
            ("from the cache", f"{report.cached:,}" if report.cached else None),
            ("time", f"{tables.time_text(report.seconds)}, {rate:,.0f} images/s"),
        ],
    )
    if report.bad > len(report.first_bad):
        yield tables.counts_table("Held back", "reason", report.reasons)
    elif report.bad:
        yield tables.rejects_table(report.first_bad, report.bad, "Held back")


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
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 1, 1))
    table.add_column("check, reason, threshold to begin with", width=23, overflow="fold")
    table.add_column("what is measured, and where that comes from", overflow="fold")
    for check in CHECKS:
        first = Text(f"--{check.name}", style="bold")
        first.append(f"\n{check.reason}\n{_threshold(check)}".rstrip(), style="not bold")
        measured = Text(f"{check.score} = {check.formula}")
        measured.append(f"\n{check.source}", style="dim")
        table.add_row(first, measured)
    more = "--duplicates exact|pixels|near compares images with each other: docs/duplicates.md.\n"
    more += "Files that cannot be used are held back in any case: docs/image-policy.md."
    return Group(table, Text(more))


def _threshold(check: Check) -> str:
    value = check.suggested
    if value is None or isinstance(value, bool):
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
