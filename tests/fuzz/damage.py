"""Damages bytes at random: as disks and copies do, and JSON by what it says."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

_ODD: tuple[Any, ...] = (
    None, True, -1, 0, 1, 1.5, 1 << 31, 1 << 62, 1 << 70, float("inf"), float("nan"),
    "", "x", "../x", "\ud800", "|O", "<u2", [], [1], [[1]], {}, {"name": "x"}, "deep",
)  # fmt: skip
_DEEP = "[" * 2000 + "]" * 2000


def damaged(data: bytes, draw: random.Random) -> bytes:
    """Cut, drop, insert or change some bytes."""
    at, until = sorted(draw.randrange(len(data) + 1) for _ in range(2))
    kind = draw.randrange(4)
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + data[until:]
    if kind == 2:
        return data[:at] + draw.randbytes(draw.choice((1, 2, 8))) + data[at:]
    changed = bytearray(data)
    for _ in range(draw.randrange(1, 4)):
        if changed:
            changed[draw.randrange(len(changed))] = draw.choice((0, 1, 0x7F, 0x80, 0xFF))
    return bytes(changed)


def json_damaged(data: bytes, draw: random.Random) -> bytes | None:
    """Exchange one value of a JSON text for an odd one, or drop it; None for what is no JSON."""
    try:
        root = [json.loads(data)]
    except (ValueError, RecursionError):
        return None
    places = list(_places(root))
    holder, name = draw.choice(places)
    if draw.random() < 0.2 and holder is not root:
        del holder[name]
    else:
        holder[name] = draw.choice(_ODD)
    text = json.dumps(root[0]).replace('"deep"', _DEEP)
    return text.encode() + b"\n"


def _places(root: Any) -> Iterator[tuple[Any, Any]]:
    """Yield container and name of every value, at any depth."""
    pending = [root]
    for each in pending:  # grows meanwhile
        names = list(each) if isinstance(each, dict) else range(len(each))
        for name in names:
            yield each, name
            if isinstance(each[name], dict | list):
                pending.append(each[name])
