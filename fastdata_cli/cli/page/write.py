"""Puts a page where it was asked for: the old file or the new one, whole, at any moment."""

from __future__ import annotations

import os
from pathlib import Path

from fastdata_cli.errors import StorageError
from fastdata_cli.keys import printable
from fastdata_cli.storage.durable import sync_path


def write_page(page: str, path: Path) -> None:
    """Write a page.

    Args:
        page: its text.
        path: of the file. One that exists is replaced; a link stays a link; what is no file, such
            as a pipe, is written to.

    Raises:
        StorageError: the operating system refuses; an earlier file is then as it was.
    """
    target = Path(os.path.realpath(path))
    try:
        if target.exists() and not target.is_file():
            target.write_text(page, encoding="utf-8")
            return
        fresh = target.with_name(f".{os.getpid()}.fastdata-page")
        try:
            fresh.write_text(page, encoding="utf-8")
            sync_path(fresh)
            os.replace(fresh, target)
        finally:
            fresh.unlink(missing_ok=True)
    except OSError as problem:
        raise StorageError(
            f"{printable(str(path))}: the page cannot be written: {problem.strerror}",
            hint="give a file in a folder that exists and can be written",
            path=str(path),
        ) from problem
