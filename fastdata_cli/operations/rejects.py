"""The list of what a run left out: one JSON object a line, beside the destination."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from fastdata_cli.errors import DamagedDatasetError
from fastdata_cli.json_text import parse_object
from fastdata_cli.keys import from_text, to_text
from fastdata_cli.sample import Reject
from fastdata_cli.storage.refusals import storage_errors
from fastdata_cli.whole_file import whole_file


def rejects_path(destination: Path) -> Path:
    """Return where the rejects of a destination are listed."""
    return destination.parent / f"{destination.name}.rejects.jsonl"


def write_rejects(destination: Path, rejects: Sequence[Reject]) -> Path | None:
    """List every reject beside the destination; an earlier run's list goes away.

    The caller holds the destination's staging place: no other run writes this list meanwhile.
    """
    path = rejects_path(destination)
    fresh = destination.parent / f".{destination.name}.rejects-new"
    with storage_errors(path):
        if not rejects:
            path.unlink(missing_ok=True)
            fresh.unlink(missing_ok=True)  # of a run that was killed while it wrote
            return None
        with whole_file(path, sync=True, fresh=fresh) as file:
            for reject in rejects:
                record = {**asdict(reject), "key": to_text(reject.key)}
                file.write(json.dumps(record).encode() + b"\n")
    return path


def read_rejects(destination: Path) -> list[Reject]:
    """Return what the list beside a dataset holds; nothing where there is none.

    Raises:
        DamagedDatasetError: it is no such list.
    """
    path = rejects_path(destination)
    try:
        if path.exists() and not path.is_file():  # a pipe would be waited for
            raise ValueError("no file")
        return [_reject(line) for line in path.read_bytes().splitlines() if line.strip()]
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError) as problem:
        raise DamagedDatasetError(
            f"{path}: not a list of rejects", hint="move it away", path=str(path)
        ) from problem


def _reject(line: bytes) -> Reject:
    record = parse_object(line)
    return Reject(
        from_text(record["key"]), str(record["reason"]), str(record["detail"]), int(record["index"])
    )


def worded(by_reason: Mapping[str, int]) -> str:
    """Return counts in brackets, with a space before; nothing for none."""
    words = ", ".join(f"{count} {reason}" for reason, count in by_reason.items())
    return f" ({words})" if words else ""


def first_of(rejects: Sequence[Reject]) -> str:
    """Return the first few rejects on one line."""
    shown = [f"{to_text(r.key)}: {r.reason} {r.detail}".rstrip() for r in rejects[:3]]
    return "; ".join(shown)
