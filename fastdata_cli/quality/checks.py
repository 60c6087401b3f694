"""The table of checks, in the order in which they are listed and reported."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from fastdata_cli.quality.blur import Blur, Sharpness
from fastdata_cli.quality.check import Check, Needs
from fastdata_cli.quality.colour import Grayscale
from fastdata_cli.quality.exif import Orientation, RequireExif
from fastdata_cli.quality.file_type import FormatMismatch
from fastdata_cli.quality.levels import Entropy, TooBright, TooDark, Variance
from fastdata_cli.quality.size import Aspect, Side

__all__ = ["CHECKS", "NOTES", "Check", "Needs"]

CHECKS: tuple[Check, ...] = (
    Variance(),
    Blur(),
    Sharpness(),
    TooDark(),
    TooBright(),
    Side(),
    Aspect(),
    Entropy(),
    RequireExif(),
    Grayscale(),
    FormatMismatch(),
    Orientation(),
)

NOTES: Mapping[str, str] = MappingProxyType(
    {
        "exif-missing": "EXIF does not say when the picture was taken",
        "gps": "EXIF holds GPS data: where the picture was taken",
        "flat": "too flat or too small for blur to be measured",
    }
)
"""What is worth knowing of an image and no reason against it, besides the image policy's notes."""
