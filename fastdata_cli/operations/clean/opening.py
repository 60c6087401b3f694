"""Finds out what the arguments of clean are: files, folders, a list of paths, or a dataset."""

from __future__ import annotations

import itertools
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fastdata_cli import registry
from fastdata_cli.errors import NotADatasetError, SourceNotFoundError, UsageError
from fastdata_cli.keys import from_bytes, to_bytes
from fastdata_cli.operations.clean.arrivals import PathStream
from fastdata_cli.operations.clean.subject import Files, Named, Samples, Subject
from fastdata_cli.operations.events import Listener
from fastdata_cli.operations.settings import SourceOptions
from fastdata_cli.operations.source import STDIN, is_path_list, open_source, require_stdin
from fastdata_cli.sample import Reject
from fastdata_cli.storage.listing import Listing, list_tree, start_of
from fastdata_cli.storage.listing_names import is_image_name
from fastdata_cli.storage.listing_paths import path_of

_BLOCK = 1024


def open_subject(
    sources: Sequence[str],
    options: SourceOptions,
    read_options: Mapping[str, Any],
    listener: Listener,
) -> Subject:
    """Open what is to be judged.

    Args:
        sources: files and folders, or one dataset; empty, or ``-``, for a list on stdin.
        options: where a list of paths comes from.
        read_options: options of the dataset's format, by name.
        listener: hears what is odd about a dataset.

    Raises:
        UsageError: contradictory arguments, or a terminal where a list was expected.
        SourceNotFoundError: there is nothing at an argument that is not named like an image.
        FastdataError: a dataset that cannot be opened.
    """
    listed = options.files_from
    if listed is not None and sources:
        raise UsageError("--files-from replaces the sources: give one or the other")
    if STDIN in sources:
        if len(sources) > 1:
            raise UsageError("- stands alone: the list on stdin is the only source")
        listed = STDIN
    if listed is not None or not sources:
        _refuse(read_options, "a list of paths")
        return _from_list(listed or STDIN, nul=options.nul)
    datasets = [source for source in sources if _is_dataset(source)]
    if not datasets:
        _refuse(read_options, "image files")
        return _from_files(sources)
    if len(sources) > 1:
        raise UsageError(
            f"{datasets[0]} is a dataset, and those are judged one at a time",
            hint="give it alone, or only files and folders of images",
        )
    opened = open_source(sources[0], SourceOptions(), read_options)
    for remark in opened.remarks:
        listener.notice(f"source: {remark}")
    return Samples(opened.name, opened.reader, opened.rejects, opened.notes)


def _refuse(read_options: Mapping[str, Any], what: str) -> None:
    for name in read_options:
        raise UsageError(f"--{name.replace('_', '-')} does not apply to {what}")


def _is_dataset(source: str) -> bool:
    """Return whether a packed dataset lies at the path; a folder of images is none."""
    if not source:
        raise SourceNotFoundError("a source path is empty")
    path = Path(source)
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        if is_image_name(os.fsencode(source)) or os.path.lexists(path):
            return False  # a reject: other images follow, perhaps
        return registry.recognise(path).name != "tree"  # the pattern of a set of shards
    if stat.S_ISREG(mode) and not is_image_name(os.fsencode(source)):
        try:
            return registry.recognise(path).name != "tree"
        except NotADatasetError:
            if is_path_list(path):
                raise UsageError(
                    f"{source} is no image, and lists paths", hint=f"--files-from {source}"
                ) from None
            return False
    return stat.S_ISDIR(mode) and registry.recognise(path).name != "tree"


def _from_list(listed: str, *, nul: bool) -> Files:
    if listed != STDIN:
        return _from_file(listed, nul=nul)
    require_stdin("find images -name '*.jpg' | fastdata clean, or name a folder")
    stream = PathStream(sys.stdin.fileno(), nul=nul)
    blocks = ([_named(line, b"", nul=nul) for line in block] for block in stream)
    return Files("stdin", blocks, on_close=stream.close)


def _from_file(listed: str, *, nul: bool) -> Files:
    try:
        file = open(listed, "rb", buffering=0)  # noqa: SIM115 - closed with the list
    except FileNotFoundError:
        raise SourceNotFoundError(f"{listed}: there is no such list of paths") from None
    except OSError as problem:
        raise UsageError(f"{listed}: cannot be read ({problem.strerror})") from problem

    def blocks() -> Iterator[list[Named]]:
        with file:
            rest = iter(PathStream(file.fileno(), nul=nul))
            first = next(rest, [])
            start, _ = start_of(first, [Path(), Path(listed).parent], nul=nul)
            folder = b"" if start == Path() else os.fsencode(start)
            for block in itertools.chain([first], rest):
                yield [_named(line, folder, nul=nul) for line in block]

    return Files(listed, blocks())


def _named(line: bytes, folder: bytes, *, nul: bool) -> Named:
    """Return what a line of a list names: the line as it came, and the path that it stands for."""
    return Named(from_bytes(line), os.path.join(folder, path_of(line, folder, nul=nul)))


def _from_files(sources: Sequence[str]) -> Files:
    total = 0
    notes: dict[str, int] = {}
    parts: list[Iterable[Sequence[Named]]] = []
    for source in sources:
        if not os.path.isdir(source):
            path = os.fsencode(source)
            parts.append([[Named(from_bytes(path), path)]])
            total += 1
            continue
        listing = list_tree(Path(source))
        if not listing.files:
            registry.open_reader(Path(source))  # says so if the folder is named like a dataset
        total += len(listing.files) + len(listing.rejects)
        notes = {k: notes.get(k, 0) + listing.notes.get(k, 0) for k in {*notes, *listing.notes}}
        parts.append(_below(source, listing))
    name = " ".join(sources[:3]) + (f" … {len(sources)} in all" if len(sources) > 3 else "")
    return Files(
        name,
        itertools.chain.from_iterable(parts),
        total=total,
        notes=dict(sorted(notes.items())),
    )


def _below(source: str, listing: Listing) -> Iterator[list[Named]]:
    folder = os.fsencode(source)
    rejects = []
    for reject in listing.rejects:
        path = os.path.join(folder, to_bytes(reject.key))
        key = from_bytes(path)
        rejects.append(Named(key, path, Reject(key, reject.reason, reject.detail)))
    if rejects:
        yield rejects
    paths = (os.path.join(folder, to_bytes(name)) for name in listing.files)
    while block := [Named(from_bytes(p), p) for p in itertools.islice(paths, _BLOCK)]:
        yield block
