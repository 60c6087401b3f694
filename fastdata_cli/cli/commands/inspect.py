"""``fastdata inspect``."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from fastdata_cli import registry
from fastdata_cli.cli import flags
from fastdata_cli.cli.diff_table import show_diff
from fastdata_cli.cli.inspect_tables import show_report
from fastdata_cli.cli.output import reports_errors, require_place, say
from fastdata_cli.cli.progress import Talk
from fastdata_cli.contract import Format, Reader
from fastdata_cli.errors import (
    EXIT_FOUND,
    DamagedDatasetError,
    SourceNotFoundError,
    StorageError,
    UsageError,
)
from fastdata_cli.keys import printable, to_text
from fastdata_cli.operations.diff import diff
from fastdata_cli.operations.inspect import find_sample, image_file, inspect
from fastdata_cli.operations.preview import contact_sheet
from fastdata_cli.operations.verify import Verification
from fastdata_cli.operations.verify import verify as verify_all
from fastdata_cli.sample import Payload
from fastdata_cli.whole_file import write_whole

_READ = flags.format_parameters(registry.all_formats(), "read_options", panel="Reading")


def _inspect(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH", help="A dataset of any format; two of them for --diff."),
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the report as JSON (docs/inspect-json.md).")
    ] = False,
    preview: Annotated[
        Path | None, typer.Option("--preview", metavar="FILE.png", help="Draw a contact sheet.")
    ] = None,
    sample: Annotated[
        str | None,
        typer.Option("--sample", metavar="KEY|INDEX", help="Take one image out; needs -o."),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="Where --sample goes (- for stdout)."),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Read everything, check all checksums; exit 3 if bad.")
    ] = False,
    compare: Annotated[
        bool,
        typer.Option(
            "--diff", help="Compare two datasets sample by sample; exit 3 if they differ."
        ),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False,
    **values: Any,
) -> None:
    if compare:
        _compare(paths, flags.given(values, _READ), as_json=as_json, quiet=quiet)
        return
    if len(paths) > 1:
        raise UsageError("one dataset at a time", hint="compare two: fastdata inspect --diff A B")
    row, reader = _open(paths[0], flags.given(values, _READ))
    if sample is not None:
        _take_out(reader, sample, output, quiet=quiet)
        return
    if output is not None:
        raise UsageError("--output belongs to --sample", hint="add --sample KEY or --sample 0")
    if preview is not None:
        _draw(reader, preview, quiet=quiet)
        return
    verified = _verified(reader, quiet=quiet) if verify else None
    report = inspect(reader, row.name, verified=verified)
    if as_json:
        sys.stdout.write(json.dumps(report.to_mapping(), indent=2) + "\n")
    else:
        show_report(report)
    if report.verified is not None and report.verified.findings:
        raise typer.Exit(EXIT_FOUND)
    if report.damage is not None:
        raise DamagedDatasetError(f"{report.path} is damaged: {report.damage}")


def _open(path: str, read: Mapping[str, Any]) -> tuple[Format, Reader]:
    if not path:
        raise SourceNotFoundError("the path is empty")
    row = registry.recognise(Path(path))
    registry.require(row)
    options = row.read_options.from_mapping(read, owner=f"reading {row.name}")
    return row, row.open_reader(Path(path), options)


def _verified(reader: Reader, *, quiet: bool) -> Verification:
    with Talk("verifying", quiet=quiet) as listener:
        return verify_all(reader, listener)


def _compare(paths: Sequence[str], read: Mapping[str, Any], *, as_json: bool, quiet: bool) -> None:
    if len(paths) != 2:
        raise UsageError("--diff needs two datasets", hint="fastdata inspect --diff A B")
    readers = _open_both(paths, read)
    with Talk("comparing", quiet=quiet) as listener:
        report = diff(*readers, listener=listener)
    if as_json:
        sys.stdout.write(json.dumps(report.to_mapping(), indent=2) + "\n")
    else:
        show_diff(report)
    if not report.equal:
        raise typer.Exit(EXIT_FOUND)


def _open_both(paths: Sequence[str], read: Mapping[str, Any]) -> list[Reader]:
    """Open two datasets; an option goes to those that have it, and one of them must."""
    owners = [registry.recognise(Path(path)).read_options for path in paths]
    own = [flags.pick(owner, read) for owner in owners]
    of_none = {name: value for name, value in read.items() if not any(name in each for each in own)}
    return [_open(path, {**of_none, **each})[1] for path, each in zip(paths, own, strict=True)]


def _take_out(reader: Reader, which: str, output: str | None, *, quiet: bool) -> None:
    if output is None:
        raise UsageError("--sample needs a place to go", hint="add -o FILE, or -o - for stdout")
    _require_place(output)
    if reader.schema.payload is Payload.PIXELS:
        _only_png(output, "the sample is pixels")
    found = find_sample(reader, which)
    _write(output, image_file(found, reader.schema.payload), reader)
    label = "no label" if found.label == -1 else f"label {found.label}"
    if not quiet:
        say(f"{to_text(found.key)}, {label} → {output}")


def _draw(reader: Reader, path: Path, *, quiet: bool) -> None:
    from fastdata_cli.imaging.encode import encode_png

    _require_place(str(path))
    _only_png(str(path), "a contact sheet is drawn")
    _write(str(path), encode_png(contact_sheet(reader)), reader)
    if not quiet:
        say(f"contact sheet → {path}")


def _require_place(output: str) -> None:
    if output != "-":
        require_place(Path(output))


def _only_png(output: str, why: str) -> None:
    if output != "-" and Path(output).suffix.lower() != ".png":
        raise UsageError(f"{output}: {why}, and stored as PNG", hint="let the name end in .png")


def _write(output: str, content: bytes, reader: Reader) -> None:
    if output == "-":
        sys.stdout.buffer.write(content)
        return
    _refuse_own_file(Path(output), reader)
    try:
        write_whole(Path(output), content, sync=False)
    except OSError as problem:
        raise StorageError(f"cannot write {output}: {problem.strerror}") from problem


def _refuse_own_file(output: Path, reader: Reader) -> None:
    """Raise if writing there would replace a part of the dataset that is looked at."""
    place, dataset = output.resolve(), reader.path.resolve()
    within = place == dataset or dataset in place.parents
    if output.exists() and (within or place in (file.resolve() for file in reader.files())):
        raise UsageError(
            f"{printable(str(output))} belongs to the dataset: it is not overwritten",
            hint="choose a file that is not there yet",
        )


_inspect.__doc__ = """Show what a dataset holds, whoever made it.

Takes about the same time for a hundred samples and for millions: image sizes then come from a \
sample of headers and are marked as an estimate.
"""
command = reports_errors(flags.with_signature(_inspect, _READ))
