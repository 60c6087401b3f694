"""The gather core: moves samples from mapped memory into a caller's batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray


def take_pixels(
    source: NDArray[Any], indices: NDArray[np.int64], out: NDArray[Any] | None
) -> NDArray[Any]:
    """Copy ``source[indices]`` (N×H×W×C) into ``out``, or into a new array.

    The indices must have been checked: they are clipped, because with its default mode NumPy
    buffers ``out`` and halves the speed.
    """
    return np.take(source, indices, axis=0, out=out, mode="clip")


def take_ranges(
    source: NDArray[np.uint8],
    begins: NDArray[np.int64],
    lengths: NDArray[np.int64],
    out: NDArray[np.uint8] | None,
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Copy byte ranges of a 1-D array end to end into an arena.

    Returns:
        The arena (``out`` when given) and int64[N + 1] offsets into it.

    Raises:
        ValueError: ``out`` is too small.
    """
    offsets, arena = arena_for(lengths, out)
    spans = zip(begins.tolist(), lengths.tolist(), offsets.tolist(), strict=False)
    for begin, length, offset in spans:
        arena[offset : offset + length] = source[begin : begin + length]
    return arena, offsets


def take_ranges_of(
    source_of: Callable[[int], NDArray[np.uint8]],
    sources: NDArray[np.int64],
    begins: NDArray[np.int64],
    lengths: NDArray[np.int64],
    out: NDArray[np.uint8] | None,
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Copy byte ranges of several 1-D arrays end to end into an arena.

    Args:
        source_of: returns one array by its number.
        sources: int64[N], the number of the array in which each range lies.

    Returns, Raises:
        As ``take_ranges``.
    """
    offsets, arena = arena_for(lengths, out)
    columns = (sources, begins, lengths, offsets)
    spans = zip(*(column.tolist() for column in columns), strict=False)
    for source, begin, length, offset in spans:
        arena[offset : offset + length] = source_of(source)[begin : begin + length]
    return arena, offsets


def arena_for(
    lengths: NDArray[np.int64], out: NDArray[np.uint8] | None
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return the offsets of images of these lengths, and an arena that holds them (or ``out``).

    Raises:
        ValueError: ``out`` is too small.
    """
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    total = int(offsets[-1])
    if out is None:
        return offsets, np.empty(total, np.uint8)
    if out.size < total:
        raise ValueError(f"out holds {out.size} bytes; these samples need {total}")
    return offsets, out
