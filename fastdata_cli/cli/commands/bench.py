"""``fastdata bench``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from fastdata_cli import registry
from fastdata_cli.cli import bench_export, bench_tables, flags
from fastdata_cli.cli.bench_comparison import slower_lines
from fastdata_cli.cli.output import data, reports_errors, require_page_place, require_place, say
from fastdata_cli.cli.page import render_page
from fastdata_cli.cli.page.write import write_page
from fastdata_cli.cli.progress import Talk
from fastdata_cli.contract import Reader
from fastdata_cli.errors import EXIT_FOUND, EXIT_INTERRUPTED, UsageError
from fastdata_cli.keys import printable
from fastdata_cli.operations.bench.compare import (
    ATTEMPTS,
    DEFAULT_SHARE,
    ComparisonReport,
    compare_records,
    confirmed,
    parse_share,
)
from fastdata_cli.operations.bench.report import BenchReport
from fastdata_cli.operations.bench.run import bench
from fastdata_cli.operations.bench.settings import BenchOptions
from fastdata_cli.timing.record import load_record

_Named = tuple[str, Reader, str]
_OPTIONS = flags.parameters(BenchOptions, panel="Measuring")


def _bench(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH...", help="Datasets of any format, measured side by side."),
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the record as JSON (docs/bench-json.md).")
    ] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print a line for each case.")] = False,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the tables as Markdown.")
    ] = False,
    report_file: Annotated[
        Path | None,
        typer.Option("--report", metavar="FILE.html", help="Write one page with charts."),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option("--save", metavar="FILE.json", help="Keep the record, case by case."),
    ] = None,
    compare: Annotated[
        Path | None,
        typer.Option("--compare", metavar="FILE.json", help="Compare with a record of --save."),
    ] = None,
    fail_if_slower: Annotated[
        str | None,
        typer.Option("--fail-if-slower", metavar="P%", help="Exit 3 if a case got slower by more."),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Say nothing while it runs.")
    ] = False,
    **values: Any,
) -> None:
    if sum((as_json, as_csv, as_markdown)) > 1:
        raise UsageError("--json, --csv and --markdown exclude each other")
    share = _share(fail_if_slower, compare)
    before = load_record(compare) if compare else None
    require_place(save)
    require_page_place(report_file)
    options = BenchOptions(**flags.pick(BenchOptions, values))
    readers = _open(paths)
    with Talk("measuring", quiet=quiet, rate=False) as listener:
        found = _run(readers, options, listener, save)
        changes = None
        if before is not None:
            changes = compare_records(found, before, share=share)
            for attempt in ATTEMPTS:
                if not (fail_if_slower and changes.slower):
                    break
                listener.notice(f"slower than the record: measured {attempt}, to be sure")
                again = _run(readers, options, listener, None)
                changes = confirmed(changes, compare_records(again, before, share=share))
    if report_file is not None:  # first: who reads the tables may go away
        write_page(render_page(found, changes), report_file)
        say(f"page → {printable(str(report_file))}")
    _show(found, changes, as_json=as_json, as_csv=as_csv, as_markdown=as_markdown)
    if changes is not None and fail_if_slower and changes.slower:
        for line in slower_lines(changes):
            say(line, style="red")
        raise typer.Exit(EXIT_FOUND)


def _share(text: str | None, compare: Path | None) -> float:
    if text is None:
        return DEFAULT_SHARE
    if compare is None:
        raise UsageError(
            "--fail-if-slower needs something to compare with",
            hint="add --compare FILE.json, which an earlier run wrote with --save",
        )
    return parse_share(text)


def _open(paths: Sequence[str]) -> list[_Named]:
    """Return path, reader and name of the format of each dataset."""
    found = []
    for path in paths:
        row = registry.recognise(Path(path))
        registry.require(row)
        found.append((path, row.open_reader(Path(path), row.read_options()), row.name))
    return found


def _run(
    readers: Sequence[_Named], options: BenchOptions, listener: Talk, save: Path | None
) -> BenchReport:
    before = _written(save)
    try:
        return bench(readers, options, listener=listener, save=save)
    except KeyboardInterrupt:
        wrote = _written(save) != before
        kept = f"; what was measured is in {printable(str(save))}" if wrote else ""
        say(f"interrupted{kept}", style="yellow")
        raise typer.Exit(EXIT_INTERRUPTED) from None


def _written(path: Path | None) -> int | None:
    """Return when a file was last written, in ns; None where there is none."""
    return path.stat().st_mtime_ns if path is not None and path.exists() else None


def _show(
    found: BenchReport,
    changes: ComparisonReport | None,
    *,
    as_json: bool,
    as_csv: bool,
    as_markdown: bool,
) -> None:
    if as_json:
        sys.stdout.write(bench_export.to_json(found))
    elif as_csv:
        sys.stdout.write(bench_export.to_csv(found))
    elif as_markdown:
        sys.stdout.write(bench_export.to_markdown(found, changes))
    else:
        bench_tables.show(found, data(), changes)


_bench.__doc__ = """Measure datasets: device, reads, stages, loaders; say what to change.

Takes about a minute (--seconds); --quick takes ten seconds or a little more, and measures less. \
Nothing is written but --save and --report. With --compare and --fail-if-slower 5% it guards a \
build: exit 3 if a case got slower beyond noise.

[bold]fastdata bench out.zarr --workers 8[/bold]
"""
command = reports_errors(flags.with_signature(_bench, _OPTIONS))
