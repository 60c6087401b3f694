"""Handles of one process: opened once, never shared with a forked child, never a deadlock."""

from __future__ import annotations

import gc
import json
import os
import pickle
import signal
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from fastdata_cli.storage.process_local import ProcessLocal

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


class Handles:
    """Hands out handles that know who opened them, and records what is closed."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        self.closed: list[str] = []

    def open(self) -> str:
        time.sleep(0.01)
        self.opened.append(f"{os.getpid()}-{len(self.opened)}")
        return self.opened[-1]

    def close(self, handle: str) -> None:
        self.closed.append(handle)


@pytest.fixture
def handles() -> Handles:
    return Handles()


@pytest.fixture
def local(handles: Handles) -> ProcessLocal[str]:
    return ProcessLocal(handles.open, handles.close)


def in_fork(function: Callable[[], Any]) -> Any:
    """Return what ``function`` returns in a forked child; fail if it dies or hangs there."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(20)
        code = 1
        try:
            os.write(writing, json.dumps(function()).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    with open(reading, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    return json.loads(said)


def test_nothing_is_opened_before_it_is_needed(local: ProcessLocal[str], handles: Handles) -> None:
    assert handles.opened == []
    local.close()
    assert handles.closed == []


def test_many_threads_open_once(local: ProcessLocal[str], handles: Handles) -> None:
    barrier = threading.Barrier(16)

    def get(_: int) -> str:
        barrier.wait(10)
        return local.get()

    with ThreadPoolExecutor(16) as pool:
        got = set(pool.map(get, range(16)))
    assert got == set(handles.opened)
    assert len(handles.opened) == 1


def test_close_releases_and_get_opens_anew(local: ProcessLocal[str], handles: Handles) -> None:
    first = local.get()
    local.close()
    local.close()
    assert handles.closed == [first]
    assert local.get() != first
    assert len(handles.opened) == 2


def test_an_opener_that_fails_is_asked_again() -> None:
    calls: list[str] = []

    def opener() -> str:
        calls.append("call")
        if len(calls) == 1:
            raise OSError("not yet")
        return "handle"

    local: ProcessLocal[str] = ProcessLocal(opener, lambda handle: None)
    with pytest.raises(OSError, match="not yet"):
        local.get()
    assert local.get() == "handle"


def test_a_forked_child_has_its_own(local: ProcessLocal[str], handles: Handles) -> None:
    parents = local.get()
    childs, closed_there = in_fork(lambda: [local.get(), handles.closed])
    assert childs != parents
    assert closed_there == [parents], "the child gives up the handle that it inherited"
    assert local.get() == parents
    assert (len(handles.opened), handles.closed) == (1, [])


def test_a_child_that_does_not_ask_opens_nothing(
    local: ProcessLocal[str], handles: Handles
) -> None:
    local.get()
    assert in_fork(lambda: len(handles.opened)) == 1


def test_a_grandchild_has_its_own(local: ProcessLocal[str]) -> None:
    found = in_fork(lambda: [local.get(), in_fork(local.get), local.get()])
    child, grandchild, again = found
    assert len({local.get(), child, grandchild}) == 3
    assert child == again


def test_a_closer_that_fails_in_the_child_is_ignored() -> None:
    def closer(handle: int) -> None:
        raise OSError("not in this process")

    local = ProcessLocal(os.getpid, closer)
    assert local.get() == os.getpid()
    assert in_fork(lambda: local.get() == os.getpid())


def test_a_lock_held_at_fork_does_not_block_the_child() -> None:
    """Another thread is opening when this one forks; that thread does not exist in the child."""
    opening, go_on = threading.Event(), threading.Event()
    parent = os.getpid()

    def opener() -> int:
        if os.getpid() == parent:
            opening.set()
            assert go_on.wait(30)
        return os.getpid()

    local: ProcessLocal[int] = ProcessLocal(opener, lambda handle: None)
    thread = threading.Thread(target=local.get)
    thread.start()
    try:
        assert opening.wait(10)
        assert in_fork(local.get) != parent
    finally:
        go_on.set()
        thread.join(30)
    assert local.get() == parent


def test_an_owner_that_is_gone_is_not_kept_alive(handles: Handles) -> None:
    local = ProcessLocal(handles.open, handles.close)
    gone = weakref.ref(local)
    del local
    gc.collect()
    assert gone() is None


def test_pickling_is_the_business_of_the_owner(local: ProcessLocal[str]) -> None:
    with pytest.raises((TypeError, pickle.PicklingError, AttributeError)):
        pickle.dumps(local)
