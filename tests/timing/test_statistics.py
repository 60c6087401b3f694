"""Summaries, percentiles and comparisons: known answers, robustness, and both kinds of error."""

from __future__ import annotations

import json
import math
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastdata_cli.timing.statistics import (
    Verdict,
    compare,
    modified_z_scores,
    outliers,
    percentiles,
    summarise,
)

durations = st.lists(st.floats(1e-6, 1e4), min_size=1, max_size=150)


def steady(random: np.random.Generator, count: int, scale: float = 1.0) -> list[float]:
    """Repeats as an ordinary machine makes them: 1 % of noise, now and then a disturbed one."""
    noise = np.exp(random.normal(0, 0.01, count))
    disturbed = np.where(random.random(count) < 0.1, 1 + random.exponential(0.3, count), 1)
    return list(scale * noise * disturbed)


def test_a_summary_has_the_known_numbers() -> None:
    found = summarise([4, 1, 2, 3, 10])
    assert (found.n, found.median, found.mean) == (5, 3, 4)
    assert (found.minimum, found.maximum) == (1, 10)
    assert found.spread == 1, "half of the distance from 2 to 4"
    assert found.relative_spread == pytest.approx(1 / 3)
    assert (found.p50, found.p95, found.p99) == (3, None, None)


def test_percentiles_are_given_where_the_count_allows() -> None:
    assert set(percentiles([7.0])) == {"p0", "p50", "p100"}
    assert "p95" not in percentiles(range(19))
    assert percentiles(range(20))["p95"] == pytest.approx(18.05)
    assert "p99" not in percentiles(range(99))
    assert summarise(range(101)).p99 == 99
    assert percentiles(range(1001))["p99.9"] == pytest.approx(999)


@given(durations)
def test_percentiles_rise_and_stay_within_the_values(values: list[float]) -> None:
    found = list(percentiles(values).values())
    assert found == sorted(found)
    assert found[0] == min(values)
    assert found[-1] == max(values)
    json.dumps(asdict(summarise(values)), allow_nan=False)


def test_nothing_cannot_be_summarised() -> None:
    with pytest.raises(ValueError, match="nothing"):
        summarise([])
    with pytest.raises(ValueError, match="nothing"):
        compare([1.0], [])
    with pytest.raises(ValueError, match="above 0"):
        compare([1.0, 2.0], [0.0])


def test_modified_z_scores_are_those_of_the_source() -> None:
    # A misplaced decimal point: median 6.28, MAD 0.03.
    scores = modified_z_scores([6.25, 6.27, 6.28, 6.34, 62.5])
    assert scores == pytest.approx([-0.6745, -0.2248, 0, 1.349, 0.6745 * 56.22 / 0.03], abs=1e-3)
    assert list(modified_z_scores([2, 2, 2])) == [0, 0, 0]
    assert modified_z_scores([2, 2, 2, 2, 3])[4] == pytest.approx(
        1 / (0.2 * math.sqrt(math.pi / 2))
    )


def test_outliers_are_far_and_not_merely_unusual() -> None:
    assert list(outliers([1.0, 1.01, 0.99, 1.0, 1.5])) == [False] * 4 + [True]
    assert not outliers([1.0, 1.0001, 0.9999, 1.0, 1.01]).any(), "one percent is not far"


def test_the_ratio_says_how_many_times_as_fast_the_second_is() -> None:
    found = compare([2.0, 2.0, 2.0], [1.0, 1.0, 1.0])
    assert (found.ratio, found.verdict) == (2.0, Verdict.FASTER)
    assert found.low < 2 < found.high
    assert found == compare([2.0, 2.0, 2.0], [1.0, 1.0, 1.0]), "the seed is fixed"
    assert json.loads(json.dumps(asdict(found)))["verdict"] == "faster"


@pytest.mark.parametrize("repeats", [3, 5, 10])
def test_an_unchanged_build_passes(repeats: int) -> None:
    random = np.random.default_rng(repeats)
    pairs = [(steady(random, repeats), steady(random, repeats)) for _ in range(200)]
    verdicts = [compare(a, b).verdict for a, b in pairs]
    assert verdicts.count(Verdict.SAME) >= 199


@pytest.mark.parametrize("repeats", [5, 10])
def test_a_slowdown_of_ten_percent_is_caught(repeats: int) -> None:
    random = np.random.default_rng(repeats)
    pairs = [(steady(random, repeats), steady(random, repeats, 1.1)) for _ in range(200)]
    found = [compare(a, b) for a, b in pairs]
    assert sum(each.verdict is Verdict.SLOWER for each in found) >= 190
    assert sum(each.slower_by(0.05) for each in found) >= 185
    assert not any(each.slower_by(0.5) for each in found)


def test_both_sides_of_a_comparison_agree() -> None:
    random = np.random.default_rng(4)
    slow, fast = steady(random, 7, 1.3), steady(random, 7)
    there, back = compare(slow, fast), compare(fast, slow)
    assert there.ratio == pytest.approx(1 / back.ratio)
    assert (there.verdict, back.verdict) == (Verdict.FASTER, Verdict.SLOWER)


def test_one_disturbed_repeat_decides_nothing() -> None:
    assert compare([1.0, 1.01, 0.99, 1.0, 1.0], [1.0, 1.01, 0.99, 1.0, 9.0]).verdict is Verdict.SAME
    assert compare([1.0, 1.01, 0.99, 9.0], [1.2, 1.21, 1.19, 1.2]).verdict is Verdict.SLOWER


def test_too_few_repeats_prove_only_what_is_large() -> None:
    assert compare([1.0], [1.2]).verdict is Verdict.SAME
    assert compare([1.0, 1.0], [1.2, 1.2]).verdict is Verdict.SAME
    assert compare([1.0], [2.0]).verdict is Verdict.SLOWER


def test_cases_of_one_run_need_no_allowance_for_another_run() -> None:
    a, b = [1.0, 1.001, 0.999], [1.02, 1.021, 1.019]
    assert compare(a, b).verdict is Verdict.SAME
    assert compare(a, b, run_to_run=0).verdict is Verdict.SLOWER


def test_what_others_took_is_allowed_for() -> None:
    a, b = [1.0, 1.001, 0.999], [1.4, 1.401, 1.399]
    assert compare(a, b).verdict is Verdict.SLOWER
    assert compare(a, b, others=(0, 0.4)).verdict is Verdict.SAME, "alone, b might be as fast"
    assert compare(a, b, others=(0.4, 0)).verdict is Verdict.SLOWER, "alone, a is faster still"
    assert compare(b, a, others=(0.4, 0)).verdict is Verdict.SAME
    assert compare(a, b, others=(0, 0.2)).verdict is Verdict.SLOWER
