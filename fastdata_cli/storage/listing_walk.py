"""Walks a folder of images once, following links, and calls no ``stat`` on ordinary files."""

from __future__ import annotations

import errno
import os
import stat
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from fastdata_cli.errors import NotADatasetError, SourceNotFoundError
from fastdata_cli.keys import from_bytes
from fastdata_cli.sample import UNLABELLED, Reject
from fastdata_cli.storage.listing_names import is_image_name, is_unwanted, why_ignored
from fastdata_cli.storage.listing_rows import Rows, text_of, texts_of


class _Folder:
    """A folder on the way down, as it was reached."""

    __slots__ = ("_identity", "code", "key", "parent", "path", "prefix")

    def __init__(self, parent: _Folder | None, path: bytes, name: bytes, code: int) -> None:
        self.parent = parent
        self.path = path
        self.key: bytes = parent.key + name + b"/" if parent else b""
        """Its path below the root with a slash at the end; empty for the root."""
        self.prefix: bytes = parent.prefix + text_of(name) + b"/" if parent else b""
        self.code = code
        """Class code of what lies in it."""
        self._identity: tuple[int, int] | None = None

    def holds_itself(self, target: os.stat_result) -> bool:
        """Tell whether ``target`` is this folder or one above it: following it would never end."""
        folder: _Folder | None = self
        while folder is not None:
            if folder._identity is None:  # asked only where there are links
                found = os.stat(folder.path)
                folder._identity = (found.st_dev, found.st_ino)
            if folder._identity == (target.st_dev, target.st_ino):
                return True
            folder = folder.parent
        return False


class TreeWalk:
    """One pass over everything below ``root``; its result stands in the attributes.

    Attributes:
        rows: the image files, folder by folder, each folder in the byte order of its names.
        tops: the folders directly below the root; positions are class codes.
        rejects: image links that lead nowhere, and folders that cannot be listed.
        notes: what was ignored, counted by kind.

    Args:
        root: the folder.
        is_wanted: tells by their names the files that are listed, by default images.
    """

    def __init__(self, root: Path, is_wanted: Callable[[bytes], bool] = is_image_name) -> None:
        self._is_wanted = is_wanted
        self.rows = Rows()
        self.tops: list[bytes] = []
        self.rejects: list[Reject] = []
        self.notes: Counter[str] = Counter()
        self._root = os.fsencode(os.path.abspath(root))
        self._check_root(root)
        self._walk()
        self._name_empty_classes()

    def _check_root(self, root: Path) -> None:
        try:
            os.scandir(self._root).close()
        except FileNotFoundError:
            raise SourceNotFoundError(f"{root}: there is nothing here", path=str(root)) from None
        except OSError as problem:
            raise NotADatasetError(
                f"{root}: the folder cannot be listed ({problem.strerror})", path=str(root)
            ) from problem

    def _walk(self) -> None:
        pending = [self._visit(_Folder(None, self._root, b"", UNLABELLED))]
        while pending:
            folder = next(pending[-1], None)
            if folder is None:
                pending.pop()
            else:
                pending.append(self._visit(folder))

    def _visit(self, folder: _Folder) -> Iterator[_Folder]:
        """Add the files of a folder, yielding its folders where they stand among them."""
        files, folders = self._scan(folder)
        files.sort()
        begin = 0
        for name in sorted(folders):
            end = bisect_left(files, name, begin)
            self._add(folder, files[begin:end])
            begin = end
            yield self._enter(folder, name)
        self._add(folder, files[begin:])

    def _enter(self, folder: _Folder, name: bytes) -> _Folder:
        code = folder.code
        if folder.parent is None:
            code = len(self.tops)
            self.tops.append(name)
        return _Folder(folder, folder.path + b"/" + name, name, code)

    def _add(self, folder: _Folder, names: list[bytes]) -> None:
        if names:
            prefix = folder.prefix
            self.rows.add([prefix + text for text in texts_of(names)], folder.code)

    def _scan(self, folder: _Folder) -> tuple[list[bytes], list[bytes]]:
        """Return the names of image files and of folders to enter."""
        files: list[bytes] = []
        folders: list[bytes] = []
        try:
            with os.scandir(folder.path) as entries:
                for entry in entries:
                    name = entry.name
                    if not entry.is_file(follow_symlinks=False):
                        self._other(folder, entry, files, folders)
                    elif self._is_wanted(name) and not is_unwanted(name):
                        files.append(name)
                    else:
                        self.notes[why_ignored(name)] += 1
        except OSError as problem:
            self._reject(folder.key.rstrip(b"/"), "unreadable", problem)
        return files, folders

    def _other(
        self,
        folder: _Folder,
        entry: os.DirEntry[bytes],
        files: list[bytes],
        folders: list[bytes],
    ) -> None:
        """Sort in what is no regular file: folders, links, pipes, sockets and devices."""
        if is_unwanted(entry.name):
            self.notes[why_ignored(entry.name)] += 1
        elif entry.is_symlink():
            self._follow(folder, entry, files, folders)
        elif entry.is_dir(follow_symlinks=False):
            folders.append(entry.name)
        else:
            self.notes["special-file"] += 1

    def _follow(
        self,
        folder: _Folder,
        entry: os.DirEntry[bytes],
        files: list[bytes],
        folders: list[bytes],
    ) -> None:
        name = entry.name
        try:
            target = entry.stat()
        except OSError as problem:
            self._lost(folder.key + name, self._is_wanted(name), problem)
            return
        if stat.S_ISDIR(target.st_mode):
            if folder.holds_itself(target):
                self.notes["link-loop"] += 1
            else:
                folders.append(name)
        elif not stat.S_ISREG(target.st_mode):
            self.notes["special-file"] += 1
        elif self._is_wanted(name):
            files.append(name)
        else:
            self.notes["other-name"] += 1

    def _lost(self, key: bytes, image: bool, problem: OSError) -> None:
        """Record a link that leads nowhere: an image's is a reject, any other a note."""
        missing = problem.errno in (errno.ENOENT, errno.ENOTDIR)
        if image:
            self._reject(key, "missing" if missing else "unreadable", problem)
        elif missing:
            self.notes["dangling-link"] += 1
        elif problem.errno == errno.ELOOP:
            self.notes["link-loop"] += 1
        else:
            self._reject(key, "unreadable", problem)

    def _reject(self, key: bytes, reason: str, problem: OSError) -> None:
        self.rejects.append(Reject(from_bytes(key), reason, problem.strerror or str(problem)))

    def _name_empty_classes(self) -> None:
        counts = np.bincount(self.rows.codes() + 1, minlength=len(self.tops) + 1)[1:]
        for code in np.flatnonzero(counts == 0).tolist():
            self.notes[f"empty-class: {text_of(self.tops[code]).decode()}"] = 1
