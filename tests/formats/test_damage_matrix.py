"""Every format, every kind of damage: an error that names it, findings, or the samples as written.

Each layout's cases run in a process of their own, which a crash may end and a hang may not keep.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fastdata_cli import registry
from tests.formats.damage.judge import Verdict, judge, rows
from tests.formats.damage.layouts import LAYOUTS

ROOT = Path(__file__).resolve().parents[2]
LEAST_CASES = 40
"""Of each layout; together they are some thousand."""

KINDS = {"missing", "empty", "cut", "flip", "zeros", "appended"}


@pytest.mark.parametrize("name", LAYOUTS)
def test_damage_is_never_silent(name: str) -> None:
    cases = verdicts(name)
    faults = [f"{each['name']}: {each['detail']}" for each in cases if each["outcome"] == "fault"]
    assert faults == []
    assert len(cases) >= LEAST_CASES
    assert {each["kind"] for each in cases} >= KINDS
    outcomes = {each["outcome"] for each in cases}
    assert "refused" in outcomes or "found" in outcomes, "nothing was ever noticed"
    assert ("unnoticed" in outcomes) <= (not LAYOUTS[name].has_checksums)


@pytest.mark.parametrize("name", ["raw, pixels", "lmdb, encoded"])
def test_the_judge_sees_what_nobody_says(name: str, tmp_path: Path) -> None:
    path = LAYOUTS[name].write(tmp_path / "set", 0)
    originals = rows(registry.open_reader(path))
    assert judge(path, originals) == Verdict("harmless")
    key, label, image, metadata = originals[3]
    for other in (("x", label, image, metadata), (key, label + 1, image, metadata)):
        wrong = judge(path, [*originals[:3], other, *originals[4:]])
        assert wrong.outcome == "fault"
        assert wrong.detail.startswith("silent: sample 3: ")
    assert judge(path, [*originals, originals[0]]).detail == "silent: 26 samples of 27"
    others = rows(registry.open_reader(LAYOUTS[name].write(tmp_path / "other", 1)))
    assert judge(path, others).detail == "silent: sample 0: image"


def verdicts(name: str) -> list[dict[str, Any]]:
    """Return what came of all cases of a layout."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.formats.damage", name],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=250,
        check=False,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    last = lines[-1]["name"] if lines else "the first"
    assert done.returncode == 0, (
        f"ended with {done.returncode} after {last}:\n{done.stderr[-3000:]}"
    )
    return lines
