"""What ``clean`` found as one HTML page with pictures that needs nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from markupsafe import Markup

from fastdata_cli.cli.clean_stats import held_back, limits_of, stats_sections, threshold_text
from fastdata_cli.cli.page import svg
from fastdata_cli.cli.page.gallery_charts import FAILS, histogram, histogram_legend
from fastdata_cli.cli.page.gallery_tiles import (
    Tile,
    group_tiles,
    reason_tile,
    score_tile,
)
from fastdata_cli.cli.page.template import load_template
from fastdata_cli.cli.tables import time_text
from fastdata_cli.imaging.policy import NOTES as POLICY_NOTES
from fastdata_cli.imaging.policy import REASONS
from fastdata_cli.keys import printable
from fastdata_cli.operations.clean.gallery import (
    FINE_SCORES,
    MOST_OF_REASON,
    Border,
    Gallery,
    Picture,
)
from fastdata_cli.operations.clean.limits import is_number
from fastdata_cli.operations.clean.report import CleanReport
from fastdata_cli.quality.checks import CHECKS, NOTES

MOST_BYTES = 10_000_000
"""Of a page: one that mails and opens."""

_DUPLICATES = {
    "duplicate": "the bytes of an earlier image",
    "duplicate-pixels": "the pixels of an earlier image",
    "near-duplicate": "nearly the same as an earlier image, by perceptual hash",
}
# Percent of its place: one image of a million still shows that there is something.
_LEAST_BAR = 1.5
_NO_WORD = re.compile(r"[^a-z0-9-]+")
# Of each reason; the others are folded away, so that one common reason does not hide the rest.
_AT_ONCE = 12
_FEWER = (MOST_OF_REASON, 30, 20, 15, 10, 6, 3, 0)


@dataclass(frozen=True, slots=True)
class ReasonView:
    """One reason, with the images that show it."""

    name: str
    anchor: str
    meaning: str
    count: str
    share: str
    bar: Markup
    tiles: tuple[Tile, ...]
    more: tuple[Tile, ...]
    """What is folded away at first."""
    details: bool
    """Whether images come with their middle, to judge blur by."""
    shown: str
    """``showing 60 of 1,234``; empty where all are shown."""


@dataclass(frozen=True, slots=True)
class BorderView:
    """The images on either side of a threshold."""

    failing_title: str
    failing: tuple[Tile, ...]
    passing_title: str
    passing: tuple[Tile, ...]


@dataclass(frozen=True, slots=True)
class ScoreView:
    """One score: how it is spread, and what its thresholds tell apart."""

    name: str
    formula: str
    source: str
    chart: Markup
    details: bool
    """Whether images come with their middle, to judge blur by."""
    borders: tuple[BorderView, ...]


def render_gallery(report: CleanReport, gallery: Gallery, command: str = "") -> str:
    """Return the page, of at most ``MOST_BYTES``: with many large pictures, fewer of each reason.

    Args:
        report: of the run.
        gallery: what to show of its images.
        command: the line that the run can be repeated with.
    """
    for most in _FEWER:
        page = _render(report, gallery, command, most)
        if len(page.encode()) <= MOST_BYTES:
            break
    return page


def _render(report: CleanReport, gallery: Gallery, command: str, most: int) -> str:
    return load_template("gallery.html").render(
        headline=headline(report),
        day=datetime.now(UTC).date().isoformat(),
        took=time_text(report.seconds),
        source="the list on standard input"
        if report.source == "stdin"
        else printable(report.source),
        command_line=printable(command),
        report=report,
        reasons=[
            _reason(report, gallery, name, count, most) for name, count in report.reasons.items()
        ],
        total_of_reasons=sum(report.reasons.values()),
        groups=[group_tiles(group) for group in gallery.groups[:most]],
        distances=any(group.reason == "near-duplicate" for group in gallery.groups),
        group_words=_group_words(report, len(gallery.groups[:most])),
        scores=list(_scores(report, gallery, most)),
        legend_of_scores=histogram_legend(),
        tables={section.name: section for section in stats_sections(report)},
        notes=[(name, f"{count:,}", _note(name)) for name, count in report.notes.items()],
    )


def headline(report: CleanReport) -> str:
    """Return the outcome in one line."""
    if not report.looked_at:
        return "No image to look at"
    if not report.bad:
        return f"Nothing held back: all {images(report.looked_at)} kept"
    return f"{report.bad:,} of {images(report.looked_at)} held back"


def images(count: int) -> str:
    """Return ``1 image``, ``2,000 images``."""
    return f"{count:,} image{'' if count == 1 else 's'}"


def _reason(report: CleanReport, gallery: Gallery, name: str, count: int, most: int) -> ReasonView:
    pictures = gallery.shelves.get(name, ())
    # Every so many, so that those shown are still spread over the whole set.
    step = max(1, -(-len(pictures) // most)) if most else len(pictures) + 1
    shown = sorted(pictures[step - 1 :: step], key=lambda each: _failing(report, each, name))
    tiles = tuple(reason_tile(each, name) for each in shown)
    share = count / report.looked_at
    return ReasonView(
        name=printable(name),
        anchor="duplicates" if name in _DUPLICATES else f"reason-{_NO_WORD.sub('-', name)}",
        meaning=_meaning(report, name),
        count=f"{count:,}",
        share=f"{share:.1%}",
        bar=svg.bar(0, 0, max(share * 100, _LEAST_BAR), 10, FAILS),
        tiles=tiles[:_AT_ONCE],
        more=tiles[_AT_ONCE:],
        details=any(tile.detail for tile in tiles),
        shown="" if len(tiles) == count else f"showing {len(tiles):,} of {count:,}",
    )


def _failing(report: CleanReport, picture: Picture, name: str) -> float:
    """Rank images of a reason: the farther beyond the threshold, the earlier."""
    for limit in limits_of(report):
        score = (picture.scores or {}).get(limit.check.score)
        if limit.check.reason == name and is_number(score):
            return -limit.distance(score)
    return 0.0


def _meaning(report: CleanReport, name: str) -> str:
    """Return what a reason stands for, with the threshold that was asked for."""
    for limit in limits_of(report):
        if limit.chosen and limit.check.reason == name:
            check = limit.check
            return f"{check.score} {limit.side} {threshold_text(limit.value)} {check.unit}".strip()
    formulas = {check.reason: check.formula for check in CHECKS}
    return REASONS.get(name) or _DUPLICATES.get(name) or formulas.get(name, "")


def _note(name: str) -> str:
    return POLICY_NOTES.get(name) or NOTES.get(name, "")


def _group_words(report: CleanReport, shown: int) -> str:
    found = f"{report.groups_found:,} group{'' if report.groups_found == 1 else 's'}"
    return found if shown == report.groups_found else f"showing {shown:,} of {found}"


def _scores(report: CleanReport, gallery: Gallery, most: int) -> Iterator[ScoreView]:
    borders: dict[str, list[Border]] = {}
    for border in gallery.borders:
        borders.setdefault(border.limit.check.score, []).append(border)
    for name, around in borders.items():
        values = report.scores.get(name)
        if values is None:  # no image has it
            continue
        limits = [border.limit for border in around]
        yield ScoreView(
            name=name,
            formula=limits[0].check.formula,
            source=limits[0].check.source,
            chart=histogram(report, values, limits),
            details=name in FINE_SCORES,
            borders=tuple(_border(report, border, most) for border in around),
        )


def _border(report: CleanReport, border: Border, most: int) -> BorderView:
    limit = border.limit
    score = limit.check.score
    count, exact = held_back(limit, report.scores[score], report)
    flag = f"--{limit.check.name} {threshold_text(limit.value)}"
    verb = "fail" if limit.chosen else "would fail"
    return BorderView(
        failing_title=f"{'' if exact else 'About '}{images(count)} {verb} {flag}; the nearest",
        failing=tuple(score_tile(each, score) for each in border.failing[:most]),
        passing_title=f"Nearest of those that {'pass' if limit.chosen else 'would pass'}",
        passing=tuple(score_tile(each, score) for each in border.passing[:most]),
    )
