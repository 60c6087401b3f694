"""Owns what a record keeps of each table beside the measurements, and what follows from both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from benchmarks.row import Limit, Row, Side, Table
from fastdata_cli.timing.cache import Residency
from fastdata_cli.timing.decode import decode
from fastdata_cli.timing.measurement import Measurement, compare_measurements
from fastdata_cli.timing.record import Record
from fastdata_cli.timing.statistics import Comparison, summarise


@dataclass(frozen=True, kw_only=True)
class SideFacts:
    """A reference or a peer."""

    case: str
    """Name of its measurement."""
    name: str
    what: str
    peer: str | None


@dataclass(frozen=True, kw_only=True)
class RowFacts:
    """A row; references are named by their measurements."""

    case: str
    what: str
    reference: str | None
    target: float | None
    aim: float | None
    stand_in: str | None
    stand_in_target: float | None
    limits: tuple[Limit, ...]


@dataclass(frozen=True, kw_only=True)
class Warmth:
    """Whether what a side reads was in the page cache: ``warm``, ``mixed`` … before and after."""

    case: str
    before: str
    after: str


@dataclass(frozen=True, kw_only=True)
class TableFacts:
    """A table; ``facts["tables"]`` of a record holds one for each."""

    name: str
    title: str
    text: str
    rows: tuple[RowFacts, ...]
    references: tuple[SideFacts, ...]
    peers: tuple[SideFacts, ...]
    warmth: tuple[Warmth, ...]
    fact: str | None
    column: str


class Verdict(StrEnum):
    """What becomes of a target."""

    MET = "met"
    NOT_MET = "not met"
    NOT_MEASURED = "not measured"
    NO_TARGET = "no target"


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What a row has come to."""

    row: RowFacts
    ours: Measurement | None
    reference: SideFacts | None
    against: Measurement | None
    comparison: Comparison | None
    """Of a row with a reference."""
    target: float | None
    verdict: Verdict


def facts_of(
    table: Table, before: Mapping[str, Residency], after: Mapping[str, Residency]
) -> TableFacts:
    """Return what a record keeps of a table.

    Args:
        table: as it was measured.
        before: page cache before the rounds, by the name of the measurement.
        after: the same after them.
    """
    return TableFacts(
        name=table.name,
        title=table.title,
        text=table.text,
        rows=tuple(_row_facts(table, row) for row in table.rows),
        references=tuple(_side_facts(table, side) for side in table.references),
        peers=tuple(_side_facts(table, side) for side in table.peers),
        warmth=tuple(
            Warmth(case=name, before=found.state, after=after[name].state)
            for name, found in before.items()
        ),
        fact=table.fact,
        column=table.column,
    )


def tables_of(record: Record) -> tuple[TableFacts, ...]:
    """Return the tables of a record that ``benchmarks.run`` has written."""
    return tuple(
        decode(TableFacts, raw, where=f"tables[{at}]")
        for at, raw in enumerate(record.facts["tables"])
    )


def judge(record: Record, table: TableFacts) -> Iterator[Judgement]:
    """Yield what each row has come to."""
    references = {side.case: side for side in table.references}
    for row in table.rows:
        name, target = row.reference, row.target
        if row.stand_in and not _delivered(record, name):
            name, target = row.stand_in, row.stand_in_target
        ours, against = record.case(row.case), record.case(name or "")
        both = compared(ours, against)
        verdict = _within(ours, row.limits) if row.limits else _reached(both, target)
        yield Judgement(
            row=row,
            ours=ours,
            reference=references.get(name or ""),
            against=against,
            comparison=both,
            target=target,
            verdict=verdict,
        )


def compared(ours: Measurement | None, against: Measurement | None) -> Comparison | None:
    """Return how ours compares with what ran in the same rounds; None if either did not."""
    if ours is None or against is None:
        return None
    return compare_measurements(against, ours, same_run=True)


def figure(case: Measurement, limit: Limit) -> float | None:
    """Return the figure that a limit is for; None where it was not found."""
    if limit.fact is None:
        runs = [each.seconds / each.runs for each in case.repeats]
        return summarise(runs).median if runs else None
    found = [each.facts[limit.fact] for each in case.repeats if limit.fact in each.facts]
    return max(found, default=None)


def fact(case: Measurement | None, name: str) -> float | None:
    """Return the median of a fact over the repeats of a case; None where there is none."""
    found = [each.facts[name] for each in case.repeats if name in each.facts] if case else []
    return summarise(found).median if found else None


def _reached(found: Comparison | None, target: float | None) -> Verdict:
    if found is None:
        return Verdict.NOT_MEASURED
    if target is None:
        return Verdict.NO_TARGET
    return Verdict.MET if found.ratio >= target else Verdict.NOT_MET


def _within(case: Measurement | None, limits: tuple[Limit, ...]) -> Verdict:
    figures = [figure(case, limit) if case else None for limit in limits]
    known = [(found, limit.most) for found, limit in zip(figures, limits, strict=True) if found]
    if len(known) < len(limits):
        return Verdict.NOT_MEASURED
    return Verdict.MET if all(found <= most for found, most in known) else Verdict.NOT_MET


def _delivered(record: Record, name: str | None) -> bool:
    case = record.case(name or "")
    return case is not None and case.samples_per_s is not None


def _row_facts(table: Table, row: Row) -> RowFacts:
    side, target = row.stand_in or (None, None)
    return RowFacts(
        case=row.name,
        what=row.what,
        reference=table.case_name(row.reference) if row.reference else None,
        target=row.target,
        aim=row.aim,
        stand_in=table.case_name(side) if side else None,
        stand_in_target=target,
        limits=row.limits,
    )


def _side_facts(table: Table, side: Side) -> SideFacts:
    return SideFacts(case=table.case_name(side), name=side.name, what=side.what, peer=side.peer)
