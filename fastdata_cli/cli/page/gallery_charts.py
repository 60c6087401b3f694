"""Histograms of scores, with the thresholds drawn in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from fastdata_cli.cli.clean_stats import held_back, score_text, threshold_text
from fastdata_cli.cli.page import svg
from fastdata_cli.cli.page.charts import LegendEntry
from fastdata_cli.cli.page.scale import decades, ticks
from fastdata_cli.operations.clean.limits import Limit
from fastdata_cli.operations.clean.report import CleanReport, ScoreValues

_BINS = 40
_PLOT = 150
_LINE = 18
_LEFT, _RIGHT = 11.0, 99.0
# Room that a number below the axis takes on a phone, in percent.
_MARK = 11.0
# Scores with fixed ends, which people think of in even steps.
_EVEN = frozenset({"brightness", "entropy"})
# Beyond this ratio of the largest score to the least number of interest, even steps hide it.
_WIDE = 30
# A bin with one image of many must be seen.
_LEAST_HEIGHT = 2.0
PASSES, FAILS = "fill s0", "fill s1"


def histogram_legend() -> list[LegendEntry]:
    """Return what the two colours stand for."""
    return [
        LegendEntry(svg.swatch(PASSES), "passes"),
        LegendEntry(svg.swatch(FAILS), "fails, or would"),
    ]


@dataclass(frozen=True, slots=True)
class Axis:
    """Where scores stand across a chart, in bins of equal width, even or logarithmic."""

    begin: float
    """Left end, as the logarithm if this is ``logarithmic``."""
    step: float
    """Width of a bin, likewise."""
    bins: int
    logarithmic: bool

    @property
    def low(self) -> float:
        """The score at the left end; lower ones are drawn there too."""
        return 10**self.begin if self.logarithmic else self.begin

    @property
    def high(self) -> float:
        """The score at the right end."""
        end = self.begin + self.bins * self.step
        return 10**end if self.logarithmic else end

    def place(self, score: float) -> float:
        """Return where a score stands, counted in bins."""
        score = max(score, self.low)
        bent = math.log10(score) if self.logarithmic else score
        return min((bent - self.begin) / self.step, self.bins)

    def bin_of(self, score: float) -> int:
        """Return the bin of a score; the threshold on a border belongs to the right one."""
        return min(math.floor(self.place(score) + 1e-9), self.bins - 1)

    def across(self, place: float) -> float:
        """Return the percentage of the width for a place in bins."""
        return _LEFT + (_RIGHT - _LEFT) * place / self.bins

    def marks(self) -> list[float]:
        """Return round numbers to write below the axis."""
        if self.logarithmic:
            every = decades(self.low, self.high)
        else:
            step = ticks(self.high - self.low)[1]
            first = math.ceil(self.low / step - 1e-9)
            every = [step * at for at in range(first, math.floor(self.high / step + 1e-9) + 1)]
        return [value for value in every if self.low * 0.999 <= value <= self.high * 1.001]


def axis_for(values: ScoreValues, limits: Sequence[Limit]) -> Axis:
    """Return an axis on which all scores and thresholds have their place.

    The first threshold is a border of bins, so that none mixes what passes and what fails.
    """
    low = min([values.low, *(limit.value for limit in limits)])
    high = max([values.high, *(limit.value for limit in limits)])
    least = _least_of_interest(values, limits)
    logarithmic = low >= 0 and least is not None and high > _WIDE * least
    if logarithmic:
        assert least is not None
        # What lies far below anything of interest, such as zero, is drawn at the left end.
        low = max(low, least / 10)
    elif 0 < low < high / 2:
        low = 0.0
    bend = math.log10 if logarithmic else float
    begin, end = bend(low), bend(high)
    step = (end - begin) / _BINS or 1.0
    fixed = bend(limits[0].value) if limits else begin
    before, after = (math.ceil(each / step - 1e-9) for each in (fixed - begin, end - fixed))
    return Axis(fixed - before * step, step, max(before + after, 1), logarithmic)


def _least_of_interest(values: ScoreValues, limits: Sequence[Limit]) -> float | None:
    """Return what an axis has to show clearly at its lower end; None where even steps do."""
    if values.name in _EVEN:
        return None
    found = [limit.value for limit in limits if limit.value > 0]
    # Of flat images scores are the noise of arithmetic, which no axis should reach down to.
    floor = min(found, default=0.0) / 100
    above_zero = [value for value in values.values if value > 0]
    if above_zero:
        found.append(max(float(np.quantile(above_zero, 0.05)), floor))
    return min(found, default=None)


def histogram(report: CleanReport, values: ScoreValues, limits: Sequence[Limit]) -> Markup:
    """Return the histogram of one score.

    Args:
        report: of the run.
        values: the score.
        limits: the thresholds on it.
    """
    axis = axis_for(values, limits)
    base = _LINE * len(limits) + 6 + _PLOT
    passing, failing = _counts(values, limits, axis)
    most = max(good + bad for good, bad in zip(passing, failing, strict=True))
    parts = [*_grid(most, base), *_marks(axis, values, base)]
    for at, (good, bad) in enumerate(zip(passing, failing, strict=True)):
        sides = axis.across(at), axis.across(at + 1)
        parts += _bin(sides, (good / most, bad / most), base)
    for row, limit in enumerate(limits):
        parts += _threshold(axis, limit, row, base)
    title = f"Histogram of {values.name}"
    words = _words(report, values, limits)
    return svg.chart(f"histogram-{values.name}", title, words, base + 24, parts)


def _counts(
    values: ScoreValues, limits: Sequence[Limit], axis: Axis
) -> tuple[list[float], list[float]]:
    """Return how many images of each bin pass all thresholds, and how many do not."""
    passing, failing = [0.0] * axis.bins, [0.0] * axis.bins
    weight = values.count / len(values.values)
    for value in values.values:
        bad = any(limit.fails(value) for limit in limits)
        (failing if bad else passing)[axis.bin_of(value)] += weight
    return passing, failing


def _bin(sides: tuple[float, float], heights: tuple[float, float], base: float) -> list[Markup]:
    """Return the two parts of one bar, what passes below; heights are 0 to 1."""
    left, right = sides
    gap = min(0.3, (right - left) / 4)
    parts = []
    for height, style in zip(heights, (PASSES, FAILS), strict=True):
        if height:
            tall = max(height * _PLOT, _LEAST_HEIGHT)
            base -= tall
            parts.append(svg.bar(left + gap / 2, base, right - left - gap, tall, style))
    return parts


def _grid(most: float, base: float) -> list[Markup]:
    parts = [svg.line((_LEFT, base), (_RIGHT, base), "grid")]
    for level in ticks(most, 2):
        if 0 < level <= most:
            y = base - level / most * _PLOT
            parts.append(svg.line((0, y), (_RIGHT, y), "grid"))
            parts.append(svg.text(0, y - 4, f"{level:,.10g}", style="tick"))
    return parts


def _marks(axis: Axis, values: ScoreValues, base: float) -> list[Markup]:
    """Return the numbers below the axis."""
    parts = []
    free = _LEFT
    if values.low < axis.low:
        parts.append(svg.text(_LEFT, base + 17, f"≤ {score_text(axis.low)}", style="tick"))
        free += 2 * _MARK
    for value in axis.marks():
        x = axis.across(axis.place(value))
        if x >= free:
            free = x + _MARK
            anchor = "end" if x > 97 else "middle"
            parts.append(svg.text(x, base + 17, f"{value:,.10g}", anchor=anchor, style="tick"))
    return parts


def _threshold(axis: Axis, limit: Limit, row: int, base: float) -> list[Markup]:
    x = axis.across(axis.place(limit.value))
    y = _LINE * row + 13
    suggested = "" if limit.chosen else " (suggested)"
    words = f"--{limit.check.name} {threshold_text(limit.value)}{suggested}"
    anchor, gap = ("end", -0.8) if x > 55 else ("start", 0.8)
    return [
        svg.line((x, y - 11), (x, base), "goal", "none" if limit.chosen else "5 4"),
        svg.text(x + gap, y, words, anchor=anchor, style="value"),
    ]


def _words(report: CleanReport, values: ScoreValues, limits: Sequence[Limit]) -> str:
    low, middle, high = (
        score_text(float(each)) for each in np.quantile(values.values, (0.25, 0.5, 0.75))
    )
    told = [
        f"{values.count:,} images score from {score_text(values.low)} to {score_text(values.high)},"
        f" half of them from {low} to {high}, median {middle}."
    ]
    for limit in limits:
        count, exact = held_back(limit, values, report)
        verb = "fail" if limit.chosen else "would fail the suggested"
        told.append(
            f"{'' if exact else 'About '}{count:,} {verb} --{limit.check.name} "
            f"{threshold_text(limit.value)}."
        )
    return " ".join(told)
