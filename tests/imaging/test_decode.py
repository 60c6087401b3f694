"""Decoding by the image policy, row by row of it."""

from __future__ import annotations

import contextlib
import io
import struct
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fastdata_cli.errors import BadSampleError
from fastdata_cli.imaging.decode import decode
from fastdata_cli.imaging.policy import ImagePolicy
from fastdata_cli.imaging.probe import probe

from . import make

UPRIGHT = make.scene(48, 32)
LOSS: dict[str, dict[str, Any]] = {
    "WEBP": {"lossless": True},
    "AVIF": {"quality": 95},
    "JPEG": {"quality": 98, "subsampling": 0},
}
BLACK = ImagePolicy(background=(0, 0, 0))


def oriented(kind: str, orientation: int) -> bytes:
    pixels = make.stored(UPRIGHT, orientation)
    tags = Image.Exif()
    tags[0x112] = orientation
    more: dict[str, Any] = LOSS.get(kind, {})
    if kind == "LZW":
        kind, more = "TIFF", {"compression": "tiff_lzw"}
    return make.save(pixels, kind, exif=tags if kind == "TIFF" else tags.tobytes(), **more)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF", "LZW", "AVIF"])
def test_orientation(kind: str, orientation: int) -> None:
    data = oriented(kind, orientation)
    found = decode(data)
    assert found.pixels.shape == (32, 48, 3)
    assert found.pixels.flags.c_contiguous
    assert found.full_size == probe(data).size == (32, 48)
    limit = {"JPEG": 12, "AVIF": 30}.get(kind, 0)
    assert np.abs(found.pixels.astype(int) - UPRIGHT).max() <= limit
    as_stored = decode(data, ImagePolicy(orient=False)).pixels
    assert as_stored.shape == make.stored(UPRIGHT, orientation).shape
    assert np.abs(as_stored.astype(int) - make.stored(UPRIGHT, orientation)).max() <= limit


def test_webp_with_prefixed_exif() -> None:
    data = oriented("WEBP", 6)
    at = data.index(b"EXIF")
    block = b"Exif\0\0" + make.exif(6)
    data = data[:at] + b"EXIF" + struct.pack("<I", len(block)) + block
    data = data[:4] + struct.pack("<I", len(data) - 8) + data[8:]
    assert (decode(data).pixels == UPRIGHT).all()


def test_tiff_is_not_turned_by_xmp() -> None:
    xmp = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><r tiff:Orientation="6"/></x:xmpmeta>'
    data = make.save(UPRIGHT, "TIFF", tiffinfo={700: xmp})
    assert (decode(data).pixels == UPRIGHT).all()


def test_lying_names_do_not_matter_and_formats_agree() -> None:
    for kind in ("PNG", "BMP", "TIFF", "PPM"):
        assert (decode(memoryview(make.save(UPRIGHT, kind))).pixels == UPRIGHT).all()


def test_grey_is_repeated() -> None:
    plane = UPRIGHT[:, :, 0]
    for kind in ("PNG", "JPEG", "TIFF", "BMP", "PPM"):
        pixels = decode(make.save(Image.fromarray(plane), kind)).pixels
        assert (pixels == pixels[:, :, :1]).all()
    bits = make.png(8, 1, 1, 0, [b"\xa5"])
    assert decode(bits).pixels[0, :, 1].tolist() == [255, 0, 255, 0, 0, 255, 0, 255]
    assert decode(make.png(4, 1, 2, 0, [b"\x1b"])).pixels[0, :, 0].tolist() == [0, 85, 170, 255]


@pytest.mark.parametrize("colour", [0, 2, 4, 6])
def test_sixteen_bits_lose_their_low_byte(colour: int) -> None:
    channels = {0: 1, 2: 3, 4: 2, 6: 4}[colour]
    values = np.random.default_rng(colour).integers(0, 65536, (3, 5, channels), dtype=np.uint16)
    if channels in (2, 4):
        values[:, :, -1] = 65535
    rows = [row.astype(">u2").tobytes() for row in values]
    found = decode(make.png(5, 3, 16, colour, rows))
    high = values[:, :, :3] if channels > 2 else values[:, :, :1]
    assert (found.pixels == (high >> 8)).all()
    assert found.notes == ("16-bit",)


def test_sixteen_bit_tiff_and_pgm() -> None:
    values = np.array([[0, 255, 256, 4095], [32768, 65280, 65534, 65535]], np.uint16)
    pgm = b"P5 4 2 65535\n" + values.astype(">u2").tobytes()
    for data in (make.save(Image.fromarray(values), "TIFF"), pgm):
        found = decode(data)
        assert (found.pixels == (values >> 8)[:, :, None]).all()
        assert found.notes == ("16-bit",)


@pytest.mark.parametrize("header", [b"P6 2 1 65535\n", b"P6\n# 9 9\n 2#\n 1\n65535\n"])
def test_sixteen_bit_colour_pnm(header: bytes) -> None:
    values = np.array([[[0x01FF, 0xFFFF, 0], [0x80FF, 0x00FF, 0x1234]]], np.uint16)
    plain = b"P3 2 1 65535\n" + b" ".join(b"%d" % value for value in values.ravel()) + b"\n"
    for data in (header + values.astype(">u2").tobytes(), plain):
        found = decode(data)
        assert (found.pixels == values >> 8).all()
        assert found.notes == ("16-bit",)


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
def test_tiff_in_which_white_is_zero(kind: type[np.uint8 | np.uint16]) -> None:
    values = np.array([[0, 1000, np.iinfo(kind).max]]).astype(kind)
    data = make.save(Image.fromarray(values), "TIFF")
    usual = decode(data).pixels
    tag = struct.pack("<HHIH", 262, 3, 1, 1)
    assert data.count(tag) == 1
    turned = decode(data.replace(tag, struct.pack("<HHIH", 262, 3, 1, 0))).pixels
    assert (turned == 255 - usual).all()
    assert turned[0, 0, 0] == 255


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "TIFF"])
def test_alpha_is_laid_on_the_background(kind: str) -> None:
    rng = np.random.default_rng(1)
    rgba = rng.integers(0, 256, (9, 11, 4), dtype=np.uint8)
    more = {"WEBP": {"lossless": True, "exact": True}}.get(kind, {})
    data = make.save(Image.fromarray(rgba), kind, **more)
    colour, alpha = rgba[:, :, :3].astype(float), rgba[:, :, 3:] / 255.0
    for background in ((255, 255, 255), (0, 0, 0), (10, 200, 30)):
        found = decode(data, ImagePolicy(background=background))
        assert (
            np.abs(found.pixels - (colour * alpha + np.array(background) * (1 - alpha))).max()
            < 0.51
        )
        assert found.notes == ("alpha",)
    rgba[:, :, 3] = 255
    opaque = decode(make.save(Image.fromarray(rgba), kind, **more))
    assert (opaque.pixels == rgba[:, :, :3]).all()
    assert opaque.notes == ()


def test_palettes() -> None:
    image = Image.new("P", (3, 1))
    image.putpalette([255, 0, 0, 0, 255, 0, 0, 0, 255])
    for x in range(3):
        image.putpixel((x, 0), x)
    colours = [[255, 0, 0], [0, 255, 0], [0, 0, 255]]
    for kind in ("PNG", "GIF", "BMP", "TIFF"):
        assert decode(make.save(image, kind)).pixels[0].tolist() == colours
    clear = make.save(image, "PNG", transparency=bytes([0, 255, 255]))
    assert decode(clear).pixels[0, 0].tolist() == [255, 255, 255]
    assert decode(clear, BLACK).pixels[0, 0].tolist() == [0, 0, 0]
    assert decode(make.save(image, "GIF", transparency=1), BLACK).pixels[0, 1].tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("depth", "colour", "row", "key"),
    [
        (8, 2, bytes([1, 2, 3, 9, 9, 9]), b"\0\1\0\2\0\3"),
        (8, 0, bytes([7, 200]), b"\0\7"),
        (4, 0, b"\x7c", b"\0\7"),
        (2, 0, b"\x60", b"\0\1"),
        (16, 0, b"\x12\x34\x12\x35", b"\x12\x34"),
        (16, 2, b"\x12\x34\x56\x78\x9a\xbc\x12\x34\x56\x78\x9a\xbd", b"\x12\x34\x56\x78\x9a\xbc"),
        (16, 2, b"\x80\0\x40\0\x20\0" + bytes(6), b"\x80\0\x40\0\x20\0"),
    ],
)
def test_key_colour(depth: int, colour: int, row: bytes, key: bytes) -> None:
    data = make.png(2, 1, depth, colour, [row], before=make.chunk(b"tRNS", key))
    found = decode(data, ImagePolicy(background=(1, 2, 250)))
    assert found.pixels[0, 0].tolist() == [1, 2, 250]
    assert found.pixels[0, 1].tolist() != [1, 2, 250]
    assert "alpha" in found.notes


@pytest.mark.parametrize("marker", [True, False])
@pytest.mark.parametrize("transform", [0, 2])
def test_cmyk_jpeg(transform: int, marker: bool) -> None:
    ink = np.random.default_rng(3).integers(0, 256, (16, 16, 4), dtype=np.uint8)
    data = bytearray(make.save(Image.fromarray(ink, "CMYK"), "JPEG", quality=95))
    at = data.index(b"Adobe")
    data[at + 11] = transform
    if not marker:
        del data[at - 4 : at + 12]
    found = decode(bytes(data))
    expected = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    assert (found.pixels == expected).all()
    assert found.notes == ("cmyk",)


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG", "TIFF", "MPO"])
def test_first_frame(kind: str) -> None:
    frames = [Image.new("RGB", (8, 6), c) for c in ("red", "lime", "blue")]
    more: dict[str, Any] = {"WEBP": {"lossless": True}, "PNG": {"default_image": True}}.get(
        kind, {}
    )
    found = decode(make.save(frames[0], kind, save_all=True, append_images=frames[1:], **more))
    assert np.abs(found.pixels.astype(int) - (255, 0, 0)).max() <= (3 if kind == "MPO" else 0)
    assert found.notes == (() if kind == "MPO" else ("multi-frame",))


def test_bmp_with_five_bits_is_scaled() -> None:
    header = struct.pack("<IiiHHIIiiII", 40, 2, 1, 1, 16, 0, 4, 0, 0, 0, 0)
    data = b"BM" + struct.pack("<IHHI", 58, 0, 0, 54) + header + struct.pack("<HH", 0x7FFF, 0x4210)
    expected = [255 * 3, round(16 * 255 / 31) * 3]
    assert np.abs(decode(data).pixels[0].sum(1) - np.array(expected)).max() <= 3


def test_remarks_without_loss_become_notes() -> None:
    data = make.jpeg(UPRIGHT)
    whole = decode(data).pixels
    table = data.index(b"\xff\xc4")
    odd_version = data[:11] + b"\xf3" + data[12:]
    for damaged in (
        data[:-2] + b"\0\x11\x22" * 33 + data[-2:],
        data[:table] + b"junk" + data[table:],
        odd_version,
    ):
        found = decode(damaged)
        assert (found.pixels == whole).all()
        assert found.notes == ("decoder-warning",)
        with pytest.raises(BadSampleError) as caught:
            decode(damaged, ImagePolicy(strict=True))
        assert caught.value.reason == "corrupt"


def test_rare_sampling_is_decoded() -> None:
    data = bytearray(make.jpeg(np.full((16, 16, 3), 128, np.uint8)))
    frame = data.index(b"\xff\xc0")
    for at, factors in ((11, 0x22), (14, 0x12), (17, 0x21)):
        data[frame + at] = factors
    expected = np.asarray(Image.open(io.BytesIO(data)))
    assert (decode(bytes(data)).pixels == expected).all()


def test_depths_without_meaning_are_refused() -> None:
    for data in (
        make.save(Image.fromarray(UPRIGHT).convert("F"), "TIFF"),
        make.save(Image.fromarray(UPRIGHT).convert("I"), "TIFF"),
        b"Pf 1 1 -1.0\n\0\0\0\0",
    ):
        with pytest.raises(BadSampleError) as caught:
            decode(data)
        assert caught.value.reason == "unsupported-depth"


@pytest.mark.parametrize("orientation", [1, 6])
@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
def test_scaled_decoding_covers_what_was_asked(mode: str, orientation: int) -> None:
    image = Image.fromarray(make.stored(make.scene(600, 400), orientation)).convert(mode)
    data = make.jpeg(image, exif=b"Exif\0\0" + make.exif(orientation))
    whole = decode(data)
    assert whole.full_size == whole.pixels.shape[:2] == (400, 600)
    for least in (
        (1, 1),
        (51, 76),
        (50, 75),
        (101, 151),
        (100, 150),
        (201, 1),
        (1, 300),
        (400, 600),
        (900, 9),
    ):
        found = decode(data, at_least=least)
        height, width = found.pixels.shape[:2]
        assert found.full_size == (400, 600)
        assert height >= min(least[0], 400)
        assert width >= min(least[1], 600)
        factor = 600 // width
        assert (height, width) == (400 // factor, 600 // factor)
        mean = whole.pixels.reshape(height, factor, width, factor, 3).mean((1, 3))
        assert np.abs(found.pixels - mean).mean() < 2
    assert decode(data, at_least=(50, 75)).pixels.shape == (50, 75, 3)


def test_scaled_sides_are_rounded_up() -> None:
    data = make.jpeg(make.scene(601, 403))
    assert decode(data, at_least=(51, 76)).pixels.shape == (51, 76, 3)
    assert decode(data, at_least=(52, 76)).pixels.shape == (101, 151, 3)


def test_threads_agree() -> None:
    inputs = [oriented(kind, 6) for kind in ("JPEG", "PNG", "WEBP", "TIFF", "AVIF")] * 8
    alone = [decode(data).pixels for data in inputs]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(decode, inputs))
    assert all((a == b.pixels).all() for a, b in zip(alone, together, strict=True))


def test_damage_is_never_printed_or_raised_raw(capfd: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(5)
    lzw = make.save(UPRIGHT, "TIFF", compression="tiff_lzw")
    zipped = make.save(UPRIGHT, "TIFF", compression="tiff_adobe_deflate")
    kinds = ("JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP", "AVIF", "PPM")
    for data in (lzw, zipped, *(make.save(UPRIGHT, kind) for kind in kinds)):
        for _ in range(40):
            damaged = bytearray(data)
            for at in rng.integers(0, len(data), 3):
                damaged[at] = rng.integers(256)
            for policy in (ImagePolicy(), ImagePolicy(allow_truncated=True)):
                with contextlib.suppress(BadSampleError):
                    decode(bytes(damaged), policy)
    assert capfd.readouterr() == ("", "")


def test_sound_checksums_around_broken_data(capfd: pytest.CaptureFixture[str]) -> None:
    short = make.png(48, 32, 8, 2, [row.tobytes() for row in UPRIGHT[:9]])
    head = make.SIGNATURE + make.chunk(b"IHDR", struct.pack(">IIBBBBB", 4, 4, 8, 2, 0, 0, 0))
    junk = head + make.chunk(b"IDAT", b"no deflate stream") + make.chunk(b"IEND", b"")
    last = [row.tobytes() for row in UPRIGHT[:-1]]
    for data in (short, junk, make.png(48, 32, 8, 2, last)):
        with pytest.raises(BadSampleError) as caught:
            decode(data)
        assert caught.value.reason in ("truncated", "corrupt")
    assert capfd.readouterr() == ("", "")
    black = np.zeros((5, 4, 3), np.uint8)
    assert (decode(make.rgb_png(black)).pixels == black).all()


@pytest.mark.parametrize("size", [(4, 4), (1 << 24, 1 << 24)])
@pytest.mark.parametrize("colour", [2, 196])
@pytest.mark.parametrize("cut", [0, 14])
def test_a_second_header_is_no_header(size: tuple[int, int], colour: int, cut: int) -> None:
    """What it claims must not be believed, nor be memory that is taken."""
    another = make.chunk(b"IHDR", struct.pack(">IIBBBBB", *size, 8, colour, 0, 0, 0))
    data = make.png(4, 4, 8, 2, [bytes(12)] * 4, before=another)
    for policy in (ImagePolicy(), ImagePolicy(allow_truncated=True)):
        with pytest.raises(BadSampleError, match="two header chunks"):
            decode(data[: len(data) - cut], policy)


def test_large_bilevel_picture() -> None:
    row = bytes([0b11001100]) * 250
    found = decode(make.png(2000, 2000, 1, 0, [row] * 2000))
    assert found.pixels.shape == (2000, 2000, 3)
    assert found.pixels[7, :4, 0].tolist() == [255, 255, 0, 0]
