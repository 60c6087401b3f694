"""Owns decoding for loaders: the pixels of ``decode`` and nothing else, in memory used again."""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.imaging.decode import decode, reduction
from fastdata_cli.imaging.policy import ImagePolicy
from fastdata_cli.imaging.probe import draft_of
from fastdata_cli.imaging.source import MemorySource
from fastdata_cli.imaging.turn import turn

_JPEG = b"\xff\xd8\xff"
# A thread keeps no more memory than 16 megapixels take: larger pictures are rare.
_MOST_KEPT = 48 << 20


class _Memory(threading.local):
    """What each thread decodes into."""

    def __init__(self) -> None:
        self._kept = np.empty(0, np.uint8)

    def of(self, size: int) -> NDArray[np.uint8]:
        if size > _MOST_KEPT:
            return np.empty(size, np.uint8)
        if len(self._kept) < size:
            self._kept = np.empty(size + size // 2, np.uint8)
        return self._kept


_memory = _Memory()


def borrowed_pixels(
    data: bytes | memoryview,
    policy: ImagePolicy,
    at_least: tuple[int, int] | None = None,
    out: NDArray[np.uint8] | None = None,
) -> NDArray[np.uint8]:
    """Return the pixels that ``decode`` returns, good until the same thread calls again.

    A JPEG that libjpeg decodes to its end marker without a remark is whole: it is not looked
    through for that marker before. What it remarks on goes through ``decode`` for a verdict. Only
    a comment of impossible length behind the frame header passes here and not there.

    Args:
        data: the whole file; a memoryview is not copied.
        policy, at_least: as for ``decode``.
        out: where the pixels are put, if they have just its shape (C-contiguous, H x W x 3); of
            any content afterwards, if not.

    Errors:
        BadSampleError: as ``decode``.
    """
    if data[:3] == _JPEG and not policy.strict:
        pixels = _at_once(data, policy, at_least, out)
        if pixels is not None:
            return pixels
    return decode(data, policy, at_least=at_least).pixels


def _at_once(
    data: bytes | memoryview,
    policy: ImagePolicy,
    at_least: tuple[int, int] | None,
    out: NDArray[np.uint8] | None,
) -> NDArray[np.uint8] | None:
    """Return the pixels of a JPEG about which there is nothing to say, else None."""
    import simplejpeg

    draft = draft_of(MemorySource(data), policy)
    if draft.mode == "CMYK":
        return None
    height, width = draft.height, draft.width
    orientation = draft.orientation if policy.orient else 1
    scale = reduction((width, height) if orientation >= 5 else (height, width), at_least)
    shape = (-(-height // scale), -(-width // scale), 3)
    if out is None or out.shape != shape or orientation != 1:
        out = _memory.of(shape[0] * shape[1] * shape[2])
    try:
        pixels: NDArray[np.uint8] = simplejpeg.decode_jpeg(
            data,
            "RGB",
            min_height=shape[0],
            min_width=shape[1],
            min_factor=scale,
            buffer=out,
        )
    except ValueError:
        return None
    return turn(pixels, orientation) if pixels.shape == shape else None
