"""Owns collecting the members of a foreign tar into compact columns, sample by sample."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, pairwise

import numpy as np
import xxhash
from numpy.typing import NDArray

from fastdata_cli.formats.webdataset.names import split_field
from fastdata_cli.formats.webdataset.walk import Bytes, Damage, Kind, Member, Walk
from fastdata_cli.key_table import KeyTable
from fastdata_cli.keys import to_bytes
from fastdata_cli.sample import Reject

_RESERVED = re.compile(r"__[^/]*__(?:/|$)")
_OURS = "__fastdata__/"

STALE_INDEX = "stale-index"
"""Why members of an index are in no sample: it is not at the end of its file."""


@dataclass(frozen=True, slots=True)
class TarMembers:
    """The files of one tar that belong to samples; those of one sample adjoin, in their order.

    Samples stand in the order of their first members.
    """

    names: KeyTable
    """M names, without ``./``; about 30 bytes a member and its name in all."""
    begins: NDArray[np.int64]
    sizes: NDArray[np.int64]
    bounds: NDArray[np.int64]
    """int64[G + 1]: sample g has the members ``bounds[g]:bounds[g + 1]``."""
    damage: Damage | None
    rejects: tuple[Reject, ...]
    ignored: Counter[str]
    """Members that are in no sample, by reason."""
    flavours: frozenset[str]

    def groups(self) -> Iterator[range]:
        """Yield the members of each sample."""
        return (range(*pair) for pair in pairwise(self.bounds.tolist()))


def collect(data: Bytes) -> TarMembers:
    """Walk a mapped tar once and return its members."""
    collector = _Collector(data)
    walk = Walk(data)
    damage = None
    for found in walk:
        if isinstance(found, Damage):
            damage = found
        else:
            collector.take(found)
    return collector.finished(damage, frozenset(walk.flavours))


class _Collector:
    def __init__(self, data: Bytes) -> None:
        self.data = data
        self.names, self.offsets = bytearray(), array("q", [0])
        self.begins, self.sizes, self.stems = array("q"), array("q"), array("Q")
        self.rejects: list[Reject] = []
        self.ignored: Counter[str] = Counter()
        self.seen = 0
        self.targets: dict[str, Member] | None = None

    def take(self, member: Member) -> None:
        self._take(member)
        self.seen += 1
        if self.targets is not None:
            _note(self.targets, member)

    def _take(self, member: Member) -> None:
        if member.kind is Kind.FOLDER:
            return
        name = plain_name(member.name)
        why = _ignored(name, member.kind)
        if why:
            self.ignored[why] += 1
            return
        if member.kind is Kind.SPARSE:
            self.rejects.append(Reject(name, "unsupported-format", "a sparse file in a tar"))
            return
        if member.kind is Kind.HARD_LINK:
            target = self._target(member.target)
            if target is None:
                detail = f"a hard link to {member.target}, which is not in this tar before it"
                self.rejects.append(Reject(name, "missing", detail))
                return
            member = target
        self._append(name, member)

    def _append(self, name: str, member: Member) -> None:
        self.names += to_bytes(name)
        self.offsets.append(len(self.names))
        self.begins.append(member.begin)
        self.sizes.append(member.size)
        self.stems.append(xxhash.xxh3_64_intdigest(to_bytes(split_field(name)[0])))

    def _target(self, name: str) -> Member | None:
        # Links are rare: only a tar that has any pays for a table of all names.
        if self.targets is None:
            self.targets = {}
            for earlier in islice(Walk(self.data), self.seen):
                if isinstance(earlier, Member):
                    _note(self.targets, earlier)
        return self.targets.get(plain_name(name))

    def finished(self, damage: Damage | None, flavours: frozenset[str]) -> TarMembers:
        names = KeyTable(np.frombuffer(bytes(self.names), np.uint8), np.array(self.offsets))
        begins, sizes = np.array(self.begins, np.int64), np.array(self.sizes, np.int64)
        order, bounds = _adjoin(np.array(self.stems, np.uint64))
        if np.any(np.diff(order) != 1):
            names = KeyTable.from_texts([names.text(index) for index in order.tolist()])
            begins, sizes = begins[order], sizes[order]
        rejects, ignored = tuple(self.rejects), self.ignored
        return TarMembers(names, begins, sizes, bounds, damage, rejects, ignored, flavours)


def plain_name(name: str) -> str:
    """Return a member's name without ``./``, leading and doubled slashes."""
    if name[:1] in (".", "/") or "//" in name or "/./" in name:
        return "/".join(part for part in name.split("/") if part not in ("", "."))
    return name


def _ignored(name: str, kind: Kind) -> str:
    """Return why a member is in no sample, or nothing."""
    last = name.rpartition("/")[2]
    if kind is Kind.OTHER:
        return "link-or-device"
    if last.startswith("._") or last == ".DS_Store" or name.startswith("__MACOSX/"):
        return "system-file"
    if name.startswith(_OURS):
        return STALE_INDEX
    if _RESERVED.match(name):
        return "reserved-name"
    return "" if split_field(name)[1] else "no-extension"


def _note(table: dict[str, Member], member: Member) -> None:
    """Let a link that follows lead to this member, and no longer to one of the same name."""
    name, found = plain_name(member.name), None
    if member.kind is Kind.FILE:
        found = member
    elif member.kind is Kind.HARD_LINK:
        found = table.get(plain_name(member.target))
    if found is None:
        table.pop(name, None)
    else:
        table[name] = found


def _adjoin(stems: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the order in which equal stems adjoin, by first appearance, and the bounds of runs."""
    _, first, inverse = np.unique(stems, return_index=True, return_inverse=True)
    leaders = first[inverse].astype(np.int64)
    order = np.argsort(leaders, kind="stable")
    changes = np.flatnonzero(np.diff(leaders[order])) + 1
    bounds = np.concatenate([[0], changes, [len(stems)]] if len(stems) else [[0]])
    return order.astype(np.int64), bounds.astype(np.int64)
