"""Comparing two measurements: what is compared, and what is allowed for."""

from __future__ import annotations

from fastdata_cli.timing.measurement import Measurement, Repeat, compare_measurements, others_of
from fastdata_cli.timing.statistics import Verdict


def measured(*seconds: float, samples: int = 100, others: float | None = None) -> Measurement:
    repeats = [
        Repeat(seconds=each, samples=samples, bytes=0, position=at, runs=1, others=others)
        for at, each in enumerate(seconds)
    ]
    return Measurement(name="A", repeats=tuple(repeats))


def test_samples_are_compared_and_not_repeats() -> None:
    found = compare_measurements(measured(1, 1, 1), measured(2, 2, 2, samples=400))
    assert found is not None
    assert (found.ratio, found.verdict) == (2, Verdict.FASTER)


def test_nothing_delivered_cannot_be_compared() -> None:
    for nothing in (measured(), measured(1, 1, samples=0)):
        assert compare_measurements(nothing, measured(1)) is None
        assert compare_measurements(measured(1), nothing) is None


def test_separate_runs_are_allowed_to_differ_a_little() -> None:
    a, b = measured(1, 1, 1), measured(1.02, 1.02, 1.02)
    apart, together = compare_measurements(a, b), compare_measurements(a, b, same_run=True)
    assert apart is not None
    assert together is not None
    assert (apart.verdict, together.verdict) == (Verdict.SAME, Verdict.SLOWER)


def test_a_busy_machine_proves_only_what_is_large() -> None:
    quiet, busy = measured(1, 1, 1, others=0.0), measured(1.5, 1.5, 1.5, others=0.5)
    found = compare_measurements(quiet, busy)
    assert found is not None
    assert found.verdict is Verdict.SAME
    much = compare_measurements(quiet, measured(3, 3, 3, others=0.5))
    assert much is not None
    assert much.verdict is Verdict.SLOWER


def test_the_share_of_others_is_weighed_by_time() -> None:
    quiet = measured(3, others=0.0).repeats
    assert others_of((*quiet, *measured(1, others=0.4).repeats)) == 0.1
    assert others_of((*quiet, *measured(9).repeats)) == 0, "not known counts for nothing"
    assert measured(1).others == 0
