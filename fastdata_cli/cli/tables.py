"""Rich tables from reports; the words and units that people read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from fastdata_cli.keys import printable, to_text
from fastdata_cli.operations.words import size_text
from fastdata_cli.sample import Reject
from fastdata_cli.timing.stages import Stage

# What is counted in pages stays a power of 2 that people know.
_MANY_BYTES = 100_000
_NAMED = 3


def facts_table(title: str, facts: Iterable[tuple[str, Any]]) -> RenderableType:
    """Return a two-column table; facts that are None or empty are left out."""
    table = Table(box=box.SIMPLE_HEAD, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts:
        if value not in (None, "", (), {}):
            lines = map(printable, str(value).split("\n"))
            table.add_row(cell(name), Text("\n".join(lines)))
    return _titled(title, table)


def counts_table(
    title: str, head: str, counts: Mapping[str, int], most: int = 12
) -> RenderableType:
    """Return counts, largest first, with bars; the tail is summed up."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column(head, overflow="fold")
    table.add_column("samples", justify="right")
    table.add_column("", no_wrap=True)
    largest = max(counts.values(), default=1)
    shown = list(counts.items())[:most]
    for name, count in shown:
        table.add_row(cell(name), f"{count:,}", Text("█" * max(1, count * 24 // largest)))
    rest = list(counts.values())[most:]
    if rest:
        table.add_row(Text(f"… {len(rest)} more"), f"{sum(rest):,}", "")
    return _titled(title, table)


def stages_table(stages: Iterable[Stage], wall: float) -> RenderableType:
    """Return where the time went; threads add up, so shares may exceed the wall clock."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("stage")
    table.add_column("seconds, all threads", justify="right")
    table.add_column("of wall", justify="right")
    for stage in stages:
        share = f"{stage.seconds / wall:.0%}" if wall else "-"
        table.add_row(stage.name, f"{stage.seconds:.2f}", share)
    table.add_row("wall clock", f"{wall:.2f}", "")
    return _titled("Where the time went", table)


def rejects_table(
    rejects: Iterable[Reject], total: int, title: str = "Bad samples"
) -> RenderableType:
    """Return some rejects with their reasons."""
    rows = [(to_text(reject.key), reject.reason, to_text(reject.detail)) for reject in rejects]
    return faults_table(f"{title}: {total:,}", "reason", rows, total)


def faults_table(
    title: str, what: str, rows: Sequence[tuple[str, str, str]], total: int
) -> RenderableType:
    """Return some of ``total`` rows: a key, a word in a column called ``what``, a detail."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("key", overflow="fold")
    table.add_column(what, no_wrap=True, style="red")
    table.add_column("detail", overflow="fold")
    for row in rows:
        table.add_row(*map(cell, row))
    if total > len(rows):
        table.add_row(Text(f"… {total - len(rows):,} more"), "", "")
    return _titled(title, table)


def cell(text: str, style: str = "") -> Text:
    """Return text that may come from a dataset or a file name, without what a terminal obeys."""
    return Text(printable(text), style=style)


def _titled(title: str, table: Table) -> RenderableType:
    """Put the title above: a table's own would be folded to the table's width."""
    return Group(cell(title, "bold cyan"), table)


def shape_text(shape: tuple[int, ...] | None, dtype: str = "") -> str | None:
    """Return ``224×224×3 uint8``."""
    return None if shape is None else ("×".join(map(str, shape)) + f" {dtype}").strip()


def time_text(seconds: float) -> str:
    """Return a duration."""
    if seconds < 60:
        return f"{seconds:.{1 if seconds >= 0.1 else 2}f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def words_text(values: Mapping[str, Any]) -> str:
    """Return settings in words, ``chunk 1000, codec lz4``; what is off or not set is left out."""
    return ", ".join(
        " ".join(filter(None, (name.replace("_", " "), _value_text(name, value))))
        for name, value in values.items()
        if value or type(value) in (int, float)  # 0 is a setting, and False is none
    )


def _value_text(name: str, value: Any) -> str:
    if value is True:
        return ""
    if isinstance(value, Mapping):
        return f"({words_text(value)})"
    if isinstance(value, list | tuple):
        words = [_value_text(name, each) for each in value]
        if "_per_" in name:  # the least and the most
            return " to ".join(dict.fromkeys(words))
        return " ".join(words)
    in_bytes = name.startswith("bytes_") or name.endswith(("_bytes", "_size"))
    if in_bytes and isinstance(value, int) and value >= _MANY_BYTES:
        return size_text(value)
    return str(value)


def notes_text(notes: Mapping[str, int]) -> str:
    """Return notes with their counts; of ``empty-class: NAME`` and the like a few names."""
    kinds: dict[str, list[str]] = {}
    totals: Counter[str] = Counter()
    for note, count in notes.items():
        kind, _, name = note.partition(": ")
        totals[kind] += count
        kinds.setdefault(kind, []).extend([name] * bool(name))
    return ", ".join(
        f"{kind}={totals[kind]}" + (f" ({_first_of(names)})" if names else "")
        for kind, names in kinds.items()
    )


def _first_of(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (" …" if len(names) > _NAMED else "")


def pairs_text(values: Mapping[str, Any]) -> str:
    """Return ``a=1, b=2``."""
    return ", ".join(f"{name}={value}" for name, value in values.items())
