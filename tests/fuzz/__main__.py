"""Fuzzes targets, each for so long, in processes of their own, and reports what they found.

    python -m tests.fuzz [TARGET ...] --work DIR --seconds N --jobs N

A finding is left as a file in DIR/TARGET/findings; this repeats it:

    python -m tests.fuzz.child TARGET DIR FILE
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.seeds import MAKERS

_DONE = re.compile(r"^(?:stat::number_of_executed_units:\s*|#)(\d+)", re.MULTILINE)
# A run is cut into processes of at most this long, so that what a library leaks does not add up.
_SEGMENT_SECONDS = 150
# Libraries that crash at once are not started again and again.
_MOST_CRASHES = 25


@dataclass(frozen=True)
class Outcome:
    """What fuzzing a target came to."""

    target: str
    seconds: float
    executions: int
    findings: tuple[str, ...]


def fuzz(target: str, work: Path, seconds: float) -> Outcome:
    """Fuzz one target, on after a crash, until the time is up."""
    started, executions, crashes = time.monotonic(), 0, 0
    findings = work / target / "findings"
    log = work / target / "log.txt"
    log.parent.mkdir(parents=True, exist_ok=True)
    while (left := seconds - (time.monotonic() - started)) >= 1 and crashes < _MOST_CRASHES:
        command = [sys.executable, "-m", "tests.fuzz.child", target, str(work)]
        command.append(f"-max_total_time={int(min(left, _SEGMENT_SECONDS))}")
        with open(log, "w+", encoding="utf-8", errors="replace") as output:
            code = subprocess.run(command, stdout=output, stderr=output, check=False).returncode
            output.seek(0)
            executions += max(map(int, _DONE.findall(output.read())), default=0)
        if code:
            crashes += 1
            log.replace(log.with_name(f"crash-{crashes}.txt"))
    found = sorted(file.name for file in findings.glob("*") if file.suffix != ".txt")
    if crashes and not found:
        found = [f"{crashes} processes failed: see {log.parent}/crash-1.txt"]
    return Outcome(target, time.monotonic() - started, executions, tuple(found))


def main() -> int:
    """Run the command; 0 when nothing was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(MAKERS))
    parser.add_argument("--work", type=Path, default=Path("build/fuzz"))
    parser.add_argument("--seconds", type=float, default=20, help="for each target")
    parser.add_argument("--jobs", type=int, default=2, help="targets at a time")
    given = parser.parse_args()
    targets = given.targets or list(MAKERS)
    for name in targets:
        if name not in MAKERS:
            parser.error(f"no target is called {name}: {', '.join(MAKERS)}")
    if importlib.util.find_spec("atheris") is None:
        parser.error(
            "atheris is not installed; it has wheels for Python 3.11 (pip install '.[fuzz]')"
        )
    print(f"{'target':<14}{'seconds':>8}{'executions':>12}  findings")
    with ThreadPoolExecutor(given.jobs) as pool:
        outcomes = []
        for outcome in pool.map(lambda name: fuzz(name, given.work, given.seconds), targets):
            outcomes.append(outcome)
            words = ", ".join(outcome.findings) or "none"
            print(
                f"{outcome.target:<14}{outcome.seconds:>8.0f}{outcome.executions:>12,}  {words}",
                flush=True,
            )
    return 1 if any(outcome.findings for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
