"""The gather core: order, repeats, the caller's memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fastdata_cli.storage.gather import arena_for, take_pixels, take_ranges

SOURCE = np.arange(10 * 4 * 5 * 3, dtype=np.uint16).reshape(10, 4, 5, 3)
BYTES = np.random.default_rng(1).integers(0, 256, 500, np.uint8)

RANGES = st.lists(
    st.integers(0, 500).flatmap(lambda at: st.tuples(st.just(at), st.integers(0, 500 - at)))
)


def arrays(ranges: list[tuple[int, int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    columns = np.array(ranges, np.int64).reshape(-1, 2)
    return columns[:, 0], columns[:, 1]


@given(st.lists(st.integers(0, 9)))
@pytest.mark.parametrize("source", [SOURCE, SOURCE[:, ::2], SOURCE[..., :1]])
def test_pixels_keep_order_and_repeats(source: NDArray[Any], wanted: list[int]) -> None:
    indices = np.array(wanted, np.int64)
    taken = take_pixels(source, indices, None)
    assert taken.dtype == source.dtype
    assert np.array_equal(taken, source[indices])
    out = np.zeros(taken.shape, taken.dtype)
    assert take_pixels(source, indices, out) is out
    assert np.array_equal(out, taken)


@given(RANGES)
def test_ranges_lie_end_to_end(ranges: list[tuple[int, int]]) -> None:
    arena, offsets = take_ranges(BYTES, *arrays(ranges), None)
    wanted = [BYTES[begin : begin + length] for begin, length in ranges]
    assert arena.tolist() == np.concatenate([BYTES[:0], *wanted]).tolist()
    assert offsets.tolist() == np.cumsum([0, *(len(piece) for piece in wanted)]).tolist()
    assert arena.dtype == np.uint8
    assert offsets.dtype == np.int64


@given(RANGES, st.integers(0, 20))
def test_ranges_fill_the_callers_arena(ranges: list[tuple[int, int]], spare: int) -> None:
    total = sum(length for _, length in ranges)
    out = np.full(total + spare, 255, np.uint8)
    arena, offsets = take_ranges(BYTES, *arrays(ranges), out)
    assert arena is out
    assert arena[: offsets[-1]].tolist() == take_ranges(BYTES, *arrays(ranges), None)[0].tolist()
    assert (out[total:] == 255).all(), "what is not needed is not touched"


def test_an_arena_that_is_too_small_is_refused_untouched() -> None:
    out = np.full(9, 255, np.uint8)
    with pytest.raises(ValueError, match="out holds 9 bytes; these samples need 10"):
        take_ranges(BYTES, *arrays([(0, 5), (7, 5)]), out)
    assert (out == 255).all()


def test_sums_beyond_two_gigabytes() -> None:
    """Lengths are added as int64: nothing wraps, and the check comes before the copy."""
    lengths = np.full(3, 1 << 30, np.int64)
    with pytest.raises(ValueError, match=f"need {3 << 30}"):
        arena_for(lengths, np.empty(8, np.uint8))


def test_no_images() -> None:
    offsets, arena = arena_for(np.empty(0, np.int64), None)
    assert (offsets.tolist(), arena.size) == ([0], 0)
