"""``fastdata clean``."""

from __future__ import annotations

import contextlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from fastdata_cli import registry
from fastdata_cli.cli import clean_dataset, clean_stats, flags, tables
from fastdata_cli.cli.clean_flags import OtherOptions, OutputOptions, refuse_strays
from fastdata_cli.cli.clean_gallery import GalleryPage, command_line
from fastdata_cli.cli.clean_output import (
    JsonEmitter,
    PathEmitter,
    PathPrinter,
    check_record,
    checks_table,
    restore_table,
    summary_tables,
)
from fastdata_cli.cli.converting import complete
from fastdata_cli.cli.output import data, reports_errors, say, talk
from fastdata_cli.cli.progress import Talk
from fastdata_cli.errors import EXIT_FOUND, DamagedDatasetError, StorageError, UsageError
from fastdata_cli.operations.clean.cache import ScoreCache
from fastdata_cli.operations.clean.opening import open_subject
from fastdata_cli.operations.clean.quarantine import Quarantine, restore
from fastdata_cli.operations.clean.record import VerdictFile, report_record
from fastdata_cli.operations.clean.report import CleanReport
from fastdata_cli.operations.clean.run import Emit, Extras, clean
from fastdata_cli.operations.clean.subject import Subject
from fastdata_cli.operations.settings import PolicyOptions, SourceOptions
from fastdata_cli.operations.source import STDIN
from fastdata_cli.operations.words import count_text
from fastdata_cli.options import Options
from fastdata_cli.quality.checks import CHECKS
from fastdata_cli.quality.judge import Judge
from fastdata_cli.quality.options import CleanOptions
from fastdata_cli.quality.verdict import Verdict

_O = TypeVar("_O", bound=Options)

_FORMATS = registry.all_formats()
_CHECKS = flags.parameters(CleanOptions, panel="Checks")
_OUTPUT = flags.parameters(OutputOptions, panel="Output")
_SOURCE = flags.parameters(SourceOptions, panel="Source")
_POLICY = flags.parameters(PolicyOptions, panel="Reading images")
_OTHER = flags.parameters(OtherOptions, panel="Instead")
_OWN = (*_CHECKS, *_OUTPUT, *_SOURCE, *_POLICY, *_OTHER)
_TAKEN = {parameter.name for parameter in _OWN}
_READ = flags.format_parameters(_FORMATS, "read_options", panel="Source", taken=_TAKEN)
_WRITE = flags.format_parameters(_FORMATS, "write_options", panel="With -o")


def _clean(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SRC",
            help="Images, folders of images, or one dataset; nothing or - for paths on stdin.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", metavar="OUT", help="Write the good samples to a new dataset."
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="FORMAT", help="Format of OUT.", rich_help_panel="With -o"),
    ] = None,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite", help="Replace a dataset made by fastdata.", rich_help_panel="With -o"
        ),
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            "-j",
            min=1,
            metavar="N",
            help="Threads (default: all cores); the verdicts are the same.",
        ),
    ] = None,
    timings: Annotated[bool, typer.Option("--timings", help="Show where the time went.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False,
    **values: Any,
) -> None:
    values.update(to=to, overwrite=overwrite)
    asked = _Asked(sources or [], values, jobs, quiet, timings)
    other = asked.pick(OtherOptions)
    if other.list_checks:
        _list_checks(as_json=values["json"])
        return
    if other.restore is not None:
        _restore(Path(other.restore), asked)
        return
    wanted = asked.pick(OutputOptions)
    wanted.check()
    refuse_strays(values, [each.name for each in _WRITE], dataset=output is not None)
    found = _filter(asked, wanted) if output is None else _into_dataset(asked, Path(output))
    if found and wanted.fail_on_found:
        raise typer.Exit(EXIT_FOUND)


@dataclass(frozen=True)
class _Asked:
    """The command line."""

    paths: list[str]
    values: dict[str, Any]
    """Of all flags that are made from options, by name."""
    jobs: int | None
    quiet: bool
    timings: bool

    def pick(self, owner: type[_O]) -> _O:
        """Return the options of one set."""
        return owner(**flags.pick(owner, self.values))


def _into_dataset(asked: _Asked, output: Path) -> int:
    """Write the good samples to a dataset; return how many were held back."""
    if len(asked.paths) > 1:
        raise UsageError("-o takes one source", hint="give a folder that holds all of them")
    listed = asked.values["files_from"] is not None
    with Talk("cleaning", quiet=asked.quiet) as listener:
        report = clean_dataset.clean_into(
            asked.paths[0] if asked.paths else None if listed else STDIN,
            output,
            to=asked.values["to"],
            overwrite=asked.values["overwrite"],
            source=asked.pick(SourceOptions),
            reading=flags.given(asked.values, _READ),
            writing=flags.given(asked.values, _WRITE),
            policy=flags.pick(PolicyOptions, asked.values),
            checks=asked.pick(CleanOptions),
            jobs=asked.jobs,
            listener=listener,
        )
    with complete(Path(report.path)):
        if not asked.quiet:
            clean_dataset.show(report, timings=asked.timings)
    return report.bad + report.left_out


def _filter(asked: _Asked, wanted: OutputOptions) -> int:
    """Print names of good images, or what else is wanted; return how many were held back."""
    judge = Judge(
        asked.pick(CleanOptions),
        asked.pick(PolicyOptions).policy(),
        measure_all=wanted.stats or wanted.gallery is not None,
    )
    printer = PathPrinter(nul=asked.values["nul"])
    with contextlib.ExitStack() as open_things:
        # A bar and names on one terminal would tear each other apart.
        bar = not sys.stdout.isatty() or wanted.json
        listener = open_things.enter_context(Talk("cleaning", quiet=asked.quiet, bar=bar))
        reading = flags.given(asked.values, _READ)
        subject = open_subject(asked.paths, asked.pick(SourceOptions), reading, listener)
        extras = _extras(wanted, judge, subject, listener, open_things)
        emit = _emit(wanted, judge, printer, open_things)
        report = clean(subject, judge, emit, jobs=asked.jobs, extras=extras)
        if not report.looked_at:
            ignored = sum(report.notes.values())
            why = f" ({ignored:,} ignored)" if ignored else ""
            listener.notice(f"{report.source}: no images here{why}")
        if printer.broken_lines:
            broken = count_text(printer.broken_lines, "name holds", "names hold")
            listener.notice(f"{broken} newlines: -0 keeps names apart")
    if wanted.json:
        sys.stdout.write(json.dumps(report_record(report), indent=1) + "\n")
    _show(report, wanted, asked, extras.quarantine)
    if extras.quarantine is not None and extras.quarantine.failed:
        for trouble in extras.quarantine.troubles:
            say(trouble, style="red")
        raise StorageError(f"not all files were moved: {extras.quarantine.failed:,} stay in place")
    return report.bad


def _extras(
    wanted: OutputOptions,
    judge: Judge,
    subject: Subject,
    listener: Talk,
    open_things: contextlib.ExitStack,
) -> Extras:
    """Open what goes along with the run; nothing is made before the source is known to be there."""
    for name in ("cache", "quarantine"):
        if getattr(wanted, name) is not None and not subject.has_files:
            raise UsageError(f"--{name} is for files, and {subject.name} is a dataset")
    cache = quarantine = observer = None
    if wanted.cache is not None:
        cache = ScoreCache(Path(wanted.cache), judge, listener)
        open_things.callback(cache.close)
    if wanted.quarantine is not None:
        quarantine = Quarantine(Path(wanted.quarantine))
        open_things.callback(quarantine.close)
    if wanted.gallery is not None:
        observer = GalleryPage(Path(wanted.gallery), judge, listener)
        open_things.callback(observer.close)
    return Extras(cache=cache, quarantine=quarantine, observer=observer, listener=listener)


def _emit(
    wanted: OutputOptions, judge: Judge, printer: PathPrinter, open_things: contextlib.ExitStack
) -> Emit:
    """Return what takes each verdict: the file of --report, and then stdout."""
    if wanted.jsonl:
        show: Emit = JsonEmitter()
    elif wanted.json:
        show = _nothing
    else:
        show = PathEmitter(printer, invert=wanted.invert)
    if wanted.report is None:
        return show
    file = open_things.enter_context(VerdictFile(Path(wanted.report), judge.score_names))

    def both(verdict: Verdict, moved_to: str | None) -> None:
        file.add(verdict, moved_to)
        show(verdict, moved_to)

    return both


def _nothing(verdict: Verdict, moved_to: str | None) -> None:
    """Take a verdict that only counts."""


def _show(
    report: CleanReport, wanted: OutputOptions, asked: _Asked, quarantine: Quarantine | None
) -> None:
    console = talk()
    if report.looked_at and not asked.quiet:
        for table in summary_tables(report, quarantine, wanted.report):
            console.print(table)
        if report.bad > len(report.first_bad) and not (wanted.report or wanted.jsonl):
            say("which, and why: --report FILE.jsonl or FILE.csv writes it, --jsonl prints it")
    if wanted.stats:
        clean_stats.show(report, console)
    if asked.timings:
        console.print(tables.stages_table(report.stages, report.seconds))


def _restore(folder: Path, asked: _Asked) -> None:
    if asked.paths:
        raise UsageError(
            "--restore takes the quarantine folder alone",
            hint=command_line(["clean", "--restore", str(folder)]),
        )
    printer = PathPrinter(nul=asked.values["nul"])
    report = restore(folder, printer.write)
    if not asked.quiet:
        talk().print(restore_table(report))
    if report.unread:
        raise DamagedDatasetError(
            f"the list of moves cannot be read in full (lines passed over: {report.unread:,})"
        )
    if report.refused:
        raise StorageError(f"not all files were put back: {len(report.refused):,} stay in {folder}")


def _list_checks(*, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps([check_record(each) for each in CHECKS], indent=2) + "\n")
    else:
        data().print(checks_table())


_clean.__doc__ = """Keep or drop images by measured quality; a Unix filter on lists of paths.

Names of good images go to stdout as they came in, in their order, each as soon as it is known; \
everything else is said on stderr. Unreadable images are always held back; flags choose what else. \
Nothing is changed or deleted: --quarantine moves files, and --restore puts them back. With -o the \
good samples of any source become a new dataset.

[bold]find images -name '*.jpg' | fastdata clean --variance-min 10 | fastdata convert - out.zarr\
[/bold]
"""
command = reports_errors(
    flags.with_signature(_clean, [*_CHECKS, *_OUTPUT, *_SOURCE, *_READ, *_POLICY, *_WRITE, *_OTHER])
)
