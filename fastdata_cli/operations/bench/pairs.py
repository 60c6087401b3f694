"""--advise: two loaders over one dataset, measured against each other for the search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fastdata_cli.operations.bench.advise import Advised, Choice, advise
from fastdata_cli.operations.bench.epochs import EpochCase
from fastdata_cli.operations.bench.loader_case import LoaderCase, loader_options
from fastdata_cli.operations.bench.settings import BenchOptions
from fastdata_cli.operations.bench.subject import Subject
from fastdata_cli.operations.bench.threads import FastLoaderCase
from fastdata_cli.timing.environment import usable_cores
from fastdata_cli.timing.measure import Case, measure
from fastdata_cli.timing.measurement import Measurement

_REPEATS = 3
_STEPS = 4  # about as many settings are tried
_LONGEST_RUN_S = 2.0
_SHORTEST_RUN_S = 0.4
# Of both loaders together: the repeats, and one more of each that is not timed.
_EPOCHS = 2 * (_REPEATS + 1)
_LONGER = 2.0  # than other pairs this one may take: it is among the last


def search(subject: Subject, options: BenchOptions, seconds: float) -> Advised:
    """Look for the settings that load a dataset fastest, within about ``seconds``."""
    import torch

    found = advise(
        loader_options(subject, options, 0),
        Pairs(subject, seconds / _STEPS).measure,
        cores=usable_cores(),
        cuda=torch.cuda.is_available(),
        budget_s=seconds,
    )
    return replace(found, steps=tuple(replace(step, dataset=subject.name) for step in found.steps))


class Pairs:
    """Measures pairs of loaders over one dataset, interleaved.

    Args:
        subject: the dataset.
        seconds: for one pair, about.
    """

    def __init__(self, subject: Subject, seconds: float) -> None:
        self._subject = subject
        self._seconds = seconds
        self._rates: dict[Choice, float] = {}

    def measure(self, best: Choice, changed: Choice) -> tuple[Measurement, Measurement] | str:
        """Measure two loaders; or say why it is not worth it.

        What becomes of workers between epochs shows in whole epochs, all else within one.
        """
        if best.options.persistent_workers != changed.options.persistent_workers:
            return self._whole_epochs(best, changed)
        cases = [self._case(best, "as it was"), self._case(changed, "changed")]
        share = self._seconds / (len(cases) * _REPEATS)
        for case in cases:
            case.run_s = min(max(share - case.overhead_s, _SHORTEST_RUN_S), _LONGEST_RUN_S)
        measured = _measure(cases, self._seconds)
        for choice, each in zip((best, changed), measured, strict=True):
            self._rates[choice] = each.samples_per_s or 0.0
        return measured

    def _case(self, choice: Choice, label: str) -> LoaderCase:
        kind = FastLoaderCase if choice.threads else LoaderCase
        return kind(self._subject, choice.options, "as-is", label=label)

    def _whole_epochs(self, best: Choice, changed: Choice) -> tuple[Measurement, Measurement] | str:
        rate = self._rates.get(best)
        epoch = self._subject.facts.samples / rate if rate else 0.0
        if _EPOCHS * epoch > _LONGER * self._seconds:
            return f"not tried: starting workers is little beside an epoch of {epoch:,.0f} s"
        cases = [
            EpochCase(self._subject, best.options, "as it was"),
            EpochCase(self._subject, changed.options, "changed"),
        ]
        return _measure(cases, _LONGER * self._seconds)


def _measure(
    cases: Sequence[LoaderCase] | Sequence[EpochCase], seconds: float
) -> tuple[Measurement, Measurement]:
    by_name = {case.name: case for case in cases}
    try:
        before, after = measure(
            [Case(name=case.name, run=case.run, prepare=case.prepare) for case in cases],
            repeats=_REPEATS,
            warmup=0,
            budget_s=seconds,
            on_result=lambda each: by_name[each.name].settle(each),
        )
    finally:
        for case in cases:
            case.stop()
    return before, after
