"""Each reason to distrust a measurement is found, alone, and says what to do."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from fastdata_cli.timing.doubts import WarningKind, doubts


@pytest.mark.parametrize(
    ("seconds", "kind", "value"),
    [
        ([0.004, 0.004, 0.004], WarningKind.TOO_SHORT, 0.004),
        ([1.0, 1.0], WarningKind.FEW_REPEATS, 2),
        ([1.0], WarningKind.FEW_REPEATS, 1),
        ([3.0, 1.0, 1.01, 0.99, 1.0], WarningKind.SLOW_FIRST, 3.0),
        ([1.0, 1.01, 3.0, 0.99, 1.0], WarningKind.OUTLIERS, 1),
        ([0.5, 1.0, 1.01, 0.99, 1.0], WarningKind.OUTLIERS, 1),
        ([1.0, 1.2, 1.4, 0.8, 0.6], WarningKind.WIDE_SPREAD, 0.2),
    ],
)
def test_each_reason(seconds: list[float], kind: WarningKind, value: float) -> None:
    (found,) = doubts(seconds)
    assert found.kind is kind
    assert found.value == pytest.approx(value)
    assert any(word in found.text for word in ("allow", "measure", "warm up", "close"))
    assert json.loads(json.dumps(asdict(found)))["kind"] == kind.value


def test_a_slow_first_repeat_does_not_hide_the_others() -> None:
    found = doubts([3.0, 1.0, 1.01, 0.99, 4.0, 1.02, 0.98, 1.005, 0.995])
    assert [each.kind for each in found] == [WarningKind.SLOW_FIRST, WarningKind.OUTLIERS]
    assert found[1].value == 1


@pytest.mark.parametrize("seconds", [[], [1.0, 1.01, 0.99, 1.0, 1.005], [0.2] * 3])
def test_a_steady_series_gives_no_reason(seconds: list[float]) -> None:
    assert doubts(seconds) == []


def test_times_of_zero_do_not_divide() -> None:
    kinds = [each.kind for each in doubts([1.0] + [0.0] * 6)]
    assert kinds == [WarningKind.TOO_SHORT, WarningKind.OUTLIERS]


def test_what_is_too_short_is_the_callers_to_say() -> None:
    assert doubts([0.004] * 3, min_repeat_s=0.001) == []


def test_a_busy_machine_is_named() -> None:
    (found,) = doubts([1.0] * 3, others=0.63)
    assert found.kind is WarningKind.BUSY_MACHINE
    assert "63%" in found.text
    assert doubts([1.0] * 3, others=0.05) == []


def test_repeats_differ_by_the_time_of_a_sample() -> None:
    (found,) = doubts([1.0] * 5, per_sample=[0.1, 0.12, 0.14, 0.08, 0.06])
    assert found.kind is WarningKind.WIDE_SPREAD
    assert doubts([1.0, 1.2, 1.4, 0.8, 0.6], per_sample=[0.1] * 5) == []


@pytest.mark.parametrize(
    ("count", "words"), [(1, "only 1 batch was timed"), (15, "only 15 batches were timed")]
)
def test_few_batches_make_a_coarse_rate(count: int, words: str) -> None:
    (found,) = doubts([1.0] * 3, requests=count)
    assert found.kind is WarningKind.FEW_REQUESTS
    assert words in found.text
    assert doubts([1.0] * 3, requests=16) == []
