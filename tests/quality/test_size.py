"""Sides, as the picture is shown."""

from __future__ import annotations

import numpy as np
import pytest

from fastdata_cli.imaging import ImagePolicy
from fastdata_cli.quality.size import Aspect, Side

from ..imaging import make
from .pictures import gps_exif, of_file, of_pixels


@pytest.mark.parametrize(("height", "width"), [(30, 90), (90, 30), (31, 31)])
def test_scores(height: int, width: int) -> None:
    pixels = make.scene(width, height)
    for view in (of_file(make.jpeg(pixels)), of_file(make.save(pixels, "PNG")), of_pixels(pixels)):
        assert Side().measure(view) == min(height, width)
        assert Aspect().measure(view) == max(height, width) / min(height, width)


def test_a_turn_changes_neither() -> None:
    data = make.jpeg(make.scene(90, 30), exif=gps_exif())
    for orient in (True, False):
        view = of_file(data, policy=ImagePolicy(orient=orient))
        assert (Side().measure(view), Aspect().measure(view)) == (30, 3)


def test_pixels_of_any_kind_have_sides() -> None:
    assert Side().measure(of_pixels(np.zeros((5, 9, 7), np.float32))) == 5


def test_thresholds_themselves_pass() -> None:
    assert Side().fails(31, 32)
    assert not Side().fails(32, 32)
    assert Aspect().fails(3.01, 3)
    assert not Aspect().fails(3.0, 3)
