"""Runs against a record: a slower build is caught, an unchanged one passes every time."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastdata_cli import registry
from fastdata_cli.contract import Reader
from fastdata_cli.errors import UsageError
from fastdata_cli.operations.bench.compare import (
    ComparisonReport,
    Outcome,
    compare_records,
    confirmed,
    measurements,
    parse_share,
)
from fastdata_cli.operations.bench.report import BenchReport, CacheFacts, LoaderRow, ReadRow
from fastdata_cli.timing.environment import Environment, environment
from fastdata_cli.timing.measure import Case, Work, measure
from fastdata_cli.timing.measurement import Failure, Measurement, Repeat
from fastdata_cli.timing.record import Record, load_record, save_record
from tests.loading.datasets import COUNT, write

SOME_CACHE = CacheFacts(before="warm", after="warm", resident_before=1.0, resident_after=1.0)


@pytest.fixture(scope="module")
def here() -> Environment:
    return environment([Path.cwd()])


def case(name: str = "read", *seconds: float, **repeat: Any) -> Measurement:
    repeats = [
        Repeat(seconds=each, bytes=0, position=at, runs=1, **{"samples": 100, **repeat})
        for at, each in enumerate(seconds)
    ]
    return Measurement(name=name, repeats=tuple(repeats))


def record(here: Environment, *cases: Measurement, **changes: Any) -> Record:
    return Record(environment=here, cases=cases, **{"finished": True, **changes})


# -- the share -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("5%", 0.05),
        (" 12.5 % ", 0.125),
        ("0.05", 0.05),
        (".1", 0.1),
        ("0", 0),
        ("0%", 0),
        ("99%", 0.99),
    ],
)
def test_a_share(text: str, share: float) -> None:
    assert parse_share(text) == pytest.approx(share)


@pytest.mark.parametrize(
    "text", ["", "5", "100%", "1", "-5%", "five", "5%%", "nan", "inf", "1e-3", "٥%"]
)
def test_no_share(text: str) -> None:
    with pytest.raises(UsageError, match="--fail-if-slower does not know") as caught:
        parse_share(text)
    assert "5%" in caught.value.hint


# -- made-up times ---------------------------------------------------------------------------------


def test_each_outcome(here: Environment) -> None:
    failure = Failure(kind="DamagedDatasetError", message="out.zarr is damaged", hint="")
    before = record(
        here,
        case("slower", 1, 1, 1),
        case("faster", 1, 1, 1),
        case("same", 1, 1, 1),
        case("fails", 1, 1, 1),
        case("silent", 1, 1, 1),
        case("failed"),
        case("gone", 1, 1, 1),
    )
    now = record(
        here,
        case("slower", 2, 2, 2),
        case("faster", 0.5, 0.5, 0.5),
        case("same", 1.02, 1.02, 1.02),
        replace(case("fails", 1), failure=failure),
        case("silent", 1, 1, 1, samples=0),
        case("failed", 1, 1, 1),
        case("new", 1, 1, 1),
    )
    found = compare_records(now, before)
    assert {each.name: each.outcome for each in found.cases} == {
        "slower": Outcome.SLOWER,
        "faster": Outcome.FASTER,
        "same": Outcome.SAME,
        "fails": Outcome.FAILED,
        "silent": Outcome.FAILED,
        "failed": Outcome.UNMEASURED,
        "new": Outcome.NEW,
        "gone": Outcome.GONE,
    }
    assert [each.name for each in found.slower] == ["slower", "fails", "silent"]
    slower, fails = found.slower[0], found.slower[1]
    assert (slower.before_samples_per_s, slower.samples_per_s, slower.ratio) == (100, 50, 0.5)
    assert slower.low is not None
    assert slower.high is not None
    assert slower.low < 0.5 < slower.high < 1
    assert fails.text == "out.zarr is damaged"
    assert found.warnings == ()
    assert json.loads(json.dumps(asdict(found)))["cases"][0]["outcome"] == "slower"


def test_what_is_allowed_is_not_too_slow(here: Environment) -> None:
    before, now = record(here, case("read", 1, 1, 1)), record(here, case("read", 1.08, 1.08, 1.08))
    strict, lax = (compare_records(now, before, share=share) for share in (0.05, 0.1))
    assert strict.cases[0].outcome is lax.cases[0].outcome is Outcome.SLOWER
    assert (len(strict.slower), len(lax.slower)) == (1, 0)


def test_a_slow_median_within_noise_is_not_too_slow(here: Environment) -> None:
    before = record(here, case("read", 1.0, 1.3, 0.9, 1.2, 0.95))
    now = record(here, case("read", 1.1, 0.97, 1.4, 1.25, 0.96))
    (found,) = compare_records(now, before).cases
    assert found.ratio is not None
    assert found.ratio < 0.95
    assert not found.too_slow


def test_an_unchanged_build_passes_and_a_slowed_one_is_caught(here: Environment) -> None:
    random = np.random.default_rng(1)

    def run(slowdown: float) -> Record:
        # A run's own level, and repeats around it that are slowed now and then.
        level = slowdown * random.uniform(0.985, 1.015)
        slowed = 1 + 0.3 * (random.random(5) < 0.1)
        return record(here, case("read", *(level * random.normal(1, 0.02, 5) * slowed)))

    before = run(1.0)
    assert [compare_records(run(1.0), before).slower for _ in range(10)] == [()] * 10
    assert all(compare_records(run(1.25), before).slower for _ in range(10))


def test_nothing_in_common(here: Environment) -> None:
    with pytest.raises(UsageError, match="none of the cases"):
        compare_records(record(here, case("a", 1)), record(here, case("b", 1)))
    with pytest.raises(UsageError, match="none of the cases"):
        compare_records(record(here), record(here))


def test_what_else_differs_is_warned_of(here: Environment) -> None:
    before = record(
        replace(here, cpu_model="an older one"),
        case("read", 1),
        options={"batch_size": 64, "seconds": 60, "paths": ["a"], "gone": 1, "threads": "1"},
        finished=False,
    )
    now = record(
        here,
        case("read", 1),
        options={"batch_size": 128, "seconds": 10, "paths": ("a",), "new": 1, "threads": "1"},
    )
    assert compare_records(now, before).warnings == (
        f"processor: an older one → {here.cpu_model}",
        "--batch-size: 64 → 128",
        "the record is of a run that was interrupted",
    )


def test_only_what_is_slow_twice_is_too_slow(here: Environment) -> None:
    before = record(here, case("chance", 1, 1, 1), case("slow", 1, 1, 1))
    first = compare_records(record(here, case("chance", 2, 2, 2), case("slow", 2, 2, 2)), before)
    again = compare_records(record(here, case("chance", 1, 1, 1), case("slow", 2, 2, 2)), before)
    assert [each.name for each in first.slower] == ["chance", "slow"]
    assert [each.name for each in confirmed(first, again).slower] == ["slow"]
    assert confirmed(again, first) == again
    assert confirmed(first, again).cases[0].outcome is Outcome.SLOWER


def test_a_report_is_compared_as_its_record(here: Environment) -> None:
    read, loader = case("plain", 1, 1, 1), case("loader", 1, 1, 1)
    common: dict[str, Any] = {
        "dataset": "a",
        "order": "block",
        "samples_per_s": 100.0,
        "cache": SOME_CACHE,
    }
    report = BenchReport(
        started="2026-11-29T20:15:00+00:00",
        environment=here,
        options={"batch_size": 64},
        datasets=(),
        reads=(
            ReadRow(
                **common,
                by="batch",
                threads=1,
                measurement=read,
                megabytes_per_s=None,
                requests_per_s=None,
                latency_ms={},
                device_bytes=None,
                used_bytes=0,
                amplification=None,
            ),
        ),
        loaders=(
            LoaderRow(
                **common,
                workers=0,
                batch_size=64,
                measurement=loader,
                first_batch_s=None,
                wait_ms_per_sample=None,
                memory_bytes=None,
                cpu_share=None,
                each_once=None,
                same_bytes=None,
                line="",
            ),
        ),
    )
    assert measurements(report) == (read, loader)
    before = record(here, read, loader, options={"batch_size": 64})
    found = compare_records(report, before)
    assert [each.outcome for each in found.cases] == [Outcome.SAME, Outcome.SAME]
    assert found.warnings == ()


# -- real times ------------------------------------------------------------------------------------


def real_run(here: Environment, reader: Reader, delay_s: float) -> Record:
    """Measure a reader with a delay that is long beside what a busy machine adds."""

    def run() -> Work:
        time.sleep(delay_s)
        return Work(samples=len(reader.read_many(range(COUNT)).keys), bytes=0)

    # A delay does not care what others do with the processors, so that is left out of the bounds.
    cases = measure([Case(name="read", run=run)], min_repeat_s=0.02, load=lambda: None)
    return record(here, *cases)


@pytest.mark.timed
def test_a_real_build(here: Environment, tmp_path: Path) -> None:
    reader = registry.open_reader(write(tmp_path, "raw"))
    save_record(real_run(here, reader, 0.03), tmp_path / "before.json")
    before = load_record(tmp_path / "before.json")

    def against_before(delay_s: float) -> ComparisonReport:
        return compare_records(real_run(here, reader, delay_s), before, share=0.05)

    def fails(delay_s: float) -> bool:
        found = against_before(delay_s)
        return bool(found.slower) and bool(confirmed(found, against_before(delay_s)).slower)

    assert [fails(0.03) for _ in range(10)] == [False] * 10
    assert fails(0.045)
