"""bench: from open readers and options to one report, phase by phase.

    facts     what the datasets are; bad samples and sizes met on the way
    device    fio on their own files
    reads     plain reads in three orders, all datasets interleaved
    stages    the steps from container to batch, on the same samples; decoding on all cores
    loader    the DataLoader, all datasets and worker counts interleaved; a free input beside them
    consumer  with --step-ms
    advise    with --advise
    verdicts  what limits each, and what to do

A dataset that fails is left out from there on, with its error among the notes; the others go on.
The record is written after each repeat of each case.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from fastdata_cli.contract import Reader
from fastdata_cli.errors import (
    DamagedDatasetError,
    FastdataError,
    NothingUsableError,
    SourceNotFoundError,
    UsageError,
)
from fastdata_cli.operations.bench.best import fastest_loader
from fastdata_cli.operations.bench.budget import Budget, phases
from fastdata_cli.operations.bench.device import (
    MeasureDevice,
    by_fio,
    device_ceiling,
    measure_below,
)
from fastdata_cli.operations.bench.opening import open_subjects
from fastdata_cli.operations.bench.paste import fast_loader_block
from fastdata_cli.operations.bench.reads import measure_reads
from fastdata_cli.operations.bench.recorder import Recorder, record_of
from fastdata_cli.operations.bench.report import BenchReport
from fastdata_cli.operations.bench.settings import BenchOptions
from fastdata_cli.operations.bench.stage_phase import StagePhase
from fastdata_cli.operations.bench.subject import Subject
from fastdata_cli.operations.bench.torch_there import missing_loader
from fastdata_cli.operations.bench.verdicts import verdict_on
from fastdata_cli.operations.events import Listener, Silent
from fastdata_cli.operations.words import count_text
from fastdata_cli.timing.cache import blind_spots
from fastdata_cli.timing.environment import environment
from fastdata_cli.timing.measurement import Measurement
from fastdata_cli.timing.record import utc_now
from fastdata_cli.timing.resource_use import Resources

__all__ = ["bench", "record_of"]

R = TypeVar("R")

_MUCH_LONGER = 1.3
# Errors that are the dataset's, not of one way to read it.
_FATAL = (DamagedDatasetError, NothingUsableError, SourceNotFoundError)


def bench(
    readers: Sequence[tuple[str, Reader, str]],
    options: BenchOptions,
    *,
    listener: Listener | None = None,
    save: Path | None = None,
    device: MeasureDevice | None = None,
) -> BenchReport:
    """Measure datasets against each other.

    Args:
        readers: name, reader and name of the format of each dataset; names differ.
        options: what is measured, and for how long.
        listener: told what was decided, and how far it is: seconds of the seconds it takes.
        save: the record is kept in this file, whole after each case.
        device: measures the device below files; by default the fio on PATH.

    Raises:
        UsageError: no dataset, one given twice, or an option that cannot be.
        FastdataError: not one of the datasets can be measured; the error of the first.
    """
    if not readers:
        raise UsageError("no dataset to measure", hint="give the path of one: fastdata bench PATH")
    names = [name for name, _, _ in readers]
    if len(set(names)) < len(names):
        raise UsageError("the same dataset is given twice")
    _ = options.worker_counts, options.thread_counts  # raises before anything is measured
    run = _Run.begin(readers, options, listener or Silent(), save)
    if "device" in run.phases:
        run.measure_device(device or by_fio(scratch=not options.quick))
    run.measure_reads()
    run.measure_stages()
    if "loader" in run.phases:
        run.measure_loaders()
    return run.finish()


@dataclass
class _Run:
    """One call of ``bench``."""

    subjects: list[Subject]
    options: BenchOptions
    listener: Listener
    budget: Budget
    phases: list[str]
    report: BenchReport
    recorder: Recorder
    notes: dict[str, None] = field(default_factory=dict)
    resources: dict[tuple[str, int], Resources] = field(default_factory=dict)

    @classmethod
    def begin(
        cls,
        readers: Sequence[tuple[str, Reader, str]],
        options: BenchOptions,
        listener: Listener,
        save: Path | None,
    ) -> _Run:
        """Open the datasets and note what they are."""
        begun, started = time.perf_counter(), utc_now()
        # First, as changes are noticed from then on; the look for torch imports it, in seconds.
        subjects, unopened = open_subjects(readers, options, listener)
        missing = missing_loader() if not options.no_loader else "left out by --no-loader"
        names = phases(options, loader=not missing)
        budget = Budget(options.budget_s, names, begun=begun)
        where = environment([reader.path for _, reader, _ in readers])
        report = BenchReport(
            environment=where, options=options.to_mapping(), datasets=(), started=started
        )
        recorder = Recorder(report, save)
        run = cls(subjects, options, listener, budget, names, report, recorder, unopened)
        if missing:
            run.notes[f"the DataLoader was not measured: {missing}"] = None
            run.report = replace(run.report, host_to_device=f"not measured: {missing}")
        if options.no_device:
            run.notes["the device was not measured: left out by --no-device"] = None
        run.notes.update(dict.fromkeys(blind_spots(each.reader.path for each in run.subjects)))
        for subject in run.subjects:
            run._note_facts(subject)
        run._update(datasets=tuple(subject.facts for subject in run.subjects))
        return run

    @property
    def alive(self) -> list[Subject]:
        """The datasets that have not failed."""
        return [subject for subject in self.subjects if subject.failure is None]

    def measure_device(self, device: MeasureDevice) -> None:
        """Measure the device below each dataset."""
        seconds = self.budget.begin("device")
        for subject in self.alive:
            share = seconds / len(self.subjects)
            order = subject.order(self.options.order)
            results = self._try(subject, partial(measure_below, subject, order, share, device))
            if not results:
                continue
            ceiling = device_ceiling(subject, results, order)
            self._update(
                device={**self.report.device, subject.name: results},
                ceilings=(*self.report.ceilings, *([ceiling] if ceiling else [])),
            )
            texts = [warning.text for result in results for warning in result.warnings]
            self.notes.update(dict.fromkeys(f"{subject.name}: device: {text}" for text in texts))

    def measure_reads(self) -> None:
        """Measure plain reads."""
        seconds = self.budget.begin("reads")
        rows = measure_reads(self.alive, self.options, seconds, self._case)
        self._update(reads=rows)
        for row in rows:
            self._note_failure(row.dataset, row.measurement)
            self.notes.update(dict.fromkeys(f"{row.dataset}: {n}" for n in row.cache.notes))

    def measure_stages(self) -> None:
        """Measure the steps from container to batch."""
        phase = StagePhase(self.options, "loader" in self.phases, self._try_named)
        seconds, before = self.budget.begin("stages"), self.report.ceilings
        for subject in self.alive:
            phase.measure(subject, seconds / len(self.subjects))
            self._update(stages=tuple(phase.rows), ceilings=(*before, *phase.ceilings))

    def measure_loaders(self) -> None:
        """Measure the DataLoader, and what is asked for beside it."""
        from fastdata_cli.operations.bench import loading_phase

        found = loading_phase.measure(
            self.alive, self.options, self.budget, self._case, self._try_named
        )
        self.resources.update(found.resources)
        self.notes.update(dict.fromkeys(found.notes))
        self._update(
            loaders=found.loaders,
            fast_loaders=found.fast_loaders,
            consumers=found.consumers,
            ceilings=(*self.report.ceilings, *found.ceilings),
            host_to_device=found.host_to_device,
            steps=found.steps,
            to_paste=found.to_paste,
        )
        for row in (*found.loaders, *found.fast_loaders):
            self._note_failure(row.dataset, row.measurement)

    def finish(self) -> BenchReport:
        """Judge, and close the record."""
        for subject in self.subjects:
            self._note_bad(subject)
        took, wanted = self.budget.elapsed, self.options.budget_s
        if took > _MUCH_LONGER * wanted:
            text = "a busy machine, or many cases: measure fewer, or allow more with --seconds"
            self.notes[f"it took {took:.0f} s, not {wanted:.0f}: {text}"] = None
        verdicts = []
        for subject in self.alive:
            used = {n: each for (name, n), each in self.resources.items() if name == subject.name}
            verdicts.append(verdict_on(subject, self.options, self.report, used))
        if not self.alive and not any(row.samples_per_s for row in self.report.reads):
            raise self._first_failure()
        self._update(
            verdicts=tuple(verdicts),
            to_paste=self.report.to_paste or self._fast_loader(),
            seconds=self.budget.elapsed,
        )
        self.recorder.report(self.report, finished=True)
        return self.report

    def _fast_loader(self) -> str:
        """Return the script of FastLoader where that is the fastest; else nothing."""
        row = fastest_loader(self.report)
        return fast_loader_block(row.line) if row and row.loader == "FastLoader" else ""

    def _first_failure(self) -> FastdataError:
        return next(each.failure for each in self.subjects if each.failure is not None)

    def _try(self, subject: Subject, action: Callable[[], R]) -> R | None:
        """Return what ``action`` returns; None, with a note, if the dataset fails it."""
        try:
            subject.check_unchanged()
            return action()
        except FastdataError as problem:
            self._fail(subject, problem)
            return None

    def _try_named(self, subject: Subject, action: Callable[[], Any]) -> Any:
        return self._try(subject, action)

    def _fail(self, subject: Subject, problem: FastdataError) -> None:
        self.notes[f"{subject.name}: {problem}".replace(f"{subject.name}: " * 2, "", 1)] = None
        if isinstance(problem, _FATAL):
            subject.failure = problem

    def _note_failure(self, dataset: str, measurement: Measurement) -> None:
        failure = measurement.failure
        if failure is None:
            return
        subject = next(each for each in self.subjects if each.name == dataset)
        text = failure.message
        self.notes[text if text.startswith(dataset) else f"{dataset}: {text}"] = None
        for kind in _FATAL:
            if failure.kind == kind.__name__:
                subject.failure = kind(failure.message, hint=failure.hint)

    def _note_facts(self, subject: Subject) -> None:
        if not subject.facts.random_access:
            text = "read in stored order only: any other would begin from the front each time"
            self.notes[f"{subject.name}: {text}"] = None

    def _note_bad(self, subject: Subject) -> None:
        if subject.bad and subject.failure is None:
            count, first = len(subject.bad), subject.bad[min(subject.bad)]
            found = count_text(count, "bad sample")
            self.notes[
                f"{subject.name}: {found} found and left out, such as {first}; a loader would"
                " stop there: fastdata inspect --verify lists them"
            ] = None

    def _case(self, measurement: Measurement) -> None:
        self.recorder.case(measurement)
        self._progress()

    def _update(self, **rows: Any) -> None:
        self.report = replace(self.report, **rows, notes=tuple(self.notes))
        self.recorder.report(self.report)
        self._progress()

    def _progress(self) -> None:
        whole = round(self.options.budget_s)
        self.listener.progress(min(round(self.budget.elapsed), whole), whole)
