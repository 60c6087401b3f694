"""Owns the header value, and the checks and judgements that all containers share."""

from __future__ import annotations

from dataclasses import dataclass, field

from fastdata_cli.errors import BadSampleError
from fastdata_cli.imaging.exif import read_exif


@dataclass(frozen=True, slots=True)
class Header:
    """What a picture file says of itself.

    Attributes:
        kind: content type, such as ``jpeg``.
        width: pixels as stored, before any turn.
        height: pixels as stored, before any turn.
        mode: ``RGB``, ``L``, ``CMYK``, ``P``, ``RGBA``, ``LA``, ``1``, ``I;16``, ``RGB;16`` ...
        orientation: EXIF orientation that has to be applied, 1..8.
        notes: words of ``NOTES`` that the file's structure shows.
        taken: EXIF date of the picture as written, or None.
        located: EXIF has GPS data.
    """

    kind: str
    width: int
    height: int
    mode: str
    orientation: int = 1
    notes: tuple[str, ...] = ()
    taken: str | None = None
    located: bool = False

    @property
    def size(self) -> tuple[int, int]:
        """(height, width) in pixels of the picture as shown, after the orientation."""
        if self.orientation >= 5:
            return self.width, self.height
        return self.height, self.width


@dataclass(slots=True)
class Draft:
    """A header while it is being read."""

    kind: str
    width: int = 0
    height: int = 0
    mode: str = ""
    orientation: int = 1
    taken: str | None = None
    located: bool = False
    notes: list[str] = field(default_factory=list)
    has_exif: bool = False
    read_to: int = 0
    """Where the walk through a JPEG ended: behind its frame header."""

    def note(self, word: str) -> None:
        """Add a note once."""
        if word not in self.notes:
            self.notes.append(word)

    def exif(self, block: bytes) -> None:
        """Take orientation, date and place from an EXIF block; only the first block counts."""
        if self.has_exif:
            return
        self.has_exif = True
        found = read_exif(block)
        self.orientation, self.taken = found.orientation, found.taken
        self.located = found.located
        if found.broken:
            self.note("metadata-broken")

    def profile(self, start: bytes) -> None:
        """Judge a colour profile by its first bytes: only those that are not sRGB are noted."""
        if b"acsp" not in start[:64]:  # the signature that every profile has at byte 36
            self.note("metadata-broken")
        elif b"sRGB" not in start and "sRGB".encode("utf-16-be") not in start:
            self.note("colour-profile")

    def finish(self) -> Header:
        """The finished header."""
        return Header(
            self.kind,
            self.width,
            self.height,
            self.mode,
            self.orientation,
            tuple(self.notes),
            self.taken,
            self.located,
        )


def truncated(kind: str, what: str) -> BadSampleError:
    """The error for a file that ends too early."""
    return BadSampleError(reason="truncated", detail=f"{kind}: {what}")


def corrupt(kind: str, what: str) -> BadSampleError:
    """The error for a file that contradicts its own format."""
    return BadSampleError(reason="corrupt", detail=f"{kind}: {what}")


def unsupported(kind: str, what: str) -> BadSampleError:
    """The error for a valid file of a variant that is not decoded."""
    return BadSampleError(reason="unsupported-format", detail=f"{kind}: {what}")


def too_deep(kind: str, what: str) -> BadSampleError:
    """The error for numbers that have no agreed 8-bit meaning."""
    return BadSampleError(reason="unsupported-depth", detail=f"{kind}: {what}")
