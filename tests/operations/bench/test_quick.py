"""``--quick``: a look measures fewer cases, and says which."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastdata_cli.operations.bench import run as run_module
from fastdata_cli.operations.bench.budget import Budget
from fastdata_cli.operations.bench.device import by_fio
from fastdata_cli.operations.bench.run import bench, record_of
from fastdata_cli.operations.bench.settings import BenchOptions
from fastdata_cli.operations.bench.stages import decode_ceiling, stage_batches
from fastdata_cli.timing.device import DeviceDoubt, device_jobs
from fastdata_cli.timing.record import load_record
from tests.conftest import make_tree
from tests.operations.bench.readers import named, quick, subject_of, write_raw


@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """No number of these tests has to be believed."""
    monkeypatch.setattr("fastdata_cli.operations.bench.reads.MIN_REPEAT_S", 0.02)
    monkeypatch.setattr("fastdata_cli.operations.bench.loaders.MIN_REPEAT_S", 0.02)
    monkeypatch.setattr("fastdata_cli.operations.bench.loaders.SHORTEST_RUN_S", 0.05)
    monkeypatch.setattr("fastdata_cli.operations.bench.budget._LEAST_S", 0.1)


def look(**changes: Any) -> BenchOptions:
    return quick(quick=True, workers="0,1", **changes)


def test_one_dataset_has_every_number_of_workers(tmp_path: Path) -> None:
    report = bench([named(write_raw(tmp_path / "a.raw"))], look())
    assert [row.workers for row in report.loaders] == [0, 1]
    assert {row.by for row in report.reads} == {"batch"}
    assert len(report.reads) == 3


def test_several_datasets_are_loaded_by_the_most_workers_only(tmp_path: Path) -> None:
    readers = [named(write_raw(tmp_path / f"{name}.raw", 64)) for name in "ab"]
    report = bench(readers, look())
    assert [row.workers for row in report.loaders] == [1, 1]
    assert len(report.reads) == 6
    free = [each for each in report.ceilings if each.name == "free input"]
    assert len(free) == 2


def test_no_scratch_file_is_written(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.write_bytes(bytes(20_000))
    (result,) = by_fio(scratch=False)([small], device_jobs(4096, runtime_s=0.05)[-1:])
    assert not result.scratch
    (text,) = [each.text for each in result.warnings if each.kind == DeviceDoubt.SMALL]
    assert "and no scratch file is made in a quick look" in text


@pytest.mark.parametrize("fast", [True, False])
def test_who_looks_quickly_asks_for_no_scratch_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fast: bool
) -> None:
    asked: list[bool] = []

    def device(*, scratch: bool) -> Any:
        asked.append(scratch)

        def measure(files: Iterable[Path], jobs: Sequence[Any]) -> Iterator[Any]:
            return iter(())

        return measure

    monkeypatch.setattr(run_module, "by_fio", device)
    options = quick(quick=fast, no_device=False, no_loader=True)
    bench([named(write_raw(tmp_path / "a.raw", 16))], options)
    assert asked == [not fast]


def test_few_images_are_decoded_where_time_is_short(tree: Path) -> None:
    for number in range(20):
        source = tree / f"class{number % 3}" / f"{number:04d}.jpg"
        for copy in range(5):
            (source.parent / f"{number}-{copy}.jpg").write_bytes(source.read_bytes())
    subject = subject_of(tree)
    assert sum(map(len, stage_batches(subject, 16, 0.2))) == 64
    assert sum(map(len, stage_batches(subject, 16, 5.0))) == 120


def test_one_image_is_decoded_until_the_time_is_over(tmp_path: Path) -> None:
    subject = subject_of(make_tree(tmp_path / "images", 1))
    found = decode_ceiling(subject, [np.array([0])], 0.1)
    assert found is not None
    decoded = re.search(r"(\d[\d,]*) decoded$", found.how)
    assert decoded is not None
    assert int(decoded[1].replace(",", "")) > 20


def test_what_came_before_the_phases_is_taken_from_them() -> None:
    budget = Budget(10.0, ["reads"], lambda: 104.0, begun=100.0)
    assert budget.elapsed == 4.0
    assert budget.begin("reads") == pytest.approx(6.0)


def test_a_record_tells_when_its_run_began(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(["2026-01-01T10:00:00+00:00"])
    monkeypatch.setattr(run_module, "utc_now", lambda: next(times))
    saved = tmp_path / "record.json"
    options = quick(no_loader=True)
    report = bench([named(write_raw(tmp_path / "a.raw", 16))], options, save=saved)
    assert report.started == "2026-01-01T10:00:00+00:00"
    assert record_of(report).started == report.started == load_record(saved).started
