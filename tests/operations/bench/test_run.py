"""The operation as a whole: its report, its record, and all that may be missing or go wrong."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from fastdata_cli import registry
from fastdata_cli.errors import DamagedDatasetError, NothingUsableError, UsageError
from fastdata_cli.operations.bench.budget import Budget, phases
from fastdata_cli.operations.bench.constant import ConstantReader
from fastdata_cli.operations.bench.report import STAGES
from fastdata_cli.operations.bench.run import bench, record_of
from fastdata_cli.operations.events import Silent
from fastdata_cli.timing.device import DeviceResult, FioJob, Latency
from fastdata_cli.timing.record import load_record
from tests.conftest import make_tree
from tests.loading.datasets import write
from tests.operations.bench.readers import (
    SHAPE,
    Notices,
    PartlyBadReader,
    named,
    quick,
    write_raw,
)


@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """No number of these tests has to be believed."""
    monkeypatch.setattr("fastdata_cli.operations.bench.reads.MIN_REPEAT_S", 0.02)
    monkeypatch.setattr("fastdata_cli.operations.bench.loaders.MIN_REPEAT_S", 0.02)
    monkeypatch.setattr("fastdata_cli.operations.bench.loaders.SHORTEST_RUN_S", 0.05)
    monkeypatch.setattr("fastdata_cli.operations.bench.budget._LEAST_S", 0.1)


def device(files: Iterable[Path], jobs: Sequence[FioJob]) -> Iterator[DeviceResult]:
    """Every job reads 100 MB/s."""
    for job in jobs:
        yield DeviceResult(
            name=job.name,
            rw=job.rw,
            block_bytes=job.block_bytes,
            depth=job.depth,
            direct=True,
            engine=job.engine,
            bandwidth=100e6,
            iops=1000.0,
            latency=Latency(),
            seconds=job.runtime_s,
            tool="made",
            file_count=1,
            scratch=False,
        )


def test_two_datasets_side_by_side_with_everything(tmp_path: Path, mixed_tree: Path) -> None:
    raw, said = write_raw(tmp_path / "a.raw"), Notices()
    saved = tmp_path / "record.json"
    options = quick(seconds=1.5, no_device=False, step_ms=2.0, size="32", workers="0,1")
    report = bench(
        [named(mixed_tree), named(raw)], options, listener=said, save=saved, device=device
    )
    names = {str(mixed_tree), str(raw)}
    assert {facts.path for facts in report.datasets} == set(report.device) == names
    assert len(report.reads) == 12
    assert {row.dataset for row in report.loaders} == names
    assert len(report.loaders) == 4
    assert {(row.dataset, row.workers) for row in report.consumers} == {
        (name, count) for name in names for count in (0, 1)
    }
    stages = {row.stage: row for row in report.stages if row.dataset == str(mixed_tree)}
    # Pixels of another size are brought into the batch by the resize itself.
    assert list(stages) == [name for name in STAGES if name not in ("decompress", "collate")]
    assert sum(row.share for row in stages.values()) == pytest.approx(1.0)
    ceilings = {(each.dataset, each.name) for each in report.ceilings}
    assert (str(mixed_tree), "decode on all cores") in ceilings
    assert (str(raw), "decode on all cores") not in ceilings
    assert {(name, "device") for name in names} <= ceilings
    assert {(name, "free input") for name in names} <= ceilings
    assert {verdict.dataset for verdict in report.verdicts} == names
    assert all(verdict.sentence and verdict.action for verdict in report.verdicts)
    assert report.host_to_device
    assert said.lines == []
    record = load_record(saved)
    assert record.finished
    assert [case.name for case in record.cases] == [c.name for c in record_of(report).cases]
    assert {row["dataset"] for row in record.facts["stages"]} == names


def test_images_of_mixed_sizes_get_a_common_one_with_a_notice(mixed_tree: Path) -> None:
    said = Notices()
    report = bench([named(mixed_tree)], quick(), listener=said)
    assert report.loaders[0].each_once
    assert len(said.lines) == 1
    assert "224x224" in said.lines[0]
    assert "--size" in said.lines[0]


def test_compressed_pixels_have_a_decompress_stage(tmp_path: Path) -> None:
    report = bench([named(write(tmp_path, "zarr"))], quick(no_loader=True))
    assert [row.stage for row in report.stages] == ["read", "decompress"], "nobody hands over"
    assert not report.loaders
    assert "left out by --no-loader" in report.host_to_device


def test_one_sample(tmp_path: Path) -> None:
    report = bench([named(write_raw(tmp_path / "a.raw", 1))], quick())
    assert all(row.samples_per_s for row in report.reads)
    assert report.loaders[0].samples_per_s
    assert report.loaders[0].each_once


def test_no_samples_is_an_error_in_words_and_no_matter_beside_others(tmp_path: Path) -> None:
    empty = ("empty", ConstantReader(0, SHAPE), "made")
    with pytest.raises(NothingUsableError, match="no samples here"):
        bench([empty], quick())
    report = bench([empty, named(write_raw(tmp_path / "a.raw"))], quick(no_loader=True))
    assert len(report.datasets) == 1
    about = [note for note in report.notes if "no samples here" in note]
    assert about == ["empty was not measured: no samples here, so there is nothing to measure"]


def test_a_dataset_that_vanishes_is_named_once_and_the_others_go_on(tmp_path: Path) -> None:
    gone, stays = write_raw(tmp_path / "gone.raw"), write_raw(tmp_path / "stays.raw")

    def remove(files: Iterable[Path], jobs: Sequence[FioJob]) -> Iterator[DeviceResult]:
        shutil.rmtree(gone, ignore_errors=True)
        return device(files, jobs)

    readers = [named(gone), named(stays)]
    report = bench(readers, quick(no_device=False), device=remove)
    about = [note for note in report.notes if "vanished while it was measured" in note]
    assert len(about) == 1
    assert {row.dataset for row in report.loaders} == {str(stays)}
    assert {verdict.dataset for verdict in report.verdicts} == {str(stays)}
    assert all(row.samples_per_s for row in report.reads if row.dataset == str(stays))


def test_the_only_dataset_vanishes_in_one_error(tmp_path: Path) -> None:
    path = write_raw(tmp_path / "gone.raw")

    class Removing(Silent):
        def progress(self, done: int, total: int | None) -> None:
            shutil.rmtree(path, ignore_errors=True)

    with pytest.raises(DamagedDatasetError, match="vanished while it was measured"):
        bench([named(path)], quick(), listener=Removing())


def test_a_change_before_the_first_phase_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_raw(tmp_path / "cut.raw")

    def import_torch() -> str:
        os.truncate(path / "data.raw", 5000)  # what somebody does meanwhile
        return ""

    monkeypatch.setattr("fastdata_cli.operations.bench.run.missing_loader", import_torch)
    with pytest.raises(DamagedDatasetError, match=r"data\.raw changed while it was measured"):
        bench([named(path)], quick())


def test_bad_samples_are_counted_and_named_in_a_note(tree: Path) -> None:
    victim = tree / "class0" / "0003.jpg"
    victim.write_bytes(victim.read_bytes()[:200])
    report = bench([named(tree)], quick(size="32"))
    (note,) = [note for note in report.notes if "bad sample" in note]
    assert "1 bad sample" in note
    assert "class0/0003.jpg: truncated" in note
    assert report.loaders[0].each_once
    assert report.loaders[0].same_bytes


def test_bad_samples_of_a_reader_are_survived_by_all_phases() -> None:
    report = bench([("made", PartlyBadReader(40, SHAPE), "made")], quick())
    assert any("2 bad samples" in note for note in report.notes)
    assert report.loaders[0].each_once


def test_without_torch_there_are_no_loader_rows_and_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in [name for name in sys.modules if name.startswith("fastdata_cli.loading.dataset")]:
        monkeypatch.delitem(sys.modules, name)
    report = bench([named(write_raw(tmp_path / "a.raw"))], quick())
    assert not report.loaders
    assert any("FastDataset needs torch; pip install torch" in note for note in report.notes)
    assert report.verdicts


def test_without_fio_the_fallback_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    path = write_raw(tmp_path / "a.raw", 3000)
    report = bench([named(path)], quick(no_device=False, no_loader=True))
    assert {result.tool for result in report.device[str(path)]} == {"python fallback"}
    assert any("install fio" in note for note in report.notes)


def test_a_read_only_dataset_is_measured(tmp_path: Path) -> None:
    path = write_raw(tmp_path / "a.raw")
    for each in (*path.iterdir(), path):
        each.chmod(0o555 if each.is_dir() else 0o444)
    before = sorted(path.iterdir())
    report = bench([named(path)], quick())
    assert report.loaders[0].same_bytes
    assert sorted(path.iterdir()) == before


def test_an_interruption_leaves_a_whole_record_of_what_was_measured(tmp_path: Path) -> None:
    class Interrupting(Silent):
        calls = 0

        def progress(self, done: int, total: int | None) -> None:
            self.calls += 1
            if self.calls == 5:
                raise KeyboardInterrupt

    path, saved = write_raw(tmp_path / "a.raw"), tmp_path / "record.json"
    with pytest.raises(KeyboardInterrupt):
        bench([named(path)], quick(), listener=Interrupting(), save=saved)
    record = load_record(saved)
    assert not record.finished
    assert record.cases


def test_what_cannot_be_meant_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    path = write_raw(tmp_path / "a.raw", 2)
    with pytest.raises(UsageError, match="no dataset"):
        bench([], quick())
    with pytest.raises(UsageError, match="twice"):
        bench([named(path), named(path)], quick())
    with pytest.raises(UsageError, match="--workers"):
        bench([named(path)], quick(workers="many"))
    with pytest.raises(UsageError, match="--size"):
        bench([named(path)], quick(size="big"))


def test_advise_gives_what_can_be_pasted(tmp_path: Path) -> None:
    path = write_raw(tmp_path / "a.raw")
    report = bench([named(path)], quick(advise=True, seconds=2.0))
    assert report.steps[0].setting == "FastLoader"
    assert {step.dataset for step in report.steps} == {str(path)}
    scope: dict[str, Any] = {}
    exec(report.to_paste, scope)
    assert sum(len(images) for images, _ in scope["loader"]) == 200
    facts = json.loads(record_of(report).to_json())["facts"]
    assert facts["to_paste"] == report.to_paste
    assert len(facts["steps"]) == len(report.steps)
    assert [row["loader"] for row in facts["fast_loaders"]] == ["FastLoader"]


def test_the_budget_is_shared_and_what_is_left_goes_on() -> None:
    now = [0.0]
    names = phases(quick(no_device=False, step_ms=1.0), loader=True)
    assert names == ["device", "reads", "stages", "loader", "consumer"]
    budget = Budget(100.0, names, lambda: now[0])
    assert budget.begin("device") == pytest.approx(15.0)
    now[0] = 32.0  # it took longer: all others have less
    assert budget.begin("reads") == pytest.approx(20.0)
    now[0] = 32.0  # and this one nothing
    assert budget.begin("stages") == pytest.approx(68 * 15 / 60)
    now[0] = 100.5  # there is always a little
    assert budget.begin("loader") == pytest.approx(0.1)


def test_a_format_without_random_access_is_read_in_order_only(tmp_path: Path) -> None:
    class Ordered(ConstantReader):
        capabilities = registry.get("tree").capabilities & ~registry.get("tree").capabilities

    report = bench([("made", Ordered(50, SHAPE), "made")], quick())
    assert {row.order for row in report.reads} == {"sequential"}
    assert report.loaders[0].order == "sequential"
    assert any("stored order only" in note for note in report.notes)


def test_a_large_tree_of_one_size_is_not_resized(tmp_path: Path) -> None:
    report = bench([named(make_tree(tmp_path / "images", 30))], quick())
    assert "resize" not in {row.stage for row in report.stages}
