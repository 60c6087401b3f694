"""The words for a bench report: names of datasets, rates, the headline, doubts in sentences."""

from __future__ import annotations

import os.path
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from rich.cells import cell_len, set_cell_size

from fastdata_cli.keys import printable
from fastdata_cli.operations.bench.best import (
    best_data_loader,
    fastest_loader,
    winning_fast_loader,
)
from fastdata_cli.operations.bench.report import BenchReport, LoaderRow, ReadRow, Verdict
from fastdata_cli.operations.words import size_text
from fastdata_cli.timing.doubts import WarningKind
from fastdata_cli.timing.environment import Environment, Storage
from fastdata_cli.timing.measurement import Measurement
from fastdata_cli.timing.symptoms import GAIN

LONGEST_NAME = 26
"""Columns of a terminal that the name of a dataset may take in a table."""
_HEAD = 8
_STARVED = "starved"
# The row that is told as the fastest is then that of FastLoader, which the DataLoader never limits.
_LOADER = "loader"
_LIMITS = {
    "consumer": "fast enough for the consumer",
    "decode": "limited by decoding",
    "decompress": "limited by decompression",
    "device": "limited by the device",
    "loader": "limited by the DataLoader",
    "memory": "limited by memory",
    "resize": "limited by resizing",
    "starved": "starved by other processes",
    "transfer": "limited by copying",
    "unknown": "no single limit",
    "workers": "limited by the number of workers",
}
_LESS_IS_WORSE = {
    WarningKind.TOO_SHORT,
    WarningKind.FEW_REPEATS,
    WarningKind.FEW_REQUESTS,
    WarningKind.BUDGET,
}


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


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Return the names, long ones cut in the middle; whole where they would then look alike."""
    every = set(names)
    for head in range(_HEAD, LONGEST_NAME, _HEAD):
        cut = {name: _cut(name, head) for name in every}
        if len(set(cut.values())) == len(every):
            return cut
    return {name: name for name in every}


def _cut(name: str, head: int) -> str:
    """Keep as many columns of the beginning, and more of the end."""
    if cell_len(name) <= LONGEST_NAME:
        return name
    first = set_cell_size(name, head).rstrip()
    last = name
    while cell_len(last) > LONGEST_NAME - head - 1:
        last = last[1:]
    return f"{first}…{last}"


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


def headline(report: BenchReport) -> str:
    """Return the verdict in one line: the fastest dataset, how fast it is, what limits it."""
    named = labels([each.path for each in report.datasets])
    reads = [row for row in report.reads if row.samples_per_s]
    fastest: LoaderRow | ReadRow | None = fastest_loader(report)
    fastest = fastest or max(reads, key=lambda row: row.samples_per_s or 0.0, default=None)
    if fastest is None:
        return "Nothing was measured"
    rate = number_text(fastest.samples_per_s)
    kind = "training batches" if isinstance(fastest, LoaderRow) else "plain reads"
    how = f"in {kind} ({fastest.words})"
    name = named.get(fastest.dataset, printable(fastest.dataset))
    lead = f"Fastest: {name}" if len(report.datasets) > 1 else name
    limits = [each.bottleneck for each in report.verdicts if each.dataset == fastest.dataset]
    limit = f", {limit_words(limits[0])}" if limits and limits[0] != _LOADER else ""
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


def pasted(report: BenchReport) -> str:
    """Return the lines to paste, as they may be shown; empty where there are none."""
    return "\n".join(map(printable, report.to_paste.splitlines()))


def split_action(action: str) -> tuple[str, str]:
    """Return the command or setting of an action, and what is said beside it, if anything."""
    command, gap, remark = action.partition("  (")
    return printable(command), printable(remark.removesuffix(")")) if gap else ""


def notes(report: BenchReport) -> tuple[str, ...]:
    """Return everything that a reader of the numbers has to know, each once."""
    named = labels([each.path for each in report.datasets])
    copying = [f"copying to a GPU: {report.host_to_device}"] if report.host_to_device else []
    told = [*_shared(report.notes, named), *copying, *_undecided(report, named)]
    found = [*told, *_timing_doubts(report, named)]
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


def _undecided(report: BenchReport, named: Mapping[str, str]) -> Iterator[str]:
    """Yield where FastLoader has the highest rate, and does not clearly win."""
    for row in report.fast_loaders:
        other = best_data_loader(report, row.dataset)
        gain = (row.samples_per_s or 0.0) / (other.samples_per_s or 1.0) - 1 if other else 0.0
        if gain > 0 and winning_fast_loader(report, row.dataset) is None:
            name = named.get(row.dataset, row.dataset)
            but = "which may be noise" if gain >= GAIN else "too little to change the loader for"
            yield f"{name}: FastLoader is {gain:.0%} faster than the DataLoader, {but}"


def _storage_words(storage: Storage) -> str:
    words = f"{storage.mount_point} is {storage.filesystem}"
    if storage.device:
        words += f" on {storage.device}" + (f" ({storage.model})" if storage.model else "")
    if storage.network:
        words += ", over a network or a daemon: its work is not all seen from here"
    return words


def _cases(report: BenchReport, named: Mapping[str, str]) -> Iterator[tuple[str, Measurement]]:
    for row in report.reads:
        yield f"{named.get(row.dataset, row.dataset)} ({row.words})", row.measurement
    for each in (*report.loaders, *report.fast_loaders):
        yield f"{named.get(each.dataset, each.dataset)} ({each.words})", each.measurement


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
