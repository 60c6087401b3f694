"""The files of a Zarr store that is one zip: members that are not compressed are mapped."""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fastdata_cli.errors import DamagedDatasetError, UnsupportedError
from fastdata_cli.extents import Column
from fastdata_cli.formats.zarr.files import METADATA, NameOf, Places
from fastdata_cli.formats.zarr.index import missing
from fastdata_cli.storage.gather import corrupt
from fastdata_cli.storage.mapping import FileMaps, MappedFile

_SIGNATURE = b"PK\x03\x04"
_HEADER = struct.Struct("<4s22xHH")
"""What stands before a member: signature, lengths of its name and of what else there is."""

_ENCRYPTED = 0x1
# Of a directory.
_BROKEN = (zipfile.BadZipFile, OSError, ValueError, struct.error)
_MOST_METADATA = 64 << 20
_NOT_ITS_CRC = "its CRC-32 is not that of the zip's directory"
_SIDE = (*METADATA, ".zattrs", ".zmetadata")


def is_zip(path: Path) -> bool:
    """Tell whether a file begins like a zip with a member in it."""
    try:
        if not os.path.isfile(path):  # also of names that no file system takes
            return False
        with open(path, "rb") as file:
            return file.read(len(_SIGNATURE)) == _SIGNATURE
    except OSError:
        return False


def is_zipped_store(path: Path) -> bool:
    """Tell whether a file is a zip with the metadata of a Zarr store, or one that cannot say."""
    if not is_zip(path):
        return False
    try:
        with zipfile.ZipFile(path) as file:
            return _prefix(file.namelist()) is not None
    except (*_BROKEN, NotImplementedError):
        return True


class ZippedFiles:
    """The members of a zip, without the one folder that all of them may lie in.

    Raises:
        DamagedDatasetError: it has no directory, or one that is broken.
        UnsupportedError: it is encrypted, or of a later version of zip than zipfile reads.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        try:
            with zipfile.ZipFile(root) as file:
                members = file.infolist()
        except NotImplementedError as problem:
            raise UnsupportedError(f"{root}: {problem}") from problem
        except _BROKEN as problem:
            raise DamagedDatasetError(
                f"{root}: a zip without its directory, which stands at its end ({problem})",
                hint="it was cut, or the program that wrote it did not close it",
                path=str(root),
            ) from problem
        if any(member.flag_bits & _ENCRYPTED for member in members):
            raise UnsupportedError(f"{root}: an encrypted zip")
        self._map = FileMaps.single(MappedFile(str(root)))
        self._prefix = _prefix([member.filename for member in members]) or ""
        cut = len(self._prefix)
        # Of members of one name the last counts, as for every reader of zips.
        self._members = {member.filename[cut:]: member for member in members}
        self.can_map = all(
            member.compress_type == zipfile.ZIP_STORED
            for name, member in self._members.items()
            if name.rpartition("/")[2] not in _SIDE
        )

    def read(self, name: str) -> bytes:
        """Return the content of a member that is small, as metadata are."""
        member = self._members.get(name)
        if member is None:
            raise FileNotFoundError(self.path(name))
        begin, size = self.place(member, self._map.get(0))
        data = self._map.read(0, begin, size)
        if member.compress_type == zipfile.ZIP_DEFLATED:
            try:
                data = zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, _MOST_METADATA)
            except zlib.error as problem:
                raise ValueError(str(problem)) from problem
        if zlib.crc32(data) != member.CRC:
            raise ValueError(_NOT_ITS_CRC)
        return data

    def place(self, member: zipfile.ZipInfo, file: MappedFile) -> tuple[int, int]:
        """Return where the content of a member begins in the zip, and its bytes there.

        Raises:
            BadSampleError: it lies somewhere else than the directory says.
        """
        at, size = member.header_offset, member.compress_size
        head = file.data[at : at + _HEADER.size].tobytes().ljust(_HEADER.size)
        signature, *lengths = _HEADER.unpack(head)
        begin = at + _HEADER.size + sum(lengths)
        if signature != _SIGNATURE or begin + size > file.size:
            raise corrupt(self.path(member.filename), "the directory of the zip leads elsewhere")
        return begin, size

    def has(self, name: str) -> bool:
        """Tell whether there is such a member."""
        return name in self._members

    def arrays(self, is_array: Callable[[str], bool]) -> Iterator[str]:
        """Yield the folders with metadata for which that is true."""
        split = (name.rpartition("/") for name in self._members)
        found = sorted({folder for folder, _, name in split if name in METADATA})
        yield from filter(is_array, found)

    def path(self, name: str) -> str:
        """Return the path of the zip and the member's name."""
        return f"{self.root}/{self._prefix}{name}" if name else str(self.root)

    def places(self, name_of: NameOf) -> Places:
        """Return where members of an array are."""
        return _Members(self, name_of)

    def member(self, name: str) -> zipfile.ZipInfo | None:
        """Return what the directory says of a member."""
        return self._members.get(name)

    def open_array(self, name: str, zarr_format: Any) -> Any:
        """Open an array with zarr-python."""
        import zarr
        from zarr.storage import ZipStore

        return zarr.open_array(
            ZipStore(self.root, mode="r"),
            path=self._prefix + name,
            mode="r",
            zarr_format=zarr_format,
        )


class _Members:
    """Members that are stored as they are; each is compared with its CRC-32 when first asked for.

    Zarr itself has no checksum of most chunks.
    """

    def __init__(self, files: ZippedFiles, name_of: NameOf) -> None:
        self._files, self._name_of = files, name_of
        self.maps = FileMaps.single(MappedFile(str(files.root)))
        self._known: dict[int, tuple[int, int]] = {}

    def find(self, numbers: Column) -> tuple[Column, Column, Column]:
        found = [self._known.get(number) or self._look(number) for number in numbers.tolist()]
        begin, size = np.array(found, np.int64).reshape(-1, 2).T
        return np.zeros_like(numbers), begin, size

    def _look(self, number: int) -> tuple[int, int]:
        name = self._name_of(number)
        member = self._files.member(name)
        if member is None:
            raise missing(f"{self._files.path(name)} is not there")
        file = self.maps.get(0)
        begin, size = self._files.place(member, file)
        if zlib.crc32(file.data[begin : begin + size].data) != member.CRC:
            raise corrupt(self._files.path(name), _NOT_ITS_CRC)
        self._known[number] = begin, size
        return begin, size


def _prefix(names: list[str]) -> str | None:
    """Return the folder, with its slash, whose metadata make a zip a store; None for no store."""
    if any(name in METADATA for name in names):
        return ""
    tops = {name.partition("/")[0] for name in names}
    if len(tops) != 1:
        return None
    prefix = f"{tops.pop()}/"
    return prefix if any(prefix + name in names for name in METADATA) else None
