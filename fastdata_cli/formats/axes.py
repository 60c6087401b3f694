"""Which axis of an array of images is what: said by --layout, or else by its shape.

The letters are N (samples), H (height), W (width) and C (channels), in the order of the axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from fastdata_cli.errors import UsageError
from fastdata_cli.options import option

MOST_CHANNELS = 4
_CHANNELS_FIRST = (1, 3, 4)
_EXAMPLES = "such as NHWC, NCHW, NHW, or for one picture HWC, CHW, HW"


def layout_option() -> Any:
    """Return the option ``layout`` of formats that hold arrays, a field of their read options."""
    return option(None, f"axes of arrays that others made, {_EXAMPLES}; by default their shape")


@dataclass(frozen=True, slots=True)
class AxisOrder:
    """The axes of an array of images, N first, or of one that is a single picture."""

    letters: str

    @classmethod
    def parse(cls, text: str) -> AxisOrder:
        """Return the order that ``--layout`` names.

        Raises:
            UsageError: it names none, or one in which the samples are not the first axis.
        """
        letters = text.upper().replace(",", "")
        if not {"H", "W"} <= set(letters) <= set("NHWC") or len(set(letters)) < len(letters):
            raise UsageError(f"--layout does not know {text!r}", hint=_EXAMPLES)
        if "N" in letters[1:]:
            raise UsageError(
                f"--layout {text}: samples are read along the first axis only",
                hint="store the array again, with N as its first axis",
            )
        return cls(letters)

    @property
    def is_one(self) -> bool:
        """Whether the array is one picture."""
        return "N" not in self.letters

    @property
    def is_upright(self) -> bool:
        """Whether images are stored as height, width, channels."""
        return self._stored == "HWC"

    @property
    def axes(self) -> tuple[int, int, int]:
        """Where height, width and channels are among the axes of a stored image."""
        height, width, channels = (self._stored.index(letter) for letter in "HWC")
        return height, width, channels

    @property
    def _stored(self) -> str:
        stored = self.letters.removeprefix("N")
        return stored if "C" in stored else f"{stored}C"

    def count(self, shape: Sequence[int]) -> int:
        """Return how many images an array of this shape holds."""
        return 1 if self.is_one else shape[0]

    def stored_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the three axes of one image as it is stored in an array of this shape."""
        own = tuple(shape if self.is_one else shape[1:])
        return own if "C" in self.letters else (*own, 1)

    def upright(self, images: NDArray[Any]) -> NDArray[Any]:
        """Return a view N×H×W×C of images as they are stored, N×three axes."""
        height, width, channels = self.axes
        return images.transpose(0, 1 + height, 1 + width, 1 + channels)

    def fits(self, shape: Sequence[int]) -> bool:
        """Whether an array of this shape may have this order."""
        if len(shape) != len(self.letters) or 0 in shape:
            return False
        return "C" not in self.letters or shape[self.letters.index("C")] <= MOST_CHANNELS

    def __str__(self) -> str:
        return self.letters


NHWC = AxisOrder("NHWC")
_NCHW, _NHW = AxisOrder("NCHW"), AxisOrder("NHW")
_HWC, _CHW = AxisOrder("HWC"), AxisOrder("CHW")


def guess_order(shape: Sequence[int], what: str) -> tuple[AxisOrder, tuple[str, ...]]:
    """Return the order of an array of three or four axes, and a remark where it may differ.

    Args:
        shape: of the array.
        what: names it in messages; may be empty.

    Raises:
        UsageError: it may be a stack of pictures, or one of them.
    """
    words = in_words(shape)
    if len(shape) == 3:
        if shape[2] <= MOST_CHANNELS or shape[0] in _CHANNELS_FIRST[1:]:
            raise _ambiguous(what, words, "NHW", "HWC" if shape[2] <= MOST_CHANNELS else "CHW")
        return _NHW, ()
    if shape[1] not in _CHANNELS_FIRST:
        return NHWC, ()
    found, other = (NHWC, _NCHW) if shape[3] <= MOST_CHANNELS else (_NCHW, NHWC)
    axes = "×".join(str(found))
    return found, (f"{what} is {words}: read as {axes} (--layout {other} if it is not)",)


def order_of_pictures(
    shape: Sequence[int], layout: str | None, what: str
) -> tuple[AxisOrder, tuple[str, ...]]:
    """Return the order of pictures that are stored one by one, and a remark where it was guessed.

    Args:
        shape: of one picture as it is stored, three axes; the last is 1 long where there are two.
        layout: what somebody said.
        what: names the pictures in messages.

    Raises:
        UsageError: it cannot be what somebody said.
    """
    if layout is not None:
        order = AxisOrder(AxisOrder.parse(layout).letters.removeprefix("N"))
        if not order.fits(shape if "C" in order.letters or shape[-1] > 1 else shape[:-1]):
            raise UsageError(f"{what}: --layout {layout}: pictures of {in_words(shape)} are not so")
        return order, ()
    if shape[-1] <= MOST_CHANNELS or shape[0] not in _CHANNELS_FIRST:
        return _HWC, ()
    return _CHW, (f"{what}: {in_words(shape)} read as C×H×W (--layout HWC if it is not)",)


def _ambiguous(what: str, words: str, *layouts: str) -> UsageError:
    start = f"{what}: " if what else ""
    readings = " or ".join("×".join(each) for each in layouts)
    return UsageError(
        f"{start}an array of {words} may be {readings}: say which with --layout",
        hint=" or ".join(f"--layout {each}" for each in layouts),
    )


def in_words(shape: Sequence[int]) -> str:
    """Return a shape as people write it."""
    return "×".join(map(str, shape)) or "no axes"
