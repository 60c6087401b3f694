"""The journal of a staging place: what is being made, then one receipt a line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fastdata_cli.contract import Part, Receipt
from fastdata_cli.errors import StorageError
from fastdata_cli.json_text import parse, parse_object
from fastdata_cli.sample import Reject

JOURNAL = "journal.jsonl"
JOURNAL_VERSION = 1


def read(root: Path) -> tuple[Mapping[str, Any], Sequence[str]] | None:
    """Return the head of a journal and its further lines; None where there is none, or no such.

    Raises:
        StorageError: what is there cannot be read, and may well be continued another time.
    """
    path = root / JOURNAL
    try:
        lines = path.read_text().splitlines()
        head = parse_object(lines[0])
    except (FileNotFoundError, NotADirectoryError, ValueError, IndexError):
        return None
    except OSError as problem:
        raise StorageError(
            f"cannot read {path}: {problem.strerror}",
            hint="an unfinished run may be kept there; make it readable, or delete its folder",
            path=str(path),
        ) from problem
    return (head, lines[1:]) if isinstance(head.get("started", 0), int | float) else None


def is_of(head: Mapping[str, Any], fingerprint: str) -> bool:
    """Tell whether a journal is that of a run with this fingerprint, written by this version."""
    same_version = head.get("fastdata_journal") == JOURNAL_VERSION
    return same_version and head.get("fingerprint") == fingerprint


def line(record: Mapping[str, Any]) -> str:
    """Return one line of a journal."""
    return json.dumps(record, ensure_ascii=True) + "\n"


def whole(head: Mapping[str, Any], receipts: Sequence[Receipt]) -> str:
    """Return a journal that holds these receipts.

    Args:
        head: ``fingerprint``, ``started`` (seconds since the epoch) and ``settled``: what the
            fingerprint is of, by name, so that another run can say what it has otherwise.
    """
    first = {"fastdata_journal": JOURNAL_VERSION, **head}
    return line(first) + "".join(line(asdict(receipt)) for receipt in receipts)


def contiguous(lines: Sequence[str]) -> list[Receipt]:
    """Return the receipts of parts 0, 1, 2 … as far as none is missing or cut."""
    found: dict[int, Receipt] = {}
    for each in lines:
        try:
            record = parse(each)
            part = record["part"]
            part["rejects"] = tuple(Reject(**reject) for reject in part["rejects"])
            found[part["index"]] = Receipt(Part(**part), record["facts"])
        except (ValueError, KeyError, TypeError):
            break  # the line that the kill cut short
    prefix: list[Receipt] = []
    while len(prefix) in found:
        prefix.append(found[len(prefix)])
    return prefix
