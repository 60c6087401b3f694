"""FastLoader among the loaders: measured, checked, and told beside the DataLoader."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from fastdata_cli.operations.bench.constant import ConstantReader
from fastdata_cli.operations.bench.loaders import measure_loaders
from fastdata_cli.operations.bench.run import bench
from fastdata_cli.operations.bench.threads import FastLoaderCase
from tests.conftest import make_tree
from tests.operations.bench.readers import (
    SHAPE,
    PartlyBadReader,
    named,
    quick,
    subject_of,
    subject_over,
    write_raw,
)


@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastdata_cli.operations.bench.loaders.MIN_REPEAT_S", 0.02)
    monkeypatch.setattr("fastdata_cli.operations.bench.loaders.SHORTEST_RUN_S", 0.05)


def test_it_is_measured_beside_the_dataloader(tmp_path: Path) -> None:
    subjects = [subject_of(write_raw(tmp_path / f"{name}.raw", 48)) for name in "ab"]
    told = []
    rows = [
        loaded.row
        for loaded in measure_loaders(
            subjects, quick(), 1.0, lambda each: told.append(each.name), beside=FastLoaderCase
        )
    ]
    assert [row.dataset for row in rows] == [subject.name for subject in subjects] * 2
    for row in rows[2:]:
        assert row.samples_per_s
        assert row.each_once is True
        assert row.same_bytes is True
        assert row.line == f"FastLoader({row.dataset!r}, 16, order='block')"
        assert row.measurement.name in told
    assert not [each for each in threading.enumerate() if each.name.startswith("fastdata-")]


def test_bad_samples_are_left_out() -> None:
    subject = subject_over(PartlyBadReader(40, SHAPE))
    *_, fast = measure_loaders([subject], quick(), 1.0, lambda each: None, beside=FastLoaderCase)
    assert fast.row.measurement.failure is None
    assert fast.row.each_once is True


def test_without_bad_samples_every_sample_counts() -> None:
    subject = subject_over(ConstantReader(40, SHAPE))
    *_, fast = measure_loaders([subject], quick(), 1.0, lambda each: None, beside=FastLoaderCase)
    assert fast.row.each_once is True


def test_the_report_has_a_row_for_each_dataset(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "images", 24)
    report = bench([named(tree)], quick(seconds=2.0))
    (row,) = report.fast_loaders
    assert (row.dataset, row.workers) == (str(tree), 0)
    assert row.samples_per_s
    assert "size=(40, 48)" in row.line
    assert {each.workers for each in report.loaders} == {0}
