"""Slots: memory that is used again, and never while anything sees it."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fastdata_cli.loading.slots import Slots

SHAPE, BYTE = (4, 5, 3), np.dtype(np.uint8)


def address(array: NDArray[Any]) -> int:
    return array.ctypes.data


def test_memory_is_used_again_once_nothing_sees_it() -> None:
    slots = Slots(2)
    first = slots.empty(SHAPE, BYTE)
    place = address(first)
    assert address(slots.empty(SHAPE, BYTE)) != place
    del first
    assert address(slots.empty(SHAPE, BYTE)) == place


VIEWS: dict[str, Callable[[NDArray[Any]], Any]] = {
    "a slice": lambda array: array[1:2],
    "a slice of a slice": lambda array: array[1:][:, 2][::2],
    "another shape and type": lambda array: array.reshape(-1)[:40].view(np.uint64),
    "a tensor": torch.from_numpy,
    "a row of a tensor": lambda array: torch.from_numpy(array)[2].permute(1, 0),
    "an array of a tensor": lambda array: torch.from_numpy(array)[1].numpy(),
    "a memory view": lambda array: array.data,
    "what stands behind it": lambda array: array.base,
    "a DLPack capsule": lambda array: torch.utils.dlpack.from_dlpack(array[:3]),
    "an object array": lambda array: np.array([array[0], None], object)[:1],
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_whatever_sees_it_keeps_it(view: Callable[[NDArray[Any]], Any]) -> None:
    slots = Slots(1)
    array = slots.empty(SHAPE, BYTE)
    place = address(array)
    seen = view(array)
    del array
    gc.collect()
    others = [slots.empty(SHAPE, BYTE) for _ in range(3)]
    assert place not in map(address, others)
    del seen
    gc.collect()
    assert address(slots.empty(SHAPE, BYTE)) == place


def test_another_size_takes_what_is_large_enough() -> None:
    slots = Slots(1)
    large = slots.empty((9, 9), BYTE)
    place = address(large)
    del large
    small = slots.empty((2, 3), np.dtype(np.uint16))
    assert (small.shape, small.dtype.name, address(small)) == ((2, 3), "uint16", place)
    del small
    assert address(slots.empty((9, 9), BYTE)) == place
    larger = slots.empty((100, 9), BYTE)
    larger[:] = 1
    assert larger.sum() == 900


def test_no_more_is_kept_than_asked_for() -> None:
    slots = Slots(1)
    held = [slots.empty(SHAPE, BYTE) for _ in range(3)]
    places = set(map(address, held))
    del held
    # The memory of two was freed: NumPy may hand out the same addresses, but it is not the slots'.
    assert len(slots._free) == 1
    assert address(slots.empty(SHAPE, BYTE)) in places


def test_arrays_without_bytes_and_of_other_types() -> None:
    slots = Slots(1)
    for dtype in ("uint16", "float32", ">u2", "bool"):
        assert slots.empty((0, 3), np.dtype(dtype)).shape == (0, 3)
        array = slots.empty((2, 3), np.dtype(dtype))
        array[:] = 1
        assert array.dtype == np.dtype(dtype)
        assert array.flags.c_contiguous
        assert array.flags.writeable
        assert array.all()


def test_threads_never_share_memory() -> None:
    slots = Slots(4)
    broken: list[NDArray[Any]] = []

    def fill(number: int) -> None:
        held: list[NDArray[Any]] = []
        for turn in range(200):
            array = slots.empty((64,), BYTE)
            array[:] = number
            held.append(array)
            if turn % 3 == 2:
                broken.extend(one for one in held if (one != number).any())
                held.clear()

    threads = [threading.Thread(target=fill, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not broken
