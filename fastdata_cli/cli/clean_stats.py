"""The tables of ``clean --stats``: how the scores are spread, and what thresholds hold back."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from rich.console import Console
from rich.text import Text

from fastdata_cli.cli.bench_tables import section_table
from fastdata_cli.cli.section import Column, Section, make_section, right
from fastdata_cli.operations.clean.limits import Limit, find_limits
from fastdata_cli.operations.clean.report import CleanReport, ScoreValues
from fastdata_cli.operations.words import count_text

_QUANTILES = {
    "1%": 0.01,
    "5%": 0.05,
    "25%": 0.25,
    "50%": 0.5,
    "75%": 0.75,
    "95%": 0.95,
    "99%": 0.99,
}
# What goes first where room is short: the tails are what thresholds are about.
_RANKS = {"25%": 2, "75%": 2, "5%": 1, "95%": 1}


def show(report: CleanReport, console: Console) -> None:
    """Print the tables."""
    for section in stats_sections(report):
        console.print(section_table(section, console.width))
    if not judged_scores(report):
        console.print(Text("No image has a score.", style="dim"))


def stats_sections(report: CleanReport) -> tuple[Section, ...]:
    """Return the tables that have rows: quantiles of each score, and what thresholds do."""
    made = (_scores(report), _thresholds(report))
    return tuple(section for section in made if section.groups)


def limits_of(report: CleanReport) -> tuple[Limit, ...]:
    """Return the thresholds on the scores of a run; see ``find_limits``."""
    return find_limits(report.thresholds, report.scores.keys())


def judged_scores(report: CleanReport) -> tuple[ScoreValues, ...]:
    """Return the scores that thresholds are held against: others, such as codes, have no order."""
    judged = {limit.check.score for limit in limits_of(report)}
    return tuple(each for name, each in report.scores.items() if name in judged)


def score_text(value: float) -> str:
    """Return a score with up to three digits, in five characters: eight columns of them fit."""
    value = without_noise(value)
    if value == 0 or 99.5 <= value < 99_999.5:
        return f"{value:.0f}"
    if value < 0.001 or value >= 999_999.5:
        return f"{value:.0e}"
    if value > 1000:
        return f"{value / 1000:.0f}k"
    if value < 0.01:
        return f"{value:.4f}".removeprefix("0")
    return f"{value:.3g}" if value >= 0.1 else f"{value:.2g}"


def without_noise(score: float) -> float:
    """Return a score without what arithmetic adds beyond nine decimals: of a flat image, zero."""
    return round(score, 9)


def threshold_text(value: float) -> str:
    """Return a threshold as it is typed."""
    return f"{value:.10g}"


def _scores(report: CleanReport) -> Section:
    columns = (
        Column(head="score"),
        right("min"),
        *(right(head, rank=_RANKS.get(head, 0)) for head in _QUANTILES),
        right("max"),
    )
    rows = (
        (
            "",
            (
                each.name,
                score_text(each.low),
                *map(score_text, np.quantile(each.values, list(_QUANTILES.values()))),
                score_text(each.high),
            ),
        )
        for each in judged_scores(report)
    )
    title = f"Scores of {count_text(report.looked_at, 'image')}"
    return make_section("scores", title, columns, rows, remark=" · ".join(_remarks(report)))


def _remarks(report: CleanReport) -> Iterator[str]:
    sampled = [each for each in judged_scores(report) if len(each.values) < each.count]
    if sampled:
        most = max(len(each.values) for each in sampled)
        yield f"quantiles of a uniform sample of {most:,} images; min and max of all"
    for each in judged_scores(report):
        if each.missing:
            yield f"{each.name}: {each.missing:,} have none"


def _thresholds(report: CleanReport) -> Section:
    columns = (
        Column(head="threshold"),
        Column(head="which"),
        right("holds back"),
        right("share"),
        Column(head="unit", rank=1),
    )
    rows = (
        ("", _threshold_row(limit, report.scores[limit.check.score], report))
        for limit in limits_of(report)
    )
    return make_section("thresholds", "What thresholds hold back", columns, rows)


def _threshold_row(limit: Limit, values: ScoreValues, report: CleanReport) -> tuple[str, ...]:
    count, exact = held_back(limit, values, report)
    share = count / values.count if values.count else 0.0
    return (
        f"--{limit.check.name} {threshold_text(limit.value)}",
        "chosen" if limit.chosen else "suggested",
        f"{'' if exact else '≈ '}{count:,}",
        f"{share:.1%}",
        limit.check.unit,
    )


def held_back(limit: Limit, values: ScoreValues, report: CleanReport) -> tuple[int, bool]:
    """Return how many images are on the wrong side of a threshold, and whether that is exact.

    A chosen threshold was counted during the run; a suggested one is held against the sample.
    """
    if limit.chosen:
        return report.reasons.get(limit.check.reason, 0), True
    failing = sum(map(limit.fails, values.values))
    return round(failing / len(values.values) * values.count), len(values.values) == values.count
