"""Owns which files make a dataset: one, a %d pattern, a {brace} pattern or a folder of shards."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from fastdata_cli.errors import DamagedDatasetError, SourceNotFoundError
from fastdata_cli.formats.sharded.kind import ShardNames
from fastdata_cli.formats.sharded.set import (
    INDEX_SUFFIX,
    SetIndex,
    ShardPattern,
    index_path,
)
from fastdata_cli.storage.journal import JOURNAL
from fastdata_cli.storage.staging import staging_root

_NUMBER = re.compile(r"(.*?)(\d+)((?:-of-\d+)?\D*)")
_OF = re.compile(r"-of-(\d+)")
_BRACES = re.compile(r"\{([^{}]*)\}")
_MOST_SHARDS = 1_000_000
# What downloads and other tools leave beside shards: lists, statistics, read-me files.
_BESIDE_SHARDS = (".json", ".jsonl", ".parquet", ".csv", ".tsv", ".txt", ".md", ".yaml", ".idx")


@dataclass(frozen=True, slots=True)
class ShardSet:
    """The files of one dataset, in order."""

    paths: tuple[Path, ...]
    root: Path
    """What the shards' names are relative to."""
    index: SetIndex | None = None
    index_path: Path | None = None
    remarks: tuple[str, ...] = ()
    """What a person should know about this set."""
    missing: int = 0
    """How many shards the numbering leaves out."""

    def name(self, shard: int) -> str:
        """Return how messages and keys name a shard."""
        return os.path.relpath(self.paths[shard], self.root)


def find_shards(path: Path, kind: ShardNames) -> ShardSet:
    """Return the shards that a path stands for.

    Raises:
        DamagedDatasetError: a set that is incomplete, or lacks a shard that its index names.
        SourceNotFoundError: a brace pattern that names files which are not there.
    """
    if path.is_dir():
        return _in_folder(path, kind)
    pattern = None if path.exists() else ShardPattern.parse(path)
    if pattern is not None:
        return _of_pattern(path, pattern)
    paths = [Path(text) for text in expand_braces(str(path))]
    absent = [each for each in paths if not each.is_file()]
    if absent:
        raise SourceNotFoundError(
            f"{path}: {len(absent)} of {len(paths)} shards are not there, the first is {absent[0]}",
            path=str(absent[0]),
        )
    return ShardSet(tuple(paths), Path(os.path.commonpath([each.parent for each in paths])))


def recognises(path: Path, kind: ShardNames) -> bool:
    """Tell whether a path is a shard by its content, a pattern of shards, or a folder of them."""
    try:
        if path.is_dir():
            return _holds_only_shards(path, kind)
        if path.is_file():
            return kind.is_shard(path)
        if path.exists() or not path.name.endswith(kind.suffix):
            return False
        pattern = ShardPattern.parse(path)
        if pattern is not None:
            return index_path(path).is_file() or bool(pattern.standing())
        return "{" in str(path) and any(Path(text).is_file() for text in expand_braces(str(path)))
    except (OSError, ValueError):
        return False


def expand_braces(text: str) -> Iterator[str]:
    """Yield what a shell would make of ``{000..009}`` and ``{a,b}``; other braces stay."""
    for match in _BRACES.finditer(text):
        values = _alternatives(match[1])
        if values is not None:
            for value in values:
                yield from expand_braces(text[: match.start()] + value + text[match.end() :])
            return
    yield text


def gaps(names: Sequence[str]) -> tuple[list[str], int]:
    """Return remarks on holes in the numbering of shards, and how many shards are missing."""
    numbered: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for name in names:
        folder, file = os.path.split(name)
        match = _NUMBER.fullmatch(file)
        if match:
            around = os.path.join(folder, match[1]), match[3]
            numbered[around].append((int(match[2]), len(match[2])))
    remarks, missing = [], 0
    for (before, after), group in numbered.items():
        group.sort()
        digits = dict(group)
        numbers = _with_ends([number for number, _ in group], after)
        absent = numbers[-1] - numbers[0] + 1 - len(numbers)
        if not 0 < absent <= 10 * len(group):  # dates and the like leave larger holes
            continue
        missing += absent
        for low, high in pairwise(numbers):
            if high - low > 1:
                first = f"{before}{low + 1:0{digits.get(low, group[0][1])}d}{after}"
                more = f" and {high - low - 2} after it" if high - low > 2 else ""
                remarks.append(f"missing: {first}{more}")
    return remarks, missing


def _with_ends(numbers: list[int], after: str) -> list[int]:
    """Add what lies before the first and behind the last, where a name says how many there are."""
    total = _OF.match(after)
    return numbers if total is None else [-1, *numbers, int(total[1])]


def _of_pattern(path: Path, pattern: ShardPattern) -> ShardSet:
    index_file, standing = index_path(path), pattern.standing()
    if index_file.exists():
        return _indexed(index_file)
    if (staging_root(path) / "journal.jsonl").exists():
        raise DamagedDatasetError(
            f"{path}: incomplete, its run was interrupted while it was published",
            hint="run the same command again to finish it",
            path=str(path),
        )
    names = [each.name for each in standing]
    remarks, missing = gaps(names)
    return ShardSet(tuple(standing), pattern.folder, None, None, tuple(remarks), missing)


def _indexed(index_file: Path) -> ShardSet:
    index, folder = SetIndex.read(index_file), index_file.parent
    paths = tuple(folder / entry.name for entry in index.shards)
    for path, entry in zip(paths, index.shards, strict=True):
        found = path.stat().st_size if os.path.isfile(path) else None
        if found is None:
            raise DamagedDatasetError(f"{path} is missing; {index_file.name} names it")
        if found != entry.bytes:
            raise DamagedDatasetError(
                f"{path}: {found} bytes, and {entry.bytes} are expected",
                expected=entry.bytes,
                found=found,
            )
    return ShardSet(paths, folder, index, index_file)


def _in_folder(path: Path, kind: ShardNames) -> ShardSet:
    shards = sorted(file for file in _files_below(path) if kind.named.search(file))
    ending = kind.suffix + INDEX_SUFFIX
    indexes = [path / name for name in os.listdir(path) if name.endswith(ending)]
    if len(indexes) == 1:
        found = _indexed(indexes[0])
        there, known = {str(path / each) for each in shards}, set(map(str, found.paths))
        if there == known or (known < there and _is_being_added_to(indexes[0])):
            return found
    for name in os.listdir(path):
        _refuse_unfinished(path, name, kind)
    remarks, missing = gaps(shards)
    paths = tuple(path / each for each in shards)
    return ShardSet(paths, path, None, None, tuple(remarks), missing)


def _is_being_added_to(index_file: Path) -> bool:
    """Tell whether shards that an index does not name are those of a run that is not done."""
    pattern = index_file.with_name(index_file.name.removesuffix(INDEX_SUFFIX))
    return (staging_root(pattern) / JOURNAL).exists()


def _refuse_unfinished(folder: Path, name: str, kind: ShardNames) -> None:
    """Refuse a folder in which a shard set was being published: some shards may be missing."""
    if not (name.startswith(".") and name.endswith(kind.suffix + ".fastdata-partial")):
        return
    pattern_path = folder / name[1 : -len(".fastdata-partial")]
    pattern = ShardPattern.parse(pattern_path)
    if pattern is not None and pattern.standing() and not index_path(pattern_path).exists():
        _of_pattern(pattern_path, pattern)


def _files_below(folder: Path) -> Iterator[str]:
    """Yield the files below a folder, relative to it, hidden ones left out, as they are met."""
    waiting = [""]
    while waiting:
        base = waiting.pop()
        with os.scandir(folder / base) as entries:
            for entry in entries:
                name = os.path.join(base, entry.name)
                if entry.name.startswith("."):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(name)
                else:
                    yield name


def _holds_only_shards(folder: Path, kind: ShardNames) -> bool:
    shards = 0
    for name in _files_below(folder):
        if kind.named.search(name):
            shards += 1
        elif not name.lower().endswith(_BESIDE_SHARDS):
            return False
    return shards > 0


def _alternatives(inside: str) -> list[str] | None:
    bounds = re.fullmatch(r"(\d+)\.\.(\d+)", inside)
    if bounds:
        first, last = int(bounds[1]), int(bounds[2])
        padded = any(len(bound) > 1 and bound[0] == "0" for bound in bounds.groups())
        width = max(map(len, bounds.groups())) if padded else 0
        last = min(last, first + _MOST_SHARDS)
        return [f"{number:0{width}d}" for number in range(first, last + 1)]
    return inside.split(",") if "," in inside else None
