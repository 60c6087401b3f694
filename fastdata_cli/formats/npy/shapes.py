"""Owns what the shape of one ``.npy`` says: a picture or a stack, and the order of its axes."""

from __future__ import annotations

from fastdata_cli.formats.axes import MOST_CHANNELS, AxisOrder, guess_order, in_words


def images_in(
    shape: tuple[int, ...], wanted: AxisOrder | None = None
) -> tuple[int | None, AxisOrder, tuple[int, ...], str]:
    """Return how many images an array of this shape is, their axes and shape, and a remark.

    The number is None for an array that is one image, not a stack. The axes are those of one
    image, and its shape is that in which it is stored.

    Args:
        shape: of the array.
        wanted: order of the axes of an image or of a stack; an array may be either.

    Raises:
        ValueError: it is no image, or more than one order is possible.
    """
    if 0 in shape or len(shape) not in (2, 3, 4):
        raise ValueError(f"an array of {in_words(shape)} is no image")
    order, remarks = (wanted, ()) if wanted is not None else _guess(shape)
    one = AxisOrder(order.letters.removeprefix("N"))
    axes = len(one.letters)
    if len(shape) not in (axes, axes + 1) or not one.fits(shape[-axes:]):
        of_order = "" if wanted is None else f" {'×'.join(str(wanted))}"
        raise ValueError(f"an array of {in_words(shape)} is no image{of_order}")
    count = None if len(shape) == axes else shape[0]
    return count, one, one.stored_shape(shape[-axes:]), "".join(remarks)


def _guess(shape: tuple[int, ...]) -> tuple[AxisOrder, tuple[str, ...]]:
    if len(shape) == 2:
        return AxisOrder("HW"), ()
    if len(shape) == 3 and shape[-1] <= MOST_CHANNELS:
        return AxisOrder("HWC"), ()
    return guess_order(shape, "")
