"""Which loader brings the samples of a dataset fastest, and whether FastLoader clearly does."""

from __future__ import annotations

from fastdata_cli.operations.bench.report import BenchReport, LoaderRow
from fastdata_cli.timing.measurement import Measurement, compare_measurements
from fastdata_cli.timing.statistics import Verdict
from fastdata_cli.timing.symptoms import GAIN


def fastest_loader(report: BenchReport) -> LoaderRow | None:
    """Return the best loader of the dataset that has the fastest."""
    rows = [best_loader(report, dataset.path) for dataset in report.datasets]
    return max(filter(None, rows), key=lambda row: row.samples_per_s or 0.0, default=None)


def best_loader(report: BenchReport, dataset: str) -> LoaderRow | None:
    """Return the fastest row of the DataLoader, or that of FastLoader if it is a tenth above.

    It is what the tables show as the best. Whether noise may be the reason, other rows tell.
    """
    fast = next((row for row in report.fast_loaders if row.dataset == dataset), None)
    other = best_data_loader(report, dataset)
    if fast is None or not fast.samples_per_s:
        return other
    beaten = (1 + GAIN) * (other.samples_per_s or 0.0) if other else 0.0
    return fast if fast.samples_per_s >= beaten else other


def best_data_loader(report: BenchReport, dataset: str) -> LoaderRow | None:
    """Return the fastest row of the DataLoader over a dataset."""
    rows = [row for row in report.loaders if row.dataset == dataset and row.samples_per_s]
    return max(rows, key=lambda row: row.samples_per_s or 0.0, default=None)


def winning_fast_loader(report: BenchReport, dataset: str) -> LoaderRow | None:
    """Return the row of FastLoader if it is faster than any DataLoader by 10 %, beyond noise."""
    fast = next((row for row in report.fast_loaders if row.dataset == dataset), None)
    other = best_data_loader(report, dataset)
    if fast is None or not fast.samples_per_s or other is None:
        return fast if fast is not None and fast.samples_per_s else None
    pair = (other.measurement, fast.measurement)
    found = compare_measurements(*pair, same_run=_interleaved(*pair))
    clearly = found is not None and found.verdict is Verdict.FASTER and found.ratio >= 1 + GAIN
    return fast if clearly else None


def _interleaved(a: Measurement, b: Measurement) -> bool:
    """Whether what disturbed one of them disturbed the other as well."""
    first, second = ([repeat.position for repeat in each.repeats] for each in (a, b))
    return min(second) < max(first) and min(first) < max(second)
