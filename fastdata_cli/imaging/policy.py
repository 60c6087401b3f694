"""Owns the image policy: what a run may vary, and the words for rejections and notes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

DEFAULT_MAX_PIXELS = 178_956_970

DAMAGED_CONTAINER = "damaged-container"
"""Reject reason of a source that is damaged at some point, or ends before its time: never within
any --max-bad."""


@dataclass(frozen=True, kw_only=True)
class ImagePolicy:
    """How pictures are judged and turned into pixels.

    Attributes:
        background: red, green, blue (0..255) behind transparent pixels.
        allow_truncated: accept incomplete JPEG and PNG data, with a note, whatever is missing
            being filler.
        max_pixels: largest width x height that is accepted, judged from the header.
        orient: turn pictures upright by their EXIF (AVIF: irot/imir) orientation. False gives
            pixels and sizes as stored, and reports orientation 1.
        strict: reject, as ``corrupt``, files with decoder warnings or broken metadata.
    """

    background: tuple[int, int, int] = (255, 255, 255)
    allow_truncated: bool = False
    max_pixels: int = DEFAULT_MAX_PIXELS
    orient: bool = True
    strict: bool = False


#: Why a file gives no sample.
REASONS: Mapping[str, str] = MappingProxyType(
    {
        "empty": "the file has no bytes",
        "not-an-image": "the content is something else, such as a web page or an archive",
        "unsupported-format": "a picture, in a format or variant that is not decoded",
        "unsupported-depth": "floating point, signed or more than 16 bits per channel",
        "truncated": "the picture's data ends early",
        "corrupt": "the data is complete and damaged: checksum, header or coded data",
        "too-large": "more pixels than --max-pixels, or a side too long for the file to be made",
        "missing": "the file was listed and is not there",
        "unreadable": "the operating system did not let the file be read",
        "duplicate-key": "another sample has the same key",
        "size-mismatch": "the picture does not have the size that was asked for",
        "missing-image": "a sample of somebody's set has no picture",
        DAMAGED_CONTAINER: "the source is damaged at this point, or ends before its time",
    }
)

#: What is worth knowing about a file that did give a sample.
NOTES: Mapping[str, str] = MappingProxyType(
    {
        "16-bit": "reduced to 8 bits per channel by dropping the low byte",
        "cmyk": "converted from CMYK or YCCK by the Adobe convention, without a profile",
        "alpha": "transparent pixels were laid on the background",
        "multi-frame": "only the first of several frames or pages is used",
        "metadata-broken": "EXIF or another metadata block is damaged; the pixels are sound",
        "decoder-warning": "the decoder complained; no pixel is known to be lost",
        "trailing-bytes": "other bytes follow the end of the picture",
        "truncated": "incomplete data, accepted because of --allow-truncated",
        "colour-profile": "carries a colour profile other than sRGB, which is not applied",
    }
)

#: Notes that ``strict`` turns into a rejection.
STRICT_NOTES = frozenset({"metadata-broken", "decoder-warning", "trailing-bytes"})
