"""Which suffixes stand for images, and for those of which kind; what a file is, content decides."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

# As registered with IANA and used by cameras and tools; the usual one of each kind comes first.
_OF_KIND = {
    "jpeg": "jpg jpeg jpe jfif pjpeg pjp mpo",
    "png": "png apng",
    "gif": "gif",
    "bmp": "bmp dib",
    "tiff": "tiff tif",
    "webp": "webp",
    "avif": "avif",
    "pnm": "pnm pbm pgm ppm pfm",
    "heif": "heic heif hif",
    "jp2": "jp2 j2k jpf",
    "jxl": "jxl",
}

KIND_OF_SUFFIX: Mapping[str, str] = MappingProxyType(
    {suffix: kind for kind, suffixes in _OF_KIND.items() for suffix in suffixes.split()}
)
"""The kind, as ``imaging.sniff`` names it, by suffix: lower case, without its dot."""

SUFFIX_OF_KIND: Mapping[str, str] = MappingProxyType(
    {kind: suffixes.split()[0] for kind, suffixes in _OF_KIND.items()}
)
"""The usual suffix of each kind."""
