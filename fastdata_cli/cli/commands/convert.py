"""``fastdata convert``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fastdata_cli import registry
from fastdata_cli.cli import flags, tables
from fastdata_cli.cli.converting import complete, run_plan
from fastdata_cli.cli.output import data, reports_errors, talk
from fastdata_cli.cli.planning import append_planner, new_planner
from fastdata_cli.cli.progress import Talk
from fastdata_cli.errors import TooManyBadError, UsageError
from fastdata_cli.imaging.policy import DAMAGED_CONTAINER
from fastdata_cli.operations.convert import ConvertReport
from fastdata_cli.operations.estimate import Estimate, estimate
from fastdata_cli.operations.settings import ConvertOptions, PolicyOptions, SourceOptions
from fastdata_cli.operations.source import open_source
from fastdata_cli.operations.words import count_text, size_text
from fastdata_cli.options import flag

_FORMATS = registry.all_formats()
_SOURCE = flags.parameters(SourceOptions, panel="Source")
_SAMPLES = [
    *flags.parameters(ConvertOptions, panel="Samples", besides=PolicyOptions),
    *flags.parameters(PolicyOptions, panel="Reading images"),
]
_TAKEN = {parameter.name for parameter in (*_SOURCE, *_SAMPLES)}
_READ = flags.format_parameters(_FORMATS, "read_options", panel="Source", taken=_TAKEN)
_WRITE = flags.format_parameters(_FORMATS, "write_options", panel="Format")


def _convert(
    context: typer.Context,
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="SRC", help="Folder of images, dataset, one image, or - for a list on stdin."
        ),
    ] = None,
    destination: Annotated[
        str | None,
        typer.Argument(metavar="DST", help="Where to write; its suffix names the format."),
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="FORMAT", help="Format, whatever the suffix.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a dataset made by fastdata.")
    ] = False,
    append: Annotated[
        bool,
        typer.Option(
            "--append", help="Add what DST does not hold yet at its end, with its own options."
        ),
    ] = False,
    retry_bad: Annotated[
        bool,
        typer.Option("--retry-bad", help="Try what DST.rejects.jsonl lists again, and add it."),
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            "-j",
            min=1,
            metavar="N",
            help="Threads (default: all cores); the output is the same.",
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Write nothing; say what, how large, how long; without DST, in several formats.",
        ),
    ] = False,
    no_preflight: Annotated[
        bool,
        typer.Option("--no-preflight", help="Start even if the disk looks too small."),
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="YAML file with any of these flags; flags given here win.",
            callback=flags.load_config,
            is_eager=True,
        ),
    ] = None,
    timings: Annotated[bool, typer.Option("--timings", help="Show where the time went.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False,
    **values: Any,
) -> None:
    if dry_run and destination is None and (source is None) != (values["files_from"] is None):
        from fastdata_cli.cli.surveying import try_formats  # loaders, which no other run needs

        _require_destination(
            {"to": to, "append": append, "retry_bad": retry_bad, **flags.given(values, _WRITE)}
        )
        settings = SourceOptions(**flags.pick(SourceOptions, values))
        options = ConvertOptions(**flags.pick(ConvertOptions, values))
        reading = flags.given(values, _READ)
        try_formats(source, settings, reading, options, jobs=jobs, quiet=quiet)
        return
    spec, path = _places(source, destination, values["files_from"])
    if append or retry_bad:
        names = [parameter.name for parameter in _WRITE]
        planner = append_planner(
            context, path, to, values, names, new=append, again=retry_bad, overwrite=overwrite
        )
    else:
        write = flags.given(values, _WRITE)
        planner = new_planner(path, to, values, write, overwrite=overwrite, dry_run=dry_run)
    with Talk("converting", quiet=quiet) as listener:
        opened = open_source(
            spec, SourceOptions(**flags.pick(SourceOptions, values)), flags.given(values, _READ)
        )
        if opened.root is not None:
            listener.notice(f"keys are relative to {opened.root}")
        for remark in opened.remarks:
            listener.notice(f"source: {remark}")
        plan = planner(opened, listener)
        if plan is None:
            return
        if dry_run:
            _show_estimate(estimate(plan, jobs=jobs))
            return
        report = run_plan(plan, jobs, overwrite, listener, look_ahead=not no_preflight)
    with complete(Path(report.path)):
        if not quiet:
            _show(report, timings)
    if report.too_many_bad:
        raise TooManyBadError(
            f"{_what_is_wrong(report)}; the good samples are in {report.path}",
            hint=f"every bad one is listed in {report.rejects_path}",
        )


def _places(
    source: str | None, destination: str | None, files_from: str | None
) -> tuple[str | None, Path]:
    """Return source and destination; with --files-from the only argument is the destination."""
    if files_from is not None and destination is None:
        source, destination = None, source
    if not destination or (source is None and files_from is None):
        raise UsageError(
            "a destination is needed" if source else "a source and a destination are needed",
            hint="fastdata convert ./images out.zarr; --dry-run in place of DST compares formats",
        )
    if files_from is not None and source is not None:
        raise UsageError("--files-from replaces the source: give the destination only")
    if "://" in destination or ("://" in (source or "") and not _is_piped(source)):
        raise UsageError("URLs are not supported: give a local path")
    return source, Path(destination)


def _require_destination(values: dict[str, Any]) -> None:
    """Raise UsageError for flags that mean nothing without a destination."""
    given = [name for name, value in values.items() if value]
    if given:
        raise UsageError(
            f"{flag(given[0])} needs a destination",
            hint="without one, --dry-run tries several formats",
        )


def _is_piped(source: str | None) -> bool:
    return source is not None and source.startswith(registry.PIPE)


def _what_is_wrong(report: ConvertReport) -> str:
    if DAMAGED_CONTAINER in report.rejects:
        return "the source is damaged and ends before its time"
    return f"{report.bad:,} of {report.looked_at:,} samples are bad: more than --max-bad allows"


def _show(report: ConvertReport, timings: bool) -> None:
    console = talk()
    made = (report.samples if report.added is None else report.added) - report.resumed_samples
    rate = f", {made / report.seconds:,.0f} samples/s" if made and report.seconds else ""
    console.print(
        tables.facts_table(
            f"{'Converted' if report.added is None else 'Added'} to {report.format}",
            [
                ("destination", report.path),
                ("samples", f"{report.samples:,}"),
                ("of them added", None if report.added is None else f"{report.added:,}"),
                (
                    "of them resumed",
                    report.resumed_samples or None,
                ),
                ("classes", report.classes or None),
                ("payload", report.payload),
                ("image", tables.shape_text(report.image_shape)),
                ("logical size", size_text(report.logical_bytes)),
                ("stored size", size_text(report.stored_bytes)),
                ("notes", tables.notes_text(report.notes)),
                ("left out", tables.pairs_text(report.cleaned)),
                ("bad samples", tables.pairs_text(report.rejects)),
                ("listed in", report.rejects_path),
                ("time", tables.time_text(report.seconds) + rate),
            ],
        )
    )
    if report.bad or report.left_out:
        total = report.bad + report.left_out
        title = "Not stored" if report.left_out else "Bad samples"
        console.print(tables.rejects_table(report.reject_examples, total, title))
    if timings:
        console.print(tables.stages_table(report.stages, report.seconds))


def _show_estimate(found: Estimate) -> None:
    data().print(  # what was asked for
        tables.facts_table(
            f"Dry run: {found.format}, nothing written",
            [
                ("destination", found.path),
                ("measured on", count_text(found.measured, "sample")),
                ("bad among them", found.bad or None),
                ("samples", f"about {found.samples:,}"),
                ("payload", found.payload),
                ("image", tables.shape_text(found.image_shape)),
                ("logical size", f"about {size_text(found.logical_bytes)}"),
                ("stored size", f"about {size_text(found.stored_bytes)}"),
                ("time", f"about {tables.time_text(found.seconds)}"),
            ],
        )
    )


_convert.__doc__ = """Store images in a training-friendly layout.

The suffix of DST decides the format: .zarr .lmdb .tar .h5 .raw; a pattern such as train-%06d.tar \
makes shards, and --to tree a plain folder. Images that cannot be used are skipped, named, and \
listed beside DST. A run that was interrupted continues when repeated. --append adds what a grown \
source has more, and --retry-bad what was bad and is repaired. --dry-run without DST compares \
formats.

[bold]fastdata convert ./images out.zarr --chunk 1000 --codec lz4[/bold]
"""
command = reports_errors(flags.with_signature(_convert, [*_SOURCE, *_READ, *_SAMPLES, *_WRITE]))
