"""Which checks are wanted, with which thresholds; None and False leave a check out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fastdata_cli.errors import UsageError
from fastdata_cli.options import Options, flag, option
from fastdata_cli.quality.blur import Blur, Sharpness
from fastdata_cli.quality.duplicates import DEFAULT_DISTANCE
from fastdata_cli.quality.fingerprints import KINDS
from fastdata_cli.quality.levels import Variance

_FOR_DUPLICATES = ("distance", "against", "save_index")
_SHORT = "near-duplicates"


@dataclass(frozen=True, kw_only=True)
class CleanOptions(Options):
    """What images are measured for, and what they must keep to.

    Files that cannot be used by the image policy are found in any case.

    Raises:
        UsageError: a value that cannot be, or an option of duplicates without ``duplicates``.
    """

    variance_min: float | None = option(
        None, f"least variance of grey; {Variance.suggested:g} finds blank images", minimum=0
    )
    blur_min: float | None = option(
        None,
        f"least share of fine detail, 0 to 1; {Blur.suggested:g} finds blurred images",
        minimum=0,
    )
    sharpness_min: float | None = option(
        None,
        f"least variance of the Laplacian; {Sharpness.suggested:g} finds images without edges",
        minimum=0,
    )
    brightness_min: float | None = option(None, "least mean grey, 0 to 255", minimum=0)
    brightness_max: float | None = option(None, "greatest mean grey, 0 to 255", minimum=0)
    min_side: int | None = option(None, "least pixels of the shorter side", minimum=1)
    max_aspect: float | None = option(
        None, "greatest ratio of the longer to the shorter side", minimum=1
    )
    min_entropy: float | None = option(None, "least entropy of grey, 0 to 8 bits", minimum=0)
    require_exif: str | None = option(
        None, "hold back images whose EXIF lacks this", choices=("DateTime",)
    )
    grayscale: bool = option(False, "hold back images without colour")
    format_mismatch: bool = option(False, "hold back files whose name says another format")
    orientation: bool = option(False, "hold back images that EXIF turns")
    exif: bool = option(False, "report what EXIF says: date, orientation, whether GPS data")
    duplicates: str | None = option(
        None,
        "hold back what repeats an earlier image: its bytes, its pixels, or nearly",
        choices=KINDS,
    )
    distance: int | None = option(
        None, f"bits that near duplicates may differ by (default {DEFAULT_DISTANCE})", minimum=0
    )
    against: str | None = option(
        None, "index of other images, which count as earlier ones", value="FILE"
    )
    save_index: str | None = option(
        None, "file for an index of the images that are kept", value="FILE"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.distance is not None and self.duplicates != "near":
            raise UsageError("--distance is for near duplicates", hint="add --duplicates near")
        for name in _FOR_DUPLICATES:
            if getattr(self, name) is not None and self.duplicates is None:
                raise UsageError(
                    f"{flag(name)} is for duplicates", hint="add --duplicates " + "|".join(KINDS)
                )


def parse_clean(text: str) -> CleanOptions:
    """Return the options that a text such as ``variance-min=10,grayscale`` stands for.

    Names are the flags of ``clean`` without dashes in front; what is on or off stands alone.
    ``near-duplicates`` is short for ``duplicates=near``, and ``near-duplicates=4`` for
    ``duplicates=near,distance=4``.

    Raises:
        UsageError: an unknown name, one that is given twice, a value that is missing or cannot be.
    """
    kinds = {spec.name: spec.kind for spec in CleanOptions.specs()}
    values: dict[str, object] = {}
    for name, value in _parts(text):
        field = name.replace("-", "_")
        if field in values:
            raise UsageError(f"{name} is given twice in {text!r}")
        # An unknown name goes on as it is, to be refused with all that are known.
        values[field] = _read(name, kinds[field], value) if field in kinds else value
    if not values:
        raise UsageError("no check is named", hint="such as variance-min=10,near-duplicates")
    return CleanOptions.from_mapping(values, owner="clean")


def _parts(text: str) -> Iterator[tuple[str, str | None]]:
    """Names with their values, None where there is no ``=``."""
    for part in filter(None, map(str.strip, text.split(","))):
        name, given, value = map(str.strip, part.partition("="))
        if name != _SHORT:
            yield name, value if given else None
            continue
        yield "duplicates", "near"
        if given:
            yield "distance", value


def _read(name: str, kind: type, value: str | None) -> object:
    if (kind is bool) != (value is None):
        raise UsageError(
            f"{name} takes no value" if kind is bool else f"{name} needs a value",
            hint=f"write {name}" if kind is bool else f"write {name}=…",
        )
    try:
        return kind(value) if value is not None else True
    except ValueError:
        words = "a whole number" if kind is int else "a number"
        raise UsageError(f"{name} must be {words}, not {value!r}") from None
