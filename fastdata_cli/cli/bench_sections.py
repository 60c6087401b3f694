"""A bench report as plain tables of text: what the terminal, Markdown and the page all show."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from fastdata_cli.cli.bench_advice import steps_section
from fastdata_cli.cli.bench_words import (
    labels,
    number_text,
    rate_cell,
    shared_folder,
    spread_text,
)
from fastdata_cli.cli.section import Column, Section, make_section, right
from fastdata_cli.cli.tables import pairs_text, shape_text
from fastdata_cli.keys import printable
from fastdata_cli.operations.bench.best import best_loader
from fastdata_cli.operations.bench.report import BenchReport, LoaderRow, ReadRow
from fastdata_cli.operations.words import size_text

_DECIDING = ("chunk", "shard_samples", "shards", "codec", "level", "shuffle")

LATENCIES = ("p50", "p90", "p95", "p99", "p99.9")
"""The percentiles that are shown where there is room."""


_Labels = Mapping[str, str]


def sections(report: BenchReport) -> tuple[Section, ...]:
    """Return the tables that have rows, in the order in which they are read."""
    named = labels([each.path for each in report.datasets])
    makers: tuple[Callable[[BenchReport, _Labels], Section], ...] = (
        _datasets,
        _device,
        _reads,
        _stages,
        _ceilings,
        _loaders,
        _consumers,
        steps_section,
    )
    made = (maker(report, named) for maker in makers)
    return tuple(section for section in made if section.groups)


def _datasets(report: BenchReport, named: _Labels) -> Section:
    columns = (
        Column(head="dataset", names=True),
        Column(head="format"),
        right("samples"),
        Column(head="stores"),
        Column(head="image"),
        right("a sample", 2),
        right("stored"),
        Column(head="layout", rank=1, folds=True),
    )
    rows = (
        (
            "",
            (
                named[each.path],
                each.format,
                f"{each.samples:,}",
                each.payload,
                shape_text(each.image_shape) or "",
                size_text(each.sample_bytes),
                size_text(each.stored_bytes),
                _layout(each.layout, random_access=each.random_access),
            ),
        )
        for each in report.datasets
    )
    folder = printable(shared_folder([each.path for each in report.datasets]))
    return make_section("datasets", "Datasets", columns, rows, remark=folder and f"in {folder}")


def _layout(layout: Mapping[str, object], *, random_access: bool) -> str:
    """Return what of a layout decides how it is read; ``inspect`` shows the rest."""
    plain = {name: value for name, value in layout.items() if value != "none" or name == "codec"}
    chosen = {name: plain[name] for name in _DECIDING if name in plain}
    words = [pairs_text(chosen), "" if random_access else "no random access"]
    return ", ".join(filter(None, words))


def _device(report: BenchReport, named: _Labels) -> Section:
    columns = (
        Column(head="device reads"),
        right("block"),
        right("depth"),
        right("MB/s"),
        right("IOPS"),
        right("p50 ms"),
        right("p99 ms"),
        Column(head="cache", varies=True),
        Column(head="measured by", varies=True),
    )
    rows = (
        (
            named.get(dataset, dataset),
            (
                result.name,
                size_text(result.block_bytes),
                str(result.depth),
                number_text(result.bandwidth / 1e6),
                number_text(result.iops),
                _milliseconds(result.latency.p50),
                _milliseconds(result.latency.p99),
                "bypassed" if result.direct else "in the way",
                result.tool,
            ),
        )
        for dataset, results in report.device.items()
        for result in results
    )
    return make_section("device", "Device: the most that the disk gives", columns, rows)


def _milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else number_text(seconds * 1000)


def _reads(report: BenchReport, named: _Labels) -> Section:
    columns = (
        Column(head="dataset", names=True),
        right("samples/s"),
        right("±", 1),
        right("of best"),
        right("MB/s", 3),
        right("IOPS", 4),
        right("p50 ms"),
        right("p99 ms"),
        Column(head="cache", varies=True),
        Column(head="read ×", right=True, rank=2, means="bytes from storage for each byte used"),
    )
    alike: dict[str, list[ReadRow]] = {}
    for row in report.reads:
        alike.setdefault(row.words, []).append(row)
    several = len(report.datasets) > 1

    def rows() -> Iterator[tuple[str, tuple[str, ...]]]:
        for words, group in alike.items():
            best = max((row.samples_per_s or 0.0 for row in group), default=0.0)
            for row in group:
                cells = (
                    rate_cell(row.samples_per_s, row.measurement),
                    spread_text(row.measurement),
                    _ratio(row.samples_per_s, best) if several else "",
                    number_text(row.megabytes_per_s),
                    number_text(row.requests_per_s),
                    number_text(row.latency_ms.get("p50")),
                    number_text(row.latency_ms.get("p99")),
                    row.cache.before if row.samples_per_s else "",
                    number_text(row.amplification),
                )
                name = named.get(row.dataset, row.dataset)
                yield (words, (name, *cells)) if several else ("", (words, *cells))

    if not several:
        columns = (Column(head="reads"), *columns[1:])
    return make_section(
        "reads", "Plain reads", columns, rows(), group="reads" if several else "dataset"
    )


def latency_section(report: BenchReport) -> Section:
    """Return more percentiles of single requests than the table of plain reads has room for."""
    named = labels([each.path for each in report.datasets])
    columns = (Column(head="reads"), *(right(f"{name} ms") for name in LATENCIES))
    rows = (
        (
            named.get(row.dataset, row.dataset),
            (row.words, *(number_text(row.latency_ms.get(name)) for name in LATENCIES)),
        )
        for row in report.reads
        if row.latency_ms
    )
    return make_section("latency", "Latency of a request", columns, rows)


def _ratio(rate: float | None, best: float) -> str:
    if not rate or not best:
        return "-"
    return "best" if rate == best else f"{rate / best:.2f}×"


def _stages(report: BenchReport, named: _Labels) -> Section:
    columns = (Column(head="stage"), right("µs a sample"), right("share"), Column(head=""))
    rows = (
        (
            named.get(row.dataset, row.dataset),
            (
                row.stage,
                number_text(row.seconds_per_sample * 1e6),
                f"{row.share:.0%}",
                "█" * round(row.share * 30) or "▏",
            ),
        )
        for row in report.stages
    )
    handed = any(row.stage == "transfer" for row in report.stages)
    remark = "one thread, warm" + (" · transfer: to the training process" if handed else "")
    return make_section("stages", "Where the time of a sample goes", columns, rows, remark=remark)


def _ceilings(report: BenchReport, named: _Labels) -> Section:
    columns = (Column(head="ceiling"), right("samples/s"), Column(head="how", folds=True))

    def rows() -> Iterator[tuple[str, tuple[str, ...]]]:
        for dataset in dict.fromkeys(row.dataset for row in report.ceilings):
            name = named.get(dataset, dataset)
            for row in report.ceilings:
                if row.dataset == dataset:
                    yield name, (row.name, number_text(row.samples_per_s), row.how)
            best = best_loader(report, dataset)
            if best is not None:
                yield name, ("reached", number_text(best.samples_per_s), best.words)

    return make_section("ceilings", "Ceilings: if nothing else took time", columns, rows())


def _loaders(report: BenchReport, named: _Labels) -> Section:
    columns = (
        Column(head="loader"),
        right("samples/s"),
        right("±", 1),
        right("of best"),
        right("first batch"),
        right("wait ms", 4),
        right("memory", 3),
        right("CPU"),
        Column(head="checked"),
        Column(head="order", varies=True),
        Column(head="batch", right=True, varies=True),
        Column(head="cache", varies=True, rank=1),
    )
    every = (*report.loaders, *report.fast_loaders)
    best = max((row.samples_per_s or 0.0 for row in every), default=0.0)
    rows = (
        (
            named.get(row.dataset, row.dataset),
            (
                row.words.removeprefix("DataLoader, "),
                rate_cell(row.samples_per_s, row.measurement),
                spread_text(row.measurement),
                _ratio(row.samples_per_s, best),
                "" if row.first_batch_s is None else f"{row.first_batch_s:.2f} s",
                number_text(row.wait_ms_per_sample),
                "" if row.memory_bytes is None else size_text(row.memory_bytes),
                "" if row.cpu_share is None else f"{row.cpu_share:.0%}",
                _checked(row),
                row.order,
                str(row.batch_size),
                row.cache.before,
            ),
        )
        for row in every
    )
    title = "Training batches: DataLoader by its workers, and FastLoader"
    return make_section("loaders", title, columns, rows)


def _checked(row: LoaderRow) -> str:
    if False in (row.each_once, row.same_bytes):
        return "WRONG"
    return "-" if row.each_once is None and row.same_bytes is None else "ok"


def _consumers(report: BenchReport, named: _Labels) -> Section:
    columns = (
        Column(head="dataset", names=True, varies=len(report.datasets) == 1),
        right("workers"),
        right("ms a step"),
        right("busy"),
        right("goal"),
        Column(head="enough"),
    )
    rows = (
        (
            "",
            (
                named.get(row.dataset, row.dataset),
                str(row.workers),
                number_text(row.step_ms),
                f"{row.utilisation:.0%}",
                f"{row.goal:.0%}",
                "yes" if row.utilisation >= row.goal else "no",
            ),
        )
        for row in report.consumers
    )
    return make_section("consumers", "Would the GPU be busy", columns, rows)
