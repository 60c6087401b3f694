"""The check on colour."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.imaging.resize import opencv
from fastdata_cli.quality.check import Check, Needs
from fastdata_cli.quality.verdict import Score
from fastdata_cli.quality.view import View

_TOLERANCE = 4
# Most images show their colour in any few rows.
_EVERY_ROW = 32


class Grayscale(Check):
    """Finds images without colour, stored with one channel or with three."""

    name = "grayscale"
    score = "grayscale"
    reason = "grayscale"
    formula = f"R, G and B differ by at most {_TOLERANCE} levels in every pixel"
    source = "equal channels, with room for what lossy codecs make of them"
    needs = Needs.COLOUR

    def measure(self, view: View) -> bool:
        """Return whether no pixel has a colour."""
        some = np.ascontiguousarray(view.pixels[::_EVERY_ROW])
        return _colourless(some) and _colourless(view.pixels)

    def fails(self, score: Score, threshold: Score) -> bool:
        """Return whether the image is without colour."""
        return score is True


def _colourless(pixels: NDArray[np.uint8]) -> bool:
    cv2: Any = opencv()
    return all(
        cv2.norm(one, other, cv2.NORM_INF) <= _TOLERANCE
        for one, other in combinations(cv2.split(pixels), 2)
    )
