"""What work takes, against known truth: load of a known size, and counters that are made up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import pytest

from fastdata_cli.timing import resources
from fastdata_cli.timing.disks import DiskCounters
from fastdata_cli.timing.environment import usable_cores
from fastdata_cli.timing.gpus import GpuReading
from fastdata_cli.timing.machine import MachineCounters, machine_counters
from fastdata_cli.timing.mounts import Mount
from fastdata_cli.timing.process_tree import TreeCounters, TreeMemory
from fastdata_cli.timing.resource_use import DeepLook, Look, Resources, resources_of
from fastdata_cli.timing.resources import ResourceWatch

MIB = 1 << 20


def spin(cpu_s: float, *, extra_bytes: int = 0) -> list[str]:
    """Return a command that takes so much processor time, and holds so much memory."""
    script = f"import time; held = b'x' * {extra_bytes}\nwhile time.process_time() < {cpu_s}: pass"
    return [sys.executable, "-S", "-c", script]


@pytest.mark.timed
def test_processor_time_of_workers_that_are_gone_is_counted() -> None:
    with ResourceWatch() as watch:
        for _ in range(3):
            subprocess.run(spin(0.3), check=True)
    found = watch.resources
    taken = found.cpu_mean * found.seconds * usable_cores()
    assert taken == pytest.approx(0.9, abs=0.25)
    assert found.cpu_mean <= found.cpu_peak <= 1.3
    assert found.processes_peak >= 2
    assert found.looks >= 2


def test_memory_of_workers() -> None:
    with ResourceWatch() as watch:
        subprocess.run(spin(1.5, extra_bytes=64 * MIB), check=True)
    memory = watch.resources.memory
    assert memory.workers_peak == pytest.approx(64 * MIB, rel=0.25)
    assert memory.peak > memory.mean > 0
    assert memory.peak >= memory.workers_peak
    assert 0 <= memory.mapped_at_peak < memory.peak


def test_reads_from_the_cache_and_from_storage(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(os.urandom(8 * MIB))
    with ResourceWatch([tmp_path]) as warm:
        path.read_bytes()
    assert warm.resources.read_bytes == pytest.approx(8 * MIB, rel=0.05)
    if warm.resources.device_read_bytes is None or not warm.resources.disks:
        pytest.skip("this machine does not tell what its processes read from storage")
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    with ResourceWatch([tmp_path]) as cold:
        path.read_bytes()
    assert cold.resources.device_read_bytes is not None
    assert cold.resources.device_read_bytes >= 8 * MIB
    (disk,) = cold.resources.disks
    assert disk.read_bytes >= 8 * MIB
    assert disk.reads > 0
    assert warm.resources.device_read_bytes < MIB


def test_a_busy_wait_switches_and_a_sleep_waits() -> None:
    with ResourceWatch() as watch:
        for _ in range(200):
            time.sleep(0.0005)
    assert watch.resources.voluntary_switches >= 200


@pytest.mark.timed
def test_watching_is_cheap() -> None:
    taken = []
    for _ in range(2):  # a crowded machine makes the same look dearer now and then
        with ResourceWatch([Path.cwd()]) as watch:
            time.sleep(2)
        taken.append(watch.resources.watch_cpu)
    assert min(taken) < 0.01


def test_the_watch_ends_with_an_exception_and_leaves_no_thread() -> None:
    watch = ResourceWatch()
    with pytest.raises(KeyError), watch:
        raise KeyError("in the block")
    assert watch.resources.seconds > 0
    assert "fastdata-watch" not in [thread.name for thread in threading.enumerate()]


def test_there_is_no_result_before_the_end() -> None:
    with ResourceWatch() as watch, pytest.raises(RuntimeError, match="not ended"):
        assert watch.resources


def test_it_is_json(tmp_path: Path) -> None:
    with ResourceWatch([tmp_path]) as watch:
        pass
    json.dumps(asdict(watch.resources), allow_nan=False)


def test_what_cannot_be_watched_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr(resources, "mount_of", lambda path: Mount("/mnt", "nfs4", "server:/"))
    monkeypatch.setattr(resources, "machine_counters", lambda: None)
    with ResourceWatch([Path("/mnt/a"), Path("/mnt/b")]) as watch:
        pass
    found = watch.resources
    assert (found.iowait_mean, found.machine_busy_mean, found.swapped_in_bytes) == (
        None,
        None,
        None,
    )
    assert not found.disks
    assert not found.gpus
    assert "/mnt (nfs4) lies on no disk that could be watched" in found.unavailable
    assert sum("swap" in line for line in found.unavailable) == 1
    assert sum("GPU" in line for line in found.unavailable) == 1


def look(when: float, **counters: float) -> Look:
    """Return a look at a machine of four cores, ``when`` seconds after its start."""
    numbers: Mapping[str, float] = counters
    return Look(
        when=when,
        tree=TreeCounters(
            processes=int(numbers.get("processes", 1)),
            cpu_s=numbers.get("cpu_s", 0),
            device_read_bytes=int(numbers.get("read", 0)),
            read_bytes=int(numbers.get("read", 0)),
        ),
        machine=MachineCounters(
            total_s=when * 4,
            busy_s=when,
            iowait_s=numbers.get("iowait_s", 0),
            steal_s=when * 0.2,
            swapped_in_bytes=0,
            swapped_out_bytes=int(numbers.get("swapped", 0)),
        ),
        disks={
            "sda": DiskCounters(
                reads=int(numbers.get("reads", 0)),
                read_bytes=0,
                busy_s=numbers.get("busy_s", 0),
                queued_s=numbers.get("queued_s", 0),
            )
        },
        gpus=[GpuReading(numbers.get("load"), 5)],
    )


def deep(total: int, switches: int, kind: str = "pss") -> DeepLook:
    memory = TreeMemory(kind=kind, total=total, workers=total // 2, mapped=total // 4)
    return DeepLook(memory=memory, switches=(switches, 2 * switches))


def worked_out(*looks: Look, deep_looks: tuple[DeepLook, ...] = (deep(8, 0),)) -> Resources:
    return resources_of(
        looks, deep_looks, cores=2, gpu_names=["H200"], watch_s=0.01, unavailable=["x"]
    )


def test_means_and_peaks_of_known_counters() -> None:
    found = worked_out(
        look(10, load=0.5),
        look(11, cpu_s=2, iowait_s=1, busy_s=1, queued_s=8, processes=9, load=1.0, reads=5),
        look(12, cpu_s=2, iowait_s=1, busy_s=1, queued_s=8, swapped=4096, read=7, reads=9),
        deep_looks=(deep(8, 1), deep(80, 5), deep(16, 7)),
    )
    assert (found.cpu_mean, found.cpu_peak) == (0.5, 1.0)
    assert (found.iowait_mean, found.iowait_peak) == (0.125, 0.25)
    assert found.machine_busy_mean == 0.25
    assert found.steal_mean == pytest.approx(0.05)
    assert (found.seconds, found.looks, found.processes_peak) == (2, 3, 9)
    assert (found.swapped_in_bytes, found.swapped_out_bytes) == (0, 4096)
    assert (found.device_read_bytes, found.read_bytes) == (7, 7)
    assert (found.voluntary_switches, found.involuntary_switches) == (6, 12)
    assert found.watch_cpu == 0.005
    assert found.unavailable == ("x",)
    assert asdict(found.memory) == {
        "kind": "pss", "peak": 80, "mean": 34, "workers_peak": 40, "mapped_at_peak": 20,
    }  # fmt: skip
    (disk,) = found.disks
    assert (disk.utilisation_mean, disk.utilisation_peak) == (0.5, 1)
    assert (disk.queue_mean, disk.queue_peak) == (4, 8)
    assert (disk.device, disk.reads) == ("sda", 9)
    (gpu,) = found.gpus
    assert (gpu.utilisation_mean, gpu.utilisation_peak) == (0.75, 1)
    assert gpu.memory_peak_bytes == 5


def test_windows_too_short_for_the_kernels_ticks_have_no_peak() -> None:
    found = worked_out(look(0), look(1, cpu_s=1), look(1.001, cpu_s=1.01))
    assert found.cpu_peak == pytest.approx(found.cpu_mean, rel=0.02)


def test_a_counter_that_goes_back_is_not_negative() -> None:
    found = worked_out(look(0, cpu_s=5, read=10), look(1, cpu_s=6, read=20), look(2))
    assert (found.cpu_mean, found.cpu_peak) == (0, 0.5)
    assert found.read_bytes == 10


def test_a_disk_is_never_busier_than_always() -> None:
    (disk,) = worked_out(look(0), look(1, busy_s=1.2)).disks
    assert (disk.utilisation_mean, disk.utilisation_peak) == (1, 1)


def test_one_reading_without_sharing_makes_the_whole_rss() -> None:
    assert (
        worked_out(look(0), look(1), deep_looks=(deep(1, 0), deep(1, 0, "rss"))).memory.kind
        == "rss"
    )


def test_machine_counters(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("cpu  100 10 50 800 30 5 5 200 9 9\ncpu0 1 1\n")
    (tmp_path / "vmstat").write_text("nr_free_pages 5\npswpin 3\npswpout 2\n")
    ticks = os.sysconf("SC_CLK_TCK")
    found = machine_counters(proc=tmp_path)
    assert found is not None
    assert found.total_s * ticks == 1200
    assert found.busy_s * ticks == 170
    assert (found.iowait_s * ticks, found.steal_s * ticks) == (30, 200)
    assert found.swapped_in_bytes == 3 * os.sysconf("SC_PAGE_SIZE")
    assert machine_counters(proc=tmp_path / "none") is None
    (tmp_path / "stat").write_text("cpu  1 2\n")
    assert machine_counters(proc=tmp_path) is None
