"""Which files a device measurement reads: the dataset's own, or a scratch file beside them."""

from __future__ import annotations

import errno
import heapq
import itertools
import mmap
import os
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from fastdata_cli.timing.census import megabytes, size_of
from fastdata_cli.timing.device import (
    ALIGNMENT,
    DeviceDoubt,
    DeviceError,
    DeviceWarning,
    FioJob,
)
from fastdata_cli.timing.mounts import Mount, mount_of

# Less than this is read so often in one run that the drive answers from its own memory.
_MEANINGFUL_BYTES = 32 << 20
_MOST_FILES = 128
_SCRATCH_BYTES = 256 << 20
_SCRATCH_PIECE = 4 << 20


@dataclass(frozen=True, kw_only=True)
class Target:
    """Open files that one job may read.

    Attributes:
        descriptors: open for reading, through the page cache.
        sizes: bytes of each.
        names: path of each, for messages.
        block_bytes: of the job, or smaller where no file is so large.
        direct: whether their file system takes O_DIRECT.
        scratch: whether it is one file made for the measurement.
        warnings: what that means for the numbers.
    """

    descriptors: tuple[int, ...]
    sizes: tuple[int, ...]
    names: tuple[str, ...]
    block_bytes: int
    direct: bool
    scratch: bool
    warnings: tuple[DeviceWarning, ...]


class DeviceTargets:
    """Chooses and opens the files for jobs; a context manager that closes and removes them.

    The largest files are taken, so that one run reads as many different blocks as can be. Where
    they are too few or too small, a scratch file is written beside them, if the folder is writable
    and has room. It has no name, so that nothing is left of it however this process ends.

    Args:
        files: the dataset's files; only those that can be read are used.
        folder: where a scratch file may be made; by default beside the largest of the files.
        scratch: whether one may be made: writing it takes seconds.
    """

    def __init__(
        self, files: Iterable[Path], folder: Path | None = None, *, scratch: bool = True
    ) -> None:
        sized = ((size_of(path), path) for path in files)
        self._largest = heapq.nlargest(_MOST_FILES, sized, key=lambda pair: pair[0])
        self._folder = folder or (self._largest[0][1].parent if self._largest else None)
        self._stack = ExitStack()
        self._opened: dict[Path, int] = {}
        self._scratch: int | None = None
        self._why_no_scratch = "" if scratch else "is made in a quick look"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def for_job(self, job: FioJob) -> Target:
        """Return the files for a job.

        Raises:
            DeviceError: no file is large enough for a block of 4096 bytes, and no scratch file can
                be made.
        """
        own = self._readable(job.block_bytes)
        if sum(size for size, _ in own) >= _MEANINGFUL_BYTES:
            return self._target(own, job.block_bytes)
        scratch = self._make_scratch()
        if scratch is not None:
            return self._scratch_target(scratch, job.block_bytes)
        return self._small_target(job.block_bytes)

    def _readable(self, at_least: int) -> list[tuple[int, Path]]:
        return [
            (size, path)
            for size, path in self._largest
            if size >= at_least and os.access(path, os.R_OK)
        ]

    def _target(
        self,
        files: list[tuple[int, Path]],
        block_bytes: int,
        warnings: tuple[DeviceWarning, ...] = (),
    ) -> Target:
        descriptors = tuple(self._open(path) for _, path in files)
        direct = takes_direct(descriptors[0])
        mount = mount_of(files[0][1])
        return Target(
            descriptors=descriptors,
            sizes=tuple(size for size, _ in files),
            names=tuple(str(path) for _, path in files),
            block_bytes=block_bytes,
            direct=direct,
            scratch=False,
            warnings=(*warnings, *_limits(mount, direct)),
        )

    def _scratch_target(self, descriptor: int, block_bytes: int) -> Target:
        assert self._folder is not None
        size = os.fstat(descriptor).st_size
        note = _doubt(
            DeviceDoubt.SCRATCH,
            f"the files are too small or too few: a scratch file of {megabytes(size)} in"
            f" {self._folder} was read instead",
        )
        direct = takes_direct(descriptor)
        return Target(
            descriptors=(descriptor,),
            sizes=(size,),
            names=(f"a scratch file in {self._folder}",),
            block_bytes=block_bytes,
            direct=direct,
            scratch=True,
            warnings=(note, *_limits(mount_of(self._folder), direct)),
        )

    def _small_target(self, wanted: int) -> Target:
        files = self._readable(ALIGNMENT)
        if not files:
            raise DeviceError(
                "the device cannot be measured: no readable file has 4096 bytes, and no scratch"
                f" file {self._why_no_scratch}",
                hint="measure on a copy in a folder that is writable and has room",
            )
        block_bytes = min(wanted, _typical([size for size, _ in files]) // ALIGNMENT * ALIGNMENT)
        files = [(size, path) for size, path in files if size >= block_bytes]
        total = megabytes(sum(size for size, _ in files))
        count = "1 file" if len(files) == 1 else f"{len(files)} files"
        note = _doubt(
            DeviceDoubt.SMALL,
            f"only {total} in {count} could be read, {block_bytes // 1024} KiB at a time, and no"
            f" scratch file {self._why_no_scratch}: caches of the drive flatter the numbers",
        )
        return self._target(files, block_bytes, (note,))

    def _open(self, path: Path) -> int:
        if path not in self._opened:
            try:
                self._opened[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError as problem:
                raise DeviceError(f"{path} cannot be opened: {problem.strerror}") from problem
            self._stack.callback(os.close, self._opened[path])
        return self._opened[path]

    def _make_scratch(self) -> int | None:
        """Return the descriptor of the scratch file, made on first use, or None if it cannot be."""
        if self._scratch is None and not self._why_no_scratch:
            try:
                self._scratch = self._write_scratch()
            except OSError as problem:  # no room after all, no right, a quota
                where = self._folder or "any folder"
                reason = problem.strerror or "no room for it"
                self._why_no_scratch = f"can be made in {where}: {reason}"
        return self._scratch

    def _write_scratch(self) -> int:
        if self._folder is None or not os.access(self._folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        space = os.statvfs(self._folder)
        if space.f_bavail * space.f_frsize < 4 * _SCRATCH_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with ExitStack() as unfinished:
            file = unfinished.enter_context(tempfile.TemporaryFile(dir=self._folder, buffering=0))
            for _ in range(_SCRATCH_BYTES // _SCRATCH_PIECE):
                # Noise, as a drive or file system that compresses would not read zeros at all.
                file.write(os.urandom(_SCRATCH_PIECE))
            os.fsync(file.fileno())
            self._stack.push(unfinished.pop_all())
        return file.fileno()


def path_of(descriptor: int) -> str:
    """Return a path by which this process, and children that inherit it, reach an open file."""
    return f"/proc/self/fd/{descriptor}"


def takes_direct(descriptor: int) -> bool:
    """Tell whether a file can be read past the page cache; an empty file can be, if it opens so."""
    try:
        direct = os.open(path_of(descriptor), os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        with mmap.mmap(-1, ALIGNMENT) as page:
            os.preadv(direct, [page], 0)
    except OSError:
        return False
    finally:
        os.close(direct)
    return True


def _limits(mount: Mount, direct: bool) -> tuple[DeviceWarning, ...]:
    where = f"{mount.point} ({mount.kind})"
    found = {
        DeviceDoubt.BUFFERED: not direct,
        DeviceDoubt.IN_MEMORY: mount.in_memory,
        DeviceDoubt.REMOTE: mount.remote,
        DeviceDoubt.OWN_CACHE: mount.caches_apart,
    }
    texts = {
        DeviceDoubt.BUFFERED: "refuses O_DIRECT: read once through the emptied page cache, and"
        " read-ahead flatters the numbers",
        DeviceDoubt.IN_MEMORY: "lives in memory: this is no device; measure on a disk",
        DeviceDoubt.REMOTE: f"is served from {mount.source}: network, server and its cache answer",
        DeviceDoubt.OWN_CACHE: "keeps a cache of its own, which may have answered: believe only"
        " sets larger than memory",
    }
    return tuple(_doubt(kind, f"{where} {texts[kind]}") for kind in texts if found[kind])


def _doubt(kind: DeviceDoubt, text: str) -> DeviceWarning:
    return DeviceWarning(kind=kind, text=text)


def _typical(sizes: Sequence[int]) -> int:
    """Return a size, of sizes with the largest first: half of all bytes lie in files of it or more.

    The median file would be a small one of metadata, where one shard holds all images.
    """
    half, behind = sum(sizes) / 2, itertools.accumulate(sizes)
    return next(size for size, so_far in zip(sizes, behind, strict=True) if so_far >= half)
