"""The streams of the process: results must arrive, talk need not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fastdata_cli import open_reader

FULL = "/dev/full"
pytestmark = pytest.mark.skipif(not Path(FULL).exists(), reason="a device of Linux")

NO_SPACE, CLOSED = (f">{FULL}", "No space left on device"), (">&-", "it is closed")
LOST = [
    ("inspect {tree}", *NO_SPACE),
    ("inspect {tree} --json", *CLOSED),
    ("clean {tree}", *CLOSED),
    ("clean {tree} --jsonl --fail-on-found --min-side 1000", *NO_SPACE),
    ("formats --json", *NO_SPACE),
    ("clean --help", *NO_SPACE),
]


def through_shell(line: str, ending: str) -> subprocess.CompletedProcess[str]:
    command = f"{sys.executable} -m fastdata_cli {line} {ending}"
    return subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("line", "ending", "why"), LOST)
def test_results_that_did_not_arrive_are_a_failure(
    tree: Path, line: str, ending: str, why: str
) -> None:
    done = through_shell(line.format(tree=tree), ending)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last == f"error: standard output cannot be written: {why}"
    assert done.stderr.count("error: ") == 1


@pytest.mark.parametrize("ending", [f"2>{FULL}", "2>&-", ">&- 2>&- <&-"])
def test_talk_that_did_not_arrive_fails_nothing(tree: Path, tmp_path: Path, ending: str) -> None:
    out = tmp_path / "out.raw"
    done = through_shell(f"convert {tree} {out}", ending)
    assert done.returncode == 0
    assert [len(open_reader(out)), list(open_reader(out).verify())] == [20, []]


def test_names_arrive_where_talk_does_not(tree: Path) -> None:
    done = through_shell(f"clean {tree}", f"2>{FULL}")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 20)


@pytest.mark.parametrize("line", ["inspect {tree}", "inspect {tree} --json", "clean {tree} -q"])
def test_a_reader_that_went_away_is_quiet(tree: Path, line: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "fastdata_cli", *line.format(tree=tree).split()]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")
