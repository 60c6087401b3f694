"""Owns turning pixels by an EXIF orientation, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_INVERSE = {6: 8, 8: 6}


def turn(pixels: NDArray[np.uint8], orientation: int) -> NDArray[np.uint8]:
    """Apply an EXIF orientation.

    Args:
        pixels: uint8, H x W x C as stored.
        orientation: 1..8.

    Returns:
        uint8, C-contiguous, H x W x C (W x H x C from 5 on); ``pixels`` itself for 1.
    """
    if orientation == 1:
        return pixels
    import cv2  # a decoder library: loaded by those who decode

    turned: Any
    if orientation in (2, 4):
        turned = cv2.flip(pixels, 1 if orientation == 2 else 0)
    elif orientation in (3, 6, 8):
        turned = cv2.rotate(pixels, {3: 1, 6: 0, 8: 2}[orientation])
    else:
        turned = cv2.transpose(pixels)
        if orientation == 7:
            turned = cv2.rotate(turned, cv2.ROTATE_180)
    return np.ascontiguousarray(turned, np.uint8)


def turn_back(pixels: NDArray[np.uint8], orientation: int) -> NDArray[np.uint8]:
    """Undo ``turn`` by the same orientation."""
    return turn(pixels, _INVERSE.get(orientation, orientation))
