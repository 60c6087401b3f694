"""How many cores a process may use: what workers are counted by."""

from __future__ import annotations

import os
import subprocess
import sys

from fastdata_cli.timing.environment import usable_cores


def test_they_are_those_of_this_process() -> None:
    assert 1 <= usable_cores() <= len(os.sched_getaffinity(0))


def test_they_respect_the_affinity() -> None:
    script = (
        "import os\n"
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "from fastdata_cli.timing.environment import usable_cores\n"
        "print(usable_cores())"
    )
    words = [sys.executable, "-c", script]
    said = subprocess.run(words, capture_output=True, text=True, check=True)
    assert said.stdout == "1\n"
