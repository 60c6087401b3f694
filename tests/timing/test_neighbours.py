"""What others took of the processors: worked out, and seen for real."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fastdata_cli.timing import neighbours
from fastdata_cli.timing.neighbours import Load, load_now, share_of_others

START = Load(when=10, taken_s=100, own_s=5)


@pytest.mark.parametrize(
    ("taken_s", "own_s", "allowed", "usable", "share"),
    [
        (4, 4, 4, 4, 0),  # all of it was ours
        (4, 2, 4, 4, 0.25),  # two seconds long, so one of four processors
        (8, 0, 4, 4, 0.95),  # all of them: nothing can be said
        (8, 4, 8, 2, 0),  # others had two, and six were not ours to use
        (16, 2, 8, 2, 0.5),  # others had seven
        (2, 4, 4, 4, 0),  # ticks of different counters
    ],
)
def test_shares(taken_s: float, own_s: float, allowed: int, usable: int, share: float) -> None:
    after = Load(when=12, taken_s=100 + taken_s, own_s=5 + own_s)
    assert share_of_others(START, after, allowed=allowed, usable=usable) == share


def test_no_time_has_no_share() -> None:
    assert share_of_others(START, START, allowed=1, usable=1) == 0


def test_only_allowed_processors_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stat = tmp_path / "stat"
    stat.write_text(
        "cpu  0 0 0 0 0 0 0 0 0 0\n"
        "cpu0 100 20 30 999 999 999 999 50 9 9\n"
        "cpu1 1 1 1 1 1 1 1 1 1 1\n"
        "cpu10 7 7 7 7 7 7 7 7 7 7\n"
        "intr 5\n"
    )
    monkeypatch.setattr(neighbours, "_STAT", stat)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    found = load_now()
    assert found is not None
    assert found.taken_s * os.sysconf("SC_CLK_TCK") == pytest.approx(204)


@pytest.mark.parametrize("text", ["", "cpu 1 2\n", "cpu0 1 2\n", "cpu0 a b c d e f g h\n"])
def test_what_cannot_be_read_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    (tmp_path / "stat").write_text(text)
    monkeypatch.setattr(neighbours, "_STAT", tmp_path / "stat")
    assert load_now() is None
    monkeypatch.setattr(neighbours, "_STAT", tmp_path / "none")
    assert load_now() is None


def test_work_of_children_is_ours() -> None:
    before = load_now()
    script = "import time\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-S", "-c", script], check=True)
    after = load_now()
    assert before is not None
    assert after is not None
    assert after.own_s - before.own_s >= 0.28
    assert after.taken_s - before.taken_s >= 0.28
