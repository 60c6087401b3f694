"""A bench report for the terminal: the verdict first, then tables that fit its width."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.console import Group as Stack
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fastdata_cli.cli.bench_comparison import comparison_section
from fastdata_cli.cli.bench_sections import sections
from fastdata_cli.cli.bench_words import environment_lines, headline, notes, split_action, verdicts
from fastdata_cli.cli.section import Column, Group, Section
from fastdata_cli.cli.tables import cell
from fastdata_cli.keys import printable
from fastdata_cli.operations.bench.compare import ComparisonReport
from fastdata_cli.operations.bench.report import BenchReport

_LONGEST_NAME = 26
_HEAD = 8
_FOLDED = 16
_GAP = 2
_MARGIN = 1


def show(report: BenchReport, console: Console, changes: ComparisonReport | None = None) -> None:
    """Print the whole report, and how it compares with a record."""
    for part in _parts(report, changes, console.width):
        console.print(part)


def _parts(
    report: BenchReport, changes: ComparisonReport | None, width: int
) -> Iterable[RenderableType]:
    yield _verdicts(report, width)
    if changes is not None:
        yield section_table(comparison_section(changes), width)
        yield from (_bullet("-", text) for text in changes.warnings)
    for section in sections(report):
        yield section_table(section, width)
    doubts = notes(report)
    if doubts:
        yield Text("\nWhat to know about these numbers", style="bold cyan")
        yield Stack(*(_bullet("-", text) for text in doubts))
    yield Text("\nMeasured on", style="bold cyan")
    yield Stack(*(_bullet(" ", text) for text in environment_lines(report.environment)))
    if report.best_line:
        yield Text("\nTo paste", style="bold cyan")
        yield Padding(Text(printable(report.best_line), style="green"), (0, 0, 0, 2))


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
    shown = _fitting(section, width)
    left_out = [each.head for at, each in enumerate(section.columns) if at not in shown]
    table = Table(box=box.SIMPLE_HEAD, padding=(0, _GAP - 1, 0, 0), pad_edge=False)
    for at in shown:
        column = section.columns[at]
        right = column.right and not (section.grouped and at == shown[0])
        table.add_column(column.head, justify="right" if right else "left", overflow="fold")
    indent = "  " if section.grouped else ""
    for group, rows in zip(section.groups, _clipped(section, shown), strict=True):
        if group.name:
            table.add_row(cell(_group_name(section, group), "bold"))
        for row in rows:
            table.add_row(cell(indent + row[0]), *map(_cell, row[1:]))
    remark = section.remark_on(section.columns[at] for at in shown)
    words = [at for at, each in enumerate(section.columns) if each.folds and at not in shown]
    left_out = [head for head in left_out if head not in {section.columns[at].head for at in words}]
    if left_out:
        remark = " · ".join(filter(None, [remark, f"no room for: {', '.join(left_out)}"]))
    title = Text(f"\n{section.title}", style="bold cyan")
    parts: list[RenderableType] = [title]
    if remark:
        parts.append(Text(remark, style="dim"))
    return Stack(*parts, table, *(_words_below(section, at) for at in words))


def _words_below(section: Section, at: int) -> RenderableType:
    """Return a column of words that had no room beside the others: a line for each row."""
    head = section.columns[at].head
    rows = [row for group in section.groups for row in group.rows if row[at]]
    return Stack(
        *(
            _bullet(" ", f"{head} of {_short(row[0], section.columns[0])}: {row[at]}")
            for row in rows
        ),
        Text(""),
    )


def _cell(text: str) -> Text:
    style = {
        "best": "green",
        "failed": "bold red",
        "WRONG": "bold red",
        "TOO SLOW": "bold red",
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
    rows = [row for rows in _clipped(section, shown) for row in rows]
    columns = [section.columns[at] for at in shown]
    cells = zip((column.head for column in columns), *rows, strict=True)
    wide = [max(map(cell_len, each)) for each in cells]
    wide = [
        min(each, _FOLDED) if column.folds else each
        for each, column in zip(wide, columns, strict=True)
    ]
    if section.grouped:
        names = [cell_len(_group_name(section, group)) for group in section.groups]
        wide[0] = max(wide[0] + 2, *names)
    return sum(wide) + _GAP * (len(wide) - 1) + 2 * _MARGIN


def _clipped(section: Section, shown: Sequence[int]) -> list[list[list[str]]]:
    """Return the rows of each group, long names cut to what a table can bear."""
    columns = [section.columns[at] for at in shown]
    return [
        [
            [
                _short(cell, column)
                for cell, column in zip((row[at] for at in shown), columns, strict=True)
            ]
            for row in group.rows
        ]
        for group in section.groups
    ]


def _short(cell: str, column: Column) -> str:
    return _clip(cell) if column.names else cell


def _group_name(section: Section, group: Group) -> str:
    return _clip(group.name) if section.group == "dataset" else group.name


def _clip(name: str) -> str:
    """Keep the beginning and, above all, the end of a long name."""
    if cell_len(name) <= _LONGEST_NAME:
        return name
    head, tail = name[:8], name[8:]
    while cell_len(head) > _HEAD:
        head = head[:-1]
    while cell_len(tail) > _LONGEST_NAME - _HEAD - 1:
        tail = tail[1:]
    return f"{head}…{tail}"
