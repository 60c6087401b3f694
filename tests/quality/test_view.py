"""Views: what is decoded, when, and as what."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fastdata_cli.errors import BadSampleError
from fastdata_cli.imaging import ImagePolicy
from fastdata_cli.imaging import decode as decoding
from fastdata_cli.quality import view as view_module

from ..imaging import make
from .pictures import gps_exif, natural, of_file, of_pixels

PHOTO = natural(75, 100)
JPEG = make.jpeg(PHOTO, subsampling=2, quality=85)


def luma(pixels: make.Pixels) -> Any:
    return pixels.astype(np.float64) @ (0.299, 0.587, 0.114)


@pytest.fixture
def decodes(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """How the decoder was called."""
    calls: list[dict[str, Any]] = []

    def counted(*arguments: Any, **named: Any) -> decoding.Decoded:
        calls.append(named)
        return decoding.decode(*arguments, **named)

    monkeypatch.setattr(view_module, "decode", counted)
    return calls


def test_pixels_serve_grey_and_everything_is_decoded_once(decodes: list[dict[str, Any]]) -> None:
    view = of_file(JPEG)
    assert view.pixels.shape == (75, 100, 3)
    assert np.abs(view.grey - luma(view.pixels)).max() <= 0.51
    assert view.pixels is view.pixels
    assert view.reduced.shape == view.grey.shape
    view.prove()
    assert decodes == [{}]


def test_grey_alone_leaves_colour_out(decodes: list[dict[str, Any]]) -> None:
    view = of_file(JPEG)
    assert view.grey.shape == (75, 100)
    assert view.grey.dtype == np.uint8
    assert decodes == [{"grey": True}]
    from_colour = luma(decoding.decode(JPEG).pixels)
    # Colours that had to be cut to 0…255 have another luma than the one that is stored.
    assert np.abs(view.grey - from_colour).mean() < 0.6


def test_proof_decodes_an_eighth(decodes: list[dict[str, Any]]) -> None:
    view = of_file(JPEG)
    view.prove()
    view.prove()
    assert decodes == [{"at_least": (1, 1), "grey": True}]
    assert view.size == (75, 100)


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "GIF"])
def test_grey_of_other_formats_is_luma_of_their_pixels(kind: str) -> None:
    data = make.save(PHOTO, kind)
    grey = of_file(data).grey
    assert np.abs(grey - luma(decoding.decode(data).pixels)).max() <= 0.51


@pytest.mark.parametrize("mode", ["L", "CMYK"])
def test_grey_of_jpegs_that_are_not_of_three_channels(mode: str) -> None:
    from PIL import Image

    data = make.jpeg(Image.fromarray(PHOTO).convert(mode))
    grey = of_file(data).grey
    assert grey.shape == (75, 100)
    assert np.abs(grey - luma(decoding.decode(data).pixels)).max() <= 0.51


def test_grey_is_upright() -> None:
    data = make.jpeg(make.stored(PHOTO, 6), exif=gps_exif())
    assert np.array_equal(of_file(data).grey.shape, (75, 100))
    difference = of_file(data).grey - luma(PHOTO)
    assert np.abs(difference).mean() < 3


@pytest.mark.parametrize("scale", [None, (1, 1)])
@pytest.mark.parametrize("grey", [False, True])
@pytest.mark.parametrize("progressive", [False, True])
def test_damage_is_judged_alike_however_much_is_decoded(
    scale: tuple[int, int] | None, grey: bool, progressive: bool
) -> None:
    whole = make.jpeg(PHOTO, progressive=progressive)
    half = len(whole) // 2
    damaged = {
        "truncated": whole[:half],
        "corrupt": whole[:half] + b"\xff\xd9",
    }
    for reason, data in damaged.items():
        with pytest.raises(BadSampleError) as caught:
            decoding.decode(data, at_least=scale, grey=grey)
        assert caught.value.reason == reason


@pytest.mark.parametrize("shape", [(9, 7), (9, 7, 1), (9, 7, 3)])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_pixels_of_datasets(shape: tuple[int, ...], dtype: type) -> None:
    stored = np.random.default_rng(3).integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)
    view = of_pixels(stored)
    expected = stored >> 8 if dtype is np.uint16 else stored
    expected = expected[:, :, None] if expected.ndim == 2 else expected
    assert view.pixels.dtype == np.uint8
    assert np.array_equal(view.pixels, np.broadcast_to(expected, (9, 7, 3)))
    assert view.size == (9, 7)
    assert (view.header, view.exif, view.notes) == (None, None, ())
    assert view.stored is stored


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (np.zeros((4, 4, 3), np.float32), "unsupported-depth"),
        (np.zeros((4, 4, 4), np.uint8), "unsupported-format"),
        (np.zeros((2, 4, 4, 3), np.uint8), "unsupported-format"),
    ],
)
def test_pixels_without_an_agreed_meaning(array: Any, reason: str) -> None:
    with pytest.raises(BadSampleError) as caught:
        _ = of_pixels(array).grey
    assert caught.value.reason == reason


def test_orientation_is_known_though_the_policy_ignores_it() -> None:
    data = make.jpeg(PHOTO, exif=gps_exif())
    view = of_file(data, policy=ImagePolicy(orient=False))
    assert view.header is not None
    assert view.exif is not None
    assert (view.header.orientation, view.exif.orientation) == (1, 6)
    assert view.size == (75, 100)
    assert of_file(data).size == (100, 75)


@pytest.mark.parametrize(
    ("size", "step"),
    [
        ((40, 40), 1),
        ((300, 383), 1),
        ((384, 300), 2),
        ((375, 500), 2),
        ((641, 500), 3),
        ((2000, 20), 2),  # a step of 8 would leave 2 pixels
        ((600, 7), 1),
    ],
)
def test_reduced_is_the_mean_of_squares(size: tuple[int, int], step: int) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (*size, 3), np.uint8)
    view = of_pixels(pixels)
    rows, columns = size[0] // step, size[1] // step
    squares = view.grey[: rows * step, : columns * step].reshape(rows, step, columns, step)
    assert view.reduced.shape == (rows, columns)
    assert np.abs(view.reduced - squares.mean((1, 3))).max() <= 0.51


def test_notes_grow_with_what_is_known() -> None:
    view = of_file(make.save(np.dstack([PHOTO, PHOTO[:, :, 0]]), "PNG"))
    known = [view.notes]
    view.prove()
    assert [*known, view.notes] == [(), ("alpha",)]


def test_transparent_pixels_are_white() -> None:
    clear = np.zeros((20, 20, 4), np.uint8)
    assert of_file(make.save(clear, "PNG")).grey.min() == 255
