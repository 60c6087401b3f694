"""Puts a page where it was asked for: the old file or the new one, whole, at any moment."""

from __future__ import annotations

from pathlib import Path

from fastdata_cli.errors import StorageError
from fastdata_cli.keys import printable
from fastdata_cli.whole_file import write_whole


def write_page(page: str, path: Path) -> None:
    """Write a page.

    Args:
        page: its text.
        path: of the file. One that exists is replaced; a link stays a link; what is no file, such
            as a pipe, is written to.

    Raises:
        StorageError: the operating system refuses; an earlier file is then as it was.
    """
    try:
        write_whole(path, page.encode(), sync=True)
    except OSError as problem:
        raise StorageError(
            f"{printable(str(path))}: the page cannot be written: {problem.strerror}",
            hint="give a file in a folder that exists and can be written",
            path=str(path),
        ) from problem
