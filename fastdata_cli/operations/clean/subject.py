"""What clean judges: files from any mix of places, or the samples of a dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.contract import Reader
from fastdata_cli.errors import BadSampleError
from fastdata_cli.formats.tree.files import read_file, read_files
from fastdata_cli.operations.clean.cache import ScoreCache
from fastdata_cli.operations.clean.candidate import Candidate
from fastdata_cli.sample import Reject, Sample

# A task of a worker holds about this many bytes and never more images than this: small images share
# the cost of a task, and large ones still spread over the threads.
_TASK_BYTES = 512 << 10
_TASK_IMAGES = 16

Task = list[Candidate]


class Subject(Protocol):
    """What is judged."""

    name: str
    """As the user gave it."""
    total: int | None
    """How many images there are; None while nobody can know."""
    notes: Mapping[str, int]
    """What listing it ignored or found odd, by kind."""
    has_files: bool
    """Whether each image is a file of its own, which can be moved and remembered."""

    def tasks(self, cache: ScoreCache | None) -> Iterator[Task]:
        """Yield the images in order, in small runs, as soon as each can be had; reads them.

        Args:
            cache: what earlier runs measured, for subjects that have files.
        """
        ...

    def reread(self, candidate: Candidate) -> NDArray[Any]:
        """Return the image of a candidate, in any thread. Raises BadSampleError."""
        ...

    def close(self) -> None:
        """Let go of what is open, and of a list that more is expected from."""
        ...


@dataclass(frozen=True, slots=True)
class Named:
    """A file that somebody named."""

    key: str
    """As it was given."""
    path: bytes
    """Where it lies."""
    reject: Reject | None = None
    """Why it is known to be unusable before anybody looks."""


class Files:
    """Files from any mix of places.

    Args:
        name: of the source, for reports.
        blocks: what was named, in runs of what was known at once.
        total: how many there are, where that is known.
        notes: of the listing.
        on_close: ends ``blocks`` when it waits for more.
    """

    has_files = True

    def __init__(
        self,
        name: str,
        blocks: Iterable[Sequence[Named]],
        *,
        total: int | None = None,
        notes: Mapping[str, int] | None = None,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        self.name = name
        self.total = total
        self.notes = notes or {}
        self._blocks = blocks
        self._on_close = on_close

    def tasks(self, cache: ScoreCache | None) -> Iterator[Task]:
        """Yield the files as they are read, a block of names at a time."""
        positions = count()
        for block in self._blocks:
            named = [_candidate_of(each, next(positions), cache) for each in block]
            yield from _in_tasks(_read(named))

    def reread(self, candidate: Candidate) -> NDArray[Any]:
        """Return the bytes of a file."""
        assert candidate.path is not None
        return read_file(candidate.path, candidate.key)

    def close(self) -> None:
        """End the list, if it comes from a pipe."""
        if self._on_close is not None:
            self._on_close()


class Samples:
    """The samples of an open dataset.

    Args:
        name: of the source, for reports.
        reader: of the dataset.
        rejects: what opening it found unusable; they come first.
        notes: of opening it.
    """

    has_files = False

    def __init__(
        self,
        name: str,
        reader: Reader,
        rejects: Sequence[Reject] = (),
        notes: Mapping[str, int] | None = None,
    ) -> None:
        self.name = name
        self.total: int | None = len(reader) + len(rejects)
        self.notes = notes or {}
        self._reader = reader
        self._rejects = rejects

    def tasks(self, cache: ScoreCache | None) -> Iterator[Task]:
        """Yield the samples by the fastest sequential path."""
        rejected = (Candidate(reject.key, -1, known=reject) for reject in self._rejects)
        yield from _in_tasks(rejected)
        yield from _in_tasks(map(_candidate_in, count(), self._reader.scan()))

    def reread(self, candidate: Candidate) -> NDArray[Any]:
        """Return the image of a sample."""
        return self._reader.read(candidate.index).image

    def close(self) -> None:
        """Release the reader's handles."""
        self._reader.close()


def _candidate_of(named: Named, index: int, cache: ScoreCache | None) -> Candidate:
    """Return a named file with what is known of it."""
    candidate = Candidate(named.key, index, known=named.reject, path=named.path)
    if cache is None or named.reject is not None:
        return candidate
    state, known = cache.find(named.path)
    return replace(candidate, known=known, state=state)


def _read(named: Sequence[Candidate]) -> Iterator[Candidate]:
    """Yield files with their bytes where nothing is known of them, the next ones on their way."""
    images = read_files((c.path or b"", c.key) for c in named if c.known is None)
    for candidate in named:
        if candidate.known is not None:
            yield candidate
            continue
        image = next(images)
        if isinstance(image, BadSampleError):
            reject = Reject(candidate.key, image.reason, image.detail)
            yield replace(candidate, known=reject, state=None)
        else:
            yield replace(candidate, image=image)


def _candidate_in(index: int, found: Sample | Reject) -> Candidate:
    """Return a sample of a dataset."""
    if isinstance(found, Reject):
        return Candidate(found.key, index, known=found)
    return Candidate(found.key, index, np.asarray(found.image))


def _in_tasks(candidates: Iterable[Candidate]) -> Iterator[Task]:
    """Cut candidates into tasks by number and bytes."""
    task: Task = []
    size = 0
    for candidate in candidates:
        task.append(candidate)
        size += 0 if candidate.image is None else candidate.image.nbytes
        if size >= _TASK_BYTES or len(task) >= _TASK_IMAGES:
            yield task
            task, size = [], 0
    if task:
        yield task
