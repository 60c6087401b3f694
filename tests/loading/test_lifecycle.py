"""The threads of a FastLoader end with the iteration, however it ends."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastdata_cli import FastLoader, open_reader
from fastdata_cli.errors import StorageError, UsageError
from tests.loading.datasets import COUNT, write

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

PATIENCE_S = 20.0


@pytest.fixture(scope="module", params=["raw", "lmdb"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset whose images are gathered, and one whose images are decoded."""
    return write(tmp_path_factory.mktemp("set"), request.param)


def running() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name.startswith("fastdata-")}


@pytest.fixture(autouse=True)
def _all_threads_end() -> Iterator[None]:
    yield
    gc.collect()
    deadline = time.monotonic() + PATIENCE_S
    while running() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not running()


def loader(path: Path, **settings: Any) -> FastLoader:
    return FastLoader(path, 4, size=6, threads=3, **settings)


def to_its_end(batches: Any) -> None:
    list(batches)


def by_break(batches: Any) -> None:
    for _ in batches:
        break


def by_close(batches: Any) -> None:
    next(batches)
    batches.close()
    assert not running()
    assert list(batches) == []


def as_a_context(batches: Any) -> None:
    with batches:
        next(batches)
    assert not running()


def unused(batches: Any) -> None:
    assert running()


def in_a_cycle(batches: Any) -> None:
    cycle = [batches]
    cycle.append(cycle)


def by_an_error_of_the_consumer(batches: Any) -> None:
    def fail() -> None:
        for _ in batches:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()


@pytest.mark.parametrize(
    "end",
    [
        to_its_end,
        by_break,
        by_close,
        as_a_context,
        unused,
        in_a_cycle,
        by_an_error_of_the_consumer,
    ],
)
def test_threads_end(path: Path, end: Callable[[Any], None]) -> None:
    end(iter(loader(path, epochs=50)))


def test_two_iterations_at_once(path: Path) -> None:
    both = loader(path)
    for (one, _), (other, _) in zip(both, loader(path), strict=True):
        assert one.equal(other)


class Failing:
    """A reader that works for a while."""

    def __init__(self, path: Path, problem: Exception) -> None:
        self._reader = open_reader(path)
        self._problem = problem
        self._left = 3

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def __len__(self) -> int:
        return len(self._reader)

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise self._problem

    def read_many(self, indices: Any, out: Any = None) -> Any:
        self._count()
        return self._reader.read_many(indices, out)

    def read_each(self, indices: Any) -> Any:
        self._count()
        return self._reader.read_each(indices)


@pytest.mark.parametrize("problem", [StorageError("no more files"), MemoryError("too much")])
def test_what_ends_reading_reaches_the_consumer(path: Path, problem: Exception) -> None:
    reader: Any = Failing(path, problem)
    batches = iter(FastLoader(reader, 4, size=6, epochs=50, threads=2))
    with pytest.raises(type(problem)) as found:
        list(batches)
    assert found.value is problem
    assert list(batches) == []


def test_an_error_of_the_sampler_comes_after_the_batches_before(path: Path) -> None:
    class Ends:
        def __len__(self) -> int:
            return COUNT

        def __iter__(self) -> Iterator[int]:
            yield from (each % COUNT for each in range(5000))
            raise KeyError("a sampler's own fault")

    reader: Any = Repeating(path)
    taken: list[int] = []
    batches = iter(FastLoader(reader, 4, size=6, sampler=Ends(), threads=3))

    def take_all() -> None:
        taken.extend(len(images) for images, _ in batches)

    with pytest.raises(KeyError, match="own fault"):
        take_all()
    assert taken == [4] * 1024  # all that the sampler had handed over in whole pieces


class Repeating(Failing):
    """A reader with any number of samples: the same ones again and again."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, ValueError())
        self._left = 1 << 30

    def labels(self) -> Any:
        return np.zeros(5000, np.int64)

    def read_many(self, indices: Any, out: Any = None) -> Any:
        return self._reader.read_many(np.asarray(indices) % COUNT, out)

    def read_each(self, indices: Any) -> Any:
        return self._reader.read_each(np.asarray(indices) % COUNT)


def in_a_child(action: Callable[[], None]) -> int:
    """Return the exit code of a forked child that runs an action; it must end by itself."""
    child = os.fork()
    if not child:
        code = 1
        try:
            signal.alarm(int(PATIENCE_S))
            action()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_forked_child_iterates_anew(path: Path) -> None:
    used = loader(path)
    batches = iter(used)
    next(batches)

    def anew() -> None:
        assert sum(len(images) for images, _ in used) == COUNT

    def goes_on() -> None:
        with pytest.raises(UsageError, match="forked from"):
            next(batches)

    def lets_go() -> None:
        nonlocal batches
        batches = iter(())  # type: ignore[assignment]
        gc.collect()

    for action in (anew, goes_on, lets_go):
        assert in_a_child(action) == 0
    assert sum(len(images) for images, _ in batches) == COUNT - 4


def script(path: Path, rest: str) -> list[str]:
    code = f"""
import sys, time, threading
from fastdata_cli import FastLoader
loader = FastLoader({str(path)!r}, 4, size=6, epochs=100000, threads=3, arrays="numpy")
{rest}
"""
    return [sys.executable, "-c", code]


def test_an_interpreter_that_ends_takes_the_threads_with_it(path: Path) -> None:
    rest = "batches = iter(loader); next(batches); next(batches); print('done')"
    for _ in range(3):
        done = subprocess.run(
            script(path, rest), capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_control_c_ends_everything(path: Path) -> None:
    rest = """
try:
    for number, _ in enumerate(loader):
        if number == 3:
            print("ready", flush=True)
except KeyboardInterrupt:
    left = [each.name for each in threading.enumerate() if each.name.startswith("fastdata-")]
    print("interrupted", left)
"""
    process = subprocess.Popen(
        script(path, rest), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err) == (0, "")
    assert out.startswith("interrupted")


def test_control_c_while_waiting(path: Path) -> None:
    """The consumer waits for a reader that takes its time, and is interrupted there."""
    rest = """
import signal
from fastdata_cli import open_reader
reader = loader.samples.reader
kind = type(reader)
def slow(self, *arguments, _read, **settings):
    time.sleep(0.5)
    return _read(self, *arguments, **settings)
for name in ("read_many", "read_each"):
    read = getattr(kind, name)
    setattr(kind, name, lambda self, *a, _read=read, **s: slow(self, *a, _read=_read, **s))
threading.Timer(0.2, lambda: signal.raise_signal(signal.SIGINT)).start()
try:
    next(iter(loader))
except KeyboardInterrupt:
    print("interrupted")
"""
    done = subprocess.run(
        script(path, rest), capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")
