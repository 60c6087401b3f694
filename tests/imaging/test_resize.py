"""Geometry and pixels of fitting pictures to a size, and encoding them."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from fastdata_cli.errors import BadSampleError
from fastdata_cli.imaging.decode import decode
from fastdata_cli.imaging.encode import encode_jpeg, encode_png, shrink_to
from fastdata_cli.imaging.resize import (
    Fit,
    Interpolation,
    crop_box,
    max_side_for,
    pad_box,
    resize,
    wanted,
)

from . import make

FITS: tuple[Fit, ...] = ("crop", "pad", "stretch")
MODES: tuple[Interpolation, ...] = ("area", "linear", "cubic", "lanczos")
SIZES = [(10, 10), (20, 10), (7, 31), (64, 48), (48, 64), (1, 5), (100, 90)]


def ramp(height: int, width: int) -> make.Pixels:
    """Red grows to the right, green downward."""
    y, x = np.mgrid[0:height, 0:width]
    return np.stack([x * 255 // max(1, width - 1), y * 255 // max(1, height - 1), x * 0], 2).astype(
        np.uint8
    )


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize("mode", MODES)
def test_every_size_comes_out(fit: Fit, mode: Interpolation) -> None:
    for source in SIZES:
        pixels = ramp(*source)
        for size in SIZES:
            found = resize(pixels, size, fit, mode)
            assert found.shape == (*size, 3)
            out = np.full((*size, 3), 7, np.uint8)
            assert resize(pixels, size, fit, mode, out=out) is out
            assert (out == found).all()


def test_boxes() -> None:
    assert crop_box((100, 200), (50, 50)) == (0, 50, 100, 100)
    assert crop_box((200, 100), (50, 50)) == (50, 0, 100, 100)
    assert crop_box((101, 200), (50, 100)) == (0, 0, 100, 200)
    assert crop_box((1, 1000), (100, 1)) == (0, 499, 1, 1)
    assert pad_box((100, 200), (50, 50)) == (12, 0, 25, 50)
    assert pad_box((200, 100), (50, 50)) == (0, 12, 50, 25)
    assert pad_box((1, 1000), (50, 50)) == (24, 0, 1, 50)
    for source in SIZES:
        for size in SIZES:
            top, left, height, width = crop_box(source, size)
            assert 0 <= top <= source[0] - height
            assert 0 <= left <= source[1] - width
            assert source[0] == height or source[1] == width
            top, left, height, width = pad_box(source, size)
            assert 0 <= top <= size[0] - height
            assert 0 <= left <= size[1] - width
            assert size[0] == height or size[1] == width


def test_area_is_the_mean_of_blocks() -> None:
    pixels = make.scene(80, 60)
    mean = pixels.reshape(15, 4, 20, 4, 3).mean((1, 3))
    assert np.abs(resize(pixels, (15, 20)) - mean).max() <= 0.51
    middle = pixels[:, 10:70].reshape(15, 4, 15, 4, 3).mean((1, 3))
    assert np.abs(resize(pixels, (15, 15)) - middle).max() <= 0.51


def test_area_enlarges_smoothly() -> None:
    pixels = np.zeros((1, 2, 3), np.uint8)
    pixels[0, 1] = 200
    assert len(np.unique(resize(pixels, (8, 16), "stretch"))) > 4
    tall = resize(ramp(40, 2), (10, 20), "stretch")
    assert len(np.unique(tall[:, :, 0])) > 4
    assert np.abs(tall[:, 0, 1] - ramp(40, 2)[:, 0, 1].reshape(10, 4).mean(1)).max() <= 1


def test_padding_shows_the_background() -> None:
    found = resize(np.zeros((10, 20, 3), np.uint8), (20, 20), "pad", background=(1, 2, 3))
    assert (found[:5] == (1, 2, 3)).all()
    assert (found[5:15] == 0).all()
    assert (found[15:] == (1, 2, 3)).all()


def test_same_size_is_not_copied_and_slots_are_written_in_place() -> None:
    pixels = make.scene(30, 20)
    assert resize(pixels, (20, 30)) is pixels
    batch = np.zeros((3, 8, 8, 3), np.uint8)
    resize(pixels, (8, 8), out=batch[1])
    assert batch[1].any()
    assert not batch[::2].any()
    strided = np.zeros((8, 16, 3), np.uint8)[:, ::2]
    assert (resize(pixels, (8, 8), out=strided) == batch[1]).all()


@pytest.mark.parametrize("fit", FITS)
def test_scaled_decoding_never_has_to_be_enlarged(fit: Fit) -> None:
    for shape in ((403, 601), (601, 403), (97, 640), (64, 64)):
        data = make.jpeg(make.scene(shape[1], shape[0]))
        for size in ((50, 50), (31, 90), (101, 76), (224, 224)):
            found = decode(data, at_least=wanted(shape, size, fit)).pixels
            here = (found.shape[0], found.shape[1])
            box = crop_box(here, size)[2:] if fit == "crop" else here
            to = pad_box(here, size)[2:] if fit == "pad" else size
            grows = any(a < b for a, b in zip(box, to, strict=True))
            assert not grows or here == shape


def test_encoding() -> None:
    pixels = make.scene(40, 30)
    assert (decode(encode_png(pixels)).pixels == pixels).all()
    assert np.abs(decode(encode_jpeg(pixels, 95)).pixels.astype(int) - pixels).mean() < 6
    grey = pixels[:, :, :1]
    assert (decode(encode_png(grey)).pixels == grey).all()
    assert decode(encode_jpeg(grey, 90)).pixels.shape == (30, 40, 3)
    deep = np.arange(600, dtype=np.uint16).reshape(20, 30, 1) * 100
    assert (np.asarray(Image.open(io.BytesIO(encode_png(deep)))) == deep[:, :, 0]).all()
    colour = np.dstack([deep, deep[::-1], deep[:, ::-1]])
    assert (decode(encode_png(colour)).pixels == colour >> 8).all()
    assert len(encode_jpeg(pixels, 20)) < len(encode_jpeg(pixels, 95))


def test_encoding_refuses_what_does_not_fit() -> None:
    pixels = make.scene(4, 4)
    for wrong in (pixels[:, :, 0], pixels[:0], pixels[:, :, :2]):
        with pytest.raises(ValueError, match="shape"):
            encode_png(wrong)
    with pytest.raises(ValueError, match="quality"):
        encode_jpeg(pixels, 0)
    with pytest.raises(ValueError, match="float32"):
        encode_png(pixels.astype(np.float32))  # type: ignore[arg-type]


def test_shrinking() -> None:
    pixels = make.scene(100, 33)
    assert shrink_to(pixels, 100) is pixels
    assert shrink_to(pixels, 50).shape == (17, 50, 3)
    assert shrink_to(make.scene(900, 1), 50).shape == (1, 50, 3)


@pytest.mark.parametrize(
    ("size", "source", "side"),
    [
        ((224, 224), (375, 500), 342),
        ((224, 224), (500, 375), 342),
        ((224, 224), (900, 900), 256),
        ((224, 320), (900, 900), 366),
        ((224, 448), (450, 900), 512),
    ],
)
def test_smaller_pictures_still_cover_what_is_cut_out_of_them(
    size: tuple[int, int], source: tuple[int, int], side: int
) -> None:
    assert max_side_for(size, [source]) == side
    height, width = shrink_to(np.zeros((*source, 3), np.uint8), side).shape[:2]
    assert height >= size[0] * 8 // 7
    assert width >= size[1] * 8 // 7


def test_a_few_long_pictures_do_not_make_all_of_them_large() -> None:
    assert max_side_for((224, 224), [(400, 400)] * 96 + [(100, 9000)] * 4) == 256
    assert max_side_for((224, 224), [(400, 400)] * 90 + [(400, 800)] * 10) == 512


@pytest.mark.parametrize("shape", [(1, 65_501, 3), (65_501, 1, 3)])
def test_what_is_too_long_for_a_jpeg_is_a_reject_and_nothing_is_printed(
    shape: tuple[int, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(BadSampleError, match="65,500") as caught:
        encode_jpeg(np.zeros(shape, np.uint8), 90)
    assert caught.value.reason == "too-large"
    assert capfd.readouterr().err == ""
    assert encode_jpeg(np.zeros((65_500, 1, 3), np.uint8), 90)
    assert encode_png(np.zeros(shape, np.uint8))
