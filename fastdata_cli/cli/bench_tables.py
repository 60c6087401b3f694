"""A bench report for the terminal: the verdict first, then tables that fit its width."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import replace

from rich import box
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.console import Group as Stack
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fastdata_cli.cli.bench_comparison import DIFFERS, TOO_SLOW, comparison_section
from fastdata_cli.cli.bench_sections import sections
from fastdata_cli.cli.bench_words import (
    LONGEST_NAME,
    environment_lines,
    headline,
    notes,
    pasted,
    short_names,
    split_action,
    verdicts,
)
from fastdata_cli.cli.section import Group, Section
from fastdata_cli.cli.tables import cell
from fastdata_cli.keys import printable
from fastdata_cli.operations.bench.compare import ComparisonReport
from fastdata_cli.operations.bench.report import BenchReport

_FOLDED = 16
_GAP = 2
_MARGIN = 1


def show(report: BenchReport, console: Console, changes: ComparisonReport | None = None) -> None:
    """Print the whole report, and how it compares with a record."""
    for part in _parts(report, changes, console.width):
        console.print(part)
    if report.to_paste:  # at the margin and never folded, so that it can be pasted
        console.print(Text("\nTo paste", style="bold cyan"))
        console.print(Text(pasted(report), style="green"), soft_wrap=True)


def _parts(
    report: BenchReport, changes: ComparisonReport | None, width: int
) -> Iterable[RenderableType]:
    yield _verdicts(report, width)
    if changes is not None:
        yield section_table(comparison_section(changes), width)
        if changes.warnings:
            yield Text(DIFFERS, style="dim")
        yield from (_bullet("-", text) for text in changes.warnings)
    for section in sections(report):
        yield section_table(section, width)
    doubts = notes(report)
    if doubts:
        yield Text("\nWhat to know about these numbers", style="bold cyan")
        yield Stack(*(_bullet("-", text) for text in doubts))
    yield Text("\nMeasured on", style="bold cyan")
    yield Stack(*(_bullet(" ", text) for text in environment_lines(report.environment)))


def _verdicts(report: BenchReport, width: int) -> RenderableType:
    parts: list[RenderableType] = [Text(headline(report), style="bold green")]
    for verdict in verdicts(report):
        name = f"{verdict.dataset}: " if len(report.datasets) > 1 else ""
        parts.append(_bullet("-", f"{name}{verdict.sentence}"))
        command, remark = split_action(verdict.action)
        for text, style in ((_broken(command, width - 4), "green"), (remark, "dim")):
            if text:
                parts.append(Padding(Text(text, style=style), (0, 0, 0, 4)))
    return Stack(*parts)


def _broken(command: str, width: int) -> str:
    """Return a command that is too long for a line broken as a shell takes it."""
    if not command.startswith("fastdata ") or cell_len(command) <= width:
        return command
    tied = re.sub(r"( --?[\w-]+) (?!-)", "\\1\0", command)  # a flag stays with its value
    lines = textwrap.wrap(
        tied, width - 4, break_long_words=False, break_on_hyphens=False, subsequent_indent="  "
    )
    return " \\\n".join(lines).replace("\0", " ")


def _bullet(mark: str, text: str) -> RenderableType:
    row = Table.grid(padding=(0, 1, 0, 0))
    row.add_column(width=1)
    row.add_column(overflow="fold", ratio=1)
    row.add_row(mark, Text(printable(text)))
    return row


def section_table(section: Section, width: int) -> RenderableType:
    """Return one table that fits into ``width`` columns, without those that find no room."""
    section = _shortened(section)
    shown = _fitting(section, width)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, _GAP - 1, 0, 0), pad_edge=False)
    for at in shown:
        column = section.columns[at]
        right = column.right and not (section.grouped and at == shown[0])
        widest = _name_width(section) if at == 0 else None
        table.add_column(
            column.head, justify="right" if right else "left", overflow="fold", width=widest
        )
    indent = "  " if section.grouped else ""
    for group in section.groups:
        if group.name:
            table.add_row(cell(group.name, "bold"))
        for row in group.rows:
            first, *others = (row[at] for at in shown)
            table.add_row(cell(indent + first), *map(_cell, others))
    words = [at for at, each in enumerate(section.columns) if each.folds and at not in shown]
    title = Text(f"\n{section.title}", style="bold cyan")
    remark = _remark(section, shown)
    remarks = [Text(remark, style="dim")] if remark else []
    return Stack(title, *remarks, table, *(_words_below(section, at) for at in words))


def _remark(section: Section, shown: Sequence[int]) -> str:
    """Return the remark on the columns shown, and which had no room and stand nowhere else."""
    remark = section.remark_on(section.columns[at] for at in shown)
    left = (each for at, each in enumerate(section.columns) if at not in shown)
    gone = ", ".join(each.head for each in left if not each.folds)
    return " · ".join(filter(None, [remark, gone and f"left out at this width: {gone}"]))


def _words_below(section: Section, at: int) -> RenderableType:
    """Return a column of words that had no room beside the others: a line for each row."""
    head = section.columns[at].head
    rows = [row for group in section.groups for row in group.rows if row[at]]
    return Stack(*(_bullet(" ", f"{head} of {row[0]}: {row[at]}") for row in rows), Text(""))


def _cell(text: str) -> Text:
    style = {
        "best": "green",
        "failed": "bold red",
        "WRONG": "bold red",
        TOO_SLOW: "bold red",
        "slower": "yellow",
        "faster": "green",
        "no": "yellow",
    }.get(text)
    return cell(text, style or "")


def _fitting(section: Section, width: int) -> list[int]:
    """Return the columns to show: all, or as many as fit, dropped by rank."""
    shown = list(range(len(section.columns)))
    while _natural(section, shown) > width:
        last = max(shown, key=lambda at: section.columns[at].rank)
        if section.columns[last].rank == 0:
            break
        shown.remove(last)
    return shown


def _natural(section: Section, shown: Sequence[int]) -> int:
    rows = [row for group in section.groups for row in group.rows]
    wide = []
    for at in shown:
        column = section.columns[at]
        widest = max(map(cell_len, (column.head, *(row[at] for row in rows))))
        wide.append(min(widest, _FOLDED) if column.folds else widest)
    wide[0] = _name_width(section)
    return sum(wide) + _GAP * (len(wide) - 1) + 2 * _MARGIN


def _name_width(section: Section) -> int:
    """Return how wide the first column is; longer names of datasets take several lines."""
    indent = 2 if section.grouped else 0
    column = section.columns[0]
    cells = [column.head, *(row[0] for group in section.groups for row in group.rows)]
    widest = max(map(cell_len, cells)) + indent
    groups = max(cell_len(group.name) for group in section.groups)
    if column.names:
        widest = min(widest, LONGEST_NAME + indent)
    return max(widest, min(groups, LONGEST_NAME) if section.group == "dataset" else groups)


def _shortened(section: Section) -> Section:
    """Return the table with names of datasets cut to what it can bear."""
    named = section.columns[0].names
    names = [row[0] for group in section.groups for row in group.rows] if named else []
    if section.group == "dataset":
        names += [group.name for group in section.groups]
    short = short_names(names)
    groups = (
        Group(
            name=short.get(group.name, group.name),
            rows=tuple((short.get(row[0], row[0]), *row[1:]) for row in group.rows),
        )
        for group in section.groups
    )
    return replace(section, groups=tuple(groups))
