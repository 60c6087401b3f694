"""Lists of paths as they arrive on a descriptor."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastdata_cli.errors import UsageError
from fastdata_cli.operations.clean.arrivals import PathStream
from fastdata_cli.storage.listing_paths import BYTE_ORDER_MARK

NAMES = st.lists(st.binary(min_size=1, max_size=40).map(lambda b: b.replace(b"\0", b"x")))


@contextmanager
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    try:
        yield reading, writing
    finally:
        os.close(reading)


def read_all(data: bytes, *, nul: bool, step: int = 7) -> list[bytes]:
    """Return the paths of a list that comes in pieces."""

    def feed() -> None:
        for begin in range(0, len(data), step):
            os.write(writing, data[begin : begin + step])
        os.close(writing)

    with pipe() as (reading, writing):
        feeder = threading.Thread(target=feed)
        feeder.start()
        try:
            return [path for block in PathStream(reading, nul=nul) for path in block]
        finally:
            while os.read(reading, 1 << 16):
                pass
            feeder.join()


@given(NAMES)
def test_nul_separated_names_come_back_whatever_they_hold(names: list[bytes]) -> None:
    assert read_all(b"".join(name + b"\0" for name in names), nul=True) == names


@given(NAMES)
def test_lines_come_back_as_they_are(names: list[bytes]) -> None:
    names = [name.replace(b"\n", b" ").replace(BYTE_ORDER_MARK, b"x") for name in names]
    names = [name for name in names if name != b"\r"]
    data = b"".join(name + b"\n" for name in names)
    assert read_all(data, nul=False) == names
    assert read_all(data.removesuffix(b"\n"), nul=False) == names, "the last end may be missing"


def test_empty_lines_are_no_paths() -> None:
    assert read_all(b"\na\n\n\r\nb\r\n\n", nul=False) == [b"a", b"b\r"]
    assert read_all(b"", nul=False) == []


def test_a_path_is_handed_on_before_the_next_one_comes() -> None:
    with pipe() as (reading, writing):
        blocks = iter(PathStream(reading, nul=False))
        os.write(writing, b"first\nsec")
        assert next(blocks) == [b"first"]
        os.write(writing, b"ond\nthird\n")
        assert next(blocks) == [b"second", b"third"]
        os.close(writing)
        assert list(blocks) == []


def test_closing_ends_a_reader_that_waits() -> None:
    with pipe() as (reading, writing):
        stream = PathStream(reading, nul=False)
        found: list[list[bytes]] = []
        waiting = threading.Thread(target=lambda: found.extend(stream))
        waiting.start()
        stream.close()
        waiting.join(20)
        assert not waiting.is_alive()
        assert found == []
        os.close(writing)


def test_a_pipe_that_does_not_block_is_waited_for() -> None:
    with pipe() as (reading, writing):
        os.set_blocking(reading, False)

        def write() -> None:
            os.write(writing, b"late\n")
            os.close(writing)

        threading.Timer(0.05, write).start()
        assert list(PathStream(reading, nul=False)) == [[b"late"]]


def test_the_other_separator_is_said() -> None:
    with pytest.raises(UsageError) as without:
        read_all(b"a.jpg\0b.jpg\0", nul=False)
    assert "-0" in without.value.hint
    with pytest.raises(UsageError, match="lines") as with_it:
        read_all(b"a.jpg\nb.jpg\n", nul=True)
    assert "leave out -0" in with_it.value.hint


def test_a_name_may_hold_newlines_where_nul_ends_it() -> None:
    assert read_all(b"two\nlines.jpg\0b.jpg\0", nul=True) == [b"two\nlines.jpg", b"b.jpg"]


def test_what_has_no_separators_is_no_list() -> None:
    with pytest.raises(UsageError, match="no list of paths"):
        read_all(b"x" * (3 << 20), nul=False, step=1 << 16)


@pytest.mark.parametrize("step", [1, 2, 7])
def test_a_byte_order_mark_is_no_part_of_the_first_path(step: int) -> None:
    listed = BYTE_ORDER_MARK + b"a.jpg\nb.jpg\n"
    assert read_all(listed, nul=False, step=step) == [b"a.jpg", b"b.jpg"]
    named_so = BYTE_ORDER_MARK + b"a.jpg\0"
    assert read_all(named_so, nul=True, step=step) == [BYTE_ORDER_MARK + b"a.jpg"]
