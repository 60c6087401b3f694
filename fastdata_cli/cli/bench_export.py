"""A bench report as JSON for programs, CSV for spreadsheets, Markdown for people."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from typing import Any

from fastdata_cli.cli.bench_comparison import comparison_section
from fastdata_cli.cli.bench_sections import sections
from fastdata_cli.cli.bench_words import environment_lines, headline, notes, pasted, verdicts
from fastdata_cli.cli.section import Section
from fastdata_cli.keys import inert, printable
from fastdata_cli.operations.bench.compare import ComparisonReport
from fastdata_cli.operations.bench.recorder import record_of
from fastdata_cli.operations.bench.report import BenchReport
from fastdata_cli.timing.measurement import Measurement

_SPECIAL = re.compile(r"([\\`*\[\]<>|])")

_CSV_COLUMNS = (
    "kind", "dataset", "name", "order", "by", "threads", "workers", "batch_size",
    "samples_per_s", "relative_spread", "repeats", "megabytes_per_s", "requests_per_s",
    "latency_p50_ms", "latency_p95_ms", "latency_p99_ms", "first_batch_s", "wait_ms_per_sample",
    "memory_bytes", "cpu_share", "seconds_per_sample", "share", "utilisation", "goal", "step_ms",
    "block_bytes", "depth", "cache_before", "cache_after", "amplification", "failure",
)  # fmt: skip


def to_json(report: BenchReport) -> str:
    """Return the record that ``--save`` writes (docs/bench-json.md)."""
    return record_of(report).to_json()


def to_csv(report: BenchReport) -> str:
    """Return a line for each thing measured, ``kind`` saying what; what does not apply is empty."""
    out = io.StringIO()
    writer = csv.DictWriter(out, _CSV_COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    for row in _csv_rows(report):
        writer.writerow({name: _csv_cell(value) for name, value in row.items()})
    return out.getvalue()


def _csv_rows(report: BenchReport) -> Iterator[dict[str, Any]]:
    for dataset, results in report.device.items():
        for result in results:
            yield {
                "kind": "device",
                "dataset": dataset,
                "name": result.name,
                "block_bytes": result.block_bytes,
                "depth": result.depth,
                "megabytes_per_s": result.bandwidth / 1e6,
                "requests_per_s": result.iops,
            }
    for read in report.reads:
        shared = _own(read, "dataset", "order", "by", "threads", "samples_per_s", "amplification")
        shared |= _own(read, "megabytes_per_s", "requests_per_s")
        latency = {
            f"latency_{level}_ms": read.latency_ms.get(level) for level in ("p50", "p95", "p99")
        }
        yield {"kind": "read", **shared, **latency, **_timing(read.measurement), **_cache(read)}
    for kind, loaders in (("loader", report.loaders), ("fast loader", report.fast_loaders)):
        for loader in loaders:
            shared = _own(loader, "dataset", "order", "workers", "batch_size", "samples_per_s")
            shared |= _own(loader, "first_batch_s", "wait_ms_per_sample", "memory_bytes")
            shared |= _own(loader, "cpu_share")
            yield {"kind": kind, **shared, **_timing(loader.measurement), **_cache(loader)}
    for stage in report.stages:
        yield {
            "kind": "stage",
            "name": stage.stage,
            **_own(stage, "dataset", "seconds_per_sample", "share"),
        }
    for ceiling in report.ceilings:
        yield {"kind": "ceiling", **_own(ceiling, "dataset", "name", "samples_per_s")}
    for step in report.steps:
        yield {"kind": "setting", "name": step.setting, **_own(step, "dataset", "samples_per_s")}
    for each in report.consumers:
        yield {
            "kind": "consumer",
            **_own(each, "dataset", "workers", "step_ms", "utilisation", "goal"),
        }


def _own(row: object, *names: str) -> dict[str, Any]:
    return {name: getattr(row, name) for name in names}


def _timing(measurement: Measurement) -> dict[str, Any]:
    summary, failure = measurement.summary, measurement.failure
    return {
        "relative_spread": summary.relative_spread if summary else None,
        "repeats": len(measurement.repeats),
        "failure": failure.message if failure else None,
    }


def _cache(row: Any) -> Mapping[str, Any]:
    return {"cache_before": row.cache.before, "cache_after": row.cache.after}


def _csv_cell(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value:.6g}"
    return inert(printable(value)) if isinstance(value, str) else value


def to_markdown(report: BenchReport, changes: ComparisonReport | None = None) -> str:
    """Return the verdict, then every table, as GitHub renders them."""
    lines = [f"**{_escaped(headline(report))}**", ""]
    for verdict in verdicts(report):
        lines.append(f"- {_escaped(verdict.dataset)}: {_escaped(verdict.sentence)}")
        if verdict.action:
            lines.append(f"  - next: {_escaped(verdict.action)}")
    compared = [comparison_section(changes)] if changes else []
    for section in (*compared, *sections(report)):
        lines += ["", f"### {section.title}", "", *_markdown_table(section)]
    doubts = [f"- {_escaped(text)}" for text in notes(report)]
    if doubts:
        lines += ["", "### What to know about these numbers", "", *doubts]
    places = [f"- {_escaped(text)}" for text in environment_lines(report.environment)]
    lines += ["", "### Measured on", "", *places]
    if report.to_paste:
        lines += ["", "### To paste", "", "```python", pasted(report), "```"]
    return "\n".join(lines) + "\n"


def _markdown_table(section: Section) -> Iterator[str]:
    """Yield the lines of a table; the name of a group is repeated, as there is no other way."""
    kept = [at for at, column in enumerate(section.columns) if column.head]
    columns = [section.columns[at] for at in kept]
    remark = section.remark_on(columns)
    if remark:
        yield _escaped(remark)
        yield ""
    first = [section.group] if section.grouped else []
    yield _markdown_row([*first, *(column.head for column in columns)])
    signs = ["---"] * len(first) + ["---:" if column.right else "---" for column in columns]
    yield "| " + " | ".join(signs) + " |"
    for group in section.groups:
        for row in group.rows:
            yield _markdown_row([*([group.name] if first else []), *(row[at] for at in kept)])


def _markdown_row(cells: list[str]) -> str:
    return "| " + " | ".join(map(_escaped, cells)) + " |"


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", printable(text))
