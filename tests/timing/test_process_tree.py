"""A process tree: who belongs to it, what it sums up to, and processes that are gone or hidden."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fastdata_cli.timing.process_tree import ProcessTree

PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")


class FakeProc:
    """A /proc of made-up processes."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def add(
        self, pid: int, parent: int, *, ticks: int = 0, command: str = "python", **files: str
    ) -> None:
        folder = self.root / str(pid)
        folder.mkdir(exist_ok=True)
        times = f"{ticks} 0 0 {ticks} 0"
        (folder / "stat").write_text(f"{pid} ({command}) S {parent} 1 1 0 -1 0 0 0 0 0 {times} 20")
        for name, text in files.items():
            (folder / name).write_text(text)

    def tree(self, pid: int) -> ProcessTree:
        return ProcessTree(pid, proc=self.root)


@pytest.fixture
def proc(tmp_path: Path) -> FakeProc:
    (tmp_path / "meminfo").write_text("not a process")
    return FakeProc(tmp_path)


def test_descendants_come_after_their_parents(proc: FakeProc) -> None:
    proc.add(1, 0)
    proc.add(30, 1)
    proc.add(20, 30)
    proc.add(10, 20)
    proc.add(40, 1)
    assert proc.tree(30).pids() == [30, 20, 10]


def test_new_processes_are_found_and_gone_ones_forgotten(proc: FakeProc) -> None:
    proc.add(5, 1)
    tree = proc.tree(5)
    assert tree.pids() == [5]
    proc.add(6, 5)
    proc.add(7, 6)
    assert tree.pids() == [5, 6, 7]
    for name in ("6/stat", "6"):
        path = proc.root / name
        path.rmdir() if path.is_dir() else path.unlink()
    assert tree.pids() == [5], "a child whose parent died belongs to another"


def test_commands_with_any_name(proc: FakeProc) -> None:
    proc.add(5, 1)
    proc.add(6, 5, command="a) R 1 (b", ticks=7)
    assert proc.tree(5).pids() == [5, 6]
    assert proc.tree(5).counters().cpu_s == pytest.approx(14 / TICKS)


def test_counters_are_summed_with_what_children_left(proc: FakeProc) -> None:
    proc.add(5, 1, ticks=100, io="rchar: 10\nread_bytes: 4096\n")
    proc.add(6, 5, ticks=50, io="rchar: 5\nread_bytes: 0\n")
    found = proc.tree(5).counters()
    assert found.cpu_s == pytest.approx(300 / TICKS)
    assert (found.processes, found.device_read_bytes, found.read_bytes) == (2, 4096, 15)


def test_hidden_io_is_not_zero(proc: FakeProc) -> None:
    proc.add(5, 1)
    found = proc.tree(5).counters()
    assert (found.device_read_bytes, found.read_bytes) == (None, None)


def test_memory_in_proportional_shares(proc: FakeProc) -> None:
    proc.add(5, 1, smaps_rollup="0-1 ---p [rollup]\nRss: 900 kB\nPss: 100 kB\nPss_File: 30 kB\n")
    proc.add(6, 5, smaps_rollup="Rss: 800 kB\nPss: 50 kB\nPss_Anon: 50 kB\n")
    proc.add(7, 5, statm="0 0 0 0 0 0 0")
    found = proc.tree(5).memory()
    assert found.kind == "pss"
    assert (found.total, found.workers, found.mapped) == (150 << 10, 50 << 10, 30 << 10)


def test_memory_falls_back_to_resident_pages(proc: FakeProc) -> None:
    proc.add(5, 1, statm="1000 100 40 1 0 1 0")
    proc.add(6, 5, smaps_rollup="Pss: 4 kB\nPss_File: 0 kB\n")
    found = proc.tree(5).memory()
    assert found.kind == "rss"
    assert (found.total, found.mapped) == (100 * PAGE + 4096, 40 * PAGE)


def test_switches_are_those_of_all_threads(proc: FakeProc) -> None:
    proc.add(5, 1)
    for thread in ("5", "51"):
        folder = proc.root / "5/task" / thread
        folder.mkdir(parents=True)
        (folder / "status").write_text(
            "Name:\tpython\nvoluntary_ctxt_switches:\t3\nnonvoluntary_ctxt_switches:\t4\n"
        )
    assert proc.tree(5).switches() == (6, 8)


def test_nothing_of_a_process_that_is_gone(proc: FakeProc) -> None:
    tree = proc.tree(99)
    assert tree.counters().processes == 0
    assert tree.memory().total == 0
    assert tree.switches() == (0, 0)


def test_real_grandchildren_are_counted_while_they_live_and_after() -> None:
    tree = ProcessTree()
    before = tree.counters()
    inner = "import time\nwhile time.process_time() < 0.2: pass\ntime.sleep(0.4)"
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', {inner!r}])"
    running = subprocess.Popen([sys.executable, "-S", "-c", outer])
    deadline = time.monotonic() + 20
    while tree.counters().processes < before.processes + 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert running.wait(timeout=60) == 0
    after = tree.counters()
    assert after.processes == before.processes
    assert after.cpu_s - before.cpu_s >= 0.2
    voluntary, involuntary = tree.switches()
    assert voluntary > 0
    assert involuntary >= 0


def test_processes_that_come_and_go_do_not_disturb() -> None:
    tree, looks = ProcessTree(), 0
    script = "for i in $(seq 200); do /bin/true; done"
    running = subprocess.Popen(["/bin/sh", "-c", script])
    while running.poll() is None:
        assert tree.counters().processes >= 1
        assert tree.memory().total > 0
        tree.switches()
        looks += 1
    assert looks, "it was looked at while they came and went"
