"""Plain reads, against known truth: a built-in delay, an emptied cache, a cache just filled."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from fastdata_cli.errors import DamagedDatasetError, NothingUsableError
from fastdata_cli.operations.bench.reads import measure_reads
from fastdata_cli.operations.bench.report import ReadRow
from fastdata_cli.operations.bench.settings import BenchOptions
from fastdata_cli.operations.bench.subject import Subject
from fastdata_cli.operations.bench.workloads import Requests, whole_blocks
from fastdata_cli.timing.mounts import mount_of
from tests.operations.bench.readers import (
    SHAPE,
    PartlyBadReader,
    SlowReader,
    quick,
    subject_of,
    subject_over,
    write_raw,
)


def read(subject: Subject, options: BenchOptions, seconds: float = 1.0) -> list[ReadRow]:
    return list(measure_reads([subject], options, seconds, lambda measurement: None))


@pytest.mark.timed
def test_a_delay_of_5_ms_is_measured_within_5_percent() -> None:
    reader = SlowReader(100, SHAPE)
    rows = read(subject_over(reader), quick(), 2.0)
    assert len(rows) == 6
    # A busy machine lets the reader itself wait: what it saw is the truth then.
    truth = 1000 * float(np.median(reader.took_s))
    assert np.median([row.latency_ms["p50"] for row in rows]) == pytest.approx(truth, rel=0.05)
    assert min(row.latency_ms["p0"] for row in rows) == pytest.approx(5.0, rel=0.05)
    for row in rows:
        size = 1 if row.by == "sample" else 16
        assert row.requests_per_s is not None
        assert row.requests_per_s <= 201
        assert row.samples_per_s is not None
        assert row.samples_per_s <= 201 * size


def test_an_evicted_dataset_is_cold_and_one_just_read_is_warm(tmp_path: Path) -> None:
    if mount_of(tmp_path).in_memory:
        pytest.skip("files in memory cannot be evicted")
    subject = subject_of(write_raw(tmp_path / "a.raw"))
    for row in read(subject, quick(cache="cold")):
        assert row.cache.before == "cold", row.cache
        assert row.device_bytes
        # All of it came from the device; what the system reads ahead besides is its own affair.
        assert row.amplification is not None
        assert row.amplification >= 0.8
    for row in read(subject, quick(cache="warm")):
        assert (row.cache.before, row.cache.after) == ("warm", "warm")
        assert row.amplification is None


def test_fincore_agrees_about_the_cache(tmp_path: Path) -> None:
    from fastdata_cli.timing.cache import evict, touch

    subject = subject_of(write_raw(tmp_path / "a.raw"))
    data = tmp_path / "a.raw" / "data.raw"

    def by_fincore() -> int:
        try:
            done = subprocess.run(
                ["fincore", "-b", "-n", "-o", "RES", data], capture_output=True, check=True
            )
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("no fincore here")
        return int(done.stdout)

    touch(subject.files)
    assert by_fincore() >= data.stat().st_size
    subject.reader.close()
    evict(subject.files)
    assert by_fincore() == 0


def test_threads_share_the_requests(tmp_path: Path) -> None:
    rows = read(subject_of(write_raw(tmp_path / "a.raw")), quick(threads="1,2"), 0.2)
    assert {row.threads for row in rows} == {1, 2}
    assert all(row.samples_per_s for row in rows)


def test_bad_samples_are_counted_and_left_out() -> None:
    subject = subject_over(PartlyBadReader(40, SHAPE))
    assert all(row.measurement.failure is None for row in read(subject, quick()))
    assert sorted(subject.bad) == [3, 11]
    requests = Requests(subject, "sequential", 16)
    request = requests.take()
    assert request is not None
    assert 3 not in request


def test_a_dataset_that_is_mostly_bad_is_an_error() -> None:
    class Bad(PartlyBadReader):
        bad = frozenset(range(30))

    with pytest.raises(NothingUsableError, match="of 40 samples cannot be read"):
        subject_over(Bad(40, SHAPE))


def test_a_file_that_changes_ends_the_case_in_words(tmp_path: Path) -> None:
    subject = subject_of(write_raw(tmp_path / "a.raw"))
    data = tmp_path / "a.raw" / "data.raw"
    with data.open("r+b") as file:
        file.truncate(100)
    with pytest.raises(DamagedDatasetError, match=r"data\.raw changed while it was measured"):
        subject.check_unchanged()
    for row in read(subject, quick()):
        assert row.measurement.failure is not None
        assert row.samples_per_s is None


def test_chunks_are_charged_whole() -> None:
    class Chunked(SlowReader):
        def describe(self) -> dict[str, int]:
            return {"chunk": 50}

    positions = whole_blocks(subject_over(Chunked(500, SHAPE)), 60)
    assert len(positions) == 100
    assert {int(each) // 50 for each in positions[:50]} == {int(positions[0]) // 50}
