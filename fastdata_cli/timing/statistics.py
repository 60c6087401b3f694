"""What repeated measurements say, and how far to believe it: arithmetic alone, no clock.

Robust throughout, because disturbance on a computer is one-sided: a repeat is often slower than it
should be and never faster. So the median stands for the centre, half the inter-quartile range for
the spread, and an outlier is a repeat whose *modified z-score*, ``0.6745 (x - median) / MAD``,
exceeds 3.5 (Iglewicz and Hoaglin, "How to Detect and Handle Outliers", 1993) and which lies more
than 5 % from the median, so that a very steady series does not report its own last digit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

MIN_REPEATS = 3
"""Fewer repeats than this have no spread worth the name."""

OUTLIER_SCORE = 3.5
_OUTLIER_SHARE = 0.05

RUN_TO_RUN = 0.03
"""What separate runs of one build may differ by, though each repeats itself closely: memory layout,
clock frequency and temperature are drawn anew for each run."""

_UNKNOWN_NOISE = 0.25
_RESAMPLES = 2000
_CONFIDENCE = 0.95

_PERCENTILES = (0.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 100.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Repeated values in a few numbers, in the unit of the values."""

    n: int
    median: float
    mean: float
    minimum: float
    maximum: float
    spread: float
    """Half the inter-quartile range: the middle half of the values is about median ± spread."""
    p50: float
    p95: float | None
    """None for fewer than 20 values: nothing would lie beyond it."""
    p99: float | None
    """None for fewer than 100 values."""

    @property
    def relative_spread(self) -> float:
        """The spread as a share of the median; 0 where the median is."""
        return self.spread / abs(self.median) if self.median else 0.0


class Verdict(StrEnum):
    """What a comparison says of the second side."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    """No difference beyond noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How many times as fast the second side is as the first, and between which bounds."""

    ratio: float
    low: float
    high: float
    verdict: Verdict

    def slower_by(self, share: float) -> bool:
        """Whether the second side takes over ``share`` more time, and that is beyond noise."""
        return self.verdict is Verdict.SLOWER and self.ratio * (1 + share) < 1


def summarise(values: ArrayLike) -> Summary:
    """Return the summary of one or more values.

    Args:
        values: 1-D numbers in any order and unit.

    Raises:
        ValueError: there are none.
    """
    array = _column(values)
    quarters = np.quantile(array, (0.25, 0.75))
    found = percentiles(array)
    return Summary(
        n=len(array),
        median=float(np.median(array)),
        mean=float(array.mean()),
        minimum=float(array.min()),
        maximum=float(array.max()),
        spread=float(quarters[1] - quarters[0]) / 2,
        p50=found["p50"],
        p95=found.get("p95"),
        p99=found.get("p99"),
    )


def percentiles(values: ArrayLike) -> dict[str, float]:
    """Return ``p0`` (minimum), ``p10`` … ``p50`` … ``p99``, ``p99.9``, ``p100`` (maximum).

    One that no value could lie beyond is left out: ``p95`` needs 20 values, ``p99`` a hundred,
    ``p99.9`` a thousand. ``p0``, ``p50`` and ``p100`` are always there.

    Raises:
        ValueError: there are no values.
    """
    array = _column(values)
    levels = [level for level in _PERCENTILES if _allowed(level, len(array))]
    found = np.percentile(array, levels)
    return {f"p{level:g}": float(value) for level, value in zip(levels, found, strict=True)}


def compare(
    a_values: ArrayLike,
    b_values: ArrayLike,
    *,
    run_to_run: float = RUN_TO_RUN,
    others: tuple[float, float] = (0.0, 0.0),
) -> Comparison:
    """Say how many times as fast ``b`` is as ``a``, and whether that is beyond noise.

    The ratio is that of the medians. Its bounds are the 95 % percentile bootstrap (2000
    resamples, fixed seed: equal values give equal bounds) of both sides without their slow
    outliers, widened by what separate runs of one build may differ by and by what others may
    have slowed either side. A verdict other than ``same`` needs both bounds on one side of 1. With
    fewer than three values on a side the noise is unknown, and taken to be 25 %.

    Args:
        a_values: seconds for one unit of work, a value for each repeat; the reference.
        b_values: seconds for the same unit of work.
        run_to_run: relative difference between runs that is not worth a word; 0 for cases that
            were interleaved in one run.
        others: which share of the processors others took while ``a`` and while ``b`` ran: of its
            time, as much may have been waiting for one.

    Raises:
        ValueError: a side is empty or holds a value that is not above 0.
    """
    sides = [_without_slow_outliers(_column(values)) for values in (a_values, b_values)]
    if any((side <= 0).any() for side in sides):
        raise ValueError("only durations above 0 can be compared")
    a, b = (float(np.median(side)) for side in sides)
    low, high = _bounds(sides) if min(map(len, sides)) >= MIN_REPEATS else _guess(a / b)
    low *= (1 - others[0]) / (1 + run_to_run)
    high *= (1 + run_to_run) / (1 - others[1])
    verdict = Verdict.SLOWER if high < 1 else Verdict.FASTER if low > 1 else Verdict.SAME
    return Comparison(ratio=a / b, low=low, high=high, verdict=verdict)


def _bounds(sides: Sequence[NDArray[np.float64]]) -> tuple[float, float]:
    random = np.random.default_rng(0)
    a, b = (np.median(random.choice(side, (_RESAMPLES, len(side))), 1) for side in sides)
    tail = (1 - _CONFIDENCE) / 2
    low, high = np.quantile(a / b, (tail, 1 - tail))
    return float(low), float(high)


def _guess(ratio: float) -> tuple[float, float]:
    return ratio / (1 + _UNKNOWN_NOISE), ratio * (1 + _UNKNOWN_NOISE)


def modified_z_scores(values: ArrayLike) -> NDArray[np.float64]:
    """Return how far each value lies from the median, in robust standard deviations.

    Where more than half of the values are equal, the mean absolute deviation stands in for the
    median one, as the source does it; where all are, every score is 0.
    """
    array = _column(values)
    distance = array - np.median(array)
    scale = float(np.median(np.abs(distance))) / 0.6745
    if scale == 0:
        scale = float(np.abs(distance).mean()) * math.sqrt(math.pi / 2)
    return distance / scale if scale else np.zeros_like(array)


def outliers(values: ArrayLike) -> NDArray[np.bool_]:
    """Return which values lie far from the rest, on either side; see the head of this module."""
    array = _column(values)
    median = float(np.median(array))
    far = np.abs(array - median) > _OUTLIER_SHARE * abs(median)
    outlying: NDArray[np.bool_] = far & (np.abs(modified_z_scores(array)) > OUTLIER_SCORE)
    return outlying


def _without_slow_outliers(array: NDArray[np.float64]) -> NDArray[np.float64]:
    if len(array) < MIN_REPEATS:
        return array
    kept: NDArray[np.float64] = array[~(outliers(array) & (array > np.median(array)))]
    return kept


def _allowed(level: float, count: int) -> bool:
    # Rounded, because 100 - 99.9 is a little more than it should be.
    beyond = round(min(level, 100 - level) / 100, 6)
    return beyond in (0, 0.5) or count * beyond >= 1


def _column(values: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(values, np.float64).reshape(-1)
    if len(array) == 0:
        raise ValueError("there is nothing to summarise")
    return array
