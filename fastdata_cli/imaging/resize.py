"""Owns the geometry of fitting pictures to a size, and doing it with OpenCV."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Sequence
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Fit = Literal["crop", "pad", "stretch"]
Interpolation = Literal["area", "linear", "cubic", "lanczos"]

Size = tuple[int, int]
_CODES = {"linear": 1, "cubic": 2, "area": 3, "lanczos": 4}


@cache
def opencv() -> Any:
    """OpenCV, loaded on first use, without its own threads.

    Parallelism is over pictures; 0, and not 1, because a forked child hangs in a pool of one
    whose threads stayed with the parent.
    """
    import cv2

    opencv_threads.switch_off()
    return cv2


class _OpenCVThreads:
    """Switches off OpenCV's own threads while somebody works with threads of his own.

    The setting belongs to the whole process, and in a training process to the user: the last one
    to let go puts back what was there.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0
        self._before = 0
        os.register_at_fork(after_in_child=self._forget)

    def switch_off(self) -> None:
        """Switch them off, and remember what was there."""
        import cv2

        there = cv2.getNumThreads()
        if there > 1:  # OpenCV says 1 for 0
            self._before = there
        cv2.setNumThreads(0)

    def hold(self) -> None:
        """Switch them off; not before as many ``release`` will they be on again."""
        with self._lock:
            if not self._holders:
                self.switch_off()
            self._holders += 1

    def release(self) -> None:
        """Put back what was there before they were switched off."""
        import cv2

        with self._lock:
            self._holders -= 1
            if not self._holders and self._before:
                cv2.setNumThreads(self._before)
                self._before = 0

    def _forget(self) -> None:
        # The holders are threads that a forked child does not have.
        self._lock, self._holders = threading.Lock(), 0


opencv_threads = _OpenCVThreads()


def crop_box(source: Size, size: Size) -> tuple[int, int, int, int]:
    """(top, left, height, width) of the centred part of ``source`` with the shape of ``size``.

    Sizes are (height, width). One side is the source's whole side, the other is rounded to the
    nearest pixel (halves up) and at least 1; an odd rest leaves its extra pixel below or right.
    """
    (height, width), (to_height, to_width) = source, size
    if height * to_width > width * to_height:
        part = max(1, min(height, _nearest(width * to_height, to_width)))
        return (height - part) // 2, 0, part, width
    part = max(1, min(width, _nearest(height * to_width, to_height)))
    return 0, (width - part) // 2, height, part


def pad_box(source: Size, size: Size) -> tuple[int, int, int, int]:
    """(top, left, height, width) within ``size`` that the whole ``source`` fills when padded.

    Rounded as in ``crop_box``.
    """
    (height, width), (to_height, to_width) = source, size
    if height * to_width > width * to_height:
        part = max(1, min(to_width, _nearest(width * to_height, height)))
        return 0, (to_width - part) // 2, to_height, part
    part = max(1, min(to_height, _nearest(height * to_width, width)))
    return (to_height - part) // 2, 0, part, to_width


def _nearest(numerator: int, denominator: int) -> int:
    return (2 * numerator + denominator) // (2 * denominator)


def max_side_for(size: Size, sources: Sequence[Size]) -> int:
    """The ``--max-side`` under which pictures still cover ``size``, with a margin for crops.

    It bounds the longer side, while the shorter one, or which of them is short for ``size``, must
    stay a seventh above it, as 256 is above 224: crops at random need a margin.

    Args:
        size: (height, width) of what is cut out of them.
        sources: (height, width) of the pictures as they are, at least one.

    Returns:
        pixels, enough for 95 of 100 of them: few that are very long make not all of them large.
    """
    needed = sorted(
        max(size[0] * max(each) / each[0], size[1] * max(each) / each[1]) for each in sources
    )
    return math.ceil(needed[(len(needed) - 1) * 95 // 100] * 8 / 7)


def wanted(full_size: Size, size: Size, fit: Fit) -> Size:
    """The ``at_least`` to decode with, so that scaling in the decoder never costs sharpness.

    Args:
        full_size: (height, width) of the picture as shown.
        size: (height, width) that it will be resized to.
        fit: how it will be resized.

    Returns:
        (height, width) in pixels that the decoded picture must cover.
    """
    if fit == "pad":
        return pad_box(full_size, size)[2:]
    return size


def resize(
    pixels: NDArray[np.uint8],
    size: Size,
    fit: Fit = "crop",
    interpolation: Interpolation = "area",
    out: NDArray[np.uint8] | None = None,
    background: tuple[int, int, int] = (255, 255, 255),
) -> NDArray[np.uint8]:
    """Fit a picture to a size.

    ``crop`` covers the size and cuts the rest off evenly, ``pad`` shows everything on
    ``background``, ``stretch`` gives up the aspect. With ``area``, a side that shrinks is averaged
    and a side that grows is interpolated linearly, each side judged on its own.

    Args:
        pixels: uint8, H x W x 3, RGB.
        size: (height, width) in pixels.
        fit: what to do about another aspect.
        interpolation: how values between pixels are found. All but ``area`` look at a fixed
            neighbourhood, so shrinking far by them aliases.
        out: uint8, height x width x 3, written in place when given.
        background: red, green, blue around a padded picture.

    Returns:
        ``out``, or a new array; ``pixels`` itself when it has the size already.
    """
    here: Size = (pixels.shape[0], pixels.shape[1])
    if here == size:
        if out is None:
            return pixels
        np.copyto(out, pixels)
        return out
    if out is None:
        out = np.empty((*size, 3), np.uint8)
    target = out
    if fit == "crop":
        top, left, height, width = crop_box(here, size)
        pixels = pixels[top : top + height, left : left + width]
    elif fit == "pad":
        top, left, height, width = pad_box(here, size)
        if (height, width) != size:
            out[:] = background
        target = out[top : top + height, left : left + width]
    _scale(pixels, target, interpolation)
    return out


def _scale(
    pixels: NDArray[np.uint8], target: NDArray[np.uint8], interpolation: Interpolation
) -> None:
    """Resize all of ``pixels`` into all of ``target``, which may be part of a larger array."""
    height, width = target.shape[:2]
    if pixels.shape == target.shape:
        np.copyto(target, pixels)
        return
    cv2 = opencv()
    if interpolation == "area":
        # OpenCV's area mode repeats pixels where it enlarges, so each side needs its own mode.
        smaller = min(height, pixels.shape[0]), min(width, pixels.shape[1])
        if smaller == (height, width):
            _into(target, pixels, cv2.INTER_AREA)
            return
        if smaller != pixels.shape[:2]:
            pixels = cv2.resize(pixels, smaller[::-1], interpolation=cv2.INTER_AREA)
        interpolation = "linear"
    _into(target, pixels, _CODES[interpolation])


def _into(target: NDArray[np.uint8], pixels: NDArray[np.uint8], code: int) -> None:
    cv2 = opencv()
    size = target.shape[1], target.shape[0]
    if target.flags.c_contiguous and target.dtype == np.uint8:
        done = cv2.resize(pixels, size, dst=target, interpolation=code)
        # OpenCV writes in place whenever it can, and returns another array when it cannot.
        if done is target or np.shares_memory(done, target):
            return
    else:
        done = cv2.resize(pixels, size, interpolation=code)
    np.copyto(target, done)
