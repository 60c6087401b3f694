"""--advise: loader settings tried in the order in which practitioners do, kept if they help.

    workers 0 → 2 → 4 → cores · pinned memory · a longer prefetch · block shuffle · kept workers

Each is measured against the best so far, interleaved with it, and kept only if it is faster beyond
noise. Workers are kept between epochs, without a measurement, where their start is seen to cost
something: a steady rate does not show it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from fastdata_cli.errors import FastdataError
from fastdata_cli.loading.loader import LoaderOptions, loader_line, resolved
from fastdata_cli.operations.bench.loaders import LoaderCase
from fastdata_cli.operations.bench.settings import BenchOptions
from fastdata_cli.operations.bench.subject import Subject
from fastdata_cli.timing.environment import usable_cores
from fastdata_cli.timing.measure import Case, measure
from fastdata_cli.timing.measurement import compare_measurements
from fastdata_cli.timing.statistics import Verdict

_REPEATS = 3
_LONG_PREFETCH = 4
_LONGEST_RUN_S = 2.0
_SHORTEST_RUN_S = 0.3
_OVERHEAD_S = 0.8
_START_COUNTS_S = 0.1


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """What was found."""

    line: str
    samples_per_s: float
    steps: tuple[str, ...]
    """What each try brought, in words."""


def tune(subject: Subject, options: BenchOptions, seconds: float) -> Tuned:
    """Look for the settings that load a dataset fastest, within about ``seconds``.

    Raises:
        FastdataError: the first of them does not load it.
    """
    best = LoaderOptions(batch_size=options.batch_size, order=subject.order("random"))
    tries = list(_tries(subject, best))
    deadline = time.perf_counter() + seconds
    rate, start_s, steps = 0.0, 0.0, []
    for number, (label, change) in enumerate(tries):
        left = deadline - time.perf_counter()
        if left <= 0 and number:
            steps.append(f"{label}: not tried, the time was over")
            continue
        candidate = resolved(subject.reader, replace(best, **change))
        if candidate == resolved(subject.reader, best):
            continue
        try:
            found = _compare(subject, best, candidate, left / (len(tries) - number))
        except FastdataError as problem:
            steps.append(f"{label}: {problem}")
            continue
        steps.append(f"{label}: {found.words}")
        rate = max(rate, found.rate)
        if found.helps:
            best, start_s = candidate, found.start_s
    if best.workers and start_s >= _START_COUNTS_S:
        best = replace(best, persistent_workers=True)
        steps.append(f"persistent workers: kept, an epoch begins {start_s:.1f} s sooner")
    return Tuned(line=loader_line(subject.reader, best), samples_per_s=rate, steps=tuple(steps))


def _tries(subject: Subject, begin: LoaderOptions) -> Iterator[tuple[str, dict[str, object]]]:
    cores = usable_cores()
    for workers in dict.fromkeys(count for count in (2, 4, cores) if count <= cores):
        yield f"{workers} workers", {"workers": workers}
    yield "pinned memory", {"pin_memory": True}
    yield f"prefetch {_LONG_PREFETCH}", {"prefetch_factor": _LONG_PREFETCH}
    if begin.order == "random":
        yield "block shuffle", {"order": "block"}


@dataclass(frozen=True, kw_only=True)
class _Found:
    helps: bool
    rate: float
    start_s: float
    words: str


def _compare(
    subject: Subject, best: LoaderOptions, candidate: LoaderOptions, seconds: float
) -> _Found:
    """Measure two settings against each other."""
    cases = [
        LoaderCase(subject, settings, "as-is", label=label)
        for label, settings in (("as it was", best), ("changed", candidate))
    ]
    share = seconds / (len(cases) * _REPEATS)
    for case in cases:
        case.run_s = min(max(share - _OVERHEAD_S, _SHORTEST_RUN_S), _LONGEST_RUN_S)
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
    if before.failure or after.failure:
        failure = before.failure or after.failure
        raise FastdataError(failure.message if failure else "")
    compared = compare_measurements(before, after, same_run=True)
    helps = compared is not None and compared.verdict is Verdict.FASTER
    ratio = f"{compared.ratio:.2f} times as fast" if compared else "no samples"
    kept = "kept" if helps else "not kept"
    rates = [each.samples_per_s or 0.0 for each in (before, after)]
    return _Found(
        helps=helps,
        rate=rates[1] if helps else rates[0],
        start_s=cases[1].row().first_batch_s or 0.0,
        words=f"{rates[1]:,.0f} samples/s, {ratio}, {kept}",
    )
