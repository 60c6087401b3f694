"""``python -m tests.crash``: the crash test at length; exit 1 if anything went wrong."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.crash.session import Session, Settings, table
from tests.crash.subjects import SUBJECTS
from tests.crash.trials import Stop, Trial


def main() -> int:
    """Run the trials that are asked for, print the counts, and return the exit code."""
    asked = _arguments()
    settings = Settings(
        counts={
            Stop.KILL: asked.kills,
            Stop.FULL: asked.full,
            Stop.INTERRUPT: asked.interrupts,
            Stop.TERM: asked.terms,
        },
        seed=asked.seed,
        workers=asked.workers,
        only=asked.trial,
    )
    begun = time.monotonic()
    done: list[Trial] = []
    with tempfile.TemporaryDirectory(dir=asked.work, prefix="fastdata-crash-") as work:
        subjects = [each for each in SUBJECTS if asked.subject in each.name]
        session = Session(Path(work), settings, subjects)
        _say("full disks: " + ("a tmpfs is filled" if session.mounts else "RLIMIT_FSIZE"))
        for trial in session.trials():
            done.append(trial)
            for fault in trial.faults:
                _say(f"trial {trial.number} (--seed {settings.seed}), {trial.subject}: {fault}")
    _say(table(done))
    faulty = sum(bool(trial.faults) for trial in done)
    _say(f"{len(done)} trials, {faulty} with faults, {time.monotonic() - begun:.0f} s")
    return 1 if faulty else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="runs ended by SIGKILL")
    parser.add_argument("--full", type=int, default=20, help="runs whose disk fills up")
    parser.add_argument("--interrupts", type=int, default=20, help="runs ended by Ctrl-C")
    parser.add_argument("--terms", type=int, default=20, help="runs ended by SIGTERM")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of all that is drawn")
    parser.add_argument("--subject", default="", help="only those with this in their name")
    parser.add_argument("--trial", type=int, help="repeat this one trial alone")
    parser.add_argument("--workers", type=int, default=2, help="trials at a time")
    parser.add_argument("--work", type=Path, help="folder for what is written (default: /tmp)")
    return parser.parse_args()


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
