"""The phase of the DataLoader: all rows that need torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from fastdata_cli.operations.bench.budget import Budget
from fastdata_cli.operations.bench.constant import ConstantReader
from fastdata_cli.operations.bench.consumer import measure_consumer
from fastdata_cli.operations.bench.loader_case import LoaderCase, loader_options
from fastdata_cli.operations.bench.loaders import Loaded, OnResult, measure_loaders
from fastdata_cli.operations.bench.pairs import search
from fastdata_cli.operations.bench.paste import loader_block
from fastdata_cli.operations.bench.report import (
    Ceiling,
    ConsumerRow,
    LoaderRow,
    Step,
    workers_words,
)
from fastdata_cli.operations.bench.settings import BenchOptions
from fastdata_cli.operations.bench.stage_phase import Try
from fastdata_cli.operations.bench.stream import host_to_device
from fastdata_cli.operations.bench.subject import BatchShape, Subject, constant_subject
from fastdata_cli.operations.bench.threads import FastLoaderCase
from fastdata_cli.operations.bench.troubles import sentences, troubles
from fastdata_cli.timing.resource_use import Resources

_COPY_S = 0.5


@dataclass
class Found:
    """The rows of the phase."""

    loaders: tuple[LoaderRow, ...] = ()
    fast_loaders: tuple[LoaderRow, ...] = ()
    consumers: tuple[ConsumerRow, ...] = ()
    ceilings: tuple[Ceiling, ...] = ()
    host_to_device: str = ""
    steps: tuple[Step, ...] = ()
    to_paste: str = ""
    resources: dict[tuple[str, int], Resources] = field(default_factory=dict)
    """By dataset and number of workers."""
    notes: list[str] = field(default_factory=list)


def measure(
    subjects: Sequence[Subject],
    options: BenchOptions,
    budget: Budget,
    on_result: OnResult,
    attempt: Try,
) -> Found:
    """Measure the loaders, the free input, the consumer, the copy to a GPU; look for settings."""
    found = Found()
    if options.quick and len(subjects) > 1:
        options = replace(options, workers=str(max(options.worker_counts)))
    able = [each for each in subjects if attempt(each, partial(_loads, each, options))]
    if not able:
        found.host_to_device = "not measured: there was nothing to load"
        return found
    free = _free_cases(able, options)
    loaded = measure_loaders(
        able, options, budget.begin("loader"), on_result, [*free.values()], FastLoaderCase
    )
    loaded, fast = loaded[: -len(able)], loaded[-len(able) :]
    found.loaders = tuple(each.row for each in loaded)
    found.fast_loaders = tuple(each.row for each in fast)
    for each in loaded:
        _take_resources(each, found)
    for row in (*found.loaders, *found.fast_loaders):
        _take_notes(row, found)
    found.notes += sentences(
        trouble
        for (name, workers), resources in found.resources.items()
        for trouble in troubles(f"{name}, {workers_words(workers)}", resources)
    )
    found.ceilings = tuple(_free_ceilings(able, found.loaders, free))
    found.host_to_device = host_to_device((options.batch_size, *able[0].in_batch[0]), _COPY_S)
    if options.step_ms is not None:
        found.consumers = _consumers(able, options, budget.begin("consumer"), attempt)
    if options.advise:
        _advise(able, options, budget.begin("advise"), attempt, found)
    return found


def _loads(subject: Subject, options: BenchOptions) -> bool:
    """Return True, or raise what torch cannot do with a dataset."""
    LoaderCase(subject, loader_options(subject, options, 0), "as-is")
    return True


def _take_resources(loaded: Loaded, found: Found) -> None:
    row = loaded.row
    if loaded.resources is not None:
        found.resources[row.dataset, row.workers] = loaded.resources


def _take_notes(row: LoaderRow, found: Found) -> None:
    if row.each_once is False:
        found.notes.append(f"{row.dataset}: not every sample came once, {row.words}")
    if row.same_bytes is False:
        found.notes.append(f"{row.dataset}: other bytes than a plain read, {row.words}")
    found.notes += [f"{row.dataset}: {note}" for note in row.cache.notes]


def _free_cases(
    subjects: Sequence[Subject], options: BenchOptions
) -> dict[tuple[BatchShape, int], LoaderCase]:
    """Return a loader without input for each shape of image and number of workers."""
    cases = {}
    counts = options.worker_counts
    for shape, dtype in dict.fromkeys(subject.in_batch for subject in subjects):
        name = f"free input {'x'.join(map(str, shape))} {dtype}"
        samples = max(subject.facts.samples for subject in subjects)
        subject = constant_subject(name, ConstantReader(samples, shape, dtype))
        for workers in counts if not options.quick else [max(counts)]:
            settings = loader_options(subject, options, workers)
            cases[(shape, dtype), workers] = LoaderCase(subject, settings, "as-is")
    return cases


def _free_ceilings(
    subjects: Sequence[Subject],
    rows: Sequence[LoaderRow],
    free: dict[tuple[BatchShape, int], LoaderCase],
) -> list[Ceiling]:
    """Return for each dataset what the harness could do at its best number of workers."""
    found = []
    for subject in subjects:
        own = [row for row in rows if row.dataset == subject.name and row.samples_per_s]
        if not own:
            continue
        workers = max(own, key=lambda row: row.samples_per_s or 0.0).workers
        case = free.get((subject.in_batch, workers))
        rate = case.row().samples_per_s if case else None
        if rate:
            how = f"one image in memory, DataLoader, {workers_words(workers)}"
            found.append(
                Ceiling(dataset=subject.name, name="free input", samples_per_s=rate, how=how)
            )
    return found


def _consumers(
    subjects: Sequence[Subject], options: BenchOptions, seconds: float, attempt: Try
) -> tuple[ConsumerRow, ...]:
    share = seconds / (len(subjects) * len(options.worker_counts))
    rows = [
        attempt(subject, partial(measure_consumer, subject, options, workers, share))
        for subject in subjects
        for workers in options.worker_counts
    ]
    return tuple(row for row in rows if row is not None)


def _advise(
    subjects: Sequence[Subject],
    options: BenchOptions,
    seconds: float,
    attempt: Try,
    found: Found,
) -> None:
    """Look for the best settings of each dataset; to paste are those of the fastest."""
    rates: dict[str, float] = {}
    for row in (*found.loaders, *found.fast_loaders):
        rates[row.dataset] = max(rates.get(row.dataset, 0.0), row.samples_per_s or 0.0)
    blocks = {}
    for subject in subjects:
        advised = attempt(subject, partial(search, subject, options, seconds / len(subjects)))
        if advised is not None:
            found.steps += advised.steps
            blocks[subject.name] = loader_block(subject, advised.best)
    if blocks:
        found.to_paste = blocks[max(blocks, key=lambda name: rates.get(name, 0.0))]
