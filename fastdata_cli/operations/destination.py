"""What a destination must be before anything is written to it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from fastdata_cli.contract import Capability, Format
from fastdata_cli.errors import DestinationExistsError, FastdataError, UsageError
from fastdata_cli.manifest import Manifest
from fastdata_cli.storage.name_limits import name_limits
from fastdata_cli.storage.staging import Staging, is_exchanging, staging_root


def check_destination(
    path: Path,
    row: Format,
    *,
    overwrite: bool,
    source: Path | None = None,
    walked: bool = True,
) -> None:
    """Raise unless a run may write at ``path``, or may find that it has written there.

    What a run left that died just after it had published is asked about in ``already_published``,
    when it is known what the new run would write.

    Args:
        overwrite: a dataset of ours may stand there, and will be replaced.
        source: where the source lies; a destination that is, holds or lies in it is never replaced.
        walked: what the source holds is found by looking; False for a list of paths.

    Raises:
        UsageError: its folder does not exist or cannot be written, or its name is too long.
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
    allowed = name_limits(path)
    if len(os.fsencode(staging_root(path).name)) > allowed.name or allowed.path < 0:
        raise UsageError(
            f"{path.name}: too long a name; while it is made it takes another "
            f"{len(staging_root(path).name) - len(path.name)} bytes",
            hint="choose a shorter one, or a folder higher up",
        )
    found_again = row.name == "tree" or walked
    if found_again and source is not None and source.is_dir() and _lies_in(path, source):
        raise UsageError(
            f"{shown} lies in the source, whose next reading would find it",
            hint="choose a place beside the source",
        )
    # Shards that an interrupted publish left belong to the run that is to be continued; its writer
    # still refuses those of others.
    unfinished = (staging_root(path) / "journal.jsonl").exists()
    if not os.path.lexists(path) and (unfinished or not row.recognises(path)):
        return
    if unfinished and not overwrite and Staging(path).is_remnant:
        return
    if not overwrite:
        raise _exists_already(path, row)
    if source is not None and _overlap(path.resolve(), source.resolve()):
        raise DestinationExistsError(f"{shown} and the source overlap: it is not overwritten")
    if not (_is_ours(path) or is_exchanging(path)):
        raise DestinationExistsError(
            f"{shown} was not made by fastdata (it has no readable manifest): not overwritten",
            hint="move or delete it yourself",
            path=str(path),
        )


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
    raise _exists_already(path, row)


def _exists_already(path: Path, row: Format) -> DestinationExistsError:
    return DestinationExistsError(
        f"{path} exists already{_cleared_remnant(path)}",
        hint="choose another destination, or add --overwrite to replace a dataset of fastdata"
        + (", or --append to add to it" if Capability.APPEND in row.capabilities else ""),
        path=str(path),
    )


def _cleared_remnant(path: Path) -> str:
    """Clear away what a run left that died after it had published; return what to say of it."""
    staging = Staging(path)
    if not staging.is_remnant:
        return ""
    with contextlib.suppress(FastdataError):  # it lives, or belongs to somebody else
        staging.clear()
        return f"; {staging.root.name}, which a killed run had left beside it, is cleared away"
    return ""


def _lies_in(path: Path, source: Path) -> bool:
    return source.resolve() in path.resolve().parents


def _overlap(one: Path, other: Path) -> bool:
    return one == other or one in other.parents or other in one.parents


def _is_ours(path: Path) -> bool:
    from fastdata_cli import registry

    try:
        found = registry.recognise(path)  # what it is, not what it is to become
        return found.open_reader(path, found.read_options()).manifest is not None
    except (FastdataError, OSError):
        return False
