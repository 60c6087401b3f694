"""Files as memory: mapped without a descriptor that stays open, in numbers that are safe."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import weakref
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from fastdata_cli.errors import BadSampleError, DamagedDatasetError
from fastdata_cli.extents import Bytes

MOST_MAPS = 16_384
"""Of one reader. A process may have 65,530 (Linux's vm.max_map_count)."""

_MAP_FAILED = ctypes.c_void_p(-1).value


class MappedFile:
    """A file as a read-only array; it is unmapped with the last view of it.

    The size is taken when it is mapped: a file that is cut later kills who reads behind its end
    (SIGBUS), so whoever asks for bytes must compare with ``size``.

    Args:
        path: of a file; an empty one gives an empty array.
        descriptor: of the same file, where it is open already; it stays the caller's.

    Raises:
        OSError: it cannot be opened or mapped.
    """

    __slots__ = ("address", "data", "path", "size")

    def __init__(self, path: str, descriptor: int | None = None) -> None:
        self.path = path
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC) if descriptor is None else descriptor
        try:
            self.size = os.fstat(number).st_size
            self.address, self.data = _map(number, self.size)
        finally:
            if descriptor is None:
                os.close(number)

    def advise(self, advice: int, begin: int = 0, length: int | None = None) -> None:
        """Tell the system how a range is going to be read; see ``madvise(2)``."""
        length = self.size - begin if length is None else length
        if length > 0:
            ahead = begin % mmap.PAGESIZE
            _libc().madvise(self.address + begin - ahead, length + ahead, advice)


class FileMaps:
    """The mapped files of one process, by number; the oldest go when there are too many.

    Threads may share it; there is no lock that a fork could leave held. A map that is dropped while
    somebody reads it lives until they are done.

    Args:
        path_of: returns the path of a file.
        reaches: bytes that are going to be read of each file.
    """

    def __init__(self, path_of: Callable[[int], str], reaches: Sequence[int] | None = None) -> None:
        self.path_of = path_of
        self._reaches = reaches
        self._maps: dict[int, MappedFile] = {}

    @classmethod
    def single(cls, file: MappedFile) -> FileMaps:
        """Return the maps of a dataset that is this one file, number 0."""
        maps = cls(lambda _: file.path)  # mapped anew, should it be asked for after ``clear``
        maps._maps[0] = file
        return maps

    def get(self, number: int) -> MappedFile:
        """Return a file, mapped.

        Raises:
            BadSampleError: it is not there, or cannot be mapped.
            DamagedDatasetError: it is shorter than it should be.
        """
        found = self._maps.get(number)
        if found is None:
            found = self._maps.setdefault(number, self._open(number))
            if len(self._maps) > MOST_MAPS:
                self._drop_oldest()
        return found

    def read(self, number: int, begin: int, size: int) -> bytes:
        """Return some bytes of a file."""
        return self.get(number).data[begin : begin + size].tobytes()

    def clear(self) -> None:
        """Let go of all files."""
        self._maps.clear()

    def _drop_oldest(self) -> None:
        # By age, not by use: a lookup then changes nothing.
        with contextlib.suppress(RuntimeError):  # another thread changed it: that one drops
            self._maps.pop(next(iter(self._maps)), None)

    def _open(self, number: int) -> MappedFile:
        path = self.path_of(number)
        try:
            mapped = MappedFile(path)
        except FileNotFoundError as problem:
            raise BadSampleError(reason="missing", detail=f"{path} is not there") from problem
        except OSError as problem:
            detail = f"{path}: {problem.strerror or problem}"
            raise BadSampleError(reason="unreadable", detail=detail) from problem
        if self._reaches is not None and mapped.size < self._reaches[number]:
            raise DamagedDatasetError(
                f"{path}: {mapped.size} bytes, and its samples reach to {self._reaches[number]}",
                hint="it was cut after it was opened",
                expected=self._reaches[number],
                found=mapped.size,
            )
        return mapped


def _map(descriptor: int, size: int) -> tuple[int, Bytes]:
    if size == 0:  # nothing can be mapped
        return 0, np.empty(0, np.uint8)
    # Python's mmap (before 3.13) keeps a descriptor for each map: at the usual limit of 1024, few
    # shards could be mapped.
    libc = _libc()
    address = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
    if address == _MAP_FAILED:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    block = (ctypes.c_char * size).from_address(address)
    # At exit other threads may still read; the system unmaps everything then.
    weakref.finalize(block, libc.munmap, address, size).atexit = False
    return address, np.frombuffer(memoryview(block).cast("B").toreadonly(), np.uint8)


@lru_cache(maxsize=1)
def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    size, pointer, number = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int
    libc.mmap.argtypes = (pointer, size, number, number, number, ctypes.c_int64)
    libc.mmap.restype = pointer
    libc.munmap.argtypes = (pointer, size)
    libc.madvise.argtypes = (pointer, size, number)
    return libc
