"""The thresholds that a report is drawn and counted against: chosen ones, else those suggested."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeGuard

from fastdata_cli.quality.checks import CHECKS, Check
from fastdata_cli.quality.verdict import Score


@dataclass(frozen=True, slots=True)
class Limit:
    """A number that a score is held against."""

    check: Check
    value: float
    chosen: bool
    """Whether the user asked for it; else it is the check's suggestion, and holds nothing back."""

    def fails(self, score: Score) -> bool:
        """Return whether an image with this score is on the wrong side."""
        return self.check.fails(score, self.value)

    @property
    def side(self) -> str:
        """The side on which images fail: ``below`` or ``above``."""
        return "above" if self.fails(math.inf) else "below"

    def distance(self, score: float) -> float:
        """Return how far a score lies from the threshold."""
        return abs(score - self.value)


def find_limits(thresholds: Mapping[str, Score], measured: Collection[str]) -> tuple[Limit, ...]:
    """Return the numeric thresholds on measured scores, in the order of the checks.

    Args:
        thresholds: what was asked for, by name of the check; None and False stand for "not".
        measured: names of scores. One without a chosen threshold gets those that are suggested.
    """
    chosen = list(_limits(((each, thresholds.get(each.name)) for each in CHECKS), chosen=True))
    settled = {limit.check.score for limit in chosen}
    open_ones = [each for each in CHECKS if each.score not in settled]
    suggested = _limits(((each, each.suggested) for each in open_ones), chosen=False)
    found = {limit.check.name: limit for limit in (*chosen, *suggested)}
    return tuple(
        found[each.name] for each in CHECKS if each.name in found and each.score in measured
    )


def _limits(values: Iterable[tuple[Check, Score]], *, chosen: bool) -> Iterable[Limit]:
    for check, value in values:
        if is_number(value):
            yield Limit(check, float(value), chosen)


def is_number(score: Score) -> TypeGuard[float]:
    """Return whether a score is a number: True and False are words."""
    return isinstance(score, int | float) and not isinstance(score, bool)
