"""Fingerprints of the samples of finished parts, kept beside them for a run that is continued."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import xxhash

from fastdata_cli.quality.fingerprints import Fingerprint
from fastdata_cli.storage.refusals import storage_errors


class PrintStore:
    """One file for each part, in the staging place of the run.

    It only saves time: what is not there whole is computed from the source again.

    Args:
        folder: the staging place; where a writer has none, nothing is kept.
    """

    def __init__(self, folder: Path) -> None:
        self._staging = folder
        self._folder = folder / "prints"

    def save(self, part: int, prints: Sequence[Fingerprint]) -> None:
        """Keep the fingerprints of a part's samples, in their order.

        Raises:
            StorageError: the system refuses, as it soon would the part itself.
        """
        if not self._staging.is_dir():
            return
        text = json.dumps([asdict(each) for each in prints]).encode()
        with storage_errors(self._path(part)):
            self._folder.mkdir(exist_ok=True)
            self._path(part).write_bytes(xxhash.xxh3_64_digest(text) + text)

    def load(self, part: int) -> list[Fingerprint] | None:
        """Return the fingerprints of a part, or None where they are not there whole."""
        try:
            stored = self._path(part).read_bytes()
            digest, text = stored[:8], stored[8:]
            if digest != xxhash.xxh3_64_digest(text):
                return None
            return [Fingerprint(**each) for each in json.loads(text)]
        except (OSError, ValueError, TypeError):
            return None

    def _path(self, part: int) -> Path:
        return self._folder / f"{part:06d}.json"
