"""Says why an interrupted run cannot be continued: what changed in its source and options."""

from __future__ import annotations

import contextlib
import json
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, repeat
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.errors import StaleStagingError
from fastdata_cli.key_table import KeyTable
from fastdata_cli.keys import printable, to_text
from fastdata_cli.operations.pairing import pair
from fastdata_cli.operations.plan import Plan
from fastdata_cli.operations.source import OF_FILES
from fastdata_cli.operations.words import label_of, some
from fastdata_cli.options import flag
from fastdata_cli.storage import journal
from fastdata_cli.storage.refusals import storage_errors
from fastdata_cli.storage.staging import staging_root

_RECORD = "source.npz"
_OPTIONS = ("convert", "write", "clean")
_UNREADABLE = (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile)


def remember_source(plan: Plan) -> None:
    """Keep the source's listing in the staging place, for ``why_not``: 16 bytes and a key each.

    Not synced: what a power cut takes only makes the words fewer.

    Raises:
        StorageError: there is no room for it.
    """
    root = staging_root(plan.path)
    if not root.is_dir():  # a writer with a place of its own
        return
    keys, names = KeyTable.of(plan.source.reader.keys()), plan.source.reader.schema.class_names
    classes = KeyTable.from_keys(names)
    columns = (keys.blob, keys.offsets, plan.source.reader.labels(), classes.blob, classes.offsets)
    with storage_errors(root / _RECORD), open(root / _RECORD, "wb") as file:
        np.savez(file, *columns)


def why_not(plan: Plan, problem: StaleStagingError) -> StaleStagingError:
    """Return the error with the words that say what the unfinished run has otherwise."""
    root = staging_root(plan.path)
    found = journal.read(root)
    if found is None or not isinstance(found[0].get("settled"), Mapping):
        return problem
    before = found[0]["settled"]
    now = json.loads(json.dumps(plan.settled))
    words = [*_of_the_command(before, now)]
    if before.get("source") != now["source"]:
        words.insert(0, _of_the_source(plan, root, float(found[0].get("started", 0))))
    if not words:
        return problem
    return StaleStagingError(
        f"{problem.message}: {'; '.join(words)}", hint=problem.hint, **problem.facts
    )


def refuse_changes(plan: Plan, started: float) -> None:
    """Refuse to go on when files of the source were changed since the first part was made.

    Args:
        started: when that was, in seconds since the epoch.

    Raises:
        StaleStagingError: names some of them.
    """
    changed = [name for name, _ in _changed_since(plan, started)]
    if changed:
        what = "file" if len(changed) == 1 else "files"
        raise StaleStagingError(
            f"{len(changed):,} {what} of the source changed after the interrupted run had begun:"
            f" {some(changed, len(changed))}",
            hint=f"to start over, delete {staging_root(plan.path)} and run the same command again",
            path=changed[0],
        )


def _changed_since(plan: Plan, started: float) -> Iterator[tuple[str, int]]:
    """Yield each file of the source that changed since.

    Its name and, where it is that of one sample, which of the plan's samples that is; else -1.
    """
    files = plan.source.reader.files()
    numbered: Iterable[tuple[int, Path]] = zip(repeat(-1), files, strict=False)
    if plan.source.format in OF_FILES:
        if plan.growth is not None:
            files = _at(plan.growth.positions, files)
        numbered = zip(range(len(plan.source.reader)), files, strict=False)
    for number, file in numbered:
        with contextlib.suppress(OSError):
            if os.stat(file).st_ctime > started:
                yield printable(str(file)), number


def _at(positions: NDArray[np.int64], files: Iterator[Path]) -> Iterator[Path]:
    """Yield the files at these positions, which ascend."""
    seen = 0
    for position in positions.tolist():
        yield from islice(files, position - seen, position - seen + 1)
        seen = position + 1


def _of_the_source(plan: Plan, root: Path, started: float) -> str:
    try:
        with np.load(root / _RECORD, allow_pickle=False) as record:
            columns = [record[f"arr_{number}"] for number in range(5)]
    except _UNREADABLE:
        return "the source has other keys, labels or classes now"
    keys, labels, names = KeyTable(*columns[:2]), columns[2], list(KeyTable(*columns[3:]))
    reader = plan.source.reader
    current = KeyTable.of(reader.keys())
    pairing = pair(keys, current)
    changed = np.array([number for _, number in _changed_since(plan, started)], np.int64)
    own = reader.schema.class_names
    pairs = zip(labels[pairing.first], reader.labels()[pairing.second], strict=True)
    relabelled = (label_of(old, names) != label_of(new, own) for old, new in pairs)
    other = np.fromiter(relabelled, bool, len(pairing.first))
    found = {
        "added": (current, pairing.only_second),
        "removed": (keys, pairing.only_first),
        "changed": (current, np.intersect1d(changed, pairing.second)),
        "with another label": (keys, pairing.first[other]),
    }
    words = [
        f"{len(at):,} {what} ({some(map(table.text, at.tolist()), len(at))})"
        for what, (table, at) in found.items()
        if len(at)
    ]
    words += [] if pairing.same_order else ["in another order"]
    return f"the source changed: {', '.join(words) or 'it has other classes'}"


def _of_the_command(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for section in _OPTIONS:
        old, new = before.get(section) or {}, now.get(section) or {}
        for name in sorted({*old, *new}):
            if old.get(name) != new.get(name):
                yield f"{flag(name)} {_shown(old.get(name))} then, {_shown(new.get(name))} now"
    for name, what in (("format", "format"), ("tool", "fastdata")):
        if before.get(name) != now.get(name):
            yield f"{what} {before.get(name)} then, {now.get(name)} now"
    if before.get("standing") != now.get("standing"):
        old, new = (each.get("standing") is not None for each in (before, now))
        if old and new:
            yield "the dataset that is added to is another one now"
        else:
            yield f"{'an' if old else 'no'} append then, {'an' if new else 'none'} now"


def _shown(value: Any) -> str:
    return "not given" if value is None else to_text(str(value))
