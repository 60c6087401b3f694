"""Opens what convert and clean read: a tree, a list of paths, one image, or any dataset."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from fastdata_cli import registry
from fastdata_cli.contract import Reader
from fastdata_cli.errors import (
    DamagedDatasetError,
    NotADatasetError,
    SourceNotFoundError,
    UsageError,
)
from fastdata_cli.key_table import KeyTable
from fastdata_cli.keys import to_text
from fastdata_cli.operations.piped import spooled
from fastdata_cli.operations.settings import SourceOptions
from fastdata_cli.operations.words import count_text
from fastdata_cli.options import flag
from fastdata_cli.sample import Reject
from fastdata_cli.storage.table import fingerprint

STDIN = "-"

_LONGEST_PATH = 4096

OF_FILES = ("tree", "list")
"""Formats of sources whose samples each have a file of their own: ``files`` yields those first."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """An open source and what its listing already said."""

    reader: Reader
    name: str
    """As the user gave it."""
    format: str
    fingerprint: str
    """Changes when a key, a label or their order does."""
    folder: Path | None
    """Where it lies, for the check that a destination is apart from it."""
    rejects: tuple[Reject, ...] = ()
    """Found while listing."""
    notes: Mapping[str, int] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    """What is odd about it, in words that name the samples or files."""
    root: str | None = None
    """What keys of a list are relative to, when the list decided it."""

    def narrowed(self, reader: Reader) -> Source:
        """Return the same source with only the samples of this reader."""
        return replace(self, reader=reader, fingerprint=_fingerprint(reader))


def open_source(
    spec: str | None, options: SourceOptions, read_options: Mapping[str, Any] | None = None
) -> Source:
    """Open a source.

    Args:
        spec: a path, ``-`` for a list on stdin, or None when ``options.files_from`` has the list.
        read_options: options of the source's format, by name.

    Raises:
        UsageError: contradictory options, or a terminal where a list was expected.
        FastdataError: the path is missing, unknown or damaged, or a command that failed.
    """
    listed = STDIN if spec == STDIN else options.files_from
    if listed is not None:
        if read_options:
            raise UsageError(f"{flag(next(iter(read_options)))} does not apply to a list of paths")
        return _from_list(listed, options)
    assert spec is not None
    piped = spec.startswith(registry.PIPE)
    path = spooled(spec, allowed=options.allow_pipe) if piped else Path(spec)
    if options.root is not None or options.nul:
        raise UsageError("--root and -0 apply to a list of paths only")
    if not spec:
        raise SourceNotFoundError("the source path is empty")
    try:
        found = registry.recognise(path)
    except NotADatasetError as problem:
        if not is_path_list(path):
            raise
        raise NotADatasetError(
            problem.message, hint=f"if it lists image paths: --files-from {path}", **problem.facts
        ) from problem
    registry.require(found)
    values = dict(read_options or {})
    values.update({k: v for k, v in _labelling(options).items() if v is not None})
    reader = found.open_reader(
        path, found.read_options.from_mapping(values, owner=f"reading {found.name}")
    )
    changed = reader.check_table()
    if changed is not None:
        raise DamagedDatasetError(
            f"{path}: {changed.detail}",
            hint=f"see what is left of it: fastdata inspect {path} --verify",
            path=str(path),
        )
    return _described(reader, spec, found.name, path)


def is_path_list(path: Path) -> bool:
    """Tell whether a file begins with the path of something that is there."""
    if not path.is_file():  # opening a pipe would wait
        return False
    try:
        with open(path, "rb") as file:
            first = file.readline(_LONGEST_PATH).rstrip(b"\r\n").partition(b"\0")[0]
        starts = (Path(), path.parent)
        return bool(first) and any((start / os.fsdecode(first)).exists() for start in starts)
    except (OSError, ValueError):
        return False


def unlabelled(reader: Reader) -> tuple[int, str] | None:
    """Return how many samples have no label, and the key of one; None where that is none or all."""
    missing = np.flatnonzero(reader.labels() == -1)
    if len(missing) in (0, len(reader)):
        return None
    return len(missing), to_text(reader.keys()[int(missing[0])])


def remark_on_labels(source: Source) -> str:
    """Return what to say of samples without a label; empty where all have one."""
    if source.format in OF_FILES and (source.reader.labels() < 0).all():
        return (
            "no labels: they come from the first folder below the root "
            "(choose with --root), or from --labels"
        )
    lacking = unlabelled(source.reader)
    if lacking is None:
        return ""
    many = count_text(lacking[0], "sample has", "samples have")
    return f"{many} no label, where others have one, such as {lacking[1]}"


def _from_list(listed: str, options: SourceOptions) -> Source:
    from fastdata_cli.formats.tree.classes import load_classes
    from fastdata_cli.formats.tree.reader import TreeReader
    from fastdata_cli.storage.labels import load_labels
    from fastdata_cli.storage.listing import list_paths, read_path_list, start_of

    root = Path(options.root) if options.root else None
    beside = None if listed == STDIN else Path(listed).parent
    with _path_stream(listed) as stream:
        start, paths = start_of(
            read_path_list(stream, nul=options.nul),
            [folder for folder in (Path(), root, beside) if folder is not None],
            nul=options.nul,
        )
        listing = list_paths(
            paths,
            root=root,
            start=start,
            labels=load_labels(Path(options.labels)) if options.labels else None,
            classes=load_classes(Path(options.classes)) if options.classes else None,
        )
    reader = TreeReader.from_listing(listing)
    return _described(reader, listed, "list", listing.root, root=str(listing.root))


def _path_stream(listed: str) -> BinaryIO:
    if listed == STDIN:
        require_stdin("find images -name '*.jpg' | fastdata convert - out.zarr")
        return open(sys.stdin.fileno(), "rb", closefd=False)
    try:
        return open(listed, "rb")
    except FileNotFoundError:
        raise SourceNotFoundError(f"{listed}: there is no such list of paths") from None
    except OSError as problem:
        raise UsageError(f"{listed}: cannot be read ({problem.strerror})") from problem


def require_stdin(example: str) -> None:
    """Raise UsageError, with a pipeline that works, unless something is piped in."""
    if sys.stdin is None:  # closed by whoever started this
        state = "closed"
    elif sys.stdin.isatty():
        state = "the terminal"
    else:
        return
    raise UsageError(
        f"the list of paths is expected on standard input, and that is {state}",
        hint=f"pipe it: {example}",
    )


def _labelling(options: SourceOptions) -> dict[str, Any]:
    return {"labels": options.labels, "classes": options.classes}


def _described(
    reader: Reader, name: str, format_name: str, folder: Path, root: str | None = None
) -> Source:
    return Source(
        reader=reader,
        name=name,
        format=format_name,
        fingerprint=_fingerprint(reader),
        folder=folder,
        rejects=reader.rejects,
        notes=reader.notes,
        remarks=tuple(reader.describe().get("notes", ())),
        root=root,
    )


def _fingerprint(reader: Reader) -> str:
    table = KeyTable.of(reader.keys())
    return fingerprint(table, reader.labels(), reader.schema.class_names)
