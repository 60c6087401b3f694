"""Makes folders of empty files."""

from __future__ import annotations

import os
from pathlib import Path

from fastdata_cli.storage.listing import Listing


def grow(root: Path, *names: str | bytes) -> Path:
    """Create empty files below ``root``, and folders where a name ends in a slash."""
    root.mkdir(exist_ok=True)
    for name in names:
        raw = name if isinstance(name, bytes) else name.encode()
        path = os.path.join(os.fsencode(root), raw)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if not raw.endswith(b"/"):
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
    return root


def keys(listing: Listing) -> list[str]:
    return list(listing.files)
