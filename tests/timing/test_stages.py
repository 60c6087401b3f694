"""The stage clock: sums that are right from many threads, and that errors do not lose."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from fastdata_cli.timing import stages
from fastdata_cli.timing.stages import Stage, StageClock


class FakeTime:
    """A clock that moves only when told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(stages, "time", SimpleNamespace(perf_counter=lambda: self.now))

    def passes(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    return FakeTime(monkeypatch)


def test_stages_are_summed_in_the_order_first_seen(fake: FakeTime) -> None:
    clock = StageClock()
    for name, seconds in (("read", 1.0), ("write", 4.0), ("read", 2.0)):
        with clock.stage(name):
            fake.passes(seconds)
    assert clock.stages() == (Stage("read", 3.0, 2), Stage("write", 4.0, 1))
    assert clock.wall == 7.0


def test_time_before_an_error_counts(fake: FakeTime) -> None:
    clock = StageClock()

    def breaks() -> None:
        fake.passes(1.0)
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"), clock.stage("read"):
        breaks()
    assert clock.stages() == (Stage("read", 1.0, 1),)


def test_timed_functions_return_and_raise_as_before(fake: FakeTime) -> None:
    def half(number: int) -> float:
        fake.passes(0.5)
        return 1 / number

    clock = StageClock()
    timed = clock.timed("half", half)
    assert timed(2) == 0.5
    with pytest.raises(ZeroDivisionError):
        timed(0)
    assert clock.stages() == (Stage("half", 1.0, 2),)


def test_drawn_counts_the_source_and_not_its_consumer(fake: FakeTime) -> None:
    def source() -> Iterator[int]:
        for index in range(3):
            fake.passes(1.0)
            yield index
        fake.passes(0.25)

    clock = StageClock()
    for _ in clock.drawn("read", source()):
        fake.passes(10.0)
    (stage,) = clock.stages()
    assert stage.seconds == 3.25, "the end, too, has to be found"
    assert list(clock.drawn("again", [1, 2])) == [1, 2]
    assert list(clock.drawn("empty", [])) == []


def test_an_error_of_the_source_passes() -> None:
    def source() -> Iterator[int]:
        yield 1
        raise OSError("cannot be read on")

    drawn = StageClock().drawn("read", source())
    assert next(drawn) == 1
    with pytest.raises(OSError, match="cannot be read on"):
        next(drawn)


def test_many_threads_lose_nothing() -> None:
    clock = StageClock()

    def add(_: int) -> None:
        for _ in range(2000):
            clock.add("read", 0.5)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(8)))
    assert clock.stages() == (Stage("read", 8000.0, 16000),)


def test_a_new_clock_has_no_stages() -> None:
    assert StageClock().stages() == ()
    with pytest.raises(dataclasses.FrozenInstanceError):
        Stage("read", 1.0, 1).calls = 2  # type: ignore[misc]
