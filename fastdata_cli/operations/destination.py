"""What a destination must be before anything is written to it."""

from __future__ import annotations

import os
from pathlib import Path

from fastdata_cli.contract import Format
from fastdata_cli.errors import DestinationExistsError, FastdataError, UsageError
from fastdata_cli.storage.staging import staging_root


def check_destination(
    path: Path, row: Format, *, overwrite: bool, source: Path | None = None
) -> None:
    """Raise unless a run may write at ``path``.

    Args:
        overwrite: a dataset of ours may stand there, and will be replaced.
        source: where the source lies; a destination that is, holds or lies in it is never replaced.

    Raises:
        UsageError: its folder does not exist or cannot be written.
        DestinationExistsError: something stands there that may not be replaced.
    """
    shown = str(path)
    if not path.parent.is_dir():
        raise UsageError(
            f"the folder {path.parent} does not exist",
            hint=f"mkdir -p {path.parent}",
        )
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise UsageError(f"no permission to write in {path.parent}")
    if row.name == "tree" and source is not None and _lies_in(path, source):
        raise UsageError(
            f"{shown} lies in the source, whose next reading would find it",
            hint="choose a folder beside the source",
        )
    # Shards that an interrupted publish left belong to the run that is to be continued; its writer
    # still refuses those of others.
    unfinished = (staging_root(path) / "journal.jsonl").exists()
    if not os.path.lexists(path) and (unfinished or not row.recognises(path)):
        return
    if not overwrite:
        raise DestinationExistsError(
            f"{shown} exists already",
            hint="choose another destination, or add --overwrite to replace a dataset of fastdata",
            path=str(path),
        )
    if source is not None and _overlap(path.resolve(), source.resolve()):
        raise DestinationExistsError(f"{shown} and the source overlap: it is not overwritten")
    if not _is_ours(path, row):
        raise DestinationExistsError(
            f"{shown} was not made by fastdata (it has no readable manifest): not overwritten",
            hint="move or delete it yourself",
            path=str(path),
        )


def _lies_in(path: Path, source: Path) -> bool:
    return source.resolve() in path.resolve().parents


def _overlap(one: Path, other: Path) -> bool:
    return one == other or one in other.parents or other in one.parents


def _is_ours(path: Path, row: Format) -> bool:
    from fastdata_cli import registry

    found = row if row.recognises(path) else registry.recognise(path)
    try:
        return found.open_reader(path, found.read_options()).manifest is not None
    except (FastdataError, OSError):
        return False
