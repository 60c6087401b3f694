"""``convert --dry-run`` without a DST: what was tried, as a table, and what to type next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fastdata_cli.cli.output import data
from fastdata_cli.cli.progress import Talk
from fastdata_cli.cli.tables import cell, time_text
from fastdata_cli.keys import printable
from fastdata_cli.operations.settings import ConvertOptions, SourceOptions
from fastdata_cli.operations.source import open_source
from fastdata_cli.operations.survey import survey
from fastdata_cli.operations.survey_report import Survey, Trial
from fastdata_cli.operations.words import count_text, size_text
from fastdata_cli.options import flag_words
from fastdata_cli.sample import Payload
from fastdata_cli.timing.symptoms import OTHERS_SHARE

_PLAIN = 10


def try_formats(
    source: str | None,
    settings: SourceOptions,
    reading: Mapping[str, Any],
    options: ConvertOptions,
    *,
    jobs: int | None,
    quiet: bool,
) -> None:
    """Try several formats on a sample of the source, and print what came out.

    Args:
        source: as it was given; None with --files-from.
        settings: how it is listed and labelled.
        reading: options of its format.
        options: what the user decided of the conversion.
    """
    with Talk("trying formats", quiet=quiet, rate=False) as listener:
        opened = open_source(source, settings, reading)
        found = survey(opened, options, jobs=jobs, listener=listener)
    given = [*settings.words(), *flag_words(reading)]
    show_survey(found, data(), [] if source is None else [source], given)


def show_survey(
    found: Survey, console: Console, source: Sequence[str], given: Sequence[str]
) -> None:
    """Print the table and the advice.

    Args:
        source: how the source was given, as words of a command line; no word with --files-from.
        given: how it is read, as words too.
    """
    size = f" at {found.size[0]}×{found.size[1]}" if found.size else ""
    samples = count_text(found.samples, "sample")
    title = f"{samples}, as {found.measured:,} became; random batches{size}"
    console.print(Text(title, style="bold cyan"))
    console.print(_table(found))
    console.print(Text(_what_counts(found), style="dim"))
    if found.others >= OTHERS_SHARE:
        doubt = f"Others took {found.others:.0%} of the processors: try again when they are idle."
        console.print(Text(doubt, style="yellow"))
    for sentence, trial in _advice(found):
        console.print(Text(f"\n{sentence}", style="bold green"))
        if trial.words:
            line = shlex.join(["fastdata", "convert", *source, *trial.words, *given])
            # Not folded: a terminal gives it back in one piece.
            console.print(Text(f"  {printable(line)}", style="green"), soft_wrap=True)
        for remark in _remarks(found, trial):
            console.print(Padding(Text(remark, style="dim"), (0, 0, 0, 2)))


def _table(found: Survey) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("as", overflow="fold")
    for head in ("whole set", "samples/s\nmemory", "samples/s\ndisk", "to convert"):
        table.add_column(head, justify="right", no_wrap=True)
    for trial in found.trials:
        disk, seconds = trial.disk_samples_per_s, trial.convert_s
        table.add_row(
            cell(trial.name),
            size_text(trial.stored_bytes),
            Text(f"{trial.memory_samples_per_s:,.0f}", style="bold" if trial.fits else "dim"),
            Text("" if disk is None else f"{disk:,.0f}", style="dim" if trial.fits else "bold"),
            "" if seconds is None else time_text(seconds),
        )
    return table


def _what_counts(found: Survey) -> str:
    """Say which of the two rates is that of training."""
    disk = found.disk
    text = f"A set that fits into memory ({size_text(found.memory_bytes)} free) is read from there"
    text += " after the first epoch, "
    if disk is None:
        return text + "a larger one from the disk, which was not measured."
    return (
        f"{text}a larger one from the disk: at most {size_text(disk.bandwidth)}/s"
        f" ({disk.tool}, {disk.name})."
    )


def _advice(found: Survey) -> Iterator[tuple[str, Trial]]:
    now, fastest, faithful = found.trials[0], found.fastest, found.faithful
    yield f"Fastest: {_gain(fastest, now)}", fastest
    if faithful is not fastest and faithful is not now:
        yield f"With the files as they are: {_gain(faithful, now)}", faithful


def _gain(trial: Trial, now: Trial) -> str:
    if trial is now:
        return f"the source as it is, {now.samples_per_s:,.0f} samples/s"
    ratio = trial.samples_per_s / now.samples_per_s
    times = f"{ratio:,.0f}" if ratio >= _PLAIN else f"{ratio:.2g}"
    return f"{trial.samples_per_s:,.0f} samples/s, {times} times the source as it is"


def _remarks(found: Survey, trial: Trial) -> Iterator[str]:
    if trial.payload is Payload.PIXELS and found.size:
        yield "Stored at one size: random crops want a larger --size, or the files themselves."
    if trial.reencoded:
        yield "JPEGs made anew, smaller and with a little loss."
