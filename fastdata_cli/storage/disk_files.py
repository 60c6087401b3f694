"""Which files on disk a path stands for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def files_below(path: Path) -> Iterator[Path]:
    """Yield ``path`` if it is a file, else every file below it."""
    if not path.is_dir():
        yield path
        return
    for folder, _, names in os.walk(path):
        yield from (Path(folder, name) for name in names)
