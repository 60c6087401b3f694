"""Variance, entropy and brightness against plain computations."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from fastdata_cli.quality.check import Check
from fastdata_cli.quality.levels import Entropy, TooBright, TooDark, Variance

from ..imaging import make
from .pictures import Pixels, checkers, natural, of_file, of_pixels, rgb

PICTURES = {
    "natural": natural(75, 100),
    "noise": np.random.default_rng(0).integers(0, 256, (40, 33, 3), np.uint8),
    "checkers": checkers(16, 4),
    "dark": rgb(np.full((8, 9), 3)),
    "pixel": np.array([[[10, 20, 30]]], np.uint8),
}


@pytest.mark.parametrize("name", PICTURES)
def test_scores_agree_with_plain_computations(name: str) -> None:
    pixels = PICTURES[name]
    # Rounded as the documents say, so that what remains is arithmetic.
    grey = np.floor(pixels.astype(np.float64) @ (0.299, 0.587, 0.114) + 0.5)
    view = of_pixels(pixels)
    # OpenCV's weights are rounded to 14 bits, which moves a pixel in thousands by one level.
    assert Variance().measure(view) == pytest.approx(np.mean((grey - grey.mean()) ** 2), rel=1e-3)
    assert TooDark().measure(view) == pytest.approx(grey.mean(), abs=0.01)
    assert TooBright().measure(view) == TooDark().measure(view)
    share = np.unique(grey, return_counts=True)[1] / grey.size
    assert Entropy().measure(view) == pytest.approx(-(share * np.log2(share)).sum(), abs=0.01)


def test_scores_of_known_pictures() -> None:
    half = of_pixels(checkers(16, 4))
    assert Variance().measure(half) == pytest.approx(127.5**2)
    assert Entropy().measure(half) == pytest.approx(1)
    ramp = of_pixels(rgb(np.tile(np.arange(256), (4, 1))))
    assert Entropy().measure(ramp) == pytest.approx(8)
    assert TooDark().measure(ramp) == pytest.approx(127.5)


def test_a_score_on_the_threshold_passes() -> None:
    view = of_pixels(rgb(np.array([[0, 0, 0, 4]])))
    assert view.moments == (1.0, 3.0)
    assert not Variance().fails(Variance().measure(view), 3.0)
    rng = np.random.default_rng(0)
    for _ in range(20):
        grey = rng.integers(0, 256, (rng.integers(1, 40), rng.integers(1, 40)))
        mean = Fraction(int(grey.sum()), grey.size)
        square = Fraction(int((grey * grey).sum()), grey.size)
        assert of_pixels(rgb(grey)).moments == (float(mean), float(square - mean**2))


def test_a_file_scores_as_its_pixels_do() -> None:
    """Of a JPEG the luma is taken as it is stored."""
    pixels = natural(150, 200)
    data = make.jpeg(pixels)
    alone, after_colour = of_file(data), of_file(data)
    assert after_colour.pixels.shape == (150, 200, 3)
    for check, tolerance in ((Variance(), 0.01), (Entropy(), 0.02), (TooDark(), 0.005)):
        assert check.measure(alone) == pytest.approx(check.measure(after_colour), rel=tolerance)


@pytest.mark.parametrize(
    ("check", "pixels", "found"),
    [
        (Variance(), rgb(np.full((30, 30), 255)), True),
        (Variance(), rgb(np.random.default_rng(0).normal(250, 2, (60, 60))), True),
        (Variance(), natural(40, 40), False),
        (Entropy(), rgb(np.zeros((30, 30))), True),
        (Entropy(), natural(40, 40), False),
        (TooDark(), rgb(np.full((30, 30), 4)), True),
        (TooDark(), natural(40, 40), False),
        (TooBright(), rgb(np.full((30, 30), 250)), True),
        (TooBright(), natural(40, 40), False),
    ],
)
def test_suggested_thresholds(check: Check, pixels: Pixels, found: bool) -> None:
    assert check.fails(check.measure(of_pixels(pixels)), check.suggested) is found


def test_line_drawings_and_stars_are_not_blank() -> None:
    drawing = np.full((160, 160), 255, np.uint8)
    drawing[::32] = 0
    night = np.zeros((160, 160), np.uint8)
    night[::16, ::16] = 255
    for picture in (drawing, night):
        assert not Variance().fails(Variance().measure(of_pixels(rgb(picture))), 10)


def test_the_threshold_itself_passes() -> None:
    assert not Variance().fails(10.0, 10.0)
    assert Variance().fails(9.99, 10)
    assert not TooBright().fails(245.0, 245)
    assert TooBright().fails(245.01, 245)
