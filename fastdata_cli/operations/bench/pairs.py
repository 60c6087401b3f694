"""--advise: two loaders over one dataset, measured against each other for the search."""

from __future__ import annotations

from fastdata_cli.loading.loader import LoaderOptions
from fastdata_cli.operations.bench.advise import Advised, Step, advise
from fastdata_cli.operations.bench.loaders import LoaderCase, loader_options
from fastdata_cli.operations.bench.settings import BenchOptions
from fastdata_cli.operations.bench.subject import Subject
from fastdata_cli.timing.environment import usable_cores
from fastdata_cli.timing.measure import Case, measure
from fastdata_cli.timing.measurement import Measurement

_REPEATS = 3
_STEPS = 4  # about as many settings are tried
_LONGEST_RUN_S = 2.0
_SHORTEST_RUN_S = 0.4


def search(subject: Subject, options: BenchOptions, seconds: float) -> Advised:
    """Look for the settings that load a dataset fastest, within about ``seconds``."""
    import torch

    step_s = seconds / _STEPS

    def measure_pair(
        best: LoaderOptions, changed: LoaderOptions
    ) -> tuple[Measurement, Measurement]:
        return _measure_pair(subject, best, changed, step_s)

    return advise(
        subject.reader,
        loader_options(subject, options, 0),
        measure_pair,
        cores=usable_cores(),
        cuda=torch.cuda.is_available(),
        budget_s=seconds,
    )


def in_words(step: Step) -> str:
    """Return what one step of the search brought."""
    rate = f"{step.samples_per_s:,.0f} samples/s, " if step.samples_per_s else ""
    ratio = f"{step.ratio:.2f} times as fast, " if step.ratio else ""
    return f"{step.setting}: {rate}{ratio}{'kept' if step.kept else f'not kept ({step.why})'}"


def _measure_pair(
    subject: Subject, best: LoaderOptions, changed: LoaderOptions, seconds: float
) -> tuple[Measurement, Measurement]:
    cases = [
        LoaderCase(subject, settings, "as-is", label=label)
        for label, settings in (("as it was", best), ("changed", changed))
    ]
    share = seconds / (len(cases) * _REPEATS)
    for case in cases:
        case.run_s = min(max(share - case.overhead_s, _SHORTEST_RUN_S), _LONGEST_RUN_S)
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
