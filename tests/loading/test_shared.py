"""Batches in memory that a worker shares: used again, and never while the trainer sees it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from fastdata_cli.errors import StorageError
from fastdata_cli.loading import shared
from fastdata_cli.loading.shared import SharedSlots

SHAPE, BYTE = (3, 4), np.dtype(np.uint8)

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@pytest.fixture
def slots() -> Iterator[SharedSlots]:
    """The slots of a worker that a trainer has found; both are this process."""
    made = SharedSlots()
    shared.confirm(made.address)
    yield made
    made.close()


def send(slots: SharedSlots, value: int) -> shared.Sent:
    """Fill a slot and send it; the worker lets go of it."""
    found = slots.empty(SHAPE, BYTE)
    assert found is not None
    array, loan = found
    array[:] = value
    return loan.send()


def test_nothing_is_lent_before_the_trainer_has_found_the_words() -> None:
    made = SharedSlots()
    assert made.empty(SHAPE, BYTE) is None
    shared.confirm(replace(made.address, pid=2**22 + 1))  # beyond any process
    assert made.empty(SHAPE, BYTE) is None
    shared.confirm(made.address)
    assert made.empty(SHAPE, BYTE) is not None
    made.close()


def test_a_slot_is_used_again_when_the_last_view_is_gone(slots: SharedSlots) -> None:
    first = send(slots, 1)
    batch = first.array()
    assert (batch == 1).all()
    view = batch[1:]
    del batch
    second = send(slots, 2)
    assert second.slot != first.slot
    assert (view == 1).all()
    del view
    third = send(slots, 3)
    assert (third.slot, third.use) == (first.slot, 2)
    assert (third.array() == 3).all()


def test_what_is_not_sent_yet_stays_though_nobody_views_it(slots: SharedSlots) -> None:
    found = slots.empty(SHAPE, BYTE)
    assert found is not None
    array, loan = found
    array[:] = 1
    del array, found  # as when torch takes a slice beside the batch into memory of its own
    other = send(slots, 2)
    sent = loan.send()
    assert other.slot != sent.slot
    assert (sent.array() == 1).all()


def test_a_loan_that_is_dropped_gives_its_slot_back(slots: SharedSlots) -> None:
    first = send(slots, 1)
    first.array()
    found = slots.empty(SHAPE, BYTE)
    assert found is not None
    del found
    assert send(slots, 2).slot == first.slot


def test_what_is_not_taken_yet_stays(slots: SharedSlots) -> None:
    sent = [send(slots, value) for value in range(4)]
    assert len({each.slot for each in sent}) == 4
    assert [int(each.array()[0, 0]) for each in sent] == [0, 1, 2, 3]


def test_what_the_worker_still_sees_stays(slots: SharedSlots) -> None:
    found = slots.empty(SHAPE, BYTE)
    assert found is not None
    array, loan = found
    array[:] = 7
    first = loan.send()
    first.array()  # taken, and let go of at once
    assert send(slots, 8).slot != first.slot
    assert (array == 7).all()
    del array, found
    assert first.slot in {send(slots, 9).slot for _ in range(2)}


def test_what_was_never_sent_is_free_again(slots: SharedSlots) -> None:
    found = slots.empty(SHAPE, BYTE)
    assert found is not None
    place = found[1].slot.file.address
    del found
    assert send(slots, 1).slot == place


def test_a_larger_batch_gets_a_larger_slot(slots: SharedSlots) -> None:
    send(slots, 1).array()
    found = slots.empty((100, 100), BYTE)
    assert found is not None
    found[0][:] = 5
    assert (found[1].send().array() == 5).all()


def test_there_are_not_more_and_more_slots(slots: SharedSlots) -> None:
    held = [send(slots, value).array() for value in range(8)]
    assert slots.empty(SHAPE, BYTE) is None
    assert [int(batch[0, 0]) for batch in held] == list(range(8))
    held.pop()
    assert slots.empty(SHAPE, BYTE) is not None


def test_a_slot_that_a_child_inherits_is_never_filled_again(slots: SharedSlots) -> None:
    sent = send(slots, 1)
    batch = sent.array()
    go, gone = os.pipe()
    child = os.fork()
    if not child:
        os.read(go, 1)  # until the parent has filled other slots
        os._exit(0 if (batch == 1).all() else 1)
    del batch
    others = [send(slots, value) for value in range(2, 6)]
    assert sent.slot not in {each.slot for each in others}
    os.write(gone, b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_child_frees_nothing_of_its_parent(slots: SharedSlots) -> None:
    sent = send(slots, 1)
    batch = sent.array()
    child = os.fork()
    if not child:
        del batch
        os._exit(0)
    os.waitpid(child, 0)
    assert sent.slot not in {send(slots, 2).slot for _ in range(3)}
    assert (batch == 1).all()


def test_a_worker_that_has_ended_is_said() -> None:
    code = (
        "from fastdata_cli.loading import shared; import numpy as np\n"
        "s = shared.SharedSlots(); shared.confirm(s.address)\n"
        "print(s.address.pid, s.address.descriptor, s.address.inode)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    gone = shared.Address(*map(int, done.stdout.split()))
    with pytest.raises(StorageError, match="worker process ended"):
        shared.Sent(gone, gone, 1, 1, SHAPE, "|u1").array()


def test_another_file_under_the_same_number_is_not_taken(slots: SharedSlots) -> None:
    sent = send(slots, 1)
    wrong = replace(sent, slot=replace(sent.slot, inode=sent.slot.inode + 1))
    with pytest.raises(StorageError):
        wrong.array()
