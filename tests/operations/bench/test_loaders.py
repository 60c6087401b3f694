"""The DataLoader's rows: what arrives is what a plain read gives, and it is noticed if not."""

from __future__ import annotations

import mmap
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from numpy.typing import NDArray

from fastdata_cli.errors import DamagedDatasetError
from fastdata_cli.operations.bench import consumer
from fastdata_cli.operations.bench.constant import ConstantReader
from fastdata_cli.operations.bench.consumer import measure_consumer
from fastdata_cli.operations.bench.loader_case import LoaderCase, loader_options
from fastdata_cli.operations.bench.loaders import measure_loaders
from fastdata_cli.operations.bench.stream import SkippingDataset, Stream, look_at
from fastdata_cli.operations.bench.subject import Subject
from fastdata_cli.sample import Batch
from tests.loading.datasets import KINDS, write
from tests.operations.bench.readers import (
    SHAPE,
    PartlyBadReader,
    SlowReader,
    quick,
    subject_of,
    subject_over,
    write_raw,
)


class Repeating(SkippingDataset):
    """Delivers the first sample of a batch in place of all."""

    def __getitems__(self, indices: Any) -> Sequence[tuple[Any, ...]]:
        return super().__getitems__(np.full(len(indices), indices[0]))


class Losing(SkippingDataset):
    """Never delivers sample 5."""

    def __getitems__(self, indices: Any) -> Sequence[tuple[Any, ...]]:
        return super().__getitems__(np.setdiff1d(np.asarray(indices), [5]))


class Altering(SkippingDataset):
    """Delivers other pixels than are stored."""

    def __getitems__(self, indices: Any) -> Sequence[tuple[Any, ...]]:
        batch: Any = super().__getitems__(indices)
        batch.images[0, 0] += 1
        return batch  # type: ignore[no-any-return]


def checked(subject: Subject, kind: type[SkippingDataset]) -> LoaderCase:
    case = LoaderCase(subject, loader_options(subject, quick(), 0), "as-is")
    case.dataset = kind(subject.reader, size=subject.size, with_index=True)
    case.check_s = 10.0
    case.prepare()
    case.stop()
    return case


@pytest.mark.parametrize("name", KINDS)
def test_every_sample_once_and_the_bytes_of_a_plain_read(tmp_path: Path, name: str) -> None:
    subject = subject_of(write(tmp_path, name))
    (loaded,) = measure_loaders([subject], quick(), 1.0, lambda measurement: None)
    row = loaded.row
    assert row.measurement.failure is None
    assert (row.each_once, row.same_bytes) == (True, True)
    assert row.samples_per_s
    assert row.first_batch_s
    assert row.line.startswith("DataLoader(")


def test_workers_are_watched_and_ended(tmp_path: Path) -> None:
    from fastdata_cli.timing.process_tree import ProcessTree

    before = set(ProcessTree().pids())
    subject = subject_of(write_raw(tmp_path / "a.raw"))
    (loaded,) = measure_loaders([subject], quick(workers="2"), 2.0, lambda measurement: None)
    assert (loaded.row.each_once, loaded.row.same_bytes) == (True, True)
    assert loaded.resources is not None
    assert loaded.resources.processes_peak >= 3
    assert loaded.row.memory_bytes
    assert loaded.row.cpu_share
    # Only what Python keeps for itself may be new: the tracker of shared memory.
    left = [psutil.Process(pid).cmdline() for pid in set(ProcessTree().pids()) - before]
    assert all("resource_tracker" in " ".join(words) for words in left)


@pytest.mark.parametrize("kind", [Repeating, Losing])
def test_a_loader_that_repeats_or_loses_samples_is_noticed(
    tmp_path: Path, kind: type[SkippingDataset]
) -> None:
    case = checked(subject_of(write_raw(tmp_path / "a.raw", 64)), kind)
    assert case.row().each_once is False


def test_a_loader_that_alters_pixels_is_noticed(tmp_path: Path) -> None:
    row = checked(subject_of(write_raw(tmp_path / "a.raw", 64)), Altering).row()
    assert row.each_once is True
    assert row.same_bytes is False


class Eager(Stream):
    """Counts what is taken; four batches may lie ready."""

    taken = 0
    ahead = 4

    def take(self) -> Sequence[Any] | None:
        self.taken += 1
        return super().take()


@pytest.mark.parametrize(("check_s", "looked_at"), [(0.0, 0), (10.0, 4), (1e-9, 1)])
def test_the_time_begins_when_nothing_lies_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check_s: float, looked_at: int
) -> None:
    subject = subject_of(write_raw(tmp_path / "a.raw", 64))
    case = LoaderCase(subject, loader_options(subject, quick(), 0), "as-is")
    streams = []

    def stream() -> Stream:
        streams.append(Eager(case.dataset, case._options))
        return streams[-1]

    monkeypatch.setattr(case, "_stream_of", stream)
    case.check_s = check_s
    case.prepare()
    case.stop()
    assert [each.taken for each in streams] == [looked_at + 4 + 1]


@pytest.mark.parametrize(("cache", "repeats"), [("as-is", 3), ("cold", 1)])
def test_where_time_is_short_one_round_has_several_repeats(
    tmp_path: Path, cache: str, repeats: int
) -> None:
    subject = subject_of(write_raw(tmp_path / "a.raw", 64))
    options = quick(repeats=3, cache=cache)
    (loaded,) = measure_loaders([subject], options, 0.1, lambda measurement: None)
    assert len(loaded.row.measurement.repeats) == repeats


def test_an_epoch_that_was_not_seen_to_its_end_proves_nothing(tmp_path: Path) -> None:
    subject = subject_of(write_raw(tmp_path / "a.raw"))
    case = LoaderCase(subject, loader_options(subject, quick(), 0), "as-is")
    case.check_s = 1e-9
    case.prepare()
    case.stop()
    assert case.row().each_once is None
    assert case.row().same_bytes is True


def test_bad_samples_are_left_out_of_batches() -> None:
    subject = subject_over(PartlyBadReader(40, SHAPE))
    (loaded,) = measure_loaders([subject], quick(), 1.0, lambda measurement: None)
    assert loaded.row.each_once is True
    assert sorted(subject.bad) == [3, 11]


@pytest.mark.timed
def test_the_rate_is_that_of_the_reader() -> None:
    reader = SlowReader(100, SHAPE)
    (loaded,) = measure_loaders([subject_over(reader)], quick(), 1.0, lambda measurement: None)
    latency = loaded.row.measurement.latency_s["p50"]
    assert latency == pytest.approx(np.median(reader.took_s), rel=0.2)  # a batch is made around it


def test_a_cold_epoch_ends_with_its_data(tmp_path: Path) -> None:
    subject = subject_of(write_raw(tmp_path / "a.raw"))
    options = quick(cache="cold")
    (loaded,) = measure_loaders([subject], options, 1.0, lambda measurement: None)
    runs = loaded.row.measurement.repeats
    assert all(repeat.samples == (200 - 16) * repeat.runs for repeat in runs)
    assert loaded.row.each_once is True


def test_a_dataset_that_vanishes_under_the_workers_is_an_error_in_words(tree: Path) -> None:
    subject = subject_of(tree)
    case = LoaderCase(subject, loader_options(subject, quick(), 0), "as-is")
    case.check_s = 10.0
    case.prepare()
    shutil.rmtree(tree)
    with pytest.raises(DamagedDatasetError, match="vanished while it was measured"):
        case.run()
    case.stop()
    assert case.row().measurement.failure is not None


def test_a_stream_goes_on_over_epochs_and_each_is_whole(tmp_path: Path) -> None:
    subject = subject_of(write_raw(tmp_path / "a.raw", 50))
    dataset = SkippingDataset(subject.reader, with_index=True)
    stream = Stream(dataset, loader_options(subject, quick(), 0), epochs=2)
    stream.start()
    sizes = []
    while (batch := stream.take()) is not None:
        sizes.append(len(batch[-1]))
    assert sizes == [16, 16, 16, 2] * 2


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_a_byte_of_each_page_is_looked_at(dtype: type[np.generic]) -> None:
    memory = np.full(mmap.PAGESIZE * 3 // np.dtype(dtype).itemsize, 1, dtype)
    looked: list[int] = []

    class Seen(np.ndarray[Any, Any]):
        def max(self, *args: Any, **kwargs: Any) -> Any:
            looked.append(len(self))
            return super().max(*args, **kwargs)

    class Images:
        def numpy(self) -> Any:
            return memory.reshape(1, 1, -1, 1).view(Seen)

    look_at((Images(), Images()))
    assert looked == [3]


class Clock:
    """Time that only sleeping and reading move."""

    now = 0.0

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize(("step_ms", "busy"), [(5.0, 0.5), (15.0, 0.75), (95.0, 0.95)])
def test_a_consumer_computes_for_its_share_of_the_time(
    monkeypatch: pytest.MonkeyPatch, step_ms: float, busy: float
) -> None:
    clock = Clock()
    monkeypatch.setattr(consumer, "time", clock)

    class Ticking(ConstantReader):
        """Each batch takes 5 ms."""

        def read_many(
            self, indices: Sequence[int] | NDArray[np.int64], out: NDArray[Any] | None = None
        ) -> Batch:
            clock.now += 0.005
            return super().read_many(indices, out)

    subject = subject_over(Ticking(160, SHAPE))
    row = measure_consumer(subject, quick(step_ms=step_ms), 0, 0.5)
    assert row.utilisation == pytest.approx(busy)
    assert row.steps == pytest.approx(500 / (step_ms + 5), abs=1)


@pytest.mark.parametrize(
    ("samples", "workers", "left"),
    [(64, 0, 3), (64, 2, 2), (32, 2, 2), (16, 0, 1)],
    ids=["one", "two", "no more than a round", "one batch"],
)
def test_the_time_of_a_cold_epoch_begins_when_each_worker_had_its_turn(
    tmp_path: Path, samples: int, workers: int, left: int
) -> None:
    subject = subject_of(write_raw(tmp_path / "a.raw", samples))
    case = LoaderCase(subject, loader_options(subject, quick(), workers), "cold")
    case.run_s = 10.0
    case.prepare()
    assert case._stream is not None
    started = case._stream.first_batch_s is not None
    assert case.run().samples == 16 * left
    case.stop()
    assert started == (samples == 64), "where no more follow, they are all that can be timed"
