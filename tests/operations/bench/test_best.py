"""Which loader is told as the best: FastLoader only where it clearly is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fastdata_cli.operations.bench.best import best_loader, fastest_loader, winning_fast_loader
from fastdata_cli.operations.bench.report import BenchReport, LoaderRow
from tests.cli import bench_reports

PATHS = bench_reports.PATHS[:2]


def at(row: LoaderRow, rate: float, first: int = 0, step: int = 1, repeats: int = 3) -> LoaderRow:
    """Return a row of steady repeats at a rate, at these places of the run."""
    places = range(first, first + step * repeats, step)
    (one, *_) = row.measurement.repeats
    found = [replace(one, seconds=640 / rate, position=place, others=0.0) for place in places]
    measurement = replace(row.measurement, repeats=tuple(found))
    return replace(row, samples_per_s=rate, measurement=measurement)


def report(slow: LoaderRow, fast: LoaderRow) -> BenchReport:
    whole = bench_reports.report(PATHS[:1])
    return replace(whole, loaders=(slow,), fast_loaders=(fast,))


SLOW = bench_reports.loader_row(PATHS[0], 2, 1000.0)
FAST = bench_reports.fast_row(PATHS[0], 1000.0)


@pytest.mark.parametrize(("rate", "wins"), [(1101.0, True), (1099.0, False), (900.0, False)])
def test_it_wins_by_a_tenth(rate: float, wins: bool) -> None:
    made = report(at(SLOW, 1000.0, step=2), at(FAST, rate, first=1, step=2))
    assert (winning_fast_loader(made, PATHS[0]) is not None) == wins
    best = best_loader(made, PATHS[0])
    assert best is not None
    assert best.loader == ("FastLoader" if wins else "DataLoader")


def test_noise_is_not_won_by() -> None:
    one = report(at(SLOW, 1000.0, repeats=1), at(FAST, 1200.0, first=1, repeats=1))
    assert winning_fast_loader(one, PATHS[0]) is None, "once each tells nothing"
    assert best_loader(one, PATHS[0]) == one.fast_loaders[0], "it is the best that was seen"
    clear = report(at(SLOW, 1000.0, repeats=1), at(FAST, 1300.0, first=1, repeats=1))
    assert winning_fast_loader(clear, PATHS[0]) is not None


def test_others_count_where_the_two_did_not_take_turns() -> None:
    def disturbed(row: LoaderRow) -> LoaderRow:
        repeats = tuple(replace(each, others=0.4) for each in row.measurement.repeats)
        return replace(row, measurement=replace(row.measurement, repeats=repeats))

    turns = report(disturbed(at(SLOW, 1000.0, step=2)), disturbed(at(FAST, 1500.0, 1, 2)))
    assert winning_fast_loader(turns, PATHS[0]) is not None
    after = report(disturbed(at(SLOW, 1000.0)), disturbed(at(FAST, 1500.0, first=3)))
    assert winning_fast_loader(after, PATHS[0]) is None


def test_alone_it_is_the_best() -> None:
    alone = replace(report(SLOW, FAST), loaders=())
    assert best_loader(alone, PATHS[0]) == FAST
    assert best_loader(replace(alone, fast_loaders=()), PATHS[0]) is None


def test_the_fastest_of_all_datasets() -> None:
    whole = bench_reports.report(PATHS)
    found = fastest_loader(whole)
    assert found is not None
    assert (found.dataset, found.words) == (PATHS[0], "DataLoader, 8 workers")
    second = replace(whole, fast_loaders=(bench_reports.fast_row(PATHS[1], 9000.0),))
    found = fastest_loader(second)
    assert found is not None
    assert (found.dataset, found.words) == (PATHS[1], "FastLoader")
