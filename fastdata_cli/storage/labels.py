"""Label tables and class lists that people keep in files of their own.

A label table is a CSV file, or one JSON object a line, that says of each image its path below the
root and its label::

    path,label              {"key": "cat/1.jpg", "label": "cat"}
    cat/1.jpg,cat           {"key": "dog/2.jpg", "label": "dog"}

The first line of a CSV may name the columns; without such a line it must have two, path and label.
Labels are numbers when all of them are whole numbers, else they are class names, numbered in
code-point order. An empty label, or -1, is none; a number below that is refused. Paths may stand as
they are or in the text form that reports print (``%0A`` for a newline).
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xxhash
from numpy.typing import NDArray

from fastdata_cli.errors import UsageError
from fastdata_cli.key_table import KeyTable
from fastdata_cli.keys import to_bytes, to_text
from fastdata_cli.sample import UNLABELLED
from fastdata_cli.storage.label_rows import Row, label_rows, malformed
from fastdata_cli.storage.listing_rows import digests, number_classes, pack

# Whatever has so many digits fits into an int64.
_WHOLE_NUMBER = re.compile("-?[0-9]{1,4000}")  # more, and Python makes no number of it
_LARGEST = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Labels:
    """Labels of a listing's files."""

    labels: NDArray[np.int64]
    class_names: tuple[str, ...]
    notes: Mapping[str, int]


@dataclass(frozen=True)
class LabelTable:
    """M keys and their labels, about 32 bytes a row.

    Attributes:
        path: the file it came from.
        digests: S16[M], sorted: the xxh3-128 of each key's text form.
        codes: int64[M], positions in ``spellings``; -1 is no label.
        spellings: the different labels, as they were written.
        rows: lines with a key.
        example: one of the keys, for messages.
        first_lines: the line where each of ``spellings`` stands first, for messages.
    """

    path: Path
    digests: NDArray[np.bytes_]
    codes: NDArray[np.int64]
    spellings: tuple[str, ...]
    rows: int
    example: str
    first_lines: tuple[int, ...]

    def apply(self, files: KeyTable, classes: Sequence[str] | None = None) -> Labels:
        """Return the label of each file.

        Args:
            files: N keys.
            classes: the numbering of class names; and names for labels that are numbers.

        Returns:
            int64[N] labels, the class names, and notes: ``image-without-label`` (no row),
            ``empty-label`` (a row that says there is none) and ``label-without-image``.

        Raises:
            UsageError: no key of the table is among ``files``, a label is not in ``classes``, or it
                is a number below -1.
        """
        at = np.searchsorted(self.digests, wanted := digests(files))
        at[at == len(self.digests)] = 0
        known = self.digests[at] == wanted
        if not known.any() and len(files):
            raise UsageError(
                f"{self.path}: none of its {self.rows} paths is an image of the source",
                hint=f"it has paths like {self.example}, the source like {files.text(0)}",
                path=str(self.path),
            )
        labels, class_names = self._numbers(np.where(known, self.codes[at], UNLABELLED), classes)
        counts = {
            "image-without-label": int(np.count_nonzero(~known)),
            "empty-label": int(np.count_nonzero(known & (self.codes[at] == UNLABELLED))),
            "label-without-image": self.rows - int(np.count_nonzero(known)),
        }
        return Labels(labels, class_names, {kind: n for kind, n in counts.items() if n > 0})

    def _numbers(
        self, codes: NDArray[np.int64], classes: Sequence[str] | None
    ) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        named = classes is not None and set(self.spellings) <= set(classes)
        numbers = None if named else _whole_numbers(self.spellings)
        if numbers is None:
            return number_classes(codes, self.spellings, classes)
        for number, line in zip(numbers, self.first_lines, strict=True):
            if number < UNLABELLED:
                why = f"{number} is no label: they begin at 0, and -1 stands for none"
                raise malformed(self.path, line, why)
            if number > _LARGEST:
                raise malformed(self.path, line, f"{number} is too large for a label")
        labels = np.array([*numbers, UNLABELLED], np.int64)[codes]
        return (labels, ()) if classes is None else number_classes(labels, classes, classes)


def load_labels(path: Path) -> LabelTable:
    """Read a label table.

    Args:
        path: a CSV file (``,``, or tabs when its first line has tabs and no comma) or JSON lines.

    Raises:
        UsageError: the file cannot be read or understood; names the line.
    """
    try:
        return _collect(path, label_rows(path))
    except OSError as problem:
        raise UsageError(f"{path}: cannot be read ({problem.strerror})") from problem


def _collect(path: Path, rows: Iterator[Row]) -> LabelTable:
    spellings: dict[str, int] = {}
    first_lines: list[int] = []
    lines, codes, packed, others = array("q"), array("q"), bytearray(), bytearray()
    other_rows = array("q")
    example = ""
    for line, key, label in rows:
        own, as_text = _digests_of(key, path, line)
        if as_text is not None:
            others += as_text
            other_rows.append(len(lines))
        packed += own
        lines.append(line)
        none = label in ("", str(UNLABELLED))
        codes.append(UNLABELLED if none else spellings.setdefault(label, len(spellings)))
        if len(spellings) > len(first_lines):
            first_lines.append(line)
        example = example or to_text(key)
    if not lines:
        raise UsageError(f"{path}: there are no labels in it", path=str(path))
    taken = np.concatenate([np.arange(len(lines)), np.frombuffer(other_rows, np.int64)])
    found = pack((bytes(packed), bytes(others)))
    order = np.argsort(found, kind="stable")
    found, taken = found[order], taken[order]
    codes_of = np.frombuffer(codes, np.int64)[taken]
    _refuse_contradictions(path, found, codes_of, np.frombuffer(lines, np.int64)[taken])
    distinct = len(np.unique(np.frombuffer(packed, found.dtype)))
    return LabelTable(
        path, found, codes_of, tuple(spellings), distinct, example, tuple(first_lines)
    )


def _digests_of(key: str, path: Path, line: int) -> tuple[bytes, bytes | None]:
    """Return the digest of a key, and that of what it is when it stands in its text form."""
    try:
        text = to_text(key)
        own = xxhash.xxh3_128_digest(to_bytes(text))
        return own, None if text == key else xxhash.xxh3_128_digest(to_bytes(key))
    except UnicodeEncodeError as problem:
        raise malformed(path, line, "the path holds half a character") from problem


def _refuse_contradictions(
    path: Path,
    found: NDArray[np.bytes_],
    codes: NDArray[np.int64],
    lines: NDArray[np.int64],
) -> None:
    clash = np.flatnonzero((found[1:] == found[:-1]) & (codes[1:] != codes[:-1]))
    if len(clash):
        first, second = sorted(lines[clash[0] : clash[0] + 2].tolist())
        raise malformed(path, second, f"the path of line {first} again, with another label")


def _whole_numbers(spellings: Sequence[str]) -> list[int] | None:
    if all(_WHOLE_NUMBER.fullmatch(text) for text in spellings):
        return [int(text) for text in spellings]
    return None
