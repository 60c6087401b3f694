"""Checks on EXIF, and what is reported of it without being judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fastdata_cli.quality.check import Check, Needs
from fastdata_cli.quality.verdict import Score
from fastdata_cli.quality.view import View


class RequireExif(Check):
    """Finds files that do not say when the picture was taken."""

    name = "require-exif"
    score = "exif_datetime"
    reason = "exif-missing"
    formula = "DateTimeOriginal as written, else DateTime"
    source = "CIPA DC-008 (EXIF), tags 36867 and 306"
    suggested = "DateTime"
    needs = Needs.HEADER

    def measure(self, view: View) -> str | None:
        """Return the date as written, such as ``2020:01:31 10:00:00``; None where it is missing."""
        return view.exif.taken if view.exif is not None else None

    def fails(self, score: Score, threshold: Score) -> bool:
        """Return whether the date is missing."""
        return score is None


class Orientation(Check):
    """Finds images that are shown turned: a reader that ignores EXIF gets them lying."""

    name = "orientation"
    score = "exif_orientation"
    reason = "turned"
    formula = "1 upright, 2 to 8 mirrored or turned; of AVIF, what irot and imir come to"
    source = "CIPA DC-008 (EXIF), tag 274"
    needs = Needs.HEADER

    def measure(self, view: View) -> int | None:
        """Return the orientation in the file; None for pixels."""
        return view.exif.orientation if view.exif is not None else None

    def fails(self, score: Score, threshold: Score) -> bool:
        """Return whether the image has to be turned to be shown."""
        return score not in (None, 1)


def located(view: View) -> bool | None:
    """Return whether EXIF has GPS data; None for pixels."""
    return view.exif.located if view.exif is not None else None


REPORT: Mapping[str, Callable[[View], Score]] = {
    RequireExif.score: RequireExif().measure,
    Orientation.score: Orientation().measure,
    "exif_gps": located,
}
"""What ``--exif`` reports, by name of the score."""
