"""From what was measured of a dataset to the verdict on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fastdata_cli.operations.bench.best import winning_fast_loader
from fastdata_cli.operations.bench.report import BenchReport, LoaderRow, ReadRow, Verdict
from fastdata_cli.operations.bench.settings import BenchOptions
from fastdata_cli.operations.bench.stages import stage_seconds
from fastdata_cli.operations.bench.subject import Subject
from fastdata_cli.operations.bench.troubles import swapped_bytes
from fastdata_cli.timing.advice import judge
from fastdata_cli.timing.observation import Observation
from fastdata_cli.timing.resource_use import DiskUse, Resources


def verdict_on(
    subject: Subject,
    options: BenchOptions,
    report: BenchReport,
    resources: Mapping[int, Resources],
) -> Verdict:
    """Judge one dataset.

    Args:
        subject: the dataset.
        options: of the run.
        report: with all rows.
        resources: what its loaders took, by number of workers.
    """
    advice = judge(observe(subject, options, report, resources))
    return Verdict(
        dataset=subject.name,
        bottleneck=str(advice.bottleneck),
        sentence=advice.sentence,
        action=advice.action,
    )


def observe(
    subject: Subject,
    options: BenchOptions,
    report: BenchReport,
    resources: Mapping[int, Resources],
) -> Observation:
    """Return all numbers that the rules look at; see ``verdict_on``."""
    layout = subject.facts.layout
    loaders = [row for row in report.loaders if row.dataset == subject.name]
    rates = {row.workers: row.samples_per_s for row in loaders if row.samples_per_s}
    fast = winning_fast_loader(report, subject.name)
    best = max(rates, key=lambda count: rates[count], default=None)
    best_row = next((row for row in loaders if row.workers == best), None)
    used = resources.get(best) if best is not None else None
    reads = _reads(report.reads, subject, options)
    ceilings = {
        each.name: each.samples_per_s for each in report.ceilings if each.dataset == subject.name
    }
    consumers = [row for row in report.consumers if row.dataset == subject.name]
    consumer = max(consumers, key=lambda row: row.utilisation, default=None)
    observation = Observation(
        dataset=subject.name,
        format=subject.format,
        payload=subject.facts.payload,
        codec=layout.get("codec"),
        chunk=layout.get("chunk"),
        shard_samples=layout.get("shard_samples"),
        sample_bytes=subject.stored_sample_bytes,
        random_access=subject.facts.random_access,
        size="x".join(map(str, subject.size)) if subject.size else None,
        max_side=subject.max_side,
        loader=rates,
        fast_loader=fast.samples_per_s if fast else None,
        fast_loader_line=fast.line if fast else "",
        order=subject.order(options.order),
        batch_size=options.batch_size,
        reads={row.order: row.samples_per_s for row in reads if row.samples_per_s},
        stages=stage_seconds(report.stages, subject.name),
        device_ceiling=ceilings.get("device"),
        decode_ceiling=ceilings.get("decode on all cores"),
        free_ceiling=ceilings.get("free input"),
        cores=report.environment.cores_usable,
        cache=_cache(best_row, reads),
        amplification=next(
            (row.amplification for row in reads if row.order == subject.order(options.order)), None
        ),
        cpu_share=best_row.cpu_share if best_row else None,
        others_share=_others(best_row, reads),
        step_s=options.step_ms / 1000 if options.step_ms else None,
        utilisation=consumer.utilisation if consumer else None,
        consumer_workers=consumer.workers if consumer else None,
    )
    return _with_resources(observation, used, report) if used else observation


def _with_resources(seen: Observation, used: Resources, report: BenchReport) -> Observation:
    """Add what the best loader took of the machine."""
    disk = _busiest(used)
    return replace(
        seen,
        iowait=used.iowait_mean,
        disk_utilisation=disk.utilisation_mean if disk else None,
        disk_queue=disk.queue_mean if disk else None,
        swapped_bytes=swapped_bytes(used),
        memory_share=_memory_share(used, report),
    )


def _reads(rows: Sequence[ReadRow], subject: Subject, options: BenchOptions) -> list[ReadRow]:
    """Return the reads by batch on the fewest threads: one for each order."""
    threads = min(options.thread_counts)
    return [
        row
        for row in rows
        if row.dataset == subject.name and row.by == "batch" and row.threads == threads
    ]


def _cache(loader: LoaderRow | None, reads: Sequence[ReadRow]) -> str:
    rows: list[LoaderRow | ReadRow] = [*([loader] if loader else []), *reads]
    return rows[0].cache.before if rows else "unknown"


def _others(loader: LoaderRow | None, reads: Sequence[ReadRow]) -> float | None:
    """Return what others took of the processors while the loader ran; without one, plain reads."""
    if loader is not None:
        return loader.measurement.others
    return max((row.measurement.others for row in reads), default=None)


def _busiest(resources: Resources) -> DiskUse | None:
    return max(resources.disks, key=lambda disk: disk.utilisation_mean, default=None)


def _memory_share(resources: Resources, report: BenchReport) -> float | None:
    available = report.environment.memory_available_bytes
    if not available:
        return None
    memory = resources.memory
    return (memory.peak - memory.mapped_at_peak) / available
