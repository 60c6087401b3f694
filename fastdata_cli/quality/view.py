"""One image as the checks see it: read once, decoded once, and only as far as somebody asks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Generic, Self, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.errors import BadSampleError
from fastdata_cli.imaging import Header, ImagePolicy
from fastdata_cli.imaging.decode import Decoded, decode, luma
from fastdata_cli.imaging.probe import probe
from fastdata_cli.imaging.resize import opencv

REDUCED_SIDE = 256
"""What the longer side of ``View.reduced`` is nearest to: about the size that people train at."""

_LEAST_REDUCED = 8
_SMALLEST = (1, 1)
# OpenCV counts in floats of 32 bits, which hold whole numbers up to here.
_COUNTED = 1 << 24


T = TypeVar("T")


class _once(Generic[T]):  # noqa: N801 - reads like the decorator that it is
    """A property that is computed on first use.

    ``functools.cached_property`` of Python 3.11 holds one lock for all objects while it computes:
    threads would decode one image after another.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, view: None, owner: type) -> Self: ...
    @overload
    def __get__(self, view: object, owner: type) -> T: ...
    def __get__(self, view: object | None, owner: type) -> T | Self:
        if view is None:
            return self
        value = self._compute(view)
        view.__dict__[self._compute.__name__] = value
        return value


class View:
    """An image and what was found out about it so far; every property is computed once.

    Properties that need more than there is raise BadSampleError with a reason of the image
    policy. A view belongs to one thread at a time.

    Attributes:
        key: path as given, or key in a dataset.
        data: the bytes of the file, 1-D uint8; None for images of a dataset of pixels.
        policy: how the file is judged and turned into pixels.
    """

    def __init__(
        self,
        key: str,
        policy: ImagePolicy,
        *,
        data: NDArray[np.uint8] | None = None,
        array: NDArray[Any] | None = None,
    ) -> None:
        self.key = key
        self.data = data
        self.policy = policy
        self._array = array
        self._decoded: Decoded | None = None

    @classmethod
    def of_file_bytes(
        cls, key: str, data: NDArray[np.uint8] | bytes | memoryview, policy: ImagePolicy
    ) -> Self:
        """Return a view of an image file; ``data`` is kept and not copied."""
        return cls(key, policy, data=np.frombuffer(data, np.uint8))

    @classmethod
    def of_pixels(cls, key: str, array: NDArray[Any], policy: ImagePolicy) -> Self:
        """Return a view of decoded pixels: H×W, H×W×1 or H×W×3, of 8 or 16 bits."""
        return cls(key, policy, array=array)

    @property
    def stored(self) -> NDArray[Any]:
        """What is stored: the bytes of the file, or the pixels of a dataset as they are."""
        if self._array is not None:
            return np.ascontiguousarray(self._array)
        assert self.data is not None
        return self.data

    @_once
    def header(self) -> Header | None:
        """What the file says of itself; None for pixels."""
        if self._decoded is not None:
            return self._decoded.header
        return None if self.data is None else probe(self._bytes, self.policy)

    @_once
    def exif(self) -> Header | None:
        """The header as it stands in the file, turned or not by the policy; None for pixels."""
        if self.data is None or self.policy.orient:
            return self.header
        return probe(self._bytes, replace(self.policy, orient=True))

    @property
    def size(self) -> tuple[int, int]:
        """(height, width) in pixels, as shown."""
        if self._array is not None:
            return self._array.shape[0], self._array.shape[1]
        assert self.header is not None
        return self.header.size

    def prove(self) -> None:
        """Decode as cheaply as the format allows, to know whether it can be decoded at all.

        A JPEG comes in grey at 1/8 of its size: all of its data is read and judged as for pixels.

        Errors:
            BadSampleError: unusable by the image policy.
        """
        if self._array is None and self._decoded is None:
            self._decoded = decode(self._bytes, self.policy, at_least=_SMALLEST, grey=True)

    @_once
    def pixels(self) -> NDArray[np.uint8]:
        """RGB, uint8, H×W×3, at full resolution; asked for before ``grey``, it serves both."""
        if self._array is not None:
            return _eight_bit_rgb(self._array)
        self._decoded = decode(self._bytes, self.policy)
        return self._decoded.pixels

    def decoded(self, at_least: tuple[int, int] | None) -> Decoded:
        """Return a file in RGB, at least of this (height, width), or whole for None.

        What was decoded whole already is taken so; else the decoder may scale down.
        """
        if "pixels" in self.__dict__ and self._decoded is not None:
            return self._decoded
        return decode(self._bytes, self.policy, at_least=at_least)

    @_once
    def grey(self) -> NDArray[np.uint8]:
        """Luma by ITU-R BT.601, uint8, H×W, at full resolution.

        Rounded from RGB where that is at hand. Else a colour JPEG gives the channel it stores, for
        two thirds of the work; RGB that was cut to 0…255 makes the two differ, by 0.3 levels on
        average at most in 500 photographs.
        """
        if self._array is not None or "pixels" in self.__dict__:
            return luma(self.pixels)
        self._decoded = decode(self._bytes, self.policy, grey=True)
        return self._decoded.pixels

    @_once
    def reduced(self) -> NDArray[np.uint8]:
        """Grey at a size that does not depend on the image's: means of k×k pixels, rounded.

        k is the longer side over ``REDUCED_SIDE``, rounded, and less where the shorter side would
        fall below 8 pixels; images are never enlarged. The rest of a division is cut off at the
        right and below. uint8; the longer side is below 1.5 × ``REDUCED_SIDE`` otherwise.
        """
        height, width = self.grey.shape
        step = min(
            (max(height, width) + REDUCED_SIDE // 2) // REDUCED_SIDE,
            min(height, width) // _LEAST_REDUCED,
        )
        if step <= 1:
            return self.grey
        rows, columns = height // step, width // step
        cv2 = opencv()
        whole = self.grey[: rows * step, : columns * step]
        return np.asarray(
            cv2.resize(whole, (columns, rows), interpolation=cv2.INTER_AREA), np.uint8
        )

    @_once
    def histogram(self) -> NDArray[np.int64]:
        """How many pixels of grey have each level: int64[256]."""
        counts = np.zeros(256, np.int64)
        step = max(1, _COUNTED // self.grey.shape[1])
        for top in range(0, len(self.grey), step):
            band = self.grey[top : top + step]
            found = opencv().calcHist([band], [0], None, [256], [0, 256])
            counts += found.ravel().astype(np.int64)
        return counts

    @_once
    def moments(self) -> tuple[float, float]:
        """Mean and population variance of grey."""
        levels = np.arange(256)
        return moments_of(
            self.grey.size, int(self.histogram @ levels), int(self.histogram @ levels**2)
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Words of the image policy that apply, as far as the file has been looked at."""
        if self._decoded is not None:
            return self._decoded.notes
        return self.header.notes if self.header is not None else ()

    @_once
    def _bytes(self) -> bytes:
        assert self.data is not None
        return self.data.tobytes()


def moments_of(count: int, total: int, squares: int) -> tuple[float, float]:
    """Mean and population variance of whole numbers: of the true values, the nearest doubles.

    A score on its threshold passes, so no rounding on the way may put it below.

    Args:
        count: how many numbers.
        total: their sum.
        squares: the sum of their squares.
    """
    return total / count, (count * squares - total * total) / (count * count)


def _eight_bit_rgb(array: NDArray[Any]) -> NDArray[np.uint8]:
    """RGB by the image policy: the high byte of 16 bits, grey repeated."""
    if array.dtype == np.uint16:
        array = array >> 8
    elif array.dtype != np.uint8:
        raise BadSampleError(reason="unsupported-depth", detail=f"pixels of {array.dtype}")
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[2] not in (1, 3):
        raise BadSampleError(reason="unsupported-format", detail=f"pixels of shape {array.shape}")
    return np.ascontiguousarray(np.broadcast_to(array, (*array.shape[:2], 3)), np.uint8)
