"""``fastdata clean SRC -o OUT``: a new dataset of the good samples, by the pipeline of convert."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import RenderableType

from fastdata_cli import registry
from fastdata_cli.cli import tables
from fastdata_cli.cli.converting import run_plan
from fastdata_cli.cli.output import talk
from fastdata_cli.cli.progress import Talk
from fastdata_cli.errors import DamagedDatasetError
from fastdata_cli.imaging.policy import DAMAGED_CONTAINER
from fastdata_cli.operations.clean.report import MOST_NAMED
from fastdata_cli.operations.convert import ConvertReport
from fastdata_cli.operations.destination import check_destination
from fastdata_cli.operations.plan import make_plan
from fastdata_cli.operations.settings import ConvertOptions, SourceOptions
from fastdata_cli.operations.source import open_source
from fastdata_cli.quality.options import CleanOptions


def clean_into(
    spec: str | None,
    out: Path,
    *,
    to: str | None,
    overwrite: bool,
    source: SourceOptions,
    reading: Mapping[str, Any],
    writing: Mapping[str, Any],
    policy: Mapping[str, Any],
    checks: CleanOptions,
    jobs: int | None,
    listener: Talk,
) -> ConvertReport:
    """Write the good samples of a source into a new dataset, payload untouched.

    Args:
        spec: the source, as ``open_source`` takes it.
        to: name of the format, whatever the suffix of ``out``.
        overwrite: replace a dataset of fastdata.
        source: how it is listed and labelled.
        reading, writing: options of the formats, by name.
        policy: options of the image policy, by name.
        checks: what is left out.
        jobs: threads.
        listener: hears what is decided on the way.
    """
    row = registry.for_destination(out, to)
    write = row.write_options.from_mapping(writing, owner=f"format {row.name}")
    opened = open_source(spec, source, reading)
    if opened.root is not None:
        listener.notice(f"keys are relative to {opened.root}")
    for remark in opened.remarks:
        listener.notice(f"source: {remark}")
    check_destination(out, row, overwrite=overwrite, source=opened)
    options = ConvertOptions(payload=opened.reader.schema.payload.value, max_bad="100%", **policy)
    plan = make_plan(opened, out, row, options, write, listener, clean=checks)
    report = run_plan(plan, jobs, overwrite, listener)
    if DAMAGED_CONTAINER in report.rejects:
        raise DamagedDatasetError(
            f"{opened.name} is damaged and ends before its time; "
            f"the good samples before that are in {report.path}",
            hint=f"what is missing is listed in {report.rejects_path}",
        )
    return report


def show(report: ConvertReport, *, timings: bool) -> None:
    """Print what was written and what was left out."""
    console = talk()
    for table in _tables(report):
        console.print(table)
    if timings:
        console.print(tables.stages_table(report.stages, report.seconds))


def _tables(report: ConvertReport) -> list[RenderableType]:
    held_back = report.bad + report.left_out
    facts = tables.facts_table(
        f"Cleaned into {report.format}",
        [
            ("destination", report.path),
            ("looked at", f"{report.looked_at:,}"),
            ("kept", f"{report.samples:,}"),
            ("of them resumed", report.resumed_samples or None),
            ("held back", f"{held_back:,}"),
            ("listed in", report.rejects_path),
            ("payload", report.payload),
            ("notes", tables.notes_text(report.notes)),
            ("time", tables.time_text(report.seconds)),
        ],
    )
    if not held_back:
        return [facts]
    if held_back <= MOST_NAMED:
        return [facts, tables.rejects_table(report.reject_examples, held_back, "Held back")]
    reasons = {**report.rejects, **report.cleaned}
    counted = dict(sorted(reasons.items(), key=lambda each: -each[1]))
    return [facts, tables.counts_table("Held back", "reason", counted)]
