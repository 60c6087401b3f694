"""What FastLoader hands out: arrays or tensors, in memory that is used again. Torch comes late."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.errors import MissingDependencyError, UnsupportedError
from fastdata_cli.loading.slots import Slots

Arrays = Literal["torch", "numpy"]


class Delivery(Protocol):
    """Makes the memory of batches, and of that what is handed out."""

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return memory for the images of a batch, of any content."""
        ...

    def images(self, images: NDArray[Any]) -> Any:
        """Return what is handed out of an array from ``empty``; no copy."""
        ...

    def column(self, values: NDArray[Any]) -> Any:
        """Return what is handed out of labels, positions or encoded bytes; no copy."""
        ...

    def stack(self, rows: Sequence[Any]) -> Any:
        """Return a batch of what a transform returned for each image."""
        ...


class InArrays:
    """NumPy arrays.

    Args:
        keep: batches whose memory is kept for others.
    """

    def __init__(self, keep: int) -> None:
        self._slots = Slots(keep)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return memory for the images of a batch, of any content."""
        return self._slots.empty(shape, dtype)

    def images(self, images: NDArray[Any]) -> Any:
        """Return the images."""
        return images

    def column(self, values: NDArray[Any]) -> Any:
        """Return the values."""
        return values

    def stack(self, rows: Sequence[Any]) -> Any:
        """Return the rows in one array."""
        return np.stack([np.asarray(row) for row in rows])


class InTensors(InArrays):
    """Tensors of torch."""

    def images(self, images: NDArray[Any]) -> Any:
        """Return the images as a tensor over the same memory."""
        return self.column(images)

    def column(self, values: NDArray[Any]) -> Any:
        """Return the values as a tensor over the same memory."""
        import torch

        return torch.from_numpy(values)

    def stack(self, rows: Sequence[Any]) -> Any:
        """Return what torch's own collate function makes of the rows."""
        from torch.utils.data import default_collate

        return default_collate(list(rows))


class InPinnedTensors(InTensors):
    """Tensors in memory that a GPU copies from while the processor goes on.

    torch allocates it, and uses it again itself: it alone knows when a copy that was begun with
    ``non_blocking=True`` is over.
    """

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return memory for the images of a batch, of any content."""
        import torch

        like = torch.from_numpy(np.empty(0, dtype)).dtype
        array: NDArray[Any] = torch.empty(shape, dtype=like, pin_memory=True).numpy()
        return array

    def images(self, images: NDArray[Any]) -> Any:
        """Return the tensor that was allocated."""
        return images.base

    def stack(self, rows: Sequence[Any]) -> Any:
        """Return what torch's own collate function makes of the rows, pinned if it is a tensor."""
        import torch

        stacked = super().stack(rows)
        return stacked.pin_memory() if isinstance(stacked, torch.Tensor) else stacked


def accelerated() -> bool:
    """Return whether there is a device that pinned memory speeds up copies to."""
    import torch

    accelerator = getattr(torch, "accelerator", torch.cuda)  # torch before 2.6 knew CUDA only
    return bool(accelerator.is_available())


def delivery_for(
    arrays: Arrays, dtypes: Sequence[np.dtype[Any]], *, pinned: bool, keep: int
) -> Delivery:
    """Return the delivery of a loader.

    Args:
        arrays: ``torch`` or ``numpy``.
        dtypes: of images and labels.
        pinned: in pinned memory, where there is an accelerator.
        keep: batches whose memory is kept for others.

    Raises:
        MissingDependencyError: tensors, without torch.
        UnsupportedError: torch has no such dtype.
    """
    if arrays == "numpy":
        return InArrays(keep)
    try:
        import torch
    except ImportError as problem:
        hint = 'pip install torch, or arrays="numpy"'
        raise MissingDependencyError("tensors need torch", hint=hint) from problem
    for dtype in dtypes:
        try:
            torch.from_numpy(np.empty(0, dtype))
        except (TypeError, ValueError) as problem:
            hint = 'arrays="numpy" has them all'
            raise UnsupportedError(f"torch has no dtype for {dtype}", hint=hint) from problem
    return InPinnedTensors(keep) if pinned and accelerated() else InTensors(keep)
