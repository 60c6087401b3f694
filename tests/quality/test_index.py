"""The index finds exactly what comparing with every hash finds, in memory and from files."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fastdata_cli.errors import UsageError
from fastdata_cli.quality import index as index_module
from fastdata_cli.quality import scratch, segments
from fastdata_cli.quality.bands import MAX_RADIUS, choose_plan
from fastdata_cli.quality.duplicates import DEFAULT_DISTANCE
from fastdata_cli.quality.index import HashIndex
from fastdata_cli.quality.scratch import Column

Hashes = NDArray[np.uint64]
HASH = st.integers(0, 2**64 - 1)


def crowd(count: int, seed: int = 0) -> Hashes:
    """Random hashes, most with neighbours in few to many bits, some of them equal."""
    rng = np.random.default_rng(seed)
    hashes = rng.integers(0, 2**64, count, np.uint64)
    for number in range(count // 4, count):
        flips = rng.integers(0, 64, int(rng.integers(0, 20)))
        mask = sum(1 << int(position) for position in set(flips.tolist()))
        hashes[number] = hashes[rng.integers(0, number)] ^ np.uint64(mask)
    return hashes


def filled(radius: int, hashes: Hashes) -> HashIndex:
    index = HashIndex(radius)
    for number, value in enumerate(hashes.tolist()):
        assert index.add(value) == number
    return index


def assert_finds_all(index: HashIndex, hashes: Hashes, queries: Hashes, radius: int) -> int:
    """Compare with a brute force; return how many were found."""
    found = 0
    for value in queries.tolist():
        distances = np.bitwise_count(hashes ^ np.uint64(value))
        numbers, bits = index.query(value, radius)
        np.testing.assert_array_equal(numbers, np.flatnonzero(distances <= radius))
        np.testing.assert_array_equal(bits, distances[numbers])
        found += len(numbers)
    return found


@pytest.mark.parametrize("radius", [0, 3, DEFAULT_DISTANCE, MAX_RADIUS])
def test_finds_every_pair_among_20000(radius: int) -> None:
    hashes = crowd(20_000)
    index = filled(radius, hashes)
    assert len(index) == 20_000
    queries = hashes if radius == DEFAULT_DISTANCE else hashes[::4]
    assert assert_finds_all(index, hashes, queries, radius) > len(queries)


@given(
    hashes=st.lists(HASH, max_size=80),
    flips=st.lists(st.sets(st.integers(0, 63), max_size=18), max_size=40),
    radius=st.integers(0, MAX_RADIUS),
    narrower=st.integers(0, MAX_RADIUS),
)
def test_finds_every_pair_at_any_radius(
    hashes: list[int], flips: list[set[int]], radius: int, narrower: int
) -> None:
    near = [
        hashes[number % len(hashes)] ^ sum(1 << position for position in positions)
        for number, positions in enumerate(flips if hashes else [])
    ]
    values = np.array(hashes + near, np.uint64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_module, "_TAIL", 4)
        patch.setattr(segments, "_AT_ONCE", 8)
        index = filled(radius, values)
    assert_finds_all(index, values, values, radius)
    assert_finds_all(index, values, values, min(radius, narrower))


@pytest.mark.parametrize("radius", [0, 6, MAX_RADIUS])
def test_finds_every_pair_from_files(radius: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "IN_MEMORY", 64)
    monkeypatch.setattr(segments, "_AT_ONCE", 500)
    monkeypatch.setattr(index_module, "_TAIL", 256)
    hashes = crowd(3000, seed=1)
    index = filled(radius, hashes)
    assert_finds_all(index, hashes, hashes[::3], radius)


def test_one_hash_a_thousand_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "_TAIL", 100)
    monkeypatch.setattr(segments, "_AT_ONCE", 50)
    hashes = np.full(1050, 2**63 + 1, np.uint64)
    index = filled(4, hashes)
    assert_finds_all(index, hashes, hashes[:1], 4)


def test_takes_up_what_a_column_holds() -> None:
    hashes = crowd(10_000, seed=2)
    column = Column("<u8")
    column.extend(hashes[:9000])
    index = HashIndex(8, column)
    for value in hashes[9000:].tolist():
        index.add(value)
    np.testing.assert_array_equal(column.values, hashes)
    assert_finds_all(index, hashes, hashes[::50], 8)


def test_segments_stay_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "_TAIL", 8)
    index = filled(2, crowd(8 * 300, seed=3))
    counts = [segment.count for segment in index._segments]
    assert sum(counts) == 2400
    assert len(counts) <= 6
    assert all(larger >= 8 * smaller for larger, smaller in pairwise(counts))


def test_work_grows_more_slowly_than_the_index() -> None:
    for radius in (4, 8, 10, MAX_RADIUS):
        small, large = (_expected_comparisons(log_count, radius) for log_count in (17, 20))
        assert large < 8 * small
        assert large < 2**20 / 5


def _expected_comparisons(log_count: int, radius: int) -> float:
    plan = choose_plan(log_count, radius)
    widths = np.log2(plan.masks.astype(np.float64) + 1)
    return float((2.0 ** (log_count - widths)).sum()) + len(widths)


@pytest.mark.parametrize("radius", [-1, MAX_RADIUS + 1])
def test_other_radii_are_refused(radius: int) -> None:
    with pytest.raises(UsageError, match="0 to 16"):
        HashIndex(radius)
