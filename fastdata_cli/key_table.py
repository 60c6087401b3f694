"""Many keys, or other texts, as two arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.keys import from_text, to_text


class KeyTable(Sequence[str]):
    """Many keys as two arrays, so that a million cost little and forked workers share them.

    Args:
        blob: 1-D uint8, the text forms one after another.
        offsets: int64[N + 1], where each begins in ``blob``; the last is the length of the blob.
    """

    __slots__ = ("_load", "blob", "offsets")
    _load: Callable[[], KeyTable]

    def __init__(self, blob: NDArray[np.uint8], offsets: NDArray[np.int64]) -> None:
        self.blob = blob
        self.offsets = offsets

    @classmethod
    def deferred(cls, load: Callable[[], KeyTable]) -> KeyTable:
        """Return the table that ``load`` gives, called when something of it is looked at.

        Training looks at no key, and a million of them take long to read.
        """
        table = cls.__new__(cls)
        table._load = load
        return table

    def __getattr__(self, name: str) -> Any:
        # Only for what is not set: threads that come here at once may all load.
        if name not in ("blob", "offsets"):
            raise AttributeError(name)
        loaded = self._load()
        self.blob, self.offsets = loaded.blob, loaded.offsets
        return getattr(self, name)

    def __reduce__(self) -> tuple[Any, ...]:
        return KeyTable, (self.blob, self.offsets)

    @classmethod
    def from_keys(cls, keys: Iterable[str]) -> KeyTable:
        """Build the table of ``keys``, in their order."""
        return cls.from_texts(to_text(key) for key in keys)

    @classmethod
    def of(cls, keys: Sequence[str]) -> KeyTable:
        """Return ``keys`` themselves if they are a table, else a table of them."""
        return keys if isinstance(keys, KeyTable) else cls.from_keys(keys)

    @classmethod
    def from_texts(cls, texts: Iterable[str]) -> KeyTable:
        """Build the table from keys that are in their text form already."""
        parts = [text.encode("utf-8", "surrogateescape") for text in texts]
        offsets = np.zeros(len(parts) + 1, np.int64)
        np.cumsum([len(part) for part in parts], out=offsets[1:])
        return cls(np.frombuffer(b"".join(parts), np.uint8), offsets)

    @classmethod
    def from_lines(cls, lines: NDArray[np.uint8]) -> KeyTable:
        """Build the table of a file with one text form a line, each line ended by a newline."""
        ends = np.flatnonzero(lines == 0x0A)
        offsets = np.zeros(len(ends) + 1, np.int64)
        # Without its newlines the blob is dense, and each key begins earlier by one per line.
        offsets[1:] = ends - np.arange(len(ends))
        return cls(lines[lines != 0x0A], offsets)

    @classmethod
    def concatenate(cls, tables: Sequence[KeyTable]) -> KeyTable:
        """Join tables end to end."""
        if not tables:
            return cls.from_texts(())
        shifts = np.cumsum([0, *(len(table.blob) for table in tables[:-1])])
        offsets = [table.offsets[:-1] + shift for table, shift in zip(tables, shifts, strict=True)]
        blob = np.concatenate([table.blob for table in tables])
        return cls(blob, np.concatenate([*offsets, [len(blob)]]).astype(np.int64))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        return from_text(self.text(index))

    def __iter__(self) -> Iterator[str]:
        return (from_text(text) for text in self.texts())

    def text(self, index: int) -> str:
        """Return the text form of one key."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"key {index} of {len(self)}")
        index %= len(self)
        raw = self.blob[self.offsets[index] : self.offsets[index + 1]].tobytes()
        return raw.decode("utf-8", "surrogateescape")

    def texts(self) -> Iterator[str]:
        """Yield every text form, in order."""
        blob = np.ascontiguousarray(self.blob).data
        bounds = self.offsets.tolist()
        for begin, end in pairwise(bounds):
            yield str(blob[begin:end], "utf-8", "surrogateescape")

    def take(self, indices: NDArray[np.int64]) -> TakenKeys:
        """Return the keys at ``indices``, order and repeats kept."""
        return TakenKeys(self, indices)

    def find(self, key: str) -> int | None:
        """Return the first position of ``key``, or None. Scans: for a person, not a loop."""
        return self.find_text(to_text(key))

    def find_text(self, wanted: str) -> int | None:
        """Return the first position whose text form is ``wanted``, or None."""
        candidates = np.flatnonzero(
            np.diff(self.offsets) == len(wanted.encode("utf-8", "surrogateescape"))
        )
        return next((int(index) for index in candidates if self.text(int(index)) == wanted), None)

    def lines(self) -> bytes:
        """Return one text form a line: the file that ``from_lines`` reads."""
        return "".join(f"{text}\n" for text in self.texts()).encode("utf-8", "surrogateescape")


class TakenKeys(Sequence[str]):
    """Some keys of a table, made when looked at: training reads batches, and no keys of them."""

    __slots__ = ("_indices", "_table")

    def __init__(self, table: KeyTable, indices: NDArray[np.int64]) -> None:
        self._table = table
        self._indices = indices.copy()  # the caller may use his array again

    def __len__(self) -> int:
        return len(self._indices)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return list(TakenKeys(self._table, self._indices[index]))
        return self._table[int(self._indices[index])]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)
