"""FastLoader: ready batches of any dataset, made by threads of the process that trains."""

from __future__ import annotations

import copy
import inspect
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from fastdata_cli.contract import Reader
from fastdata_cli.errors import BadSampleError, UsageError
from fastdata_cli.imaging import ImagePolicy
from fastdata_cli.imaging.resize import Fit, Interpolation
from fastdata_cli.loading.delivery import Arrays, Delivery, delivery_for
from fastdata_cli.loading.flight import Place
from fastdata_cli.loading.iteration import HandingOut, Iteration
from fastdata_cli.loading.orders import GivenOrder, Order, SizedPositions, sampler_for
from fastdata_cli.loading.recipe import Held, Recipe, recipe_for
from fastdata_cli.loading.samplers import BatchSampler, Positions, Sampler, whole
from fastdata_cli.loading.samples import Samples, Transform
from fastdata_cli.sample import Reject

OnBad = Literal["raise", "skip"]
# Batches that the consumer sees, at most: the one at hand and the one before.
_LOOKED_AT = 2


class FastLoader(Iterable[tuple[Any, ...]]):
    """Iterates over a dataset in batches ``images, labels``; an epoch an iteration.

    Images are uint8 N×H×W×C (RGB) unless the dataset holds others, labels int64, -1 for samples
    without one. Threads of this process make the batches ahead: stored pixels are gathered by one
    call for each batch, encoded images are read by one thread and decoded by the others, each
    straight into its place. No process but this one is involved, and nothing is copied twice::

        for images, labels in FastLoader("out.zarr", 64):
            images = images.cuda(non_blocking=True)

    A batch is the caller's for as long as anything of it is referred to: it may be kept, sliced,
    written to. Its memory is used for another batch only when nothing sees it any more.

    Samples, their order and the batches do not depend on the number of threads. The threads end
    with the iteration: at its end, by ``break``, by an error. A process that is forked off
    iterates anew.

    Args:
        source: path of a dataset, a reader, or a FastDataset, which brings its own settings.
        batch_size: samples of a batch.
        order: ``random``; ``block``, for chunks that are decompressed as a whole and for slow
            disks; ``sequential``.
        sampler: an order of one's own, in place of ``order``, ``seed``, ``rank``, ``world_size``:
            a sampler of this package, whose epoch is that of the first iteration, or any iterable
            of positions with a length. Later epochs are the loader's: see ``set_epoch``.
        seed: the same seed gives the same epochs.
        rank, world_size: which of how many training processes this is; each has its share of
            every epoch. ``drop_last`` makes the shares equal.
        epochs: how many follow one another in one iteration, without a pause between them.
        drop_last: leave out a last batch that is not full.
        threads: that make batches. By default as many as there are cores; 8 at most for pixels.
        prefetch: batches that may be ready or in work.
        arrays: ``torch`` or ``numpy``; what batches are made of.
        pin_memory: make tensors in pinned memory, where there is an accelerator.
        in_memory: hold all images, decoded and resized, from the first iteration on.
        on_bad: ``raise`` BadSampleError, when the batch is due; or ``skip``: the batch is smaller
            by what is bad, and ``rejects`` tells it.
        size, fit, interpolation, policy, transform, decode, labels, with_index, verify: as for
            FastDataset.

    Attributes:
        samples: what is loaded; ``samples.keys[index]`` names a sample.

    Raises:
        UsageError: arguments that contradict each other or the dataset.
        UnsupportedError: images that torch has no dtype for, or pixels that cannot be resized.
        MissingDependencyError: tensors are asked for, and there is no torch.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | Reader | Samples,
        batch_size: int = 64,
        *,
        order: Order = "random",
        sampler: SizedPositions | Sampler | None = None,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        epochs: int = 1,
        drop_last: bool = False,
        threads: int | None = None,
        prefetch: int | None = None,
        arrays: Arrays = "torch",
        pin_memory: bool = False,
        in_memory: bool = False,
        on_bad: OnBad = "raise",
        size: int | tuple[int, int] | None = None,
        fit: Fit = "crop",
        interpolation: Interpolation = "area",
        policy: ImagePolicy | None = None,
        transform: Transform | None = None,
        decode: bool = True,
        labels: ArrayLike | None = None,
        with_index: bool = False,
        verify: bool = False,
    ) -> None:
        if on_bad not in get_args(OnBad):
            raise UsageError(f"on_bad={on_bad!r} is not known", hint="one of: raise, skip")
        settings: dict[str, Any] = {"size": size, "fit": fit, "interpolation": interpolation}
        settings |= {"policy": policy, "transform": transform, "decode": decode}
        settings |= {"labels": labels, "with_index": with_index, "verify": verify}
        self.samples = _samples_of(source, settings)
        if sampler is None:
            shares: dict[str, Any] = {"rank": rank, "world_size": world_size}
            shares["drop_last"] = drop_last
            sampler = sampler_for(self.samples.reader, order, seed=seed, **shares)
        elif not isinstance(sampler, Sampler):
            sampler = GivenOrder(sampler)
        self._batches = BatchSampler(sampler, batch_size, drop_last=drop_last, epochs=epochs)
        self._recipe = recipe_for(self.samples, batch_size, threads, prefetch)
        self._delivery = _delivery_of(self._recipe, arrays, pinned=pin_memory)
        self._hold = in_memory and _holdable(self.samples)
        self._held: Held | None = None
        self._skip = on_bad == "skip"
        self._rejects: dict[int, Reject] = {}
        self._next = self._place = Place(sampler.epoch)
        self._until: int | None = None
        """The epoch that the next iteration ends before, where a state tells."""
        self._ends = 0
        """The epoch that the last iteration ends before."""

    def __len__(self) -> int:
        """Return the number of batches of an iteration; fewer come where all of one are bad."""
        return len(self._batches)

    def __iter__(self) -> Iteration:
        if self._hold and self._held is None:
            self._held = self._recipe.hold()
        start = self._place = self._next
        self._until = self._until or start.epoch + self._batches.epochs
        plan = self._plan(start, self._until)
        self._next, self._ends, self._until = Place(self._until), self._until, None
        pipeline = self._recipe.pipeline(plan, self._delivery, self._held)
        handing_out = HandingOut(
            delivery=self._delivery,
            labels=self.samples.labels,
            with_index=self.samples.with_index,
            on_bad=self._note if self._skip else None,
        )
        return Iteration(pipeline, handing_out, self._passed)

    @property
    def prefetch(self) -> int:
        """Batches that may be ready or in work at once."""
        return self._recipe.prefetch

    @property
    def rejects(self) -> tuple[Reject, ...]:
        """The samples that were left out so far, each once, by position."""
        return tuple(self._rejects[index] for index in sorted(self._rejects))

    def set_epoch(self, epoch: int) -> None:
        """Make the next iteration begin with this epoch, counted from 0."""
        self._next = self._place = Place(whole("epoch", epoch, 0))
        self._until, self._ends = None, 0

    def state_dict(self) -> dict[str, Any]:
        """Return where training stands: before the batch that comes next; JSON-able.

        Batches that are ready and were not taken do not count. Where several iterations are going
        on, the one that was begun or that a batch was taken from last is meant. After ``break`` it
        still is the epoch that was left; ``set_epoch`` says that the next one is to come.
        """
        at = self._place
        within = at.epoch < self._ends
        until = self._ends if within else at.epoch + self._batches.epochs
        return {**asdict(at), "until": until, "settings": self._settings()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Make the next iteration begin where ``state_dict`` was asked, and end where it ended.

        Batches before that are not read. Any rank may load the state of any other.

        Raises:
            UsageError: it is no such state, or that of another order, batch size or dataset.
        """
        try:
            place = Place(whole("epoch", state["epoch"], 0), whole("batch", state["batch"], 0))
            until = whole("until", state["until"], place.epoch + 1)
            theirs = dict(state["settings"])
        except (KeyError, TypeError, ValueError) as problem:
            raise UsageError(f"not a state of a FastLoader: {problem!r}") from problem
        ours = self._settings()
        changed = sorted(name for name in ours | theirs if ours.get(name) != theirs.get(name))
        if changed:
            words = (f"{name} was {theirs.get(name)}, is {ours.get(name)}" for name in changed)
            raise UsageError(f"the state is that of another loader: {'; '.join(words)}")
        self._next = self._place = place
        self._until, self._ends = until, 0

    def _settings(self) -> dict[str, Any]:
        """Return all that decides which samples a batch has, but for its place and rank."""
        sampler = self._batches.sampler
        facts = {"sampler": type(sampler).__name__, **asdict(sampler.config)}
        facts |= {"batch_size": self._batches.batch_size, "drop_batch": self._batches.drop_last}
        return {name: value for name, value in facts.items() if name != "rank"}

    def _plan(self, start: Place, until: int) -> Iterator[tuple[Place, Positions]]:
        batches = self._batches
        sampler = copy.copy(batches.sampler)  # its epoch is this iteration's alone
        one = BatchSampler(sampler, batches.batch_size, drop_last=batches.drop_last)
        skipped = start.batch
        for epoch in range(start.epoch, until):
            sampler.set_epoch(epoch)
            for number, positions in enumerate(one):
                if number >= skipped:
                    yield Place(epoch, number), self._checked(positions)
            skipped = 0

    def _checked(self, positions: Positions) -> Positions:
        """Return positions that a sampler gave.

        Raises:
            UsageError: there is no such sample.
        """
        count = len(self.samples)
        wrong = positions[(positions < 0) | (positions >= count)]
        if len(wrong):
            raise UsageError(f"the sampler gives position {wrong[0]}, of {count:,} samples")
        return positions

    def _passed(self, place: Place) -> None:
        behind = Place(place.epoch, place.batch + 1)
        last = behind.batch * self._batches.epochs >= len(self._batches)
        self._place = Place(place.epoch + 1) if last else behind

    def _note(self, index: int, problem: BadSampleError) -> None:
        self._rejects[index] = Reject(problem.key, problem.reason, problem.detail, index)


def _samples_of(
    source: str | os.PathLike[str] | Reader | Samples, settings: Mapping[str, Any]
) -> Samples:
    """Return the samples of a dataset with these settings, or the given ones.

    Raises:
        UsageError: samples are given, and settings beside them.
    """
    if not isinstance(source, Samples):
        return Samples(source, **settings)
    usual = inspect.signature(Samples).parameters
    given = [name for name, value in settings.items() if not _same(value, usual[name].default)]
    if given:
        raise UsageError(
            f"the dataset has its settings: {', '.join(given)} cannot be given here",
            hint=f"{type(source).__name__}(..., {given[0]}=...)",
        )
    return source


def _same(value: Any, usual: Any) -> bool:
    return value is usual or (isinstance(value, str) and value == usual)


def _delivery_of(recipe: Recipe, arrays: Arrays, *, pinned: bool) -> Delivery:
    if arrays not in get_args(Arrays):
        raise UsageError(f"arrays={arrays!r} is not known", hint="one of: torch, numpy")
    dtypes = [np.dtype(recipe.samples.reader.schema.dtype), recipe.samples.labels.dtype]
    return delivery_for(arrays, dtypes, pinned=pinned, keep=recipe.prefetch + _LOOKED_AT)


def _holdable(samples: Samples) -> bool:
    """Return True.

    Raises:
        UsageError: what is asked for differs from epoch to epoch, or in its size.
    """
    if samples.transform is None and samples.decode:
        return True
    fault = "a transform" if samples.transform is not None else "decode=False"
    raise UsageError(f"in_memory=True holds images as they are in a batch: not with {fault}")
