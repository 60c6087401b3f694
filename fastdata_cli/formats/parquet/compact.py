"""Reads Thrift's compact protocol, as far as the footers of Parquet use it.

Arrow's own view of a footer ends the process over some damage (pyarrow 26: an exception that nobody
catches), so what we want to know of row groups is read here.

Specification: thrift-compact-protocol.md of Apache Thrift.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

Record = Mapping[int, Any]
"""A struct: its fields by their numbers."""

_TRUE, _FALSE = 1, 2
_DEEPEST = 40
_LONGEST_NUMBER = 10


def parse(data: bytes) -> Record:
    """Return the struct that ``data`` begins with.

    Raises:
        ValueError: it is none.
    """
    try:
        return _Reader(data).record(0)
    except (IndexError, struct.error):
        raise ValueError("it ends too early") from None


class _Reader:
    """Goes through the bytes once."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0
        self._kinds: Mapping[int, Callable[[int], Any]] = {
            _TRUE: lambda _: True,
            _FALSE: lambda _: False,
            3: lambda _: self._byte(),
            **dict.fromkeys((4, 5, 6), lambda _: self._signed()),
            7: lambda _: struct.unpack("<d", self._bytes(8))[0],
            8: lambda _: self._bytes(self._unsigned()),
            **dict.fromkeys((9, 10), self._list),
            11: self._map,
            12: self.record,
        }

    def record(self, depth: int) -> dict[int, Any]:
        found: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            step, kind = head >> 4, head & 15
            number = number + step if step else self._signed()
            found[number] = self._value(kind, depth)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if depth > _DEEPEST:
            raise ValueError("values nested too deeply")
        if kind not in self._kinds:
            raise ValueError(f"a value of kind {kind}")
        return self._kinds[kind](depth + 1)

    def _list(self, depth: int) -> list[Any]:
        head = self._byte()
        count, kind = head >> 4, head & 15
        return self._several(self._unsigned() if count == 15 else count, kind, depth)

    def _map(self, depth: int) -> list[Any]:
        """Return keys and values one after the other: nothing that is asked for is in maps."""
        count = self._unsigned()
        kinds = self._byte() if count else 0
        self._require_room(count)
        return [
            self._element(kind, depth) for _ in range(count) for kind in (kinds >> 4, kinds & 15)
        ]

    def _several(self, count: int, kind: int, depth: int) -> list[Any]:
        self._require_room(count)
        return [self._element(kind, depth) for _ in range(count)]

    def _element(self, kind: int, depth: int) -> Any:
        """Return a member of a list: truth takes a byte there."""
        return self._byte() == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, depth)

    def _require_room(self, count: int) -> None:
        if count > len(self._data) - self._at:
            raise ValueError(f"{count} members in fewer bytes")

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _bytes(self, size: int) -> bytes:
        self._require_room(size)
        self._at += size
        return self._data[self._at - size : self._at]

    def _unsigned(self) -> int:
        number = 0
        for position in range(_LONGEST_NUMBER):
            byte = self._byte()
            number |= (byte & 0x7F) << 7 * position
            if byte < 0x80:
                return number
        raise ValueError("a number of more than 64 bits")

    def _signed(self) -> int:
        number = self._unsigned()
        return number >> 1 ^ -(number & 1)
