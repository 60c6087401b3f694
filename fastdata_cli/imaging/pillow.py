"""Owns decoding with Pillow to RGB by the image policy: all formats, JPEG as a last resort.

Import this module late: it loads Pillow, and lifts Pillow's own size limit for the process, in
place of which every file is judged by its header first.
"""

from __future__ import annotations

import contextlib
import io
import logging
import re
import struct
import warnings
import zlib

import numpy as np
from numpy.typing import NDArray
from PIL import (
    BmpImagePlugin,
    GifImagePlugin,
    Image,
    JpegImagePlugin,
    PngImagePlugin,
    PpmImagePlugin,
    TiffImagePlugin,
    UnidentifiedImageError,
    WebPImagePlugin,
)

from fastdata_cli.errors import BadSampleError
from fastdata_cli.imaging.headers.plain import as_grey
from fastdata_cli.imaging.headers.png import completed, essential, too_short
from fastdata_cli.imaging.libtiff import silence
from fastdata_cli.imaging.policy import ImagePolicy

# Imported for their registration, once, so that threads never race for it.
_PLUGINS = (
    BmpImagePlugin,
    GifImagePlugin,
    JpegImagePlugin,
    PngImagePlugin,
    PpmImagePlugin,
    TiffImagePlugin,
    WebPImagePlugin,
)
with contextlib.suppress(ImportError):  # absent before Pillow 11.3
    from PIL import AvifImagePlugin  # noqa: F401 - registers itself
Image.preinit()
Image.MAX_IMAGE_PIXELS = None
silence()
# Without any handler, Python prints library errors to stderr itself.
logging.getLogger("PIL").addHandler(logging.NullHandler())

_FORMATS = {k: k.upper() for k in ("png", "gif", "bmp", "tiff", "webp", "avif")} | {"pnm": "PPM"}
# What plugins raise over damaged files; there is no common base.
_DAMAGE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    NameError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    struct.error,
    zlib.error,
)
# Pixels composited at a time: the sums need two more bytes for each value.
_BAND = 1 << 20
_QUIET = ("ignore", None, Warning, re.compile(r"PIL\."), 0)


def _quieten() -> None:
    """Keep Pillow's remarks about metadata from the user; tests and callers may reset filters."""
    if _QUIET not in warnings.filters:
        warnings.filterwarnings("ignore", module=r"PIL\.")


def decode(data: bytes, kind: str, notes: list[str], policy: ImagePolicy) -> NDArray[np.uint8]:
    """Decode the first frame or page.

    Args:
        data: the whole file, checked already.
        kind: its content type.
        notes: gets ``alpha`` and ``16-bit`` where they apply.
        policy: background and switches.

    Returns:
        uint8, H x W x 3, RGB, as stored; a TIFF comes turned already, as Pillow does it.

    Errors:
        BadSampleError: truncated, corrupt, unsupported-format or unsupported-depth.
    """
    _quieten()
    if _FORMATS[kind] not in Image.OPEN:
        raise BadSampleError(reason="unsupported-format", detail=f"{kind}: no decoder in Pillow")
    if kind == "png":
        data = completed(data) if "truncated" in notes else essential(data)
    threefold = kind == "pnm" and "16-bit" in notes and data[:2] in (b"P3", b"P6")
    if threefold:
        data = as_grey(data)
    try:
        with Image.open(io.BytesIO(data), formats=[_FORMATS[kind]]) as image:
            # XMP would be asked for an orientation that the TIFF tag does not give.
            image.info.pop("xmp", None)
            image.load()
            if kind == "png" and _unfilled(image) and too_short(data):
                raise BadSampleError(reason="corrupt", detail="png: data ends early")
            if threefold:
                return _eight_bits(image).reshape(image.height, -1, 3)
            return _rgb(image, kind, data, notes, policy)
    except BadSampleError:
        raise
    except _DAMAGE as problem:
        raise _rejection(problem, kind) from problem


def _unfilled(image: Image.Image) -> bool:
    """True when one of the last two rows is all zeros, as Pillow leaves rows where data ends early.

    It does so without an error; of interlaced data, the last pass is in one of two rows.
    """
    last = range(max(0, image.height - 2), image.height)
    rows = (image.crop((0, y, image.width, y + 1)).tobytes() for y in last)
    return any(not any(row) for row in rows)


def decode_jpeg(data: bytes) -> NDArray[np.uint8]:
    """Decode a JPEG whatever libjpeg remarks about it, to uint8, H x W x 3, RGB, as stored.

    Errors:
        BadSampleError: truncated or corrupt.
    """
    _quieten()
    try:
        with Image.open(io.BytesIO(data), formats=["JPEG"]) as image:
            return np.array(image.convert("RGB"), np.uint8)
    except _DAMAGE as problem:
        raise _rejection(problem, "jpeg") from problem


def _rejection(problem: Exception, kind: str) -> BadSampleError:
    text = str(problem).lower()
    reason = "corrupt"
    if isinstance(problem, NotImplementedError) or "nsupported" in text:
        reason = "unsupported-format"
    elif isinstance(problem, UnidentifiedImageError) and kind in ("tiff", "bmp"):
        # Header and lengths are sound by now: a combination that Pillow has no reader for.
        reason = "unsupported-format"
    elif isinstance(problem, EOFError) or "truncated" in text:
        reason = "truncated"
    return BadSampleError(reason=reason, detail=f"{kind}: {type(problem).__name__}")


def _rgb(
    image: Image.Image, kind: str, data: bytes, notes: list[str], policy: ImagePolicy
) -> NDArray[np.uint8]:
    mode = image.mode
    if mode == "F" or (mode == "I" and kind != "pnm"):
        raise BadSampleError(reason="unsupported-depth", detail=f"{kind}: 32 bits per channel")
    keyed = _keyed(image, data, notes, policy) if kind == "png" else None
    if keyed is not None:
        return keyed
    if mode == "I" or mode.startswith("I;16"):
        return grey(_eight_bits(image))
    if "A" in image.getbands() or "a" in image.getbands() or "transparency" in image.info:
        return _composite(np.asarray(image.convert("RGBA")), notes, policy)
    if mode in ("1", "L"):
        return grey(np.asarray(image.convert("L")))
    return np.array(image if mode == "RGB" else image.convert("RGB"), np.uint8)


def grey(plane: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Repeat one channel (uint8, H x W) to three (uint8, H x W x 3)."""
    return np.repeat(plane[:, :, None], 3, axis=2)


def _eight_bits(image: Image.Image) -> NDArray[np.uint8]:
    plane = (np.asarray(image) >> 8).astype(np.uint8)
    if isinstance(image, TiffImagePlugin.TiffImageFile):
        # Pillow turns WhiteIsZero around at 1 to 8 bits, and not at 16.
        white_is_zero = image.tag_v2.get(TiffImagePlugin.PHOTOMETRIC_INTERPRETATION) == 0
        return ~plane if white_is_zero else plane
    return plane


def _keyed(
    image: Image.Image, data: bytes, notes: list[str], policy: ImagePolicy
) -> NDArray[np.uint8] | None:
    """PNG with a key colour, compared at the file's own depth: Pillow mixes up the scales.

    None without such a key, or where Pillow is right.
    """
    key, depth = image.info.get("transparency"), data[24]
    if isinstance(key, tuple) and depth == 16:
        pixels = np.array(image, np.uint8)
        stored = pixels.astype(np.uint16) << 8 | _low_bytes(data)
        clear = (stored == np.array(key, np.uint16)).all(axis=2)
    elif isinstance(key, int) and image.mode == "I;16":
        pixels, clear = grey(_eight_bits(image)), np.asarray(image) == key
    elif isinstance(key, int) and image.mode in ("1", "L"):
        plane = np.asarray(image.convert("L"))
        most = (1 << depth) - 1
        pixels, clear = grey(plane), plane == (key & most) * (255 // most)
    else:
        return None
    if clear.any():
        notes.append("alpha")
        pixels[clear] = policy.background
    return pixels


def _low_bytes(data: bytes) -> NDArray[np.uint8]:
    """The other half of a PNG in RGB of 16 bits: Pillow hands over the high bytes."""
    with Image.open(io.BytesIO(data), formats=["PNG"]) as image:
        assert isinstance(image, PngImagePlugin.PngImageFile)
        image.tile = [tile._replace(args="RGB;16L") for tile in image.tile]
        return np.array(image, np.uint8)


def _composite(rgba: NDArray[np.uint8], notes: list[str], policy: ImagePolicy) -> NDArray[np.uint8]:
    """Lay H x W x 4 pixels on the background, rounded to nearest."""
    if int(rgba[:, :, 3].min()) == 255:
        return np.ascontiguousarray(rgba[:, :, :3])
    notes.append("alpha")
    height, width = rgba.shape[:2]
    pixels = np.empty((height, width, 3), np.uint8)
    background = np.array(policy.background, np.uint16)
    step = max(1, _BAND // width)
    for top in range(0, height, step):
        band = rgba[top : top + step].astype(np.uint16)
        alpha = band[:, :, 3:]
        # At most 255 * 255 + 127, so 16 bits hold it.
        pixels[top : top + step] = (
            band[:, :, :3] * alpha + background * (255 - alpha) + 127
        ) // 255
    return pixels
