"""How a worker process hands a batch to the one that trains. Needs torch."""

from __future__ import annotations

import math
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import get_worker_info

from fastdata_cli.loading import shared
from fastdata_cli.loading.shared import Address, Loan, Sent
from fastdata_cli.loading.slots import Slots

# In the training process two batches are in use at once: the one that is looked at, and the next.
_KEPT = 2
# More bytes of labels than this are worth shared memory; fewer are quicker in the message.
_MOST_INLINE = 1 << 14

_slots = Slots(_KEPT)


class Memory:
    """Where the images of one batch are put: used again, and in a worker shared.

    Attributes:
        loan: of the slot that they lie in, if it is one of a worker.
    """

    def __init__(self) -> None:
        self.loan: Loan | None = None

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return an array of any content."""
        if get_worker_info() is None:
            return _slots.empty(shape, dtype)
        found = shared.of_this_process.get().empty(shape, dtype)
        if found is None:
            return _fresh(shape, dtype)
        array, self.loan = found
        return array


def _fresh(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return shared memory of its own, which the queue hands over as it is."""
    like = torch.from_numpy(np.empty(0, dtype))
    size = math.prod(shape) * dtype.itemsize
    storage = torch.UntypedStorage._new_shared(size)  # type: ignore[no-untyped-call]
    array: NDArray[Any] = like.set_(storage).view(shape).numpy()
    return array


class HandedOver(tuple[Any, ...]):
    """A collated batch in a worker: a tuple of tensors of which the first may travel in a slot.

    On the other side it is a plain tuple.
    """

    loan: Loan | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (tuple(self),)  # for copies, and queues that are not between processes


def handed_over(columns: tuple[Any, ...], loan: Loan | None) -> HandedOver:
    """Return a batch that travels by its loan."""
    batch = HandedOver(columns)
    batch.loan = loan
    return batch


def _reduce(batch: HandedOver) -> tuple[Any, ...]:
    loan = batch.loan
    if loan is None or loan.sent:
        return _received, (shared.of_this_process.get().address, tuple(batch))
    return _received_in_slot, (loan.send(), [_light(column) for column in batch[1:]])


def _received(words: Address, batch: tuple[Any, ...]) -> tuple[Any, ...]:
    shared.confirm(words)
    return batch


def _received_in_slot(sent: Sent, rest: list[Any]) -> tuple[Any, ...]:
    columns = (torch.from_numpy(each) if isinstance(each, np.ndarray) else each for each in rest)
    return (torch.from_numpy(sent.array()), *columns)


def _light(column: Tensor) -> Any:
    """Return a small column as an array: a file of shared memory for it would cost more."""
    return column.numpy() if column.nbytes <= _MOST_INLINE else column


ForkingPickler.register(HandedOver, _reduce)
