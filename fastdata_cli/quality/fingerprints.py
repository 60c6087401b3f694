"""Fingerprints: what has to agree for two images to be duplicates, and when it does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

KINDS = ("exact", "pixels", "near")
"""What can be compared: bytes of files, decoded pixels, how pictures look."""

FORMULAS = {"exact": "xxh3-128", "pixels": "xxh3-128-shape", "near": "phash64-look81"}
"""Names the computation behind each kind; another name, and stored values mean something else."""

LOOK_BYTES = {"exact": 8, "pixels": 8, "near": 81}
"""Length of ``Fingerprint.look``."""

_MIN_DETAIL = 1.0
"""Grey levels of the median coefficient. Below, the bits are rounding: of photographs whose
contrast was taken away, under half are found again after a JPEG at quality 40."""
_MAX_TONE = 16.0
"""Grey levels. Of copies of photographs cropped by 5 %, 99 % differ by less than 12; of 9,489 pairs
of different pictures within 20 bits, all but a few by more than 20."""
_MIN_CORRELATION = 0.64
"""Different pages of text, laid out alike, correlate by less; 99 % of copies of photographs that
are cropped by 5 % around the centre by more."""

_SIDE = 32
_WHOLE = 1 << 16
"""Pixels up to which a picture is summed as it is."""
_GREY = np.array([0.299, 0.587, 0.114])
"""Weights of R, G, B in luma, ITU-R BT.601."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The fingerprint of one image. JSON-able."""

    kind: str
    """One of ``KINDS``."""
    value: int
    """64 bits: half of a digest, or the perceptual hash."""
    look: str
    """What must agree besides, as hexadecimal digits: see ``agree``."""
    usable: bool = True
    """False: the picture holds too little for a perceptual hash, and equals only its own pixels."""


def exact(data: NDArray[np.uint8] | bytes) -> Fingerprint:
    """Return the fingerprint of a file: the xxh3-128 of its bytes."""
    import xxhash

    raw = data.data if isinstance(data, np.ndarray) else data
    return _of_digest("exact", xxhash.xxh3_128_digest(raw))


def pixels(image: NDArray[np.uint8]) -> Fingerprint:
    """Return the fingerprint of a decoded picture (uint8, H x W x C or H x W), with its shape."""
    return _of_digest("pixels", _pixel_digest(image))


def near(image: NDArray[np.uint8]) -> Fingerprint:
    """Return the perceptual fingerprint of a decoded picture.

    The value is the classic perceptual hash: the picture as 32 x 32 grey, its orthonormal
    two-dimensional DCT-II, and one bit for each of the 8 x 8 lowest coefficients, row by row from
    the most significant bit down: whether it is above their median (C. Zauner, "Implementation and
    Benchmarking of Perceptual Image Hash Functions", 2010, as in the library imagehash, which
    reduces by Lanczos where this takes the mean of areas).

    Args:
        image: uint8, RGB H x W x 3 or grey H x W, any size.
    """
    sums = _integral(image)
    grey = sums @ _GREY
    low = (_BASIS @ _means(grey, 1) @ _BASIS.T).ravel()
    # Medians by sorting: np.median takes ten times as long.
    if np.sort(np.abs(low[1:]))[31] < _MIN_DETAIL:
        digest = _pixel_digest(image)
        look = bytes([0, *digest]).ljust(LOOK_BYTES["near"], b"\0")
        return Fingerprint("near", int.from_bytes(digest[:8], "big"), look.hex(), usable=False)
    bits = np.packbits(low > np.sort(low)[31:33].mean()).tobytes()
    tone = _means(sums, 8).round().astype(np.uint8)
    areas = _means(grey, 2)
    shape = np.packbits(areas > areas.mean())
    look = bytes([1]) + tone.tobytes() + shape.tobytes()
    return Fingerprint("near", int.from_bytes(bits, "big"), look.hex())


def agree(kind: str, look: NDArray[np.uint8], others: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Say which of several pictures, whose values are close already, look like one.

    For ``exact`` and ``pixels`` that is the other half of the digest. For ``near`` a perceptual
    hash alone calls a red shirt and a blue one the same, and pages with one layout; so two more
    things have to agree, each stored with the hash:

    - *tone*: the mean difference of the 4 x 4 mean colours, over cells and channels, is at most 16
      grey levels;
    - *shape*: the pattern of which of 16 x 16 areas are lighter than the mean grey correlates (phi
      coefficient) by at least 0.64.

    Pictures that are not usable agree when their pixels are the same.

    Args:
        kind: one of ``KINDS``.
        look: uint8[L], the bytes of ``Fingerprint.look``.
        others: uint8[N, L].

    Returns:
        bool[N].
    """
    if kind != "near" or not look[0]:
        return np.asarray((others == look).all(axis=1))
    tone = np.abs(others[:, 1:49].astype(np.int16) - look[1:49]).mean(axis=1)
    correlation = _phi(look[49:], others[:, 49:])
    alike = (others[:, 0] == 1) & (tone <= _MAX_TONE) & (correlation >= _MIN_CORRELATION)
    return np.asarray(alike)


def _phi(bits: NDArray[np.uint8], others: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Correlation of packed bits, uint8[B] with uint8[N, B]; 0 where one side is all alike."""
    count = 8 * len(bits)
    mine = int(np.bitwise_count(bits).sum())
    theirs = np.bitwise_count(others).sum(axis=1, dtype=np.int64)
    both = np.bitwise_count(others & bits).sum(axis=1, dtype=np.int64)
    spread = np.sqrt(float(mine * (count - mine)) * theirs * (count - theirs))
    return np.asarray((count * both - mine * theirs) / np.maximum(spread, 1.0))


def _of_digest(kind: str, digest: bytes) -> Fingerprint:
    return Fingerprint(kind, int.from_bytes(digest[:8], "big"), digest[8:].hex())


def _pixel_digest(image: NDArray[np.uint8]) -> bytes:
    import xxhash

    state = xxhash.xxh3_128(repr(image.shape).encode())
    state.update(np.ascontiguousarray(image).data)
    return state.digest()


def _integral(image: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Return the sums of the picture above and left of the corners of 32 x 32 equal areas.

    The result is 33 x 33 x 3, in units of one area; a pixel that lies in several areas counts for
    each by its share. Large pictures are halved first, which drops the last row or column of odd
    sides. Reduction by areas in OpenCV would take as long as decoding.
    """
    import cv2

    while image.shape[0] * image.shape[1] > _WHOLE:
        height, width = (side // 2 * 2 if side >= 256 else side for side in image.shape[:2])
        size = tuple(side // 2 if side >= 256 else side for side in (width, height))
        image = np.asarray(
            cv2.resize(image[:height, :width], size, interpolation=cv2.INTER_AREA), np.uint8
        )
    height, width = image.shape[:2]
    integral = np.asarray(cv2.integral(image)).reshape((height + 1) * (width + 1), -1)
    top, down = _corners(height)
    left, right = _corners(width)
    above_left = top[:, None] * (width + 1) + left
    below_left = above_left + width + 1
    # Within a pixel the integral is bilinear, so that interpolation is exact.
    down, right = down[:, None, None], right[:, None]
    above = (1 - right) * integral.take(above_left, 0) + right * integral.take(above_left + 1, 0)
    below = (1 - right) * integral.take(below_left, 0) + right * integral.take(below_left + 1, 0)
    sums = ((1 - down) * above + down * below) * (_SIDE * _SIDE / (height * width))
    return np.broadcast_to(sums, (*sums.shape[:2], 3))


def _means(sums: NDArray[np.float64], step: int) -> NDArray[np.float64]:
    """Return the means of squares of ``step`` x ``step`` areas."""
    corners = sums[::step, ::step]
    return (corners[1:, 1:] - corners[:-1, 1:] - corners[1:, :-1] + corners[:-1, :-1]) / step**2


def _corners(length: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the pixel in which each of the 33 borders of areas lies, and how far inside."""
    borders = np.arange(_SIDE + 1) * (length / _SIDE)
    pixels = np.minimum(borders.astype(np.int64), length - 1)
    return pixels, np.asarray(borders - pixels)


def _make_basis() -> NDArray[np.float64]:
    """Return the first eight rows of the orthonormal DCT-II of 32 points."""
    row, column = np.ogrid[:8, :_SIDE]
    basis = np.sqrt(2 / _SIDE) * np.cos(np.pi * row * (2 * column + 1) / (2 * _SIDE))
    basis[0] = np.sqrt(1 / _SIDE)
    return np.asarray(basis)


_BASIS = _make_basis()
