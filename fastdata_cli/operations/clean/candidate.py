"""What travels from a source to the judge, and what comes back to be settled in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from fastdata_cli.imaging import ImagePolicy
from fastdata_cli.quality.judge import Examined
from fastdata_cli.quality.view import View
from fastdata_cli.sample import Reject

Finding = Examined | Reject
"""What was measured on an image, or why nothing could be."""


@dataclass(frozen=True, slots=True)
class FileState:
    """What changes whenever a file does."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """An image on its way to the judge."""

    key: str
    """Its path as it was given, or its key in a dataset."""
    index: int
    """Position in the source."""
    image: NDArray[Any] | None = None
    """The file's bytes, 1-D uint8, or pixels H×W×C; None where ``known`` says all."""
    known: Finding | None = None
    """What the listing, the reading or the cache said already."""
    path: bytes | None = None
    """Where the file lies; None for a sample of a dataset."""
    state: FileState | None = None
    """Of the file before it was read, where that is to be remembered."""

    def view(self, policy: ImagePolicy) -> View:
        """Return what checks look at."""
        assert self.image is not None
        if self.image.ndim == 1:
            return View.of_file_bytes(self.key, self.image, policy)
        return View.of_pixels(self.key, self.image, policy)


@dataclass(frozen=True, slots=True)
class Judged:
    """A candidate whose image is let go."""

    key: str
    index: int
    finding: Finding
    path: bytes | None
    state: FileState | None
    cached: bool
    drawn: Any = None
    """What an observer made of it."""
