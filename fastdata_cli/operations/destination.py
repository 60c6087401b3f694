"""What a destination must be before anything is written to it."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from fastdata_cli.contract import Capability, Format
from fastdata_cli.errors import DestinationExistsError, FastdataError, UsageError
from fastdata_cli.formats.sharded.set import INDEX_SUFFIX, SetIndex, ShardPattern, index_path
from fastdata_cli.formats.tree.sidecar import sidecar_path
from fastdata_cli.manifest import Manifest
from fastdata_cli.operations.rejects import rejects_path
from fastdata_cli.operations.source import Source
from fastdata_cli.storage.journal import JOURNAL
from fastdata_cli.storage.name_limits import name_limits
from fastdata_cli.storage.staging import Staging, is_exchanging, staging_root


def check_destination(
    path: Path, row: Format, *, overwrite: bool, source: Source | None = None
) -> None:
    """Raise unless a run may write at ``path``, or may find that it has written there.

    What a run left that died just after it had published is asked about in ``already_published``,
    when it is known what the new run would write.

    Args:
        overwrite: a dataset of ours may stand there, and will be replaced.
        source: what is read; nothing is replaced that is, holds or lies in it, or is read by it.

    Raises:
        UsageError: its folder does not exist or cannot be written, or its name is too long.
        DestinationExistsError: something stands there that may not be replaced.
    """
    shown = str(path)
    if path.parent.exists() and not path.parent.is_dir():
        raise UsageError(f"{path.parent} is no folder", hint="choose another place")
    if not path.parent.is_dir():
        raise UsageError(
            f"the folder {path.parent} does not exist",
            hint=f"mkdir -p {path.parent}",
        )
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise UsageError(why_unwritable(path.parent), hint="choose another place")
    _require_shard_files(path, row)
    _require_short(path)
    folder = None if source is None else source.folder
    # A list names its files; what any other folder holds is found by looking.
    found_again = source is not None and (row.name == "tree" or source.format != "list")
    if found_again and folder is not None and folder.is_dir() and _lies_in(path, folder):
        raise UsageError(
            f"{shown} lies in the source, whose next reading would find it",
            hint="choose a place beside the source",
        )
    if overwrite and source is not None:
        _require_apart(path, source)
    # Shards that an interrupted publish left belong to the run that is to be continued; its writer
    # still refuses those of others.
    unfinished = os.path.lexists(staging_root(path) / JOURNAL)
    if not os.path.lexists(path) and (unfinished or not row.recognises(path)):
        return
    if unfinished and not overwrite and Staging(path).is_remnant:
        return
    if not overwrite:
        raise _exists_already(path, row, _cleared_remnant(path))
    if not (_is_ours(path) or is_exchanging(path)):
        raise DestinationExistsError(
            f"{shown} was not made by fastdata (it has no readable manifest): not overwritten",
            hint="move or delete it yourself",
            path=str(path),
        )
    _require_no_member(path)


def _require_no_member(path: Path) -> None:
    """Raise if a file is one shard of a set, whose index lies beside it."""
    for index in path.parent.glob(f"*{INDEX_SUFFIX}"):
        if path.name in _shards_of(index):
            whole = index.name.removesuffix(INDEX_SUFFIX)
            raise DestinationExistsError(
                f"{path} is a shard of {whole}, which would be broken: not overwritten",
                hint=f"replace the whole set, {path.with_name(whole)}, or choose another name",
                path=str(path),
            )


def _shards_of(index: Path) -> set[str]:
    try:
        return {shard.name for shard in SetIndex.read(index).shards}
    except (FastdataError, OSError):  # no index of ours
        return set()


def already_published(path: Path, row: Format, fingerprint: str) -> Manifest | None:
    """Return the manifest of what an equal run published before it was killed.

    What that run left beside its dataset is cleared away. None where nothing stands there, or an
    unfinished run is to be continued.

    Raises:
        DestinationExistsError: something else stands there.
    """
    staging = Staging(path)
    unfinished = staging.root.exists() and not staging.is_remnant
    if unfinished or not row.recognises(path):
        return None
    if staging.has_published(fingerprint):
        manifest = row.open_reader(path, row.read_options()).manifest
        if manifest is not None:
            staging.clear()
            return manifest
    raise _exists_already(path, row, _cleared_remnant(path))


def why_unwritable(folder: Path) -> str:
    """Return why nothing can be written in a folder, in words."""
    if os.statvfs(folder).f_flag & os.ST_RDONLY:
        return f"{folder} is on a read-only file system"
    return f"no permission to write in {folder}"


def _require_shard_files(path: Path, row: Format) -> None:
    """Raise if the name is a pattern of shards, and the format makes no such files."""
    cut_into_files = "shard_size" in {spec.name for spec in row.write_options.specs()}
    if re.search(r"%\d*d", path.name) and not cut_into_files:
        raise UsageError(
            f"{path.name!r} is a pattern of shards, and format {row.name} does not make such files",
            hint=f"give it one name, such as out{path.suffix}, or choose .tar: train-%06d.tar",
        )


def _require_short(path: Path) -> None:
    """Raise if a name that a run makes would be too long for the file system."""
    names = [staging_root(path).name, rejects_path(path).name, sidecar_path(path).name]
    sizes = [len(os.fsencode(name)) for name in names]
    pattern = ShardPattern.parse(path)
    if pattern is not None:
        sizes.append(len(os.fsencode(pattern.before + pattern.after)) + pattern.digits)
        sizes.append(len(os.fsencode(index_path(path).name)))
    allowed = name_limits(path)
    if max(sizes) > allowed.name or allowed.path < 0:
        raise UsageError(
            f"{path.name}: too long a name; while it is made it takes another "
            f"{max(sizes) - len(os.fsencode(path.name))} bytes",
            hint="choose a shorter one, or a folder higher up",
        )


def _exists_already(path: Path, row: Format, cleared: str) -> DestinationExistsError:
    hint = "choose another destination, or "
    if not (_is_ours(path) or is_exchanging(path)):
        hint += "move it away: it holds no manifest of fastdata"
    else:
        hint += "add --overwrite to replace this dataset of fastdata"
        hint += ", or --append to add to it" if Capability.APPEND in row.capabilities else ""
    return DestinationExistsError(f"{path} exists already{cleared}", hint=hint, path=str(path))


def _cleared_remnant(path: Path) -> str:
    """Clear away what a run left that died after it had published; return what to say of it."""
    staging = Staging(path)
    with contextlib.suppress(FastdataError):  # it lives, or belongs to somebody else
        if staging.is_remnant:
            staging.clear()
            return f"; {staging.root.name}, which a killed run had left beside it, is cleared away"
    return ""


def _lies_in(path: Path, source: Path) -> bool:
    return source.resolve() in path.resolve().parents


def _require_apart(path: Path, source: Source) -> None:
    """Raise if replacing what stands at ``path`` would take a file that the source reads."""
    pattern = ShardPattern.parse(path)
    replaced = [path] if pattern is None else [path, index_path(path), *pattern.standing()]
    standing = {os.path.realpath(each) for each in replaced if os.path.lexists(each)}
    if not standing:
        return
    around = source.folder is not None and any(
        _overlap(Path(each), source.folder.resolve()) for each in standing
    )
    below = tuple(each + os.sep for each in standing if os.path.isdir(each))
    read = _real_paths(source.reader.files())
    if around or any(file in standing or file.startswith(below) for file in read):
        raise DestinationExistsError(
            f"{path} and the source overlap: it is not overwritten",
            hint="choose another destination",
            path=str(path),
        )


def _real_paths(files: Iterable[Path]) -> Iterator[str]:
    """Yield where files really are; of millions in one folder, the folder is asked about once."""
    real_folder = lru_cache(os.path.realpath)
    for file in files:
        if os.path.islink(file):
            yield os.path.realpath(file)
        else:
            yield os.path.join(real_folder(file.parent), file.name)


def _overlap(one: Path, other: Path) -> bool:
    return one == other or one in other.parents or other in one.parents


def _is_ours(path: Path) -> bool:
    from fastdata_cli import registry

    try:
        found = registry.recognise(path)  # what it is, not what it is to become
        return found.open_reader(path, found.read_options()).manifest is not None
    except (FastdataError, OSError):
        return False
