"""The files of a Zarr store by their names inside it: here of a folder, in zipped.py of a zip."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from fastdata_cli.extents import Column
from fastdata_cli.storage.mapping import FileMaps

METADATA = ("zarr.json", ".zgroup", ".zarray")
"""Names of the files that make a folder of a store a group or an array."""

_DEEPEST = 16

NameOf = Callable[[int], str]
"""Returns the name of a file inside the store by its number."""


class Places(Protocol):
    """Where the files of one array are; threads may share it."""

    maps: FileMaps

    def find(self, numbers: Column) -> tuple[Column, Column, Column]:
        """Return number in ``maps``, first byte and length of some files.

        Raises:
            BadSampleError: one is missing or damaged.
        """
        ...


class StoreFiles(Protocol):
    """All files of a store; only read."""

    root: Path
    can_map: bool
    """Whether chunks are stored as they are, so that it can be said where."""

    def read(self, name: str) -> bytes:
        """Return the content of a file.

        Raises:
            FileNotFoundError: there is none.
            OSError, ValueError: it cannot be read.
        """
        ...

    def has(self, name: str) -> bool:
        """Tell whether there is such a file."""
        ...

    def arrays(self, is_array: Callable[[str], bool]) -> Iterator[str]:
        """Yield the folders for which that is true, in the order of their names."""
        ...

    def path(self, name: str) -> str:
        """Return what messages call a file."""
        ...

    def places(self, name_of: NameOf) -> Places:
        """Return where the files of an array are."""
        ...

    def open_array(self, name: str, zarr_format: Any) -> Any:
        """Open an array with zarr-python; its ``store`` is to be closed."""
        ...


class FolderFiles:
    """The files of a folder."""

    can_map = True

    def __init__(self, root: Path) -> None:
        self.root = root

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        with open(self.path(name), "rb") as file:
            return file.read()

    def has(self, name: str) -> bool:
        """Tell whether there is such a file."""
        return os.path.isfile(self.path(name))

    def arrays(self, is_array: Callable[[str], bool]) -> Iterator[str]:
        """Yield folders without looking into those that are arrays."""
        yield from self._arrays("", is_array, 0)

    def _arrays(self, folder: str, is_array: Callable[[str], bool], depth: int) -> Iterator[str]:
        if is_array(folder):
            yield folder
            return
        if depth == _DEEPEST:
            return
        with os.scandir(self.path(folder)) as entries:
            below = sorted(entry.name for entry in entries if entry.is_dir())
        for name in below:
            yield from self._arrays(joined(folder, name), is_array, depth + 1)

    def path(self, name: str) -> str:
        """Return the path of a file."""
        return os.path.join(self.root, name)

    def places(self, name_of: NameOf) -> Places:
        """Return where the files of an array are."""
        return _WholeFiles(FileMaps(lambda number: self.path(name_of(number))))

    def open_array(self, name: str, zarr_format: Any) -> Any:
        """Open an array with zarr-python."""
        import zarr
        from zarr.storage import LocalStore

        store = LocalStore(self.path(name), read_only=True)
        return zarr.open_array(store, mode="r", zarr_format=zarr_format)


class _WholeFiles:
    """Each file for itself."""

    def __init__(self, maps: FileMaps) -> None:
        self.maps = maps

    def find(self, numbers: Column) -> tuple[Column, Column, Column]:
        sizes = np.array([self.maps.get(number).size for number in numbers.tolist()], np.int64)
        return numbers, np.zeros_like(numbers), sizes


def joined(folder: str, name: str) -> str:
    """Return the name of what lies in a folder of the store."""
    return f"{folder}/{name}" if folder else name
