"""Grows the key table and the class column of a listing without an object per file."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

import numpy as np
import xxhash
from numpy.typing import NDArray

from fastdata_cli.errors import UsageError
from fastdata_cli.key_table import KeyTable
from fastdata_cli.keys import from_bytes, from_text, to_text
from fastdata_cli.sample import UNLABELLED


class Rows:
    """Keys and class codes, appended in runs; about 16 bytes a file beside its name."""

    def __init__(self) -> None:
        self._blob = bytearray()
        self._lengths = array("q")
        self._codes = array("q")

    def add(self, texts: Sequence[bytes], code: int) -> None:
        """Append keys in their text form, all of one class code."""
        self._blob += b"".join(texts)
        self._lengths.extend(map(len, texts))
        self._codes.extend([code] * len(texts))

    def files(self) -> KeyTable:
        """Return the keys. Nothing may be added afterwards."""
        offsets = np.zeros(len(self._lengths) + 1, np.int64)
        np.cumsum(np.frombuffer(self._lengths, np.int64), out=offsets[1:])
        return KeyTable(np.frombuffer(self._blob, np.uint8), offsets)

    def codes(self) -> NDArray[np.int64]:
        """Return the class code of each file, int64[N]. Nothing may be added afterwards."""
        return np.frombuffer(self._codes, np.int64)


def text_of(name: bytes) -> bytes:
    """Return the text form of one name."""
    return to_text(from_bytes(name)).encode()


def texts_of(names: Sequence[bytes]) -> Sequence[bytes]:
    """Return the text forms of many names; ordinary ones cost one check together."""
    try:
        # Slashes between, so that no two cut sequences join to one that is UTF-8.
        joined = b"/".join(names).decode()
    except UnicodeDecodeError:
        joined = "%"
    if joined.isprintable() and "%" not in joined:
        return names
    return [text_of(name) for name in names]


def first_folders(files: KeyTable) -> tuple[NDArray[np.int64], list[str]]:
    """Return the first folder of every key.

    Returns:
        int64[N] codes, -1 for keys without a folder, and the name that each code stands for.
    """
    known: dict[str, int] = {}
    codes = array("q")
    for text in files.texts():
        top, slash, _ = text.partition("/")
        codes.append(known.setdefault(top, len(known)) if slash else UNLABELLED)
    return np.frombuffer(codes, np.int64), [from_text(top) for top in known]


def number_classes(
    codes: NDArray[np.int64], names: Sequence[str], classes: Sequence[str] | None
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Turn class codes into labels.

    Args:
        codes: int64[N], positions in ``names``, -1 without a class.
        names: the name of each code.
        classes: the wanted numbering; None numbers ``names`` in code-point order.

    Returns:
        int64[N] labels and the class names in the order of their numbers.

    Raises:
        UsageError: samples belong to a class that ``classes`` lacks, or to none of ``names``.
    """
    highest = int(codes.max(initial=UNLABELLED))
    if highest >= len(names):
        raise UsageError(
            f"label {highest} is beyond the {len(names)} classes", hint="they are counted from 0"
        )
    wanted = tuple(sorted(names)) if classes is None else tuple(classes)
    numbers = {name: number for number, name in enumerate(wanted)}
    # One place more, for the code -1.
    lookup = np.array([*(numbers.get(name, -2) for name in names), UNLABELLED], np.int64)
    labels = lookup[codes]
    lacking = np.flatnonzero(labels == -2)
    if len(lacking):
        name = to_text(names[codes[lacking[0]]])
        raise UsageError(
            f"the class {name!r} is not among the {len(wanted)} given classes",
            hint="add it to --classes, or leave its images out of the source",
            name=name,
        )
    return labels, wanted


def digests(texts: KeyTable) -> NDArray[np.bytes_]:
    """Return the xxh3-128 of every text form, S16[N]: small, and equal only for equal keys."""
    blob = np.ascontiguousarray(texts.blob).data
    return pack(xxhash.xxh3_128_digest(blob[begin:end]) for begin, end in _bounds(texts))


def pack(values: Iterable[bytes]) -> NDArray[np.bytes_]:
    """Return 16-byte digests as one array, S16[N]."""
    return np.frombuffer(bytearray().join(values), "S16")


def _bounds(texts: KeyTable) -> Iterable[tuple[int, int]]:
    return zip(texts.offsets[:-1].tolist(), texts.offsets[1:].tolist(), strict=True)
