"""Tables of plain text, before the terminal, Markdown or the page gives them a form."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fastdata_cli.keys import printable


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column."""

    head: str
    right: bool = False
    rank: int = 0
    """Where room is short, the column of the greatest rank goes first; 0 stays."""
    varies: bool = False
    """Worth a column only where rows differ; else the remark says it once."""
    names: bool = False
    """Holds names of any length, which may be cut."""
    folds: bool = False
    """Holds words, which may take several lines."""
    means: str = ""
    """What the head stands for, where that needs saying."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """Rows that belong together."""

    name: str
    """Empty for the only group of a section."""
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Section:
    """One table."""

    name: str
    title: str
    group: str
    """What the names of the groups are: ``dataset`` or ``reads``."""
    columns: tuple[Column, ...]
    groups: tuple[Group, ...]
    remark: str = ""
    """What holds for all rows."""

    def remark_on(self, columns: Iterable[Column]) -> str:
        """Return the remark, with what the heads of these columns mean."""
        means = [f"{column.head}: {column.means}" for column in columns if column.means]
        return " · ".join(filter(None, [self.remark, *means]))

    @property
    def grouped(self) -> bool:
        """Whether the groups have names."""
        return any(group.name for group in self.groups)


def make_section(
    name: str,
    title: str,
    columns: Sequence[Column],
    rows: Iterable[tuple[str, tuple[str, ...]]],
    *,
    group: str = "dataset",
    remark: str = "",
) -> Section:
    """Put rows into their groups; leave out columns that say nothing or always the same.

    Args:
        name: unique in the report.
        title: above the table.
        columns: of all rows.
        rows: each with the name of its group.
        group: what the names of the groups are.
        remark: what holds for all rows.
    """
    groups: dict[str, list[tuple[str, ...]]] = {}
    for key, row in rows:
        groups.setdefault(key, []).append(tuple(printable(cell) for cell in row))
    everything = [row for members in groups.values() for row in members]
    kept, remarks = [], [remark] if remark else []
    for at, column in enumerate(columns):
        values = {row[at] for row in everything}
        if values <= {""}:
            continue
        if column.varies and len(values - {""}) == 1:
            remarks.append(f"{column.head}: {max(values)}")
        else:
            kept.append(at)
    alone = len(groups) == 1
    if alone and group == "reads":
        remarks.insert(0, next(iter(groups)))
    return Section(
        name=name,
        title=title,
        group=group,
        columns=tuple(columns[at] for at in kept),
        groups=tuple(
            Group(
                name="" if alone else printable(key),
                rows=tuple(tuple(row[at] for at in kept) for row in members),
            )
            for key, members in groups.items()
        ),
        remark=" · ".join(remarks),
    )


def right(head: str, rank: int = 0) -> Column:
    """Return a column of numbers."""
    return Column(head=head, right=True, rank=rank)
