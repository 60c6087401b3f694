"""A crash test as a whole: its subjects made ready, its trials side by side, its counts."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.crash.disks import can_mount
from tests.crash.runs import undisturbed
from tests.crash.subjects import SUBJECTS, Subject, make_source
from tests.crash.trials import Prepared, Stop, Trial, Trials

# Images of the set: several parts in every format. What is overwritten has fewer.
_IMAGES, _OLD_IMAGES = 330, 40


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is to be done."""

    counts: Mapping[Stop, int]
    """Trials of each kind."""
    seed: int
    workers: int = 2
    """Trials at a time."""
    images: int = _IMAGES
    only: int | None = None
    """The one trial to repeat."""


class Session:
    """Trials over some subjects.

    Args:
        work: an empty folder.
        settings: what is to be done.
        subjects: what is converted.
    """

    def __init__(
        self, work: Path, settings: Settings, subjects: Sequence[Subject] = SUBJECTS
    ) -> None:
        self._work, self._settings = work, settings
        self._subjects = subjects
        self.mounts = can_mount(work)
        """Whether disks are really filled; else files meet a limit of their size."""
        self._trials = Trials(work, mounts=self.mounts, seed=settings.seed)

    def trials(self) -> Iterator[Trial]:
        """Carry all trials out and yield each when it is done, in order."""
        plan = [
            (number, subject, stop)
            for number, (subject, stop) in enumerate(self._plan())
            if self._settings.only in (None, number)
        ]
        prepared = self._prepare([s for s in self._subjects if s in {s for _, s, _ in plan}])
        with ThreadPoolExecutor(self._settings.workers) as pool:
            yield from pool.map(
                lambda each: self._trials.run(each[0], prepared[each[1]], each[2]), plan
            )

    def _plan(self) -> Iterator[tuple[Subject, Stop]]:
        """Yield every trial; each kind of stop goes on where the one before stopped."""
        subjects = itertools.cycle(self._subjects)
        for stop, count in self._settings.counts.items():
            for _ in range(count):
                yield next(subjects), stop

    def _prepare(self, subjects: Sequence[Subject]) -> dict[Subject, Prepared]:
        source = make_source(self._work / "source", self._settings.images)
        smaller = make_source(self._work / "old-source", _OLD_IMAGES, seed=1)
        with ThreadPoolExecutor(self._settings.workers) as pool:
            found = pool.map(lambda each: self._prepared(each, source, smaller), subjects)
            return dict(zip(subjects, found, strict=True))

    def _prepared(self, subject: Subject, source: Path, smaller: Path) -> Prepared:
        place = self._work / subject.name.replace(" ", "-")
        reference, old = place / "reference", place / "old"
        for folder in (reference, old):
            folder.mkdir(parents=True)
        undisturbed(smaller, old / subject.destination, subject.flags)
        life = undisturbed(source, reference / subject.destination, subject.flags)
        return Prepared(
            subject=subject,
            source=source,
            reference=reference / subject.destination,
            old=old / subject.destination,
            life=life,
        )


PHASES = ("start-up", "parts", "publishing", "after")


def table(trials: Sequence[Trial]) -> str:
    """Return a plain table: a line for each subject, a column for each kind of stop and phase."""
    rows = [("", *(stop.value for stop in Stop), *PHASES, "overwrite", "faults")]
    subjects = list(dict.fromkeys(trial.subject for trial in trials))
    rows += [_row(name, [each for each in trials if each.subject == name]) for name in subjects]
    rows.append(_row("all", trials))
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows
    )


def _row(name: str, trials: Sequence[Trial]) -> tuple[str, ...]:
    stops: Counter[Stop] = Counter()
    for trial in trials:
        stops[trial.stop] += len(trial.phases)
    phases = Counter(phase for trial in trials for phase in trial.phases)
    counts = [
        *(stops[stop] for stop in Stop),
        *(phases[phase] for phase in PHASES),
        sum(trial.overwrite for trial in trials),
        sum(bool(trial.faults) for trial in trials),
    ]
    return (name, *map(str, counts))
