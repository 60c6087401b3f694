"""Owns the tables as Markdown, the same on a terminal and in the document."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.results import (
    Judgement,
    SideFacts,
    TableFacts,
    Verdict,
    compared,
    fact,
    figure,
    judge,
)
from fastdata_cli.timing.measurement import Measurement
from fastdata_cli.timing.record import Record

_NONE = "—"


def markdown(record: Record, table: TableFacts) -> Iterator[str]:
    """Yield the lines of a table and of what must be known beside it."""
    yield f"### {table.title}"
    yield ""
    yield table.text
    yield ""
    judged = list(judge(record, table))
    if any(each.row.limits for each in judged):
        yield from _limits(judged)
    else:
        yield from _ratios(record, table, judged)
    yield from _notes(record, table)
    yield ""


def spread(ratio: float, low: float, high: float) -> str:
    """Return a ratio with its bounds as text."""
    return f"{ratio:.2f} ({low:.2f}–{high:.2f})"


def _ratios(record: Record, table: TableFacts, judged: list[Judgement]) -> Iterator[str]:
    more = [table.column] if table.fact else []
    yield _line(["", "samples/s", "reference", "samples/s", "ratio (95 %)", *more, "target", ""])
    yield f"|---|---:|---|---:|---:|{'---:|' * len(more)}---:|---|"
    for each in judged:
        aim = f" (aim {each.row.aim:g})" if each.row.aim else ""
        cells = [
            f"**{each.row.what}**",
            *_compared(table, each.ours, each.reference, each.against),
            "" if each.target is None else f"{each.target:g}{aim}",
            _shown(each.verdict),
        ]
        yield _line(cells)
    first = table.references[0] if table.references else None
    against = record.case(first.case) if first else None
    for side in table.peers:
        case = record.case(side.case)
        if case:  # else it was not asked for
            absent = "" if case.repeats else "absent"
            yield _line([side.what, *_compared(table, case, first, against), "", absent])


def _compared(
    table: TableFacts,
    case: Measurement | None,
    reference: SideFacts | None,
    against: Measurement | None,
) -> list[str]:
    """Return the cells between the name of a side and its target."""
    both = compared(case, against)
    cells = [
        _rate(case),
        reference.name if reference else _NONE,
        _rate(against),
        spread(both.ratio, both.low, both.high) if both else _NONE,
    ]
    if table.fact:
        value = fact(case, table.fact)
        cells.append(_NONE if value is None else f"{value:.2f}")
    return cells


def _limits(judged: list[Judgement]) -> Iterator[str]:
    yield "| | found | at most | |"
    yield "|---|---:|---:|---|"
    for each in judged:
        found = [figure(each.ours, limit) if each.ours else None for limit in each.row.limits]
        pairs = list(zip(found, each.row.limits, strict=True))
        cells = [
            f"**{each.row.what}**",
            ", ".join(_NONE if value is None else f"{value:.3g} {of.unit}" for value, of in pairs),
            ", ".join(f"{of.most:g} {of.unit}" for _, of in pairs),
            _shown(each.verdict),
        ]
        yield _line(cells)


def _notes(record: Record, table: TableFacts) -> Iterator[str]:
    """Yield what the references do, what failed, and whose files were not warm throughout."""
    notes = [f"`{side.name}` is {side.what}." for side in table.references]
    names = [(side.case, side.name) for side in (*table.references, *table.peers)]
    for name, shown in (*names, *((row.case, row.what) for row in table.rows)):
        case = record.case(name)
        if case and case.failure:
            hint = f" ({case.failure.hint})" if case.failure.hint else ""
            notes.append(f"{shown}: {case.failure.message.rstrip('.')}{hint}.")
    cold = [each for each in table.warmth if (each.before, each.after) != ("warm", "warm")]
    notes += [
        f"Not in the page cache throughout: {each.case}: {each.before} before the rounds, "
        f"{each.after} after them."
        for each in cold
    ]
    if notes:
        yield ""
        yield from (f"- {note}" for note in notes)


def _rate(case: Measurement | None) -> str:
    rate = case.samples_per_s if case else None
    return _NONE if rate is None else f"{rate:,.0f}"


def _shown(verdict: Verdict) -> str:
    if verdict is Verdict.NO_TARGET:
        return ""
    return str(verdict) if verdict is Verdict.MET else f"**{verdict}**"


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
