"""Adds up verdicts, in memory that does not grow with their number, into the report."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping

from fastdata_cli.operations.clean.report import (
    MOST_GROUPS,
    MOST_MEMBERS,
    MOST_NAMED,
    MOST_VALUES,
    CleanReport,
    Duplicate,
    DuplicateGroup,
    ScoreValues,
)
from fastdata_cli.operations.clean.selection import left_out
from fastdata_cli.quality.verdict import Score, Verdict
from fastdata_cli.sample import Reject
from fastdata_cli.timing.stages import StageClock

_First = tuple[str, bool]  # key of a first image, and whether it is of --against


class Tally:
    """Takes verdicts in source order."""

    def __init__(self) -> None:
        self.looked_at = 0
        self.kept = 0
        self.cached = 0
        self.moved = 0
        self._first_bad: list[Reject] = []
        self._reasons: Counter[str] = Counter()
        self._notes: Counter[str] = Counter()
        self._scores: dict[str, _Reservoir] = {}
        self._groups: dict[_First, _Group] = {}
        self._firsts: set[_First] = set()

    def add(self, verdict: Verdict, *, cached: bool = False, moved: bool = False) -> None:
        """Count one verdict."""
        self.looked_at += 1
        self.kept += verdict.kept
        self.cached += cached
        self.moved += moved
        if not verdict.kept and len(self._first_bad) < MOST_NAMED:
            self._first_bad.append(left_out(verdict.key, verdict.index, verdict.reasons))
        for reason in verdict.reasons:
            self._reasons[reason.name] += 1
        for note in verdict.notes:
            self._notes[note] += 1
        for name, value in verdict.scores.items():
            if name not in self._scores:
                self._scores[name] = _Reservoir(name)
            self._scores[name].add(value)
        if verdict.duplicate_of is not None:
            self._group(verdict, (verdict.duplicate_of, verdict.against))

    def report(
        self,
        *,
        source: str,
        notes: Mapping[str, int],
        thresholds: Mapping[str, Score],
        clock: StageClock,
    ) -> CleanReport:
        """Return the report on everything so far."""
        found = {name: sample.values() for name, sample in self._scores.items()}
        return CleanReport(
            source=source,
            looked_at=self.looked_at,
            kept=self.kept,
            reasons=dict(self._reasons.most_common()),
            notes=dict(sorted((self._notes + Counter(dict(notes))).items())),
            first_bad=tuple(self._first_bad),
            thresholds=thresholds,
            scores={name: values for name, values in found.items() if values is not None},
            groups=tuple(group.frozen(*first) for first, group in self._groups.items()),
            groups_found=len(self._firsts),
            cached=self.cached,
            moved=self.moved,
            seconds=clock.wall,
            stages=clock.stages(),
        )

    def _group(self, verdict: Verdict, first: _First) -> None:
        self._firsts.add(first)
        if first in self._groups or len(self._groups) < MOST_GROUPS:
            reason = verdict.reasons[0].name
            self._groups.setdefault(first, _Group(reason)).add(verdict)


class _Group:
    """The later members of one group."""

    def __init__(self, reason: str) -> None:
        self._reason = reason
        self._count = 0
        self._members: list[Duplicate] = []

    def add(self, verdict: Verdict) -> None:
        self._count += 1
        if len(self._members) < MOST_MEMBERS:
            self._members.append(Duplicate(key=verdict.key, distance=verdict.distance))

    def frozen(self, first: str, against: bool) -> DuplicateGroup:
        return DuplicateGroup(
            first=first,
            against=against,
            reason=self._reason,
            count=self._count,
            members=tuple(self._members),
        )


class _Reservoir:
    """A uniform sample of one score (Vitter's algorithm R), seeded by its name."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._random = random.Random(name)
        self._values: list[float] = []
        self._count = 0
        self._missing = 0
        self._low, self._high = math.inf, -math.inf

    def add(self, score: Score) -> None:
        if isinstance(score, (str, bool)):
            return
        if score is None or not math.isfinite(score):
            self._missing += 1
            return
        value = float(score)
        self._count += 1
        self._low, self._high = min(self._low, value), max(self._high, value)
        if len(self._values) < MOST_VALUES:
            self._values.append(value)
            return
        place = self._random.randrange(self._count)
        if place < MOST_VALUES:
            self._values[place] = value

    def values(self) -> ScoreValues | None:
        """Return the sample; None for a score that is no number."""
        if not self._count:
            return None
        return ScoreValues(
            name=self._name,
            count=self._count,
            missing=self._missing,
            low=self._low,
            high=self._high,
            values=tuple(sorted(self._values)),
        )
