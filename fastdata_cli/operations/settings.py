"""The options of convert and clean, and their textual values turned into numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, cast

from fastdata_cli.errors import UsageError
from fastdata_cli.imaging.policy import DEFAULT_MAX_PIXELS, ImagePolicy
from fastdata_cli.options import Options, option

DEFAULT_SIZE = (224, 224)
DEFAULT_QUALITY = 90

_COLOURS = {"white": (255, 255, 255), "black": (0, 0, 0), "grey": (128, 128, 128)}


@dataclass(frozen=True, kw_only=True)
class SourceOptions(Options):
    """How a source is listed and labelled."""

    files_from: str | None = option(
        None,
        "read the list of image paths from FILE (- for stdin); relative ones start here, or else "
        "at --root or beside FILE",
        value="FILE",
    )
    nul: bool = option(False, "paths in the list end with NUL instead of a newline", short="-0")
    root: str | None = option(
        None, "folder that keys are relative to (default: the deepest common one)", value="DIR"
    )
    labels: str | None = option(None, "CSV or JSONL file with the label of each key", value="FILE")
    classes: str | None = option(
        None,
        "class names in order: a text file, a JSON list, or a dataset to agree with",
        value="FILE",
    )
    allow_pipe: bool = option(
        False, "run the command of a source pipe:COMMAND, and read its output"
    )


@dataclass(frozen=True, kw_only=True)
class PolicyOptions(Options):
    """How image files are judged and turned into pixels."""

    background: str = option(
        "white", "what shows through transparency: white, black, #rrggbb", value="COLOUR"
    )
    max_pixels: int = option(
        DEFAULT_MAX_PIXELS, "reject images whose header claims more pixels", minimum=1
    )
    allow_truncated: bool = option(False, "accept incomplete JPEG and PNG files")
    no_orient: bool = option(False, "leave pixels as stored, whatever EXIF orientation says")
    strict: bool = option(False, "reject files with decoder warnings or broken metadata")

    def policy(self) -> ImagePolicy:
        """Return the image policy that these options describe."""
        return ImagePolicy(
            background=parse_colour(self.background),
            allow_truncated=self.allow_truncated,
            max_pixels=self.max_pixels,
            orient=not self.no_orient,
            strict=self.strict,
        )


@dataclass(frozen=True, kw_only=True)
class ConvertOptions(PolicyOptions):
    """What becomes of the samples on their way. Everything here shapes the output."""

    payload: str | None = option(
        None,
        "store decoded pixels or the encoded files; the default is the format's",
        choices=("pixels", "encoded"),
    )
    size: str | None = option(None, "resize to H or HxW pixels", value="H[xW]")
    fit: str = option("crop", "how --size is reached", choices=("crop", "pad", "stretch"))
    interpolation: str = option(
        "area", "how pixels are resampled", choices=("area", "linear", "cubic", "lanczos")
    )
    max_side: int | None = option(
        None, "re-encode as JPEG with the longer side at most this", minimum=1
    )
    quality: int | None = option(
        None, f"JPEG quality where images are re-encoded (default {DEFAULT_QUALITY})", minimum=1
    )
    clean: str | None = option(
        None,
        'leave out what these checks of clean reject, such as "variance-min=10"',
        value="CHECKS",
    )
    on_bad: str = option(
        "skip",
        "leave bad samples out, end at the first, or store grey",
        choices=("skip", "fail", "fill"),
    )
    max_bad: str | None = option(
        None,
        "bad samples tolerated, N or P% (default: 1%, and always 10); beyond it exit 3",
        value="N|P%",
    )
    limit: int | None = option(None, "convert only the first N samples", minimum=1)

    @property
    def settled_size(self) -> tuple[int, int] | None:
        """``size`` as (height, width)."""
        return None if self.size is None else parse_size(self.size)

    @property
    def fit_word(self) -> Literal["crop", "pad", "stretch"]:
        """``fit``, typed."""
        return cast(Literal["crop", "pad", "stretch"], self.fit)

    @property
    def interpolation_word(self) -> Literal["area", "linear", "cubic", "lanczos"]:
        """``interpolation``, typed."""
        return cast(Literal["area", "linear", "cubic", "lanczos"], self.interpolation)

    def tolerates(self, bad: int, total: int) -> bool:
        """Return whether ``bad`` of ``total`` source samples are within --max-bad."""
        if self.max_bad is None:
            return bad <= max(10, total // 100)
        return bad <= parse_max_bad(self.max_bad, total)


def parse_size(text: str) -> tuple[int, int]:
    """Return (height, width) of ``H`` or ``HxW``.

    Raises:
        UsageError: not of that form.
    """
    match = re.fullmatch(r"(\d{1,5})(?:[xX](\d{1,5}))?", text.strip())
    size = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if min(size) < 1:
        raise UsageError(
            f"--size is H or HxW in pixels, not {text!r}", hint="such as 224 or 224x320"
        )
    return size


def parse_colour(text: str) -> tuple[int, int, int]:
    """Return (red, green, blue) of a name or ``#rrggbb``.

    Raises:
        UsageError: not a colour.
    """
    if text in _COLOURS:
        return _COLOURS[text]
    match = re.fullmatch(r"#([0-9a-fA-F]{2})([0-9a-fA-F]{2})([0-9a-fA-F]{2})", text)
    if match is None:
        raise UsageError(
            f"--background does not know {text!r}",
            hint="one of: " + ", ".join(_COLOURS) + ", or #rrggbb",
        )
    return int(match[1], 16), int(match[2], 16), int(match[3], 16)


def parse_max_bad(text: str, total: int) -> int:
    """Return how many of ``total`` samples ``N`` or ``P%`` allows.

    Raises:
        UsageError: neither a count nor a percentage.
    """
    match = re.fullmatch(r"([0-9]+)|([0-9]+(?:\.[0-9]+)?)%", text.strip())
    if match is None:
        raise UsageError(f"--max-bad does not know {text!r}", hint="give a count, or P%")
    return int(match[1]) if match[1] else int(total * Fraction(match[2]) / 100)


_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def parse_bytes(text: str) -> int:
    """Return the bytes of ``64MB``, ``1GB`` (powers of 1000) or ``64MiB`` (powers of 1024).

    Raises:
        UsageError: not a size.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?", text.strip(), re.IGNORECASE)
    if match is None:
        raise UsageError(f"{text!r} is not a size in bytes", hint="such as 500MB, 1GB or 256MiB")
    unit = _UNITS[match[2].upper()]
    if match[3]:
        unit = 1024 ** list(_UNITS).index(match[2].upper())
    return int(float(match[1]) * unit)
