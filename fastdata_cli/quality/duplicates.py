"""Finding duplicates in source order: the first of a group stays, later ones name it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from fastdata_cli.errors import UsageError
from fastdata_cli.quality.bands import MAX_RADIUS
from fastdata_cli.quality.entries import Entries
from fastdata_cli.quality.fingerprints import KINDS, Fingerprint, agree
from fastdata_cli.quality.index import HashIndex
from fastdata_cli.quality.index_file import check_target, load_index, save_index

DEFAULT_DISTANCE = 10
"""Bits. Of 500 photographs it finds all re-encoded and resized copies, 99 % of those cropped by 2 %
and 97 % of those cropped by 5 % around the centre, and takes no two of 2 million pairs of different
pictures for the same. Hashes of this kind differ in an even number of bits, nearly always."""


@dataclass(frozen=True, slots=True)
class Match:
    """What an image is a duplicate of."""

    first: str
    """Key of the first image of the group."""
    distance: int
    """Differing bits of the perceptual hashes; 0 for ``exact`` and ``pixels``."""
    against: bool = False
    """Whether the first image is of the index that was compared with, not of this run."""


class DuplicateFinder:
    """Says of each image whether an earlier one is the same. For one thread.

    An image that matches none becomes the first of its group, and later ones are compared with it;
    an image that matches is not remembered, so that groups do not drift: every member is within the
    distance of the first. Of several firsts, those of the index compared with come before those of
    this run, then the nearest counts, then the earliest. So the answers depend on the order of the
    images and on nothing else.

    Args:
        kind: what is compared: ``exact``, ``pixels`` or ``near``.
        distance: bits that may differ, 0 to 16, for ``near``; None for the default.
        against: the file of an index to compare with.
        save: the file of the index that ``close`` writes: of all firsts, those of ``against``
            included. It may be the same file.

    Raises:
        UsageError: values that cannot be meant, or an index of another kind.
        FastdataError: ``against`` cannot be read, or ``save`` could not be written; see
            ``load_index`` and ``check_target``.
    """

    def __init__(
        self,
        kind: str,
        distance: int | None = None,
        *,
        against: Path | str | None = None,
        save: Path | str | None = None,
    ) -> None:
        _check(kind, distance)
        if save is not None:
            check_target(save)
        self.kind = kind
        self.distance = (DEFAULT_DISTANCE if distance is None else distance) * (kind == "near")
        self._save = save
        self._entries = Entries(kind) if against is None else load_index(against, kind)
        self._num_old = len(self._entries)
        self._index = HashIndex(self.distance, self._entries.hashes)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close(save=kind is None)

    def find(self, key: str, fingerprint: Fingerprint) -> Match | None:
        """Return what the next image is a duplicate of, or None and remember it as a first.

        Raises:
            StorageError: there is no room to remember it.
        """
        assert fingerprint.kind == self.kind, f"{fingerprint.kind} among {self.kind}"
        numbers, distances = self._index.query(
            fingerprint.value, self.distance if fingerprint.usable else 0
        )
        if len(numbers):
            look = np.frombuffer(bytes.fromhex(fingerprint.look), np.uint8)
            alike = agree(self.kind, look, self._entries.look(numbers))
            numbers, distances = numbers[alike], distances[alike]
        if not len(numbers):
            self._entries.append(key, fingerprint)
            self._index.add(fingerprint.value)
            return None
        best = np.lexsort((numbers, distances, numbers >= self._num_old))[0]
        number = int(numbers[best])
        return Match(self._entries.key(number), int(distances[best]), number < self._num_old)

    def close(self, *, save: bool = True) -> None:
        """Release everything; write the index first if one was asked for and ``save`` is true.

        Raises:
            StorageError: it cannot be written.
        """
        try:
            if save and self._save is not None:
                save_index(self._save, self._entries)
        finally:
            self._entries.close()


def _check(kind: str, distance: int | None) -> None:
    if kind not in KINDS:
        raise UsageError(f"--duplicates does not know {kind!r}", hint="one of: " + ", ".join(KINDS))
    if distance is None:
        return
    if kind != "near":
        raise UsageError(
            f"--distance has no meaning for {kind} duplicates", hint="--duplicates near"
        )
    if not 0 <= distance <= MAX_RADIUS:
        raise UsageError(
            f"--distance must be 0 to {MAX_RADIUS} bits, not {distance}",
            hint=f"the default is {DEFAULT_DISTANCE}; of two different pictures, about 32 differ",
        )
