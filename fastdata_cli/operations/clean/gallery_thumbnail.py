"""Thumbnails: small JPEGs made from the pixels that the checks saw."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.imaging.encode import encode_jpeg, shrink_to
from fastdata_cli.imaging.resize import resize

SIDE = 160
"""Pixels of a thumbnail's longer side, at most."""
_QUALITY = 80


@dataclass(frozen=True, slots=True)
class Thumbnail:
    """Small pictures of one image."""

    size: tuple[int, int]
    """(height, width) of the image itself, in pixels, as shown."""
    whole: bytes
    """JPEG of the whole image, its longer side at most ``SIDE``."""
    detail: bytes = b""
    """JPEG of the middle, at the size that was asked for, ``SIDE`` square; empty: not made."""


def make_thumbnail(
    pixels: NDArray[np.uint8], *, detail_of: tuple[int, int] | None = None
) -> Thumbnail:
    """Return the thumbnail of an image.

    Args:
        pixels: RGB, uint8, H x W x 3, at full resolution.
        detail_of: (height, width) to reduce the image to before its middle is cut out; None for no
            such piece. Blur cannot be judged by eye at another size than it is measured at. What is
            no larger than a thumbnail then gets none.
    """
    size = (pixels.shape[0], pixels.shape[1])
    whole = encode_jpeg(_shrunk(pixels), _QUALITY)
    if detail_of is None or max(detail_of) <= SIDE:
        return Thumbnail(size, whole)
    if detail_of != size:
        pixels = resize(pixels, detail_of, "stretch")
    top, left = (max(0, (side - SIDE) // 2) for side in detail_of)
    middle = np.ascontiguousarray(pixels[top : top + SIDE, left : left + SIDE])
    return Thumbnail(size, whole, encode_jpeg(middle, _QUALITY))


def _shrunk(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the image with its longer side at most ``SIDE``.

    Halves come from means of 2 x 2, the rest from interpolation: a quarter of the time that exact
    means of areas take, which would be two thirds of decoding.
    """
    while max(pixels.shape[:2]) >= 2 * SIDE and min(pixels.shape[:2]) >= 2:
        height, width = pixels.shape[0] // 2, pixels.shape[1] // 2
        pixels = resize(pixels[: 2 * height, : 2 * width], (height, width), "stretch")
    return shrink_to(pixels, SIDE, "linear")
