"""The local engine: order, a bounded look-ahead, errors as they are, no thread left behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastdata_cli.engines.local import ordered_map, ordered_stream


def threads_at_work() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("fastdata")]


def close(results: Iterator[object]) -> None:
    assert isinstance(results, Generator)
    results.close()


@given(
    delays=st.lists(st.sampled_from([0, 0, 0.001, 0.003]), max_size=20),
    workers=st.integers(1, 6),
    ahead=st.integers(1, 12),
)
@settings(max_examples=25)
def test_order_is_kept_and_look_ahead_bounded(
    delays: list[float], workers: int, ahead: int
) -> None:
    drawn = yielded = 0

    def items() -> Iterator[tuple[int, float]]:
        nonlocal drawn
        for item in enumerate(delays):
            drawn += 1
            assert drawn - yielded <= ahead
            yield item

    def slow(item: tuple[int, float]) -> int:
        time.sleep(item[1])
        return item[0]

    for index in ordered_map(slow, items(), workers=workers, ahead=ahead):
        assert index == yielded
        yielded += 1
    assert yielded == drawn == len(delays)
    assert threads_at_work() == []


def test_workers_work_at_once() -> None:
    """Each of the first four items waits for the other three."""
    barrier = threading.Barrier(4)

    def meet(index: int) -> int:
        barrier.wait(20)
        return index

    assert list(ordered_map(meet, range(8), workers=4, ahead=4)) == list(range(8))


def test_items_are_drawn_by_the_caller() -> None:
    drawing = []

    def items() -> Iterator[int]:
        for index in range(20):
            drawing.append(threading.current_thread())
            yield index

    working = set(ordered_map(lambda _: threading.get_ident(), items(), workers=3, ahead=8))
    assert set(drawing) == {threading.current_thread()}
    assert threading.get_ident() not in working


def test_nothing_is_drawn_before_it_is_asked_for() -> None:
    drawn = []

    def items() -> Iterator[int]:
        for index in range(9):
            drawn.append(index)
            yield index

    results = ordered_map(str, items(), workers=1, ahead=2)
    assert drawn == []
    assert next(results) == "0"
    assert drawn == [0, 1]
    close(results)


def test_an_error_of_the_function_comes_in_its_place_and_stops_the_rest() -> None:
    done = []

    def fragile(index: int) -> int:
        if index == 3:
            raise ValueError("item 3")
        time.sleep(0.002)
        done.append(index)
        return index

    results = ordered_map(fragile, range(1000), workers=2, ahead=6)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="item 3"):
        next(results)
    assert threads_at_work() == []
    assert len(done) < 12


def test_an_error_of_the_source_passes() -> None:
    def items() -> Iterator[int]:
        yield from range(5)
        raise OSError("cannot be read on")

    results = ordered_map(str, items(), workers=2, ahead=3)
    with pytest.raises(OSError, match="cannot be read on"):
        list(results)
    assert threads_at_work() == []


def test_closing_cancels_what_waits() -> None:
    started = []
    go_on = threading.Event()

    def wait(index: int) -> int:
        started.append(index)
        if index:
            go_on.wait(20)
        return index

    results = ordered_map(wait, range(100), workers=1, ahead=10)
    assert next(results) == 0
    threading.Timer(0.05, go_on.set).start()
    close(results)
    assert started in ([0], [0, 1]), "only what was running is waited for"
    assert threads_at_work() == []


def test_what_is_done_does_not_wait_for_a_slow_source() -> None:
    more = threading.Event()

    def items() -> Iterator[int]:
        yield 0
        assert more.wait(20), "the result of item 0 was held back"
        yield 1

    results = ordered_stream(str, items(), workers=2, ahead=8)
    assert next(results) == "0"
    more.set()
    assert list(results) == ["1"]
    assert threads_at_work() == []


@given(count=st.integers(0, 30), workers=st.integers(1, 4), ahead=st.integers(1, 8))
@settings(max_examples=25)
def test_a_stream_keeps_order_and_bounds(count: int, workers: int, ahead: int) -> None:
    drawn = yielded = 0

    def items() -> Iterator[int]:
        nonlocal drawn
        for index in range(count):
            drawn += 1
            # One is in the hand of the feeder, one in that of the caller.
            assert drawn - yielded <= ahead + 2
            yield index

    for index in ordered_stream(lambda item: item, items(), workers=workers, ahead=ahead):
        assert index == yielded
        yielded += 1
    assert yielded == count


def test_errors_of_a_stream_come_in_their_place() -> None:
    def items() -> Iterator[int]:
        yield from range(3)
        raise OSError("cannot be read on")

    results = ordered_stream(str, items(), workers=2, ahead=8)
    assert [next(results) for _ in range(3)] == ["0", "1", "2"]
    with pytest.raises(OSError, match="cannot be read on"):
        next(results)

    def fragile(index: int) -> int:
        if index == 1:
            raise ValueError("item 1")
        return index

    results_of_function = ordered_stream(fragile, range(100), workers=2, ahead=4)
    assert next(results_of_function) == 0
    with pytest.raises(ValueError, match="item 1"):
        next(results_of_function)


def test_a_stream_that_is_closed_lets_its_feeder_go() -> None:
    drawn = []

    def items() -> Iterator[int]:
        for index in range(10_000):
            drawn.append(index)
            yield index

    results = ordered_stream(str, items(), workers=1, ahead=2)
    assert next(results) == "0"
    close(results)
    deadline = time.monotonic() + 20
    while threads_at_work() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threads_at_work() == []
    assert len(drawn) < 10
