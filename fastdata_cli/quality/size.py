"""Checks on the size of an image."""

from __future__ import annotations

from fastdata_cli.quality.check import AtLeast, AtMost, Needs
from fastdata_cli.quality.view import View


class Side(AtLeast):
    """Finds images that are too small to train on."""

    name = "min-side"
    score = "side"
    reason = "too-small"
    unit = "pixels"
    formula = "min(height, width)"
    source = "icons and thumbnails; better: the size that is trained at"
    suggested = 32
    needs = Needs.HEADER

    def measure(self, view: View) -> int:
        """Return the shorter side."""
        return min(view.size)


class Aspect(AtMost):
    """Finds banners and strips."""

    name = "max-aspect"
    score = "aspect"
    reason = "extreme-aspect"
    formula = "max(height, width) / min(height, width)"
    source = "a square crop of a picture of 3:1 keeps a third of it"
    suggested = 3.0
    needs = Needs.HEADER

    def measure(self, view: View) -> float:
        """Return the longer side over the shorter one."""
        return max(view.size) / min(view.size)
