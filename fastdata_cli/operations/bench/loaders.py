"""The loaders over all datasets in turn: steady rate, first batch, resources, correctness."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fastdata_cli.operations.bench.arrivals import PlainRead
from fastdata_cli.operations.bench.loader_case import (
    SHORTEST_RUN_S,
    LoaderCase,
    loader_options,
)
from fastdata_cli.operations.bench.report import LoaderRow
from fastdata_cli.operations.bench.settings import BenchOptions
from fastdata_cli.operations.bench.subject import Subject
from fastdata_cli.timing.doubts import MIN_REPEAT_S
from fastdata_cli.timing.measure import Case, measure
from fastdata_cli.timing.measurement import Measurement
from fastdata_cli.timing.resource_use import Resources

OnResult = Callable[[Measurement], None]

_LONGEST_RUN_S = 5.0
_SHORTEST_PART_S = 0.15
_CHECK_SHARE = 0.2
_SHORTEST_CHECK_S, _QUICK_CHECK_S = 1.0, 0.4


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """A row, and what the loading took of the machine in its last repeat."""

    row: LoaderRow
    resources: Resources | None


def measure_loaders(
    subjects: Sequence[Subject],
    options: BenchOptions,
    seconds: float,
    on_result: OnResult,
    extra: Sequence[LoaderCase] = (),
    beside: type[LoaderCase] | None = None,
) -> tuple[Loaded, ...]:
    """Measure the DataLoader over all datasets, interleaved where the time allows for rounds.

    Args:
        beside: another loader, to be measured alike over each dataset; its rows come last.
        extra: cases that are measured among them, and of which nothing is told or returned.

    Raises:
        MissingDependencyError: there is no torch (this module cannot be imported then).
    """
    plain = [(subject, PlainRead(subject)) for subject in subjects]
    cases = [
        LoaderCase(each, loader_options(each, options, workers), options.cache, plain=read)
        for each, read in plain
        for workers in options.worker_counts
    ]
    if beside:
        settings = ((each, loader_options(each, options, 0), read) for each, read in plain)
        cases += [beside(each, own, options.cache, plain=read) for each, own, read in settings]
    every = [*cases, *extra]
    rounds, parts = _share_out(seconds, cases, every, options)
    by_name = {case.name: case for case in every}
    own = {case.name for case in cases}

    def settle(measurement: Measurement) -> None:
        by_name[measurement.name].settle(measurement)
        if measurement.name in own:
            on_result(measurement)

    try:
        results = measure(
            [
                Case(name=case.name, run=case.run, prepare=case.prepare, parts=parts)
                for case in every
            ],
            repeats=rounds,
            warmup=0,
            budget_s=seconds,
            min_repeat_s=MIN_REPEAT_S,
            on_result=settle,
        )
    finally:
        for case in every:
            case.stop()
    for case, result in zip(every, results, strict=True):
        case.measurement = result
    return tuple(Loaded(row=case.row(), resources=case.resources) for case in cases)


def _share_out(
    seconds: float,
    checked: Sequence[LoaderCase],
    every: Sequence[LoaderCase],
    options: BenchOptions,
) -> tuple[int, int]:
    """Tell each case how long it may run, and look at what arrives; return rounds and parts.

    Where the time does not allow for all rounds there is one, of as many parts: repeats that go on
    from one start of the loader, so that the spread is known. An epoch from a cold cache has none.
    """
    check_s = _CHECK_SHARE * seconds
    shortest = _QUICK_CHECK_S if options.quick else _SHORTEST_CHECK_S
    for case in checked:
        case.check_s = max(shortest, check_s / (2 * len(checked)))
    share = (seconds - check_s) / max(1, len(every))
    least = sum(case.overhead_s + SHORTEST_RUN_S for case in every) * options.repeats
    short = least > seconds - check_s and options.cache != "cold"
    rounds, parts = (1, options.repeats) if short else (options.repeats, 1)
    for case in every:
        run_s = (share / rounds - case.overhead_s) / parts
        case.run_s = min(max(run_s, _SHORTEST_PART_S if short else SHORTEST_RUN_S), _LONGEST_RUN_S)
    return rounds, parts
