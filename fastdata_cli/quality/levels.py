"""Checks on the grey levels of an image: variance, entropy, brightness."""

from __future__ import annotations

import numpy as np

from fastdata_cli.quality.check import AtLeast, AtMost, Check
from fastdata_cli.quality.view import View

_GREY = "g = 0.299 R + 0.587 G + 0.114 B, 0 to 255 (ITU-R BT.601)"


class Variance(AtLeast):
    """Finds images with next to nothing in them: all black, all white, placeholders."""

    name = "variance-min"
    score = "variance"
    reason = "low-variance"
    unit = "grey levels squared"
    formula = f"mean((g - mean(g))^2) over all pixels; {_GREY}"
    source = "population variance; a blank scan with noise of 2 levels scores 4"
    suggested = 10.0

    def measure(self, view: View) -> float:
        """Return the population variance of grey."""
        return view.moments[1]


class Entropy(AtLeast):
    """Finds images of few grey levels: blank ones, placeholders, plain drawings."""

    name = "min-entropy"
    score = "entropy"
    reason = "low-entropy"
    unit = "bits"
    formula = f"-sum(p log2 p) over the shares p of the 256 levels of g; {_GREY}"
    source = "Shannon 1948; the least of 500 photographs has 3.3 bits"
    suggested = 3.0

    def measure(self, view: View) -> float:
        """Return the entropy of the grey levels, 0 to 8."""
        share = view.histogram[view.histogram > 0] / view.grey.size
        return abs(float(share @ np.log2(share)))


class _Brightness(Check):
    score = "brightness"
    unit = "grey levels"
    formula = f"mean(g) over all pixels; {_GREY}"
    source = "mean luma"

    def measure(self, view: View) -> float:
        """Return the mean of grey."""
        return view.moments[0]


class TooDark(_Brightness, AtLeast):
    """Finds images that are nearly black."""

    name = "brightness-min"
    reason = "too-dark"
    suggested = 10.0


class TooBright(_Brightness, AtMost):
    """Finds images that are nearly white."""

    name = "brightness-max"
    reason = "too-bright"
    suggested = 245.0
