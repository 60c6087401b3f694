"""Drawing primitives of the page: SVG that keeps its text size at any width.

Across, everything is placed in percent of the chart's width; down, in pixels. So nothing is scaled:
a chart is as legible on a phone as on a screen, without a script and without a second drawing.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from markupsafe import Markup

# Around (0, 0): shapes, so that series differ without their colours.
_MARKS = (
    Markup('<circle r="4.5"/>'),
    Markup('<rect x="-4" y="-4" width="8" height="8"/>'),
    Markup('<path d="M0-5.5 5 4H-5z"/>'),
    Markup('<path d="M0-5.5 5.5 0 0 5.5-5.5 0z"/>'),
)
_DASHES = ("none", "7 4", "2 4", "10 4 2 4")


def chart(name: str, title: str, words: str, height: float, parts: Sequence[Markup]) -> Markup:
    """Return one chart with the title and the description that a screen reader tells.

    Args:
        name: unique in the page, of letters, digits and hyphens.
        title: what the chart shows.
        words: what it says, in a sentence or two.
        height: in pixels.
        parts: what is drawn, first things below.
    """
    return Markup(
        '<svg class="chart" role="img" aria-labelledby="{name}-title {name}-desc" width="100%" '
        'height="{height:.0f}"><title id="{name}-title">{title}</title>'
        '<desc id="{name}-desc">{words}</desc>{parts}</svg>'
    ).format(name=name, title=title, words=words, height=height, parts=Markup("").join(parts))


def bar(x: float, y: float, width: float, height: float, style: str) -> Markup:
    """Return a bar; ``x`` and ``width`` in percent, ``y`` and ``height`` in pixels."""
    return Markup(
        '<rect class="{style}" x="{x:.2f}%" y="{y:.1f}" '
        'width="{width:.2f}%" height="{height:.0f}"/>'
    ).format(style=style, x=x, y=y, width=max(width, 0.3), height=height)


def text(x: float, y: float, words: str, *, anchor: str = "start", style: str = "") -> Markup:
    """Return text whose base line is at ``y``; ``anchor`` is start, middle or end."""
    return Markup(
        '<text class="{style}" x="{x:.2f}%" y="{y:.1f}" text-anchor="{anchor}">{words}</text>'
    ).format(style=style, x=x, y=y, anchor=anchor, words=words)


def line(
    start: tuple[float, float], end: tuple[float, float], style: str, dash: str = "none"
) -> Markup:
    """Return a straight line between two points, each (percent, pixels)."""
    return Markup(
        '<line class="{style}" x1="{:.2f}%" y1="{:.1f}" x2="{:.2f}%" y2="{:.1f}" '
        'stroke-dasharray="{dash}"/>'
    ).format(*start, *end, style=style, dash=dash)


def series(points: Sequence[tuple[float, float]], number: int) -> Markup:
    """Return a line and a mark at each point, in the colour and shape of the number."""
    dash = _DASHES[number % len(_DASHES)]
    lines = [
        line(start, end, f"stroke s{number % 8}", dash) for start, end in itertools.pairwise(points)
    ]
    return Markup("").join([*lines, *(mark(point, number) for point in points)])


def mark(point: tuple[float, float], number: int) -> Markup:
    """Return the mark of a series at (percent, pixels)."""
    return Markup(
        '<svg class="mark s{colour}" x="{x:.2f}%" y="{y:.1f}" width="1" height="1" '
        'overflow="visible">{shape}</svg>'
    ).format(colour=number % 8, x=point[0], y=point[1], shape=_MARKS[number % len(_MARKS)])


def key(number: int) -> Markup:
    """Return the sign of a series for a legend, as small as a letter."""
    return Markup('<svg class="key" aria-hidden="true" width="26" height="14">{}{}</svg>').format(
        Markup(
            '<line class="stroke s{}" x1="0" y1="7" x2="26" y2="7" stroke-dasharray="{}"/>'
        ).format(number % 8, _DASHES[number % len(_DASHES)]),
        Markup(
            '<svg class="mark s{}" x="13" y="7" width="1" height="1" overflow="visible">{}</svg>'
        ).format(number % 8, _MARKS[number % len(_MARKS)]),
    )


def swatch(style: str) -> Markup:
    """Return a square of the colour of a bar, for a legend."""
    return Markup(
        '<svg class="key" aria-hidden="true" width="14" height="14">'
        '<rect class="{}" width="14" height="14" rx="2"/></svg>'
    ).format(style)
