"""Collects what a page of a run shows: bounded, and drawn while the images are decoded anyway."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from fastdata_cli.errors import BadSampleError
from fastdata_cli.operations.clean.gallery_pick import Pick, Rank, scatter
from fastdata_cli.operations.clean.gallery_spool import Spool
from fastdata_cli.operations.clean.gallery_thumbnail import Thumbnail, make_thumbnail
from fastdata_cli.operations.clean.limits import Limit, find_limits, is_number
from fastdata_cli.operations.clean.report import CleanReport, DuplicateGroup
from fastdata_cli.quality.verdict import Reason, Score, Verdict
from fastdata_cli.quality.view import View

MOST_OF_REASON = 60
"""Images shown of each reason."""
MOST_NEAR_LIMIT = 8
"""Images shown on either side of a threshold."""
MOST_GROUPS = 40
"""Groups of duplicates shown."""
MOST_OF_GROUP = 8
"""Images shown of a group, the first included."""
FINE_SCORES = frozenset({"blur", "sharpness"})
"""Scores of ``View.reduced`` that a person can judge by its pixels only, not by a thumbnail."""


@dataclass(frozen=True, slots=True)
class Picture:
    """One image of the page."""

    key: str
    thumbnail: Thumbnail | None
    """None where there is none: the image is unreadable, or there was no room."""
    reasons: tuple[Reason, ...] = ()
    scores: Mapping[str, Score] | None = None
    distance: int | None = None
    """Differing bits from the first of its group, for near duplicates."""


@dataclass(frozen=True, slots=True)
class Border:
    """The images nearest to a threshold, the nearest first."""

    limit: Limit
    failing: tuple[Picture, ...]
    passing: tuple[Picture, ...]


@dataclass(frozen=True, slots=True)
class PictureGroup:
    """Images that are taken for the same one."""

    first: Picture
    members: tuple[Picture, ...]
    """At most ``MOST_OF_GROUP`` less one, the least alike first."""
    count: int
    """Members, shown or not, without the first."""
    reason: str


@dataclass(frozen=True, slots=True)
class Gallery:
    """Everything that a page shows besides the report."""

    shelves: Mapping[str, tuple[Picture, ...]]
    """By reason other than duplicates: a uniform sample of the images, in source order."""
    borders: tuple[Border, ...]
    groups: tuple[PictureGroup, ...]
    """The most doubtful ones first: by the distance of their least alike member."""


class GalleryCollector:
    """Watches a run and keeps what a gallery shows; memory does not grow with the run.

    Args:
        thresholds: what was asked for, by name of the check; see ``find_limits``.
        measured: names of the scores that images get.
        duplicates: whether duplicates are looked for. All thumbnails then go through a file,
            because the first of a group shows itself only when the second comes.
        folder: where that file may lie: beside the page.
    """

    def __init__(
        self,
        thresholds: Mapping[str, Score],
        measured: tuple[str, ...],
        *,
        duplicates: bool,
        folder: Path,
    ) -> None:
        self._limits = find_limits(thresholds, measured)
        self._spool = Spool(folder) if duplicates else None
        self._shelves: dict[str, Pick[tuple[int, Picture]]] = {}
        self._borders = {
            (limit.check.name, fails): Pick[Picture](MOST_NEAR_LIMIT)
            for limit in self._limits
            for fails in (True, False)
        }
        self.gallery = Gallery({}, (), ())

    def draw(
        self,
        index: int,
        open_view: Callable[[], View],
        scores: Mapping[str, Score],
        reasons: tuple[Reason, ...],
    ) -> Thumbnail | None:
        """Return a thumbnail if the image may be shown; see ``Observer.draw``."""
        wanted = set(self._wanted(index, scores, reasons))
        if not wanted:
            return None
        try:
            view = open_view()
            detail_of = _reduced(view) if wanted & FINE_SCORES else None
            return make_thumbnail(view.pixels, detail_of=detail_of)
        except BadSampleError:
            return None

    def _wanted(
        self, index: int, scores: Mapping[str, Score], reasons: tuple[Reason, ...]
    ) -> Iterator[str]:
        """Yield the scores that an image may be shown for; a word that is none for a group."""
        if not reasons and self._spool is not None:
            yield ""
        for reason in reasons:
            shelf = self._shelves.get(reason.name)
            if shelf is None or shelf.wants(_scattered(index)):
                yield reason.score
        for limit, pick, rank in self._near(index, scores):
            if pick.wants(rank):
                yield limit.check.score

    def _near(
        self, index: int, scores: Mapping[str, Score]
    ) -> Iterator[tuple[Limit, Pick[Picture], Rank]]:
        """Yield the sides of thresholds that an image stands on, and its rank there."""
        for limit in self._limits:
            score = scores.get(limit.check.score)
            if is_number(score):
                rank = (limit.distance(score), scatter(index))
                yield limit, self._borders[limit.check.name, limit.fails(score)], rank

    def see(self, verdict: Verdict, drawn: Thumbnail | None) -> None:
        """Keep the thumbnail where it belongs; see ``Observer.see``."""
        repeats = verdict.duplicate_of is not None
        for reason in () if repeats else verdict.reasons:
            shelf = self._shelves.setdefault(reason.name, Pick(MOST_OF_REASON))
            picture = _picture(verdict, drawn, reason.score)
            shelf.offer(_scattered(verdict.index), (verdict.index, picture))
        for limit, pick, rank in self._near(verdict.index, verdict.scores):
            pick.offer(rank, _picture(verdict, drawn, limit.check.score))
        if self._spool is not None and drawn is not None and (repeats or verdict.kept):
            self._spool.add(verdict.key, drawn)

    def finish(self, report: CleanReport) -> None:
        """Put the gallery together; see ``Observer.finish``."""
        self.gallery = Gallery(
            shelves={
                name: tuple(picture for _, picture in sorted(shelf.items, key=lambda each: each[0]))
                for name, shelf in self._shelves.items()
            },
            borders=tuple(
                Border(
                    limit,
                    failing=self._borders[limit.check.name, True].items,
                    passing=self._borders[limit.check.name, False].items,
                )
                for limit in self._limits
            ),
            groups=self._groups(report),
        )

    def _groups(self, report: CleanReport) -> tuple[PictureGroup, ...]:
        if self._spool is None:
            return ()
        shown = sorted(report.groups, key=_likeness)[:MOST_GROUPS]
        kept = [
            sorted(group.members, key=lambda each: -(each.distance or 0))[: MOST_OF_GROUP - 1]
            for group in shown
        ]
        firsts = [group.first for group in shown if not group.against]
        thumbnails = self._spool.find([*firsts, *(each.key for some in kept for each in some)])
        return tuple(
            PictureGroup(
                first=Picture(group.first, None if group.against else thumbnails.get(group.first)),
                members=tuple(
                    Picture(each.key, thumbnails.get(each.key), distance=each.distance)
                    for each in some
                ),
                count=group.count,
                reason=group.reason,
            )
            for group, some in zip(shown, kept, strict=True)
        )

    def close(self) -> None:
        """Let go of the file; see ``Observer.close``."""
        if self._spool is not None:
            self._spool.close()


def _picture(verdict: Verdict, drawn: Thumbnail | None, score: str) -> Picture:
    """Return an image among others of its score, with the detail only where that is looked at."""
    if drawn is not None and drawn.detail and score not in FINE_SCORES:
        drawn = replace(drawn, detail=b"")
    return Picture(verdict.key, drawn, verdict.reasons, verdict.scores)


def _reduced(view: View) -> tuple[int, int]:
    height, width = view.reduced.shape
    return height, width


def _scattered(index: int) -> Rank:
    return scatter(index), index


def _likeness(group: DuplicateGroup) -> int:
    """Rank groups by their least alike member, the most doubtful first."""
    return -max((member.distance or 0 for member in group.members), default=0)
