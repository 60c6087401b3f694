"""Checks on fine detail: the share of high frequencies, the variance of the Laplacian.

Both look at ``View.reduced``, so that a picture scores alike whatever the size it is stored at: a
sharp photograph taken at 4000 pixels may be soft pixel by pixel, and nobody who trains on it at 224
will see that.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.imaging.resize import opencv
from fastdata_cli.quality.check import AtLeast
from fastdata_cli.quality.view import REDUCED_SIDE, View, moments_of

_REDUCED = f"grey reduced to about {REDUCED_SIDE} pixels by means of k x k"
_BLOCK = 8
# Blocks side by side would miss edges on a grid of 8 or 16 pixels, which drawings and JPEGs have;
# these meet every phase of such grids, and look at half of the pixels.
_STEP = 11
_HIGH = 4
# Energy per pixel below which rounding to whole levels decides, in grey levels squared. Rounding
# alone makes 1/12.
_FLAT = 0.5
# OpenBLAS spreads larger products over all cores, which are busy with other images.
_BLOCKS_AT_ONCE = 400


class Blur(AtLeast):
    """Finds blurred images, of whatever size and contrast; flat ones have no score."""

    name = "blur-min"
    score = "blur"
    reason = "blurry"
    unit = "share, 0 to 1"
    formula = (
        f"energy of the DCT coefficients with u + v >= {_HIGH} over that of all but u = v = 0, "
        f"summed over {_BLOCK} x {_BLOCK} blocks, one every {_STEP} pixels; {_REDUCED}"
    )
    source = "calibrated on 500 photographs blurred by sigma 0, 1, 2, 4: docs/clean-checks.md"
    suggested: ClassVar[float] = 0.05

    def measure(self, view: View) -> float | None:
        """Return the share; None for images too flat or too small (below 8 pixels) to judge."""
        blocks = _blocks(view.reduced)
        if not len(blocks):
            return None
        parts = range(0, len(blocks), _BLOCKS_AT_ONCE)
        low = [blocks[start : start + _BLOCKS_AT_ONCE] @ _PATTERNS for start in parts]
        total = _energy(blocks)
        detail = total - sum(_energy(np.ascontiguousarray(part[:, 0])) for part in low)
        if detail < _FLAT * blocks.size:
            return None
        return max(0.0, total - sum(_energy(part) for part in low)) / detail


class Sharpness(AtLeast):
    """Finds images without edges; unlike blur, low contrast counts as well."""

    name = "sharpness-min"
    score = "sharpness"
    reason = "not-sharp"
    unit = "grey levels squared"
    formula = (
        "variance of g(x-1,y) + g(x+1,y) + g(x,y-1) + g(x,y+1) - 4 g(x,y), "
        f"mirrored at the borders; g is {_REDUCED}"
    )
    source = "Pech-Pacheco et al. 2000; calibrated as blur: docs/clean-checks.md"
    suggested: ClassVar[float] = 150.0

    def measure(self, view: View) -> float:
        """Return the variance of the Laplacian."""
        cv2 = opencv()
        edges = cv2.Laplacian(view.reduced, cv2.CV_16S)
        values = edges.astype(np.int64).ravel()
        return moments_of(values.size, int(values.sum()), int(values @ values))[1]


def _energy(values: NDArray[np.float32]) -> float:
    cv2: Any = opencv()
    return float(cv2.norm(values, cv2.NORM_L2SQR))


def _blocks(grey: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return the blocks that are looked at, one a row: float32, N×64; N is 0 below 8 pixels."""
    if min(grey.shape) < _BLOCK:
        return np.empty((0, _BLOCK * _BLOCK), np.float32)
    height, width = grey.shape
    count = ((height - _BLOCK) // _STEP + 1, (width - _BLOCK) // _STEP + 1)
    # Eight pixels in a row move as one number: a fifth of the time of a sliding window view.
    rows = np.ndarray(
        (*count, _BLOCK), np.uint64, np.ascontiguousarray(grey), 0, (_STEP * width, _STEP, width)
    )
    pixels = np.ascontiguousarray(rows).view(np.uint8)
    return pixels.reshape(-1, _BLOCK * _BLOCK).astype(np.float32)


def _low_patterns() -> NDArray[np.float32]:
    """Return the orthonormal DCT-II patterns with u + v < 4, the constant first: float32, 64×10."""
    place = np.arange(_BLOCK)
    waves = np.sqrt(2 / _BLOCK) * np.cos(np.pi * place[:, None] * (2 * place + 1) / (2 * _BLOCK))
    waves[0] = np.sqrt(1 / _BLOCK)
    low = [np.outer(waves[u], waves[v]).ravel() for u in range(_HIGH) for v in range(_HIGH - u)]
    return np.stack(low, axis=1).astype(np.float32)


_PATTERNS = _low_patterns()
