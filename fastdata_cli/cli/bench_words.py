"""The words for a bench report: names of datasets, rates, the headline, doubts in sentences."""

from __future__ import annotations

import os.path
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from fastdata_cli.cli.tables import size_text
from fastdata_cli.keys import printable
from fastdata_cli.operations.bench.report import (
    BenchReport,
    LoaderRow,
    ReadRow,
    Verdict,
    workers_words,
)
from fastdata_cli.timing.doubts import WarningKind
from fastdata_cli.timing.environment import Environment, Storage
from fastdata_cli.timing.measurement import Measurement

_STARVED = "starved"
_LIMITS = {
    "consumer": "fast enough for the consumer",
    "decode": "limited by decoding",
    "decompress": "limited by decompression",
    "device": "limited by the device",
    "memory": "limited by memory",
    "resize": "limited by resizing",
    "starved": "starved by other processes",
    "transfer": "limited by copying",
    "unknown": "no single limit",
    "workers": "limited by the number of workers",
}
_LESS_IS_WORSE = {WarningKind.TOO_SHORT, WarningKind.FEW_REPEATS, WarningKind.BUDGET}


def labels(paths: Sequence[str]) -> dict[str, str]:
    """Return a short name for each path: what is below the folder that they share."""
    folder = shared_folder(paths)
    return {path: printable(os.path.relpath(path, folder) if folder else path) for path in paths}


def shared_folder(paths: Sequence[str]) -> str:
    """Return the deepest folder that holds all of them; empty where there is none to name."""
    try:
        folder = os.path.commonpath([os.path.dirname(path.rstrip("/")) for path in paths])
    except ValueError:  # some are relative and some are not, or there are none
        return ""
    return "" if folder == "/" else folder


def number_text(value: float | None) -> str:
    """Return a number with about three digits; empty for None."""
    if value is None:
        return ""
    if abs(value) >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 9.995 else f"{value:.2f}"


def rate_cell(rate: float | None, measurement: Measurement) -> str:
    """Return the cell of a rate: its number, or that it failed."""
    return "failed" if measurement.failure and rate is None else number_text(rate) or "-"


def spread_text(measurement: Measurement) -> str:
    """Return half the width of the middle half of the repeats, as a share of the median."""
    summary = measurement.summary
    return f"{summary.relative_spread:.0%}" if summary and summary.n > 1 else ""


def read_words(row: ReadRow) -> str:
    """Return ``random, by batch, 4 threads``."""
    threads = f", {row.threads} threads" if row.threads > 1 else ""
    return f"{row.order}, by {row.by}{threads}"


def best_loader(report: BenchReport, dataset: str) -> LoaderRow | None:
    """Return the fastest row of the DataLoader over one dataset."""
    rows = [row for row in report.loaders if row.dataset == dataset and row.samples_per_s]
    return max(rows, key=lambda row: row.samples_per_s or 0.0, default=None)


def headline(report: BenchReport) -> str:
    """Return the verdict in one line: the fastest dataset, how fast it is, what limits it."""
    named = labels([each.path for each in report.datasets])
    loaders = [row for row in report.loaders if row.samples_per_s]
    reads = [row for row in report.reads if row.samples_per_s]
    rows: Sequence[LoaderRow | ReadRow] = loaders or reads
    if not rows:
        return "Nothing was measured"
    fastest = max(rows, key=lambda row: row.samples_per_s or 0.0)
    rate = number_text(fastest.samples_per_s)
    if isinstance(fastest, LoaderRow):
        how = f"in training batches with {workers_words(fastest.workers)}"
    else:
        how = f"in plain reads ({read_words(fastest)})"
    name = named.get(fastest.dataset, printable(fastest.dataset))
    lead = f"Fastest: {name}" if len(report.datasets) > 1 else name
    limits = [each.bottleneck for each in report.verdicts if each.dataset == fastest.dataset]
    limit = f", {limit_words(limits[0])}" if limits else ""
    return f"{lead}, {rate} samples/s {how}{limit}"


def verdicts(report: BenchReport) -> tuple[Verdict, ...]:
    """Return the verdicts, with short names; that the processors were starved is said once."""
    named = labels([each.path for each in report.datasets])
    starved = [each for each in report.verdicts if each.bottleneck == _STARVED]
    found = []
    for each in report.verdicts:
        name, action = named.get(each.dataset, printable(each.dataset)), each.action
        if len(starved) > 1 and each.bottleneck == _STARVED:
            if each is not starved[0]:
                continue
            name = f"{name} and {len(starved) - 1} more"
            paths = [shlex.quote(one.dataset) for one in starved]
            action = action.replace(paths[0], " ".join(paths), 1)
        found.append(replace(each, dataset=name, action=action))
    return tuple(found)


def limit_words(bottleneck: str) -> str:
    """Return ``limited by decoding`` for ``decode``."""
    return _LIMITS.get(bottleneck, f"limited by {bottleneck}")


def environment_lines(found: Environment) -> tuple[str, ...]:
    """Return the machine, its storage and its software, a line each."""
    limit = found.memory_limit_bytes
    memory = size_text(limit or found.memory_bytes) + (" memory (limit)" if limit else " memory")
    gpus = ", ".join(found.gpus) or "no GPU"
    machine = (
        f"{found.cpu_model}, {found.cores_usable} of {found.cores_present} cores usable, "
        f"{memory}, {gpus}"
    )
    storage = dict.fromkeys(_storage_words(each) for each in found.storage)
    libraries = ", ".join(f"{name} {text}" for name, text in found.libraries.items())
    software = f"{found.kernel}, {found.python}, fastdata {found.fastdata}, {libraries}"
    return tuple(printable(line.rstrip(", ")) for line in (machine, *storage, software))


def split_action(action: str) -> tuple[str, str]:
    """Return the command or setting of an action, and what is said beside it, if anything."""
    command, gap, remark = action.partition("  (")
    return printable(command), printable(remark.removesuffix(")")) if gap else ""


def notes(report: BenchReport) -> tuple[str, ...]:
    """Return everything that a reader of the numbers has to know, each once."""
    named = labels([each.path for each in report.datasets])
    copying = [f"copying to a GPU: {report.host_to_device}"] if report.host_to_device else []
    found = [*_shared(report.notes, named), *copying, *_timing_doubts(report, named)]
    return tuple(dict.fromkeys(printable(text) for text in found))


def _shared(texts: Sequence[str], named: Mapping[str, str]) -> Iterator[str]:
    """Yield the notes; what holds for several datasets once, with all their names."""
    owners: dict[str, list[str]] = {}
    for text in texts:
        path = next((path for path in named if text.startswith(f"{path}: ")), "")
        rest = text.removeprefix(f"{path}: ") if path else text
        owners.setdefault(rest, []).extend([named[path]] if path else [])
    for text, names in owners.items():
        several = 1 < len(names) == len(named)
        yield f"all: {text}" if several else ": ".join(filter(None, [", ".join(names), text]))


def _storage_words(storage: Storage) -> str:
    words = f"{storage.mount_point} is {storage.filesystem}"
    if storage.device:
        words += f" on {storage.device}" + (f" ({storage.model})" if storage.model else "")
    if storage.network:
        words += ", over a network or a daemon: its work is not all seen from here"
    return words


def _cases(report: BenchReport, named: Mapping[str, str]) -> Iterator[tuple[str, Measurement]]:
    for row in report.reads:
        yield f"{named.get(row.dataset, row.dataset)} ({read_words(row)})", row.measurement
    for each in report.loaders:
        name = named.get(each.dataset, each.dataset)
        yield f"{name} (DataLoader, {workers_words(each.workers)})", each.measurement
    for each in report.fast_loaders:
        yield f"{named.get(each.dataset, each.dataset)} (FastLoader)", each.measurement


def _timing_doubts(report: BenchReport, named: Mapping[str, str]) -> Iterator[str]:
    """One line for each kind of doubt, in the words of the gravest: more would drown it."""
    found: dict[str, list[tuple[float, str, str]]] = {}
    for name, measurement in _cases(report, named):
        for warning in measurement.warnings:
            found.setdefault(warning.kind, []).append((warning.value, name, warning.text))
    for kind, doubts in found.items():
        gravest = min if kind in _LESS_IS_WORSE else max
        _, name, text = gravest(doubts)
        others = len({doubt[1] for doubt in doubts} - {name})
        more = f" and {others} more" if others else ""
        yield f"{name}{more}: {text}"
