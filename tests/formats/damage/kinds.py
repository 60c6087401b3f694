"""What is done to the files of a dataset: cut, flipped, zeroed, swapped, lost, mixed, grown."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

# Bytes that are flipped in a dataset, spread over its files; more where each file needs a few.
_FLIPS = 60

_NUMBER = re.compile(r"\d+")

# Of the files of one folder and kind, the first and the last are damaged.
_ENDS = (0, -1)
_GARBAGE = np.random.default_rng(3).bytes(37)


@dataclass(frozen=True, slots=True)
class Case:
    """A dataset with damage: the files that are other than they were; None is gone."""

    kind: str
    name: str
    changes: tuple[tuple[Path, bytes | None], ...]


def cases(folder: Path, other: Path) -> Iterator[Case]:
    """Yield the damage done to the dataset in ``folder``.

    Args:
        folder: holds one dataset and nothing else.
        other: holds another version of it, with files of the same names.
    """
    groups = _groups(folder)
    victims = [list(dict.fromkeys(group[end] for end in _ENDS)) for group in groups]
    flips = max(4, _FLIPS // sum(map(len, victims)))
    for group, files in zip(groups, victims, strict=True):
        for file in files:
            name = str(file.relative_to(folder))
            data = file.read_bytes()
            for kind, detail, changed in _damages(data, flips):
                yield Case(kind, f"{name}: {detail}", ((file, changed),))
            foreign = other / name
            if len(groups) > 1 and foreign.exists() and foreign.read_bytes() != data:
                yield Case("other version", f"{name}: other", ((file, foreign.read_bytes()),))
        for one, two in list(pairwise(group))[:2]:
            first, second = one.read_bytes(), two.read_bytes()
            if first != second:
                yield Case("swapped", f"{one.name}: with {two.name}", ((one, second), (two, first)))


def apply(case: Case) -> None:
    """Put the damaged files in place of the sound ones; open ones stay what they were."""
    for file, data in case.changes:
        _replace(file, data)


def _replace(file: Path, data: bytes | None) -> None:
    if data is None:
        file.unlink()
        return
    fresh = file.with_name(".fresh")
    fresh.write_bytes(data)
    os.replace(fresh, file)


def restore(originals: Sequence[tuple[Path, bytes]]) -> None:
    """Bring the files back."""
    for file, data in originals:
        _replace(file, data)


def _groups(folder: Path) -> list[list[Path]]:
    """Return the files of a dataset, those together whose names differ in numbers alone."""
    alike: dict[str, list[Path]] = defaultdict(list)
    for file in sorted(each for each in folder.rglob("*") if each.is_file()):
        alike[_NUMBER.sub("#", str(file))].append(file)
    return list(alike.values())


def _damages(data: bytes, flips: int) -> Iterator[tuple[str, str, bytes | None]]:
    size = len(data)
    yield "missing", "missing", None
    for length in sorted({0, 1, size // 3, size * 3 // 4, size - 512, size - 1} & set(range(size))):
        yield "cut" if length else "empty", f"cut to {length} of {size}", data[:length]
    for position, bit in _flips(size, flips):
        flipped = bytes([data[position] ^ 1 << bit])
        changed = data[:position] + flipped + data[position + 1 :]
        yield "flip", f"byte {position} of {size}, bit {bit}", changed
    for begin, end in {(size - size // 4, size), (size // 3, size // 2), (0, min(16, size))}:
        if any(data[begin:end]):
            zeros = data[:begin] + bytes(end - begin) + data[end:]
            yield "zeros", f"bytes {begin} to {end} of {size} zero", zeros
    for tail in (b"\0", _GARBAGE, bytes(4096)):
        yield "appended", f"{len(tail)} bytes appended", data + tail


def _flips(size: int, count: int) -> Iterator[tuple[int, int]]:
    """Yield positions, each with a bit: some near both ends, as many spread between them."""
    near = (0, size - 1, 1, size - 2, 9, size - 8, 21, size - 22, 70, size - 61, 200, size - 513)
    positions = {*near[: count // 2], *np.linspace(0, size - 1, count - count // 2, dtype=int)}
    for position in sorted(positions):
        if 0 <= position < size:
            yield int(position), int(position * 7 + 3) % 8
