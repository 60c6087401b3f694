"""One target of the fuzzer: bytes become one file of a dataset whose other files are sound.

An input is two bytes and the content of a file. The first byte chooses the file, the second has
switches: whether checksums are set right, and whether the containers' own libraries do the reading.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fastdata_cli.storage.gather import SWITCH
from tests.fuzz import exercise
from tests.fuzz.repair import REPAIRS, applies
from tests.fuzz.seeds import MAKERS

HEAD = 2
REPAIR, LIBRARY = 1, 2

# Larger files are mostly padding, and mutations of it find nothing.
_LARGEST = 64 << 10


@dataclass(frozen=True)
class _Place:
    """A file that may be damaged."""

    dataset: Path
    file: Path
    sound: bytes
    repaired: bool


class Target:
    """Datasets of one kind, of which each call damages one file.

    Args:
        name: one of ``seeds.MAKERS``.
        folder: an empty folder, best in memory, where the datasets are made.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self._exercise = {"lists": exercise.lists, "pictures": exercise.picture}.get(
            name, exercise.dataset
        )
        self._places: list[_Place] = []
        for number, make in enumerate(MAKERS[name]):
            root = folder / str(number)
            root.mkdir(parents=True)
            self._add(make(root), root)

    def _add(self, dataset: Path, root: Path) -> None:
        for file in sorted(entry for entry in root.rglob("*") if entry.is_file()):
            sound = file.read_bytes()
            if len(sound) <= _LARGEST:
                whole = file if self.name in ("pictures", "lists") else dataset
                self._places.append(_Place(whole, file, sound, applies(self.name, sound)))

    def seeds(self) -> Iterator[bytes]:
        """Yield the inputs that change nothing: every file as it is."""
        for number, place in enumerate(self._places):
            yield bytes((number, place.repaired and REPAIR)) + place.sound
        for number, place in enumerate(self._places):
            yield bytes((number, LIBRARY)) + place.sound

    def run(self, data: bytes) -> None:
        """Damage a file, use its dataset, and put the file right again.

        Raises:
            Exception: anything but a FastdataError is a finding.
        """
        place, content = self.read(data)
        _replace(place.file, content)
        os.environ[SWITCH] = "off" if data[1:2] and data[1] & LIBRARY else "on"
        try:
            self._exercise(place.dataset)
        finally:
            _replace(place.file, place.sound)

    def read(self, data: bytes) -> tuple[_Place, bytes]:
        """Return the file that an input is about, and the content that it gets."""
        head, content = data[:HEAD].ljust(HEAD, b"\0"), data[HEAD:]
        place = self._places[head[0] % len(self._places)]
        if head[1] & REPAIR and place.repaired:
            content = REPAIRS[self.name](content)
        return place, content


def _replace(file: Path, content: bytes) -> None:
    """Give a file new content in a new inode: readers may still have the old one mapped."""
    file.unlink(missing_ok=True)
    file.write_bytes(content)
