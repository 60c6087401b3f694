"""Decoded chunks: bounded, shared, and never changed under who holds one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from fastdata_cli.extents import Window
from fastdata_cli.storage.decoded import DecodedChunks

SIZE = 100


class Counting:
    """Fills a chunk with its number, and notes which were filled."""

    def __init__(self) -> None:
        self.made: list[int] = []

    def of(self, number: int) -> Callable[[Window], None]:
        def fill(out: Window) -> None:
            self.made.append(number)
            out.array[:] = number

        return fill


def look(chunks: DecodedChunks, made: Counting, number: int) -> int:
    with chunks.hold(number, SIZE, made.of(number), wait=True) as chunk:
        assert chunk is not None
        assert (chunk.array == chunk.array[0]).all()
        return int(chunk.array[0])


def test_what_was_used_last_is_kept() -> None:
    chunks, made = DecodedChunks(usual=3 * SIZE), Counting()
    for number in (1, 2, 3, 1, 4, 1, 2):
        assert look(chunks, made, number) == number
    assert made.made == [1, 2, 3, 4, 2]


def test_a_chunk_larger_than_the_limit_is_decoded_all_the_same() -> None:
    chunks, made = DecodedChunks(usual=SIZE // 2), Counting()
    assert [look(chunks, made, 7) for _ in range(2)] == [7, 7]
    assert made.made == [7, 7]


def test_a_chunk_that_is_held_stays_as_it_is() -> None:
    chunks, made = DecodedChunks(usual=SIZE), Counting()
    with chunks.hold(1, SIZE, made.of(1), wait=True) as held:
        assert held is not None
        for number in (2, 3, 4):
            look(chunks, made, number)
        assert (held.array == 1).all()
    look(chunks, made, 5)
    look(chunks, made, 1)
    assert made.made == [1, 2, 3, 4, 5, 1]


def test_a_batch_may_raise_the_limit_up_to_a_bound() -> None:
    chunks, made = DecodedChunks(usual=SIZE, most=3 * SIZE), Counting()
    chunks.reserve(2 * SIZE)
    chunks.reserve(SIZE)
    for number in (1, 2, 1, 2):
        look(chunks, made, number)
    assert made.made == [1, 2]
    chunks.reserve(100 * SIZE)
    for number in (1, 2, 3, 4, 1):
        look(chunks, made, number)
    assert made.made == [1, 2, 3, 4, 1]


def test_who_does_not_wait_gets_nothing_of_a_chunk_in_the_making() -> None:
    chunks, made = DecodedChunks(), Counting()

    def nested(out: Window) -> None:
        with chunks.hold(1, SIZE, made.of(1), wait=False) as chunk:
            assert chunk is None
        out.array[:] = 9

    with chunks.hold(1, SIZE, nested, wait=True) as chunk:
        assert chunk is not None
        assert (chunk.array == 9).all()
    assert made.made == []


def test_what_could_not_be_decoded_leaves_nothing() -> None:
    chunks, made = DecodedChunks(usual=2 * SIZE), Counting()

    def fail(out: Window) -> None:
        out.array[:] = 255
        raise ValueError("damaged")

    for _ in range(3):
        with (
            pytest.raises(ValueError, match="damaged"),
            chunks.hold(1, SIZE, fail, wait=True),
        ):
            pass
    assert look(chunks, made, 1) == 1
    assert np.array_equal(made.made, [1])
