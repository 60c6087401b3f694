"""Reading JSON that others may have written: whatever is wrong with it is a ValueError."""

from __future__ import annotations

import json
from typing import Any

DEEPEST = 100
"""Lists and objects may be nested so deep: what handles them recurs, and Python's stack ends."""


def parse(text: str | bytes) -> Any:
    """Return what a JSON text says.

    Raises:
        ValueError: it is no JSON, not in UTF-8, or nested deeper than ``DEEPEST``.
    """
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if _openings(text) > DEEPEST and _is_deep(value):
        raise ValueError("nested too deeply")
    return value


def parse_object(text: str | bytes) -> dict[str, Any]:
    """Return the JSON object that a text is.

    Raises:
        ValueError: as ``parse``; or it is something else than an object.
    """
    value = parse(text)
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def _openings(text: str | bytes) -> int:
    if isinstance(text, str):
        return text.count("[") + text.count("{")
    return text.count(b"[") + text.count(b"{")


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEEPEST):
        inner: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                inner.extend(each.values())
            elif isinstance(each, list):
                inner.extend(each)
        if not inner:
            return False
        level = inner
    return any(isinstance(each, dict | list) for each in level)
