"""``--compare`` and ``--fail-if-slower``: a run against a saved record, case by case."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from fastdata_cli.errors import UsageError
from fastdata_cli.operations.bench.report import BenchReport
from fastdata_cli.timing.environment import differences
from fastdata_cli.timing.measurement import Measurement, compare_measurements
from fastdata_cli.timing.record import Record, plain

DEFAULT_SHARE = 0.05
"""What a case may be slower by where ``--fail-if-slower`` does not say."""

# They say how long and how often is measured, or what is shown: not what.
ATTEMPTS = ("once more", "a third time", "a fourth time")
"""How often what looks slower is measured again, until it does not."""

_NOT_COMPARED = frozenset({"seconds", "repeats", "advise"})


class Outcome(StrEnum):
    """What became of one case."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    """No difference beyond noise."""
    NEW = "new"
    """The record lacks it."""
    GONE = "gone"
    """This run lacks it."""
    FAILED = "failed"
    """It was measured before, and ends in an error now."""
    UNMEASURED = "unmeasured"
    """The record holds no times of it: it failed then, or delivered nothing."""


@dataclass(frozen=True, kw_only=True)
class CaseChange:
    """One case, before and now."""

    name: str
    outcome: Outcome
    before_samples_per_s: float | None = None
    samples_per_s: float | None = None
    ratio: float | None = None
    """How many times as fast as before."""
    low: float | None = None
    high: float | None = None
    """Bounds of the ratio; see ``timing.statistics.compare``."""
    too_slow: bool = False
    """It takes more time than allowed, beyond noise; or it fails now."""
    text: str = ""
    """The error, if it failed."""


@dataclass(frozen=True, kw_only=True)
class ComparisonReport:
    """A run against a record."""

    cases: tuple[CaseChange, ...]
    """Those of this run in its order, then those that it lacks."""
    share: float
    """What a case may be slower by."""
    warnings: tuple[str, ...] = ()
    """What differs besides the build, a line each, and may explain other numbers."""

    @property
    def slower(self) -> tuple[CaseChange, ...]:
        """The cases for which ``--fail-if-slower`` fails."""
        return tuple(case for case in self.cases if case.too_slow)


def parse_share(text: str) -> float:
    """Return the share that ``5%`` or ``0.05`` stands for.

    Raises:
        UsageError: neither, or not from 0 to below 100 %.
    """
    match = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*(%?)", text.strip(), re.ASCII)
    share = float(match[1]) / (100 if match[2] else 1) if match else 1.0
    if share >= 1:
        raise UsageError(
            f"--fail-if-slower does not know {text!r}", hint="give a percentage, such as 5%"
        )
    return share


def compare_records(
    now: BenchReport | Record, before: Record, *, share: float = DEFAULT_SHARE
) -> ComparisonReport:
    """Return how each case of this run compares with the one of its name in a record.

    Args:
        now: this run.
        before: what ``--save`` wrote then.
        share: what a case may take more time by.

    Raises:
        UsageError: no case was measured in both: there is nothing to compare.
    """
    cases = measurements(now)
    old = {case.name: case for case in before.cases}
    names = {case.name for case in cases}
    if not names & set(old):
        raise UsageError(
            "the record has none of the cases of this run",
            hint="compare runs over the same paths, orders and workers",
        )
    changes = [_change(case, old.get(case.name), share) for case in cases]
    changes += [
        CaseChange(name=name, outcome=Outcome.GONE, before_samples_per_s=case.samples_per_s)
        for name, case in old.items()
        if name not in names
    ]
    return ComparisonReport(
        cases=tuple(changes), share=share, warnings=tuple(_warnings(now, before))
    )


def confirmed(first: ComparisonReport, again: ComparisonReport) -> ComparisonReport:
    """Return the first comparison, too slow only in what another run finds too slow as well.

    One run in some dozens is slow by chance alone: a neighbour that came, a clock that fell. That
    may last for one more run. A slower build is slow each time.
    """
    slow = {case.name for case in again.slower}
    cases = [replace(case, too_slow=case.too_slow and case.name in slow) for case in first.cases]
    return replace(first, cases=tuple(cases))


def measurements(run: BenchReport | Record) -> tuple[Measurement, ...]:
    """Return what a run measured, case by case."""
    if isinstance(run, Record):
        return run.cases
    reads = [row.measurement for row in run.reads]
    return (*reads, *(row.measurement for row in (*run.loaders, *run.fast_loaders)))


def _change(now: Measurement, before: Measurement | None, share: float) -> CaseChange:
    change = CaseChange(name=now.name, outcome=Outcome.NEW, samples_per_s=now.samples_per_s)
    if before is None:
        return change
    change = replace(change, before_samples_per_s=before.samples_per_s)
    if not before.seconds_per_sample:
        return replace(change, outcome=Outcome.UNMEASURED)
    found = compare_measurements(before, now)
    if now.failure or found is None:
        text = now.failure.message if now.failure else "it delivers no samples"
        return replace(change, outcome=Outcome.FAILED, too_slow=True, text=text)
    return replace(
        change,
        outcome=Outcome(found.verdict.value),
        ratio=found.ratio,
        low=found.low,
        high=found.high,
        too_slow=found.slower_by(share),
    )


def _warnings(now: BenchReport | Record, before: Record) -> list[str]:
    found = differences(before.environment, now.environment)
    found += _option_differences(before.options, now.options)
    if not before.finished:
        found.append("the record is of a run that was interrupted")
    return found


def _option_differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the options of both that differ; one record has been through JSON, the other not."""
    both = [name for name in now if name in before and name not in _NOT_COMPARED]
    pairs = [(name, before[name], plain(now[name])) for name in both]
    return [
        f"--{name.replace('_', '-')}: {old} → {new}"
        for name, old, new in pairs
        if plain(old) != new
    ]
