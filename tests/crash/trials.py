"""One trial: a conversion is disturbed, looked at, continued, and compared."""

from __future__ import annotations

import contextlib
import random
import shutil
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from fastdata_cli.storage.staging import staging_root
from tests.crash.checks import check_finished, check_visible
from tests.crash.disks import SmallDisk, small_disk
from tests.crash.runs import JOURNAL, PUBLISHING, Ended, Life, Moment, Run
from tests.crash.subjects import Subject

# Shares of the trials, drawn by their seed.
_OVERWRITING, _AGAIN = 0.25, 0.3

# Some moments come too late, or before Python has started.
_MOST_ATTEMPTS = 20

# What a set takes while it is made, at most, as a multiple of what it takes in the end.
_ROOM = 3


class Stop(Enum):
    """How a run is disturbed."""

    KILL = "SIGKILL"
    TERM = "SIGTERM"
    INTERRUPT = "Ctrl-C"
    FULL = "disk full"


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """What the trials of one subject start from."""

    subject: Subject
    source: Path
    reference: Path
    """Destination of an undisturbed run, alone in its folder."""
    old: Path
    """Another dataset of the same format, alone in its folder: what ``--overwrite`` replaces."""
    life: Life


@dataclass(kw_only=True)
class Trial:
    """What happened."""

    number: int
    subject: str
    stop: Stop
    overwrite: bool
    phases: list[str] = field(default_factory=list)
    """Where the run was at each stop that landed."""
    faults: list[str] = field(default_factory=list)


class Trials:
    """Carries trials out.

    Args:
        work: folder for what they leave.
        mounts: whether disks that fill up are mounted; else the size of files is limited.
        seed: of everything that is drawn.
    """

    def __init__(self, work: Path, *, mounts: bool, seed: int) -> None:
        self._work = work
        self._mounts = mounts
        self._seed = seed

    def run(self, number: int, prepared: Prepared, stop: Stop) -> Trial:
        """Disturb one conversion, until a stop has landed, and continue it to its end."""
        draw = random.Random(f"{self._seed}:{number}")
        trial = Trial(
            number=number,
            subject=prepared.subject.name,
            stop=stop,
            overwrite=draw.random() < _OVERWRITING,
        )
        for _ in range(_MOST_ATTEMPTS):
            with self._place(prepared, stop) as (folder, disk):
                _Attempt(prepared, trial, folder, disk, draw).carry_out()
            if trial.phases or trial.faults:
                return trial
        trial.faults.append(f"not one of {_MOST_ATTEMPTS} stops came in time")
        return trial

    @contextlib.contextmanager
    def _place(self, prepared: Prepared, stop: Stop) -> Iterator[tuple[Path, SmallDisk | None]]:
        if stop is Stop.FULL and self._mounts:
            size = _ROOM * _bytes_below(prepared.reference.parent) + (24 << 20)
            with small_disk(self._work, size) as disk:
                folder = disk.folder / "place"
                folder.mkdir()
                yield folder, disk
            return
        folder = Path(tempfile.mkdtemp(dir=self._work, prefix="trial-"))
        try:
            yield folder, None
        finally:
            shutil.rmtree(folder)


class _Attempt:
    def __init__(
        self,
        prepared: Prepared,
        trial: Trial,
        folder: Path,
        disk: SmallDisk | None,
        draw: random.Random,
    ) -> None:
        self._prepared, self._trial, self._disk, self._draw = prepared, trial, disk, draw
        self._destination = folder / prepared.subject.destination
        self._old: Path | None = None
        self._flags = (*prepared.subject.flags, "--jobs", str(draw.randint(1, 3)))
        if trial.overwrite:
            self._old = prepared.old
            shutil.copytree(prepared.old.parent, folder, dirs_exist_ok=True)
            self._flags = (*self._flags, "--overwrite")

    def carry_out(self) -> None:
        """Stop a run, perhaps the one that continues it too, and let the next one end."""
        self._stop_once()
        while self._goes_on() and self._draw.random() < _AGAIN:
            self._stop_once()
        if not self._trial.faults and self._trial.phases:
            self._finish()

    def _goes_on(self) -> bool:
        """Return whether there is something left to be continued."""
        return not self._trial.faults and staging_root(self._destination).exists()

    def _stop_once(self) -> None:
        moment = self._moment()
        run = Run(self._prepared.source, self._destination, self._flags)
        ended = run.ended_at(moment, lambda: self._disturb(run))
        if self._disk is not None:
            self._disk.free()
        if not ended.landed or not had_begun(ended) or _was_over(self._trial.stop, ended):
            return
        faults = [*ending_faults(self._trial.stop, ended)]
        subject = self._prepared.subject
        faults += check_visible(subject, self._destination, self._prepared.reference, self._old)
        self._trial.phases.append(ended.phase)
        self._trial.faults += [f"stopped {moment} ({ended.phase}): {fault}" for fault in faults]

    def _finish(self) -> None:
        code, said = Run(self._prepared.source, self._destination, self._flags).finish()
        # Killed as the last thing, when all was done: the checks below tell.
        was_done = code == 2 and "exists already" in said and not self._trial.overwrite
        if code and not was_done:
            self._trial.faults.append(f"the same command ended with {code}: {_end_of(said)}")
            return
        faults = check_finished(self._prepared.subject, self._destination, self._prepared.reference)
        self._trial.faults += faults

    def _moment(self) -> Moment:
        life = self._prepared.life
        windows = [("", life.seconds), (JOURNAL, life.parts), (PUBLISHING, life.publishing)]
        mark, seconds = self._draw.choice(windows)
        return Moment(seconds=self._draw.uniform(0, seconds), mark=mark)

    def _disturb(self, run: Run) -> None:
        match self._trial.stop:
            case Stop.KILL:
                run.send(signal.SIGKILL)
            case Stop.TERM:
                run.send(signal.SIGTERM)
            case Stop.INTERRUPT:
                run.send(signal.SIGINT)
            case Stop.FULL if self._disk is not None:
                self._disk.fill()
            case Stop.FULL:
                run.limit_files(self._draw.randint(0, 4 << 20))


def _was_over(stop: Stop, ended: Ended) -> bool:
    """Return whether a signal that ends everything met a process that was just gone."""
    return stop in (Stop.KILL, Stop.TERM) and ended.code == 0 and ended.phase == "after"


def had_begun(ended: Ended) -> bool:
    """Return whether it was fastdata that was interrupted, and not Python before or after it."""
    # While it reads its own modules, Python ends with 1 and a traceback without a line of ours.
    in_python = ended.code == 1 and ended.output.rstrip().endswith("KeyboardInterrupt")
    in_python = in_python and "/fastdata_cli/" not in ended.output
    outside = ended.code == -signal.SIGINT or in_python
    return not (outside and ended.phase in ("start-up", "after"))


def ending_faults(stop: Stop, ended: Ended) -> Iterator[str]:
    """Yield what is wrong with how a disturbed run ended."""
    expected = {
        Stop.KILL: (-signal.SIGKILL,),
        Stop.TERM: (-signal.SIGTERM,),
        # Whoever fills the disk, or presses Ctrl-C, when all is written is too late.
        Stop.INTERRUPT: (130, 0),
        Stop.FULL: (1, 0),
    }[stop]
    if ended.code not in expected:
        yield f"exit code {ended.code}, not {expected[0]}: {_end_of(ended.output)}"
    if "Traceback" in ended.output or "internal error" in ended.output:
        yield f"said: {_end_of(ended.output)}"
    in_words = "cannot write" in ended.output or "no space" in ended.output
    if stop is Stop.FULL and ended.code and not in_words:
        yield f"does not say what is wrong: {_end_of(ended.output)}"


def _end_of(output: str) -> str:
    return " / ".join(output.strip().splitlines()[-4:])


def _bytes_below(folder: Path) -> int:
    return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())
