"""What clean found: a frozen report that tables and pages are made from, and who may look on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from fastdata_cli.quality.verdict import Reason, Score, Verdict
from fastdata_cli.quality.view import View
from fastdata_cli.sample import Reject
from fastdata_cli.timing.stages import Stage

MOST_VALUES = 4096
"""Values kept of each score: quantiles of them are within 0.8 points of the rank (1 sigma)."""
MOST_GROUPS = 1000
"""Duplicate groups kept in a report; their number is always exact."""
MOST_MEMBERS = 100
"""Members kept of one group; their number is always exact."""
MOST_NAMED = 5
"""Images kept by name in a report that are held back: few are named, many are counted."""


@dataclass(frozen=True, kw_only=True)
class ScoreValues:
    """One numeric score over all images that have it, as a bounded sample."""

    name: str
    """Such as ``variance``."""
    count: int
    """Images that have the score."""
    missing: int
    """Images that were judged and do not have it."""
    low: float
    high: float
    """Extremes of all images, not of the sample."""
    values: tuple[float, ...]
    """Sorted; all of them up to ``MOST_VALUES``, else a uniform sample, the same in every run."""

    def quantile(self, share: float) -> float:
        """Return the value below which ``share`` (0 to 1) of the images lie; 0 and 1 are exact."""
        if share <= 0:
            return self.low
        if share >= 1:
            return self.high
        place = share * (len(self.values) - 1)
        below = int(place)
        above = min(below + 1, len(self.values) - 1)
        return self.values[below] + (place - below) * (self.values[above] - self.values[below])


@dataclass(frozen=True, kw_only=True)
class Duplicate:
    """A later member of a group."""

    key: str
    distance: int | None
    """Differing bits, for near duplicates."""


@dataclass(frozen=True, kw_only=True)
class DuplicateGroup:
    """An image and those found to repeat it, in source order."""

    first: str
    """Key of the image that stays."""
    against: bool
    """Whether that image is of the index of ``--against``, not of this run."""
    reason: str
    """``duplicate``, ``duplicate-pixels`` or ``near-duplicate``."""
    count: int
    """Members without the first."""
    members: tuple[Duplicate, ...]
    """At most ``MOST_MEMBERS`` of them."""


@dataclass(frozen=True, kw_only=True)
class CleanReport:
    """What a run found."""

    source: str
    """As the user gave it."""
    looked_at: int
    kept: int
    reasons: Mapping[str, int]
    """Images by reason, most frequent first; an image with two reasons counts under both."""
    notes: Mapping[str, int]
    """What is worth knowing and no reason, counted by kind; also what the listing ignored."""
    thresholds: Mapping[str, Score]
    """By option name without dashes in front, such as ``variance-min``: what was asked for."""
    scores: Mapping[str, ScoreValues]
    """Every numeric score that was measured, by name."""
    groups: tuple[DuplicateGroup, ...]
    """At most ``MOST_GROUPS``, in order of their first found member."""
    groups_found: int
    cached: int
    """Images whose scores came from ``--cache``."""
    moved: int
    """Images moved by ``--quarantine``."""
    seconds: float
    first_bad: tuple[Reject, ...] = ()
    """The first images that are not kept, at most ``MOST_NAMED``, with the reasons in words."""
    stages: tuple[Stage, ...] = field(default=())

    @property
    def bad(self) -> int:
        """Images that are not kept."""
        return self.looked_at - self.kept


class Observer(Protocol):
    """Looks on while images are judged, and may draw them while they are decoded anyway."""

    def draw(
        self,
        index: int,
        open_view: Callable[[], View],
        scores: Mapping[str, Score],
        reasons: tuple[Reason, ...],
    ) -> Any:
        """Return what ``see`` shall get besides the verdict, such as a thumbnail; None for nothing.

        Runs in many threads at once, in any order, and not for unusable images.

        Args:
            index: position in the source.
            open_view: returns the image, decoded already if any check needed that; where the
                scores came from a cache it reads and decodes, and may raise BadSampleError.
            scores: of the image.
            reasons: against it so far: duplicates are found later.
        """
        ...

    def see(self, verdict: Verdict, drawn: Any) -> None:
        """Take note of the next verdict, in source order, in one thread."""
        ...

    def finish(self, report: CleanReport) -> None:
        """Take the report, once, after the last verdict."""
        ...

    def close(self) -> None:
        """Let go of everything; also after a run that failed."""
        ...
