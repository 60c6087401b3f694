"""Measuring against known truth: a clock that only the cases move, and a real delay."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, replace

import numpy as np
import pytest

from fastdata_cli.errors import DamagedDatasetError, UsageError
from fastdata_cli.timing import measure as harness
from fastdata_cli.timing.doubts import WarningKind
from fastdata_cli.timing.measure import Case, Work, measure
from fastdata_cli.timing.measurement import Measurement
from fastdata_cli.timing.neighbours import Load


class Workshop:
    """A clock, and cases that move it by what they take; every call is noted."""

    def __init__(self) -> None:
        self.now = 100.0
        self.calls: list[str] = []

    def clock(self) -> float:
        return self.now

    def case(
        self, name: str, seconds: float, samples: int = 10, prepare_s: float | None = None
    ) -> Case:
        def run() -> Work:
            self.calls.append(name)
            self.now += seconds
            return Work(samples=samples, bytes=samples * 1000, facts={"runs": len(self.calls)})

        def prepare() -> None:
            self.calls.append(f"prepare {name}")
            self.now += prepare_s or 0

        return Case(name=name, run=run, prepare=None if prepare_s is None else prepare)

    def measure(
        self,
        *cases: Case,
        repeats: int = 3,
        warmup: int = 0,
        budget_s: float = 1000,
        min_repeat_s: float = 0.1,
        on_result: Callable[[Measurement], None] | None = None,
    ) -> tuple[Measurement, ...]:
        return measure(
            cases,
            repeats=repeats,
            warmup=warmup,
            budget_s=budget_s,
            min_repeat_s=min_repeat_s,
            clock=self.clock,
            load=lambda: None,
            on_result=on_result,
        )


@pytest.fixture
def workshop() -> Workshop:
    return Workshop()


def kinds(measurement: Measurement) -> list[WarningKind]:
    return [warning.kind for warning in measurement.warnings]


def test_cases_take_turns_and_the_order_rotates(workshop: Workshop) -> None:
    cases = [workshop.case(name, 1) for name in "ABC"]
    found = workshop.measure(*cases, repeats=3)
    assert "".join(workshop.calls) == "ABCBCACAB"
    assert [each.name for each in found] == ["A", "B", "C"]
    assert [[repeat.position for repeat in each.repeats] for each in found] == [
        [0, 5, 7],
        [1, 3, 8],
        [2, 4, 6],
    ]


def test_parts_of_a_round_go_on_from_one_preparation(workshop: Workshop) -> None:
    parted = replace(workshop.case("A", 2, prepare_s=1), parts=3)
    found, other = workshop.measure(parted, workshop.case("B", 1), repeats=1)
    assert workshop.calls == ["prepare A", "A", "A", "A", "B"]
    assert found.seconds == (2, 2, 2)
    assert [repeat.position for repeat in found.repeats] == [0, 1, 2]
    assert WarningKind.FEW_REPEATS not in kinds(found)
    assert WarningKind.FEW_REPEATS in kinds(other)


def test_parts_that_were_measured_before_a_failure_are_kept(workshop: Workshop) -> None:
    def run() -> Work:
        workshop.now += 1
        if workshop.now > 101:
            raise DamagedDatasetError("gone")
        return Work(samples=1, bytes=1)

    (found,) = workshop.measure(Case(name="A", run=run, parts=3), repeats=1)
    assert found.seconds == (1,)
    assert found.failure is not None


def test_repeats_of_one_length_differ_by_what_they_deliver(workshop: Workshop) -> None:
    amounts = iter([100, 80, 120, 60, 140])

    def run() -> Work:
        workshop.now += 1
        return Work(samples=next(amounts), bytes=0)

    (found,) = workshop.measure(Case(name="A", run=run), repeats=5)
    assert found.summary is not None
    assert found.summary.relative_spread == pytest.approx(0.208, abs=0.001)
    assert kinds(found) == [WarningKind.WIDE_SPREAD]


def test_raw_seconds_and_rates(workshop: Workshop) -> None:
    (found,) = workshop.measure(workshop.case("A", 2, samples=10), repeats=3)
    assert found.seconds == (2, 2, 2)
    assert found.seconds_per_sample == (0.2, 0.2, 0.2)
    assert found.samples_per_s == 5
    assert found.megabytes_per_s == pytest.approx(0.005)
    assert found.summary is not None
    assert (found.summary.n, found.summary.median, found.summary.spread) == (3, 0.2, 0)
    assert found.warnings == ()
    assert found.repeats[2].facts == {"runs": 3}


def test_warm_up_is_recorded_and_not_counted(workshop: Workshop) -> None:
    (found,) = workshop.measure(workshop.case("A", 1), repeats=3, warmup=2)
    assert [repeat.position for repeat in found.warmups] == [0, 1]
    assert [repeat.position for repeat in found.repeats] == [2, 3, 4]
    assert found.repeats[0].facts == {"runs": 3}


def test_preparation_runs_before_every_run_and_is_not_timed(workshop: Workshop) -> None:
    (found,) = workshop.measure(workshop.case("A", 0.06, prepare_s=5), repeats=1)
    assert workshop.calls == ["prepare A", "A"] * 2
    assert found.repeats[0].seconds == pytest.approx(0.12)
    assert (found.repeats[0].runs, found.repeats[0].samples) == (2, 20)


def test_short_cases_fill_the_repeat(workshop: Workshop) -> None:
    (found,) = workshop.measure(workshop.case("A", 0.03125), repeats=3, min_repeat_s=0.125)
    assert [repeat.runs for repeat in found.repeats] == [4, 4, 4]
    assert found.repeats[0].bytes == 40_000
    assert kinds(found) == []


def test_what_does_nothing_ends_at_once(workshop: Workshop) -> None:
    (found,) = workshop.measure(workshop.case("empty", 0, samples=0))
    assert [repeat.runs for repeat in found.repeats] == [1, 1, 1]
    assert found.samples_per_s is None
    assert found.seconds_per_sample == ()
    assert WarningKind.TOO_SHORT in kinds(found)


def test_what_takes_no_time_ends_too(workshop: Workshop) -> None:
    (found,) = workshop.measure(workshop.case("still", 0, samples=1), repeats=1)
    assert found.repeats[0].runs == 10_000


def test_the_budget_stops_new_rounds(workshop: Workshop) -> None:
    found = workshop.measure(workshop.case("A", 1), workshop.case("B", 2), repeats=5, budget_s=9)
    assert [len(each.repeats) for each in found] == [3, 3]
    assert workshop.now == 109
    for each in found:
        assert kinds(each) == [WarningKind.BUDGET]
        assert "3 of 5 repeats fit into 9 s" in each.warnings[0].text


@pytest.mark.parametrize("warmup", [0, 3])
def test_every_case_is_measured_once_whatever_the_budget(workshop: Workshop, warmup: int) -> None:
    cases = [workshop.case("A", 5), workshop.case("B", 5)]
    found = workshop.measure(*cases, warmup=warmup, budget_s=1)
    assert [len(each.repeats) for each in found] == [1, 1]
    assert [len(each.warmups) for each in found] == [min(warmup, 1)] * 2
    assert kinds(found[0]) == [WarningKind.BUDGET], "which says that there are few, too"
    assert "1 of 3 repeats fit into 1 s, so the noise is unknown" in found[0].warnings[0].text


def test_a_spent_budget_ends_a_repeat_that_is_not_filled(workshop: Workshop) -> None:
    (found,) = workshop.measure(workshop.case("A", 1), repeats=1, budget_s=4, min_repeat_s=60)
    assert found.repeats[0].runs == 4
    assert kinds(found) == [WarningKind.TOO_SHORT, WarningKind.FEW_REPEATS]


def test_less_warm_up_is_said(workshop: Workshop) -> None:
    (found,) = workshop.measure(workshop.case("A", 2), repeats=1, warmup=4, budget_s=4.5)
    assert (len(found.warmups), len(found.repeats)) == (2, 1)
    assert "less warm-up" in found.warnings[-1].text


def test_a_failing_case_keeps_what_it_has_and_does_not_stop_the_others(workshop: Workshop) -> None:
    def run() -> Work:
        workshop.now += 1
        workshop.calls.append("bad")
        if workshop.calls.count("bad") == 3:
            raise DamagedDatasetError("x.zarr: chunk 3 is cut short", hint="convert it again")
        return Work(samples=1, bytes=1)

    bad, good = workshop.measure(Case(name="bad", run=run), workshop.case("good", 1), repeats=5)
    assert bad.failure is not None
    assert asdict(bad.failure) == {
        "kind": "DamagedDatasetError",
        "message": "x.zarr: chunk 3 is cut short",
        "hint": "convert it again",
    }
    assert (len(bad.repeats), len(good.repeats)) == (2, 5)
    assert good.failure is None


def test_a_case_that_cannot_even_be_prepared(workshop: Workshop) -> None:
    def prepare() -> None:
        raise UsageError("cannot evict")

    case = Case(name="A", run=workshop.case("A", 1).run, prepare=prepare)
    (found,) = workshop.measure(case)
    assert found.failure is not None
    assert (found.summary, found.samples_per_s, found.seconds) == (None, None, ())
    assert workshop.calls == []


def test_other_exceptions_come_through(workshop: Workshop) -> None:
    def run() -> Work:
        raise KeyError("a mistake in the case")

    with pytest.raises(KeyError):
        workshop.measure(Case(name="A", run=run))


def test_results_are_told_after_each_repeat(workshop: Workshop) -> None:
    seen: list[tuple[str, int, int]] = []
    workshop.measure(
        workshop.case("A", 1),
        workshop.case("B", 1),
        repeats=2,
        warmup=1,
        on_result=lambda each: seen.append((each.name, len(each.warmups), len(each.repeats))),
    )
    assert seen == [("A", 1, 0), ("B", 1, 0), ("B", 1, 1), ("A", 1, 1), ("A", 1, 2), ("B", 1, 2)]


def test_an_interruption_loses_nothing(workshop: Workshop) -> None:
    def interrupt() -> Work:
        if workshop.calls.count("A") == 3:
            raise KeyboardInterrupt
        return Work(samples=1, bytes=1)

    told: dict[str, Measurement] = {}
    cases = (workshop.case("A", 1), Case(name="B", run=interrupt))
    with pytest.raises(KeyboardInterrupt):
        workshop.measure(
            *cases, min_repeat_s=0, on_result=lambda each: told.update({each.name: each})
        )
    assert {name: len(each.repeats) for name, each in told.items()} == {"A": 3, "B": 2}


def test_latencies_of_all_repeats_are_pooled_without_warm_up(workshop: Workshop) -> None:
    def run() -> Work:
        workshop.now += 1
        scale = 100.0 if workshop.now < 102 else 1.0
        return Work(samples=50, bytes=1, latencies_s=scale * np.arange(50.0))

    (found,) = workshop.measure(Case(name="A", run=run), repeats=2, warmup=1)
    assert found.latencies == 100
    assert found.latency_s["p50"] == 24.5
    assert found.latency_s["p99"] == 49
    assert found.latency_s["p100"] == 49
    json.dumps(asdict(found), allow_nan=False)


def test_what_others_took_is_kept_and_warned_of(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3})
    monkeypatch.setattr(harness, "usable_cores", lambda: 4)

    def load() -> Load:
        return Load(when=workshop.now, taken_s=2 * workshop.now, own_s=0)

    cases = [workshop.case("A", 1)]
    (found,) = measure(cases, repeats=3, warmup=0, clock=workshop.clock, load=load)
    assert [repeat.others for repeat in found.repeats] == pytest.approx([0.5] * 3)
    assert kinds(found) == [WarningKind.BUSY_MACHINE]
    (unseen,) = workshop.measure(*cases)
    assert [repeat.others for repeat in unseen.repeats] == [None] * 3
    assert unseen.others == 0


def test_usage_errors(workshop: Workshop) -> None:
    with pytest.raises(UsageError, match="same name"):
        workshop.measure(workshop.case("A", 1), workshop.case("A", 1))
    with pytest.raises(UsageError, match="0 repeats"):
        workshop.measure(workshop.case("A", 1), repeats=0)
    assert workshop.measure() == ()


@pytest.mark.timed
def test_a_real_delay_of_5_ms_a_sample_is_measured_within_5_percent() -> None:
    def run() -> Work:
        begin = time.perf_counter()
        for sample in range(1, 21):
            # To a fixed time each, so that the scheduler's own delays do not add up.
            time.sleep(max(0.0, begin + sample * 0.005 - time.perf_counter()))
        return Work(samples=20, bytes=20)

    (found,) = measure([Case(name="slow", run=run)], repeats=7, warmup=0)
    assert 1000 / found.samples_per_s == pytest.approx(5, rel=0.05)  # type: ignore[operator]
    assert min(found.seconds_per_sample) == pytest.approx(0.005, rel=0.05)
