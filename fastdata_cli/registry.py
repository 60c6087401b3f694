"""The formats there are: a literal table of our own, and plug-ins by entry point.

A plug-in is a distribution with an entry point in the group ``fastdata.formats`` whose value is a
``Format``. Modules are imported when a format is first asked for; a plug-in that fails to load, or
that takes the name of another, is left out with a warning and hurts nobody; so it is where one
fails over a path that is no dataset of it.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import stat
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from fastdata_cli.contract import Format, Reader
from fastdata_cli.errors import (
    DamagedDatasetError,
    MissingDependencyError,
    NotADatasetError,
    SourceNotFoundError,
    UnknownFormatError,
    UnsupportedError,
    UsageError,
)
from fastdata_cli.options import Options

PIPE = "pipe:"
"""How sources begin that are commands."""

ENTRY_POINT_GROUP = "fastdata.formats"

# In the order in which content is asked.
BUILT_IN = {
    "zarr": "fastdata_cli.formats.zarr",
    "lmdb": "fastdata_cli.formats.lmdb",
    "webdataset": "fastdata_cli.formats.webdataset",
    "tfrecord": "fastdata_cli.formats.tfrecord",
    "hdf5": "fastdata_cli.formats.hdf5",
    "parquet": "fastdata_cli.formats.parquet",
    "raw": "fastdata_cli.formats.raw",
    "npy": "fastdata_cli.formats.npy",
    "tree": "fastdata_cli.formats.tree",
}

# Asked after all others, plug-ins too: many a format has arrays in it, and a tree is any folder.
_ASKED_LAST = ("npy", "tree")
_ANY_FOLDER = _ASKED_LAST[-1]

# What lies beside a dataset and belongs to it begins with its name and this.
_SIDE = (".fastdata", ".fastdata.json")
# Folders are looked through as far as this; metadata comes first, breadth before depth.
_MOST_ENTRIES = 20_000


def names() -> tuple[str, ...]:
    """Return the names of all formats, ours first."""
    return (*BUILT_IN, *_plugins())


def get(name: str) -> Format:
    """Return one format.

    Raises:
        UnknownFormatError: there is none of that name.
    """
    if name in BUILT_IN:
        found: Format = importlib.import_module(BUILT_IN[name]).FORMAT
        return found
    try:
        return _plugins()[name]
    except KeyError:
        raise UnknownFormatError(
            f"no format is called {name!r}", hint="formats: " + ", ".join(names())
        ) from None


def all_formats() -> tuple[Format, ...]:
    """Return every format, ours first."""
    return tuple(get(name) for name in names())


def for_destination(path: Path, to: str | None = None) -> Format:
    """Return the format that ``--to``, or else the suffix of the destination, stands for.

    Raises:
        UnknownFormatError: neither says which.
        UnsupportedError: the format cannot be written.
    """
    found = get(to) if to else by_suffix(path)
    if found is None:
        suffixes = " ".join(
            suffix for each in all_formats() if each.open_writer for suffix in each.suffixes
        )
        raise UnknownFormatError(
            f"the suffix of {path.name!r} stands for no format",
            hint=f"end it in one of {suffixes}, or name the format with --to "
            "(for a plain folder of images: --to tree)",
        )
    if found.open_writer is None:
        raise UnsupportedError(f"format {found.name} can be read but not written")
    require(found)
    return found


def open_reader(path: Path | str, options: Options | None = None) -> Reader:
    """Open whatever dataset lies at ``path``; its content decides the format.

    Raises:
        SourceNotFoundError: there is nothing at the path.
        NotADatasetError: no format recognises it.
        DamagedDatasetError: its format cannot read it.
    """
    path = Path(path)
    found = recognise(path)
    require(found)
    return found.open_reader(path, options or found.read_options())


def recognise(path: Path) -> Format:
    """Return the format of what lies at ``path``: by content, else by suffix.

    A suffix decides only where no content does, so that a damaged file is named as such.

    Raises:
        SourceNotFoundError: there is nothing at the path.
        NotADatasetError: no format recognises it, or it is no file and no folder.
        UsageError: it is a ``pipe:`` URL, for which a command would have to be run.
        DamagedDatasetError: it is not what its suffix says, or a pipe, socket or device lies in
            it: opening that would wait for ever.
    """
    _refuse_pipe(path)
    formats = sorted(all_formats(), key=_turn)
    for candidate in formats:
        if candidate.recognises(path):
            _refuse_pipes_in(path, folder=candidate.name != _ANY_FOLDER)
            return candidate
    if str(path).startswith(PIPE):
        raise UsageError(
            f"{path}: commands are not run here",
            hint="fastdata convert --allow-pipe reads what one prints",
        )
    if not os.path.lexists(path):
        raise SourceNotFoundError(f"{path}: there is nothing here", path=str(path))
    claimed = by_suffix(path)
    if claimed is not None:
        raise DamagedDatasetError(
            f"{path}: named like {claimed.name}, but its content is not", path=str(path)
        )
    raise NotADatasetError(
        f"{path}: no format recognises this",
        hint="formats: " + ", ".join(each.name for each in formats),
        path=str(path),
    )


def _turn(row: Format) -> int:
    return _ASKED_LAST.index(row.name) + 1 if row.name in _ASKED_LAST else 0


def _refuse_pipe(path: Path) -> None:
    kind = _odd_kind(path)
    if kind:
        raise NotADatasetError(f"{path}: this is a {kind}, not a file or a folder", path=str(path))


def _refuse_pipes_in(path: Path, *, folder: bool) -> None:
    """Raise if a piece is nothing to read; a tree ignores such files, but not in its sidecar."""
    places = [Path(f"{path}{suffix}") for suffix in _SIDE] + ([path] if folder else [])
    for file in (file for place in places for file in _not_ordinary(place)):
        kind = _odd_kind(file)
        if kind:
            raise DamagedDatasetError(
                f"{file}: a {kind} stands where a file should", path=str(path)
            )


def _not_ordinary(path: Path) -> Iterator[Path]:
    """Yield what is neither a folder nor an ordinary file; links among it. Calls no ``stat``."""
    if not path.is_dir():
        yield path
        return
    pending, seen = [path], 0
    for place in pending:  # grows meanwhile
        with contextlib.suppress(OSError), os.scandir(place) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(Path(entry.path))
                elif not entry.is_file(follow_symlinks=False):
                    yield Path(entry.path)
                seen += 1
                if seen >= _MOST_ENTRIES:
                    return


def _odd_kind(path: Path) -> str:
    """Return what cannot be opened without waiting or side effects; empty for all else."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return ""
    kinds = {stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket"}
    return kinds.get(stat.S_IFMT(mode), "device" if stat.S_ISCHR(mode) else "")


def require(wanted: Format) -> None:
    """Raise MissingDependencyError, with the command that helps, when a library is absent."""
    for module in wanted.requires:
        if not _is_there(module):
            target = f"'fastdata-cli[{wanted.install_extra}]'" if wanted.install_extra else module
            raise MissingDependencyError(
                f"format {wanted.name} needs the library {module}", hint=f"pip install {target}"
            )


def _is_there(module: str) -> bool:
    try:  # in full: several distributions may share the first part of a name
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def refresh() -> None:
    """Forget the plug-ins found so far, so that newly installed ones are seen."""
    importlib.invalidate_caches()
    _plugins.cache_clear()


def by_suffix(path: Path) -> Format | None:
    """Return the format that the suffix of a path stands for, or None."""
    name = path.name.lower()
    matches = (f for f in all_formats() if any(name.endswith(suffix) for suffix in f.suffixes))
    return next(matches, None)


@cache
def _plugins() -> dict[str, Format]:
    found: dict[str, Format] = {}
    for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: point.name):
        row = _load(point)
        if row is None:
            continue
        if row.name in BUILT_IN or row.name in found:
            _warn(point, f"another format is called {row.name!r} already")
            continue
        found[row.name] = replace(row, recognises=_Guarded(row))
    return found


@dataclass
class _Guarded:
    """Asks a plug-in what a path holds; where it fails it says no, and a warning says so once."""

    row: Format
    warned: bool = False

    def __call__(self, path: Path) -> bool:
        try:
            return bool(self.row.recognises(path))
        except (Exception, SystemExit) as problem:  # noqa: BLE001 - it hurts only itself
            if not self.warned:
                what = f"{path}: {type(problem).__name__}: {problem}"
                warnings.warn(f"format {self.row.name!r} cannot tell {what}", stacklevel=3)
            self.warned = True
            return False


def _load(point: EntryPoint) -> Format | None:
    load: Callable[[], object] = point.load
    try:
        row = load()
    except (Exception, SystemExit) as problem:  # noqa: BLE001 - it hurts only itself
        _warn(point, f"{type(problem).__name__}: {problem}")
        return None
    if not isinstance(row, Format):
        _warn(point, f"it is a {type(row).__name__}, not a Format")
        return None
    return row


def _warn(point: EntryPoint, why: str) -> None:
    owner = point.dist.name if point.dist else "an unknown distribution"
    warnings.warn(
        f"format plug-in {point.name!r} ({point.value}, from {owner}) is left out: {why}",
        stacklevel=4,
    )
