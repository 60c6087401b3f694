"""Which array of a Zarr store that others made holds the images: by path, or by shape and dtype."""

from __future__ import annotations

from collections.abc import Sequence

from fastdata_cli.errors import NotADatasetError, UsageError
from fastdata_cli.formats.axes import MOST_CHANNELS, AxisOrder
from fastdata_cli.formats.zarr.layout import ArrayLayout

_IMAGE_DTYPES = ("uint8", "uint16")
# Kinds of NumPy's dtypes: of arrays that may be found, and of one that somebody chose.
_FOUND, _CHOSEN = "iuf", "biuf"


def image_array(
    where: str, arrays: Sequence[ArrayLayout], wanted: str | None, order: AxisOrder | None
) -> ArrayLayout:
    """Return the one array that holds the images.

    Args:
        where: names the store in messages.
        arrays: all that there are.
        wanted: path of the one that somebody chose.
        order: of its axes, where somebody said it.

    Raises:
        UsageError: ``wanted`` is none, or several may be meant.
        NotADatasetError: there is none.
    """
    wanted_axes = "N×H×W×C or N×H×W" if order is None else "×".join(str(order))
    if wanted is not None:
        named = next((layout for layout in arrays if layout.name == wanted.strip("/")), None)
        if named is None or not _may_be(named, order):
            raise UsageError(
                f"{where}: --array {wanted!r} is no array of images {wanted_axes}",
                hint=_listing(arrays),
            )
        return named
    for rank in _RANKS if order is None else (_is_usual, _is_number):
        candidates = [layout for layout in arrays if rank(layout) and _may_be(layout, order)]
        if len(candidates) > 1:
            raise UsageError(
                f"{where}: {len(candidates)} arrays may be the images: "
                + ", ".join(layout.name for layout in candidates),
                hint="choose one with --array; " + _listing(candidates),
            )
        if candidates:
            return candidates[0]
    raise NotADatasetError(
        f"{where}: a Zarr store without an array of images {wanted_axes}",
        hint=_listing(arrays),
    )


def _may_be(layout: ArrayLayout, order: AxisOrder | None) -> bool:
    """Return whether an array may be chosen; by itself or by the order of its axes."""
    if order is not None:
        return _is_number(layout, _CHOSEN) and order.fits(layout.shape)
    return _is_number(layout, _CHOSEN) and len(layout.shape) in (3, 4)


def _is_number(layout: ArrayLayout, kinds: str = _FOUND) -> bool:
    return layout.dtype is not None and layout.dtype.kind in kinds


def _is_usual(layout: ArrayLayout) -> bool:
    return layout.dtype is not None and layout.dtype.name in _IMAGE_DTYPES


def _is_colour(layout: ArrayLayout) -> bool:
    narrow = len(layout.shape) == 4 and 1 <= layout.shape[3] <= MOST_CHANNELS
    return narrow and _is_usual(layout)


def _is_grey(layout: ArrayLayout) -> bool:
    return len(layout.shape) == 3 and _is_usual(layout)


def _may_be_images(layout: ArrayLayout) -> bool:
    """Return whether these are numbers in four dimensions: channels first, or floats, say."""
    return len(layout.shape) == 4 and _is_number(layout)


_RANKS = (_is_colour, _is_grey, _may_be_images)


def _listing(arrays: Sequence[ArrayLayout]) -> str:
    texts = (f"{a.label} {a.dtype} {list(a.shape)}" for a in arrays[:8])
    more = f" and {len(arrays) - 8} more" if len(arrays) > 8 else ""
    return "arrays there: " + (", ".join(texts) or "none") + more
