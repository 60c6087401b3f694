"""What a conversion needs of the machine, looked at before the first sample is written."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Sequence
from pathlib import Path

from fastdata_cli.contract import Target
from fastdata_cli.errors import BadSampleError, FastdataError, StorageError
from fastdata_cli.operations.estimate import estimate
from fastdata_cli.operations.plan import Plan
from fastdata_cli.operations.sampling import spread
from fastdata_cli.operations.words import size_text
from fastdata_cli.sample import Payload
from fastdata_cli.storage.disk_files import files_below
from fastdata_cli.storage.staging import staging_root

# Open files that chunks, shards and sources may take at once, with room for the libraries.
_DESCRIPTORS = 1024

# A sample of the set says its size within a few percent: what is nearly enough is tried.
_NEARLY = 1.1

_SAMPLED = 256

# Source files that are read ahead, parts that are written, and what Python itself has open.
_FEWEST_DESCRIPTORS = 64


def preflight(plan: Plan) -> None:
    """Raise the limit of open files as far as it goes, and look for enough space.

    The set is first taken to be as large as its images: that costs nothing to know. Only where
    that does not fit is a small part of it really converted, to see what the codec makes of it.

    Raises:
        StorageError: the destination has not the space for what will be written, or too few files
            may be open at once.
        UsageError: the format or its place cannot hold these keys, or so many.
    """
    _raise_descriptors()
    _check_keys(plan)
    folder = plan.path.absolute().parent
    free = _free(folder) + _staged(plan.path)
    if _logical_bytes(plan) <= free:
        return
    try:
        needed = estimate(plan).stored_bytes
    except FastdataError:
        return  # the run itself says what is wrong, and names the sample
    if needed > free * _NEARLY:
        raise StorageError(
            f"no space: {plan.path} needs about {size_text(needed)}, and {folder} has "
            f"{size_text(free)} free",
            hint="make room, choose another place or codec, or write it in pieces with --limit; "
            "--no-preflight tries all the same",
            path=str(plan.path),
            expected=needed,
            found=free,
        )


def _raise_descriptors() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_DESCRIPTORS, hard)
    if soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if allowed != resource.RLIM_INFINITY and allowed < _FEWEST_DESCRIPTORS:
        raise StorageError(
            f"only {allowed} files may be open at once, and {_FEWEST_DESCRIPTORS} are needed",
            hint=f"ulimit -n {_FEWEST_DESCRIPTORS}",
            expected=_FEWEST_DESCRIPTORS,
            found=allowed,
        )


def _check_keys(plan: Plan) -> None:
    """Have the format refuse keys, or so many of them, that it cannot hold."""
    if plan.format.check is not None:
        keys: Sequence[str] = plan.source.reader.keys()
        target = Target(path=plan.path, manifest=plan.manifest())
        chosen = keys if plan.total == len(keys) else keys[: plan.total]
        plan.format.check(target, plan.write_options, chosen)


def _free(folder: Path) -> int:
    """Return the bytes that this user may still write there."""
    try:
        facts = os.statvfs(folder)
    except OSError:
        return 1 << 62  # the run itself says what is wrong with the folder
    return facts.f_bavail * facts.f_frsize


def _staged(path: Path) -> int:
    """Return what an interrupted run has written already."""
    total = 0
    for file in files_below(staging_root(path)):
        with contextlib.suppress(OSError):
            total += file.stat().st_size
    return total


def _logical_bytes(plan: Plan) -> int:
    """Return the bytes of all images as they will be stored, before any codec."""
    if plan.schema.payload is Payload.PIXELS:
        return plan.total * plan.schema.pixel_bytes
    positions, total = spread(plan.total, _SAMPLED), 0
    for position in positions:
        with contextlib.suppress(BadSampleError):
            total += plan.source.reader.read(position).image.nbytes
    return total * plan.total // max(len(positions), 1)
