"""clean: draws images from a subject, judges them in threads, and settles each in source order."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, partial

from fastdata_cli.engines.local import ordered_stream
from fastdata_cli.operations.clean.cache import ScoreCache
from fastdata_cli.operations.clean.candidate import Candidate, Judged
from fastdata_cli.operations.clean.quarantine import Quarantine
from fastdata_cli.operations.clean.report import CleanReport, Observer
from fastdata_cli.operations.clean.ruling import Ruling
from fastdata_cli.operations.clean.selection import given
from fastdata_cli.operations.clean.subject import Subject, Task
from fastdata_cli.operations.clean.tally import Tally
from fastdata_cli.operations.events import Listener, Silent
from fastdata_cli.quality.judge import Examined, Judge
from fastdata_cli.quality.verdict import Score, Verdict
from fastdata_cli.quality.view import View
from fastdata_cli.timing.environment import usable_cores
from fastdata_cli.timing.stages import StageClock

Emit = Callable[[Verdict, str | None], None]
"""Gets each verdict, and the new path of a file that was moved."""


@dataclass(frozen=True, kw_only=True)
class Extras:
    """What may go along with a run."""

    cache: ScoreCache | None = None
    quarantine: Quarantine | None = None
    observer: Observer | None = None
    listener: Listener = field(default_factory=Silent)


def clean(
    subject: Subject,
    judge: Judge,
    emit: Emit,
    *,
    jobs: int | None = None,
    extras: Extras | None = None,
) -> CleanReport:
    """Judge every image of a subject.

    Verdicts come in source order, each as soon as it and those before it stand; how many images
    there are changes nothing about the memory it takes, but for the search for duplicates.

    Args:
        emit: called with each verdict, in this thread.
        jobs: threads that decode; default all usable cores. Never changes a verdict.
        extras: cache, quarantine, observer and listener; closing them is the caller's.
    """
    return _Run(subject, judge, emit, extras or Extras()).through(jobs or usable_cores())


class _Run:
    """One run under way."""

    def __init__(self, subject: Subject, judge: Judge, emit: Emit, extras: Extras) -> None:
        self.subject = subject
        self.judge = judge
        self.emit = emit
        self.extras = extras
        self.clock = StageClock()
        self.tally = Tally()

    def through(self, jobs: int) -> CleanReport:
        with contextlib.closing(self.subject), Ruling(self.judge) as ruling:
            for judged in self._judged(jobs):
                for each in judged:
                    self._settle(each, ruling)
                self.extras.listener.progress(self.tally.looked_at, self.subject.total)
        report = self.tally.report(
            source=self.subject.name,
            notes=self.subject.notes,
            thresholds=thresholds(self.judge),
            clock=self.clock,
        )
        if self.extras.observer is not None:
            self.extras.observer.finish(report)
        return report

    def _judged(self, jobs: int) -> Iterator[list[Judged]]:
        tasks = self.clock.drawn("read", self.subject.tasks(self.extras.cache))
        examine = self.clock.timed("examine", self._examine_all)
        return ordered_stream(examine, tasks, workers=jobs, ahead=2 * jobs + 2)

    def _examine_all(self, task: Task) -> list[Judged]:
        return [self._examine(candidate) for candidate in task]

    def _examine(self, candidate: Candidate) -> Judged:
        """Measure one image, unless it is known; in any thread."""
        finding = candidate.known
        open_view = cache(partial(self._view, candidate))
        if finding is None:
            finding = self.judge.examine(open_view())
        drawn = None
        if self.extras.observer is not None and isinstance(finding, Examined):
            reasons = self.judge.reasons(finding.scores)
            drawn = self.extras.observer.draw(candidate.index, open_view, finding.scores, reasons)
        return Judged(
            key=candidate.key,
            index=candidate.index,
            finding=finding,
            path=candidate.path,
            state=candidate.state,
            cached=candidate.known is not None and candidate.state is not None,
            drawn=drawn,
        )

    def _view(self, candidate: Candidate) -> View:
        if candidate.image is None:
            candidate = replace(candidate, image=self.subject.reread(candidate))
        return candidate.view(self.judge.policy)

    def _settle(self, judged: Judged, ruling: Ruling) -> None:
        verdict = ruling.rule(judged.key, judged.index, judged.finding)
        extras = self.extras
        if extras.cache is not None and judged.state is not None and not judged.cached:
            assert judged.path is not None
            extras.cache.store(judged.path, judged.state, judged.finding)
        moved_to = None
        if extras.quarantine is not None and judged.path is not None and not verdict.kept:
            moved_to = extras.quarantine.take(judged.path, verdict)
        self.tally.add(verdict, cached=judged.cached, moved=moved_to is not None)
        self.emit(verdict, moved_to)
        if extras.observer is not None:
            extras.observer.see(verdict, judged.drawn)


def thresholds(judge: Judge) -> dict[str, Score]:
    """Return what was asked for, by the names of the flags."""
    return {name.replace("_", "-"): value for name, value in given(judge.options).items()}
