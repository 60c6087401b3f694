"""Images without colour."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PIL import Image

from fastdata_cli.quality.colour import Grayscale

from ..imaging import make
from .pictures import natural, of_file, of_pixels, rgb

GREY = rgb(natural(60, 80)[:, :, 0])


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("PNG", {}),
        ("JPEG", {"quality": 30}),
        ("WEBP", {"quality": 30}),
        ("AVIF", {"quality": 40}),
        ("GIF", {}),
    ],
)
def test_grey_in_three_channels_is_found_in_every_format(kind: str, options: Any) -> None:
    assert Grayscale().measure(of_file(make.save(GREY, kind, **options))) is True


def test_grey_in_one_channel_is_found() -> None:
    data = make.save(Image.fromarray(GREY[:, :, 0]), "JPEG")
    assert Grayscale().measure(of_file(data)) is True


@pytest.mark.parametrize("place", [(0, 0), (31, 17), (59, 79)])
@pytest.mark.parametrize("channel", [0, 1, 2])
def test_one_coloured_pixel_is_colour(place: tuple[int, int], channel: int) -> None:
    pixels = GREY.copy()
    pixels[place] = 100
    pixels[(*place, channel)] = 105
    assert Grayscale().measure(of_pixels(pixels)) is False
    pixels[(*place, channel)] = 104
    assert Grayscale().measure(of_pixels(pixels)) is True


def test_verdicts() -> None:
    assert Grayscale().measure(of_pixels(natural(20, 20))) is False
    assert Grayscale().fails(True, True)
    assert not Grayscale().fails(False, True)
    assert not Grayscale().fails(None, True)


def test_black_and_white_are_no_colours() -> None:
    assert Grayscale().measure(of_pixels(np.zeros((3, 3, 3), np.uint8))) is True
