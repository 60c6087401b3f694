"""torch's DataLoader for a FastDataset, with settings that fit together, and as source text."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fastdata_cli.contract import Reader
from fastdata_cli.errors import UsageError
from fastdata_cli.loading.delivery import accelerated
from fastdata_cli.loading.orders import (
    SAMPLERS,
    WINDOW,
    natural_block,
    order_arguments,
    sampler_for,
)
from fastdata_cli.loading.samplers import BatchSampler
from fastdata_cli.options import Options, option

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

    from fastdata_cli.loading.dataset import FastDataset


@dataclass(frozen=True, kw_only=True)
class LoaderOptions(Options):
    """How batches are loaded."""

    batch_size: int = option(64, "samples of a batch", minimum=1)
    order: str = option(
        "block",
        "order of the samples: as stored, random, or shuffled by blocks",
        choices=("sequential", "random", "block"),
    )
    block: int | None = option(None, "samples of a block; the chunk of the dataset", minimum=1)
    window: int = option(WINDOW, "blocks whose samples are mixed", minimum=1)
    workers: int = option(0, "worker processes; 0 loads in the training process", minimum=0)
    prefetch_factor: int | None = option(None, "batches each worker is ahead", minimum=1)
    pin_memory: bool = option(False, "copy batches to pinned memory")
    persistent_workers: bool = option(False, "keep the workers between epochs")
    start_method: str | None = option(
        None, "how workers are started", choices=("fork", "spawn", "forkserver")
    )
    seed: int = option(0, "seed of the order", minimum=0)
    drop_last: bool = option(False, "leave out a last batch that is not full")


_DEFAULT = LoaderOptions()


def make_loader(
    source: str | os.PathLike[str] | Reader | FastDataset,
    options: LoaderOptions = _DEFAULT,
    *,
    epochs: int = 1,
) -> DataLoader[Any]:
    """Return torch's DataLoader over a dataset; its batches are ``images, labels``.

    ``loader.batch_sampler.set_epoch(n)`` chooses the epoch; without it each iteration is the next.

    Args:
        source: path of a dataset, a reader, or a FastDataset, which brings its own settings.
        options: see ``resolved`` for what becomes of those that do not fit together.
        epochs: how many follow one another in one iteration, without a pause between them.

    Raises:
        UsageError: the options are of another kind; else as FastDataset does.
    """
    from torch.utils.data import DataLoader

    from fastdata_cli.loading.dataset import FastDataset

    if not isinstance(options, LoaderOptions):
        raise UsageError(
            f"{options!r} are no options of a loader",
            hint="make_loader(path, LoaderOptions(batch_size=64))",
        )
    dataset = source if isinstance(source, FastDataset) else FastDataset(source)
    final = resolved(dataset.reader, options)
    sampler = sampler_for(
        dataset.reader, final.order, block=final.block, window=final.window, seed=final.seed
    )
    return DataLoader(
        dataset,
        batch_sampler=BatchSampler(
            sampler, final.batch_size, drop_last=final.drop_last, epochs=epochs
        ),
        collate_fn=dataset.collate,
        worker_init_fn=dataset.worker_init if final.workers else None,
        **_worker_arguments(final),
    )


def loader_line(reader: Reader, options: LoaderOptions = _DEFAULT) -> str:
    """Return the source text of ``make_loader``'s loader, over a FastDataset named ``dataset``.

    It runs after ``from torch.utils.data import DataLoader`` and
    ``from fastdata_cli.loading import *``.
    """
    final = resolved(reader, options)
    arguments = order_arguments(
        final.order, block=final.block or 1, window=final.window, seed=final.seed
    )
    name = SAMPLERS[final.order].__name__
    sampler = f"{name}({', '.join(['len(dataset)', *_texts(arguments)])})"
    drop = ", drop_last=True" if final.drop_last else ""
    batches = f"BatchSampler({sampler}, {final.batch_size}{drop})"
    parts = ["dataset", f"batch_sampler={batches}", "collate_fn=dataset.collate"]
    if final.workers:
        parts.append("worker_init_fn=dataset.worker_init")
    return f"DataLoader({', '.join([*parts, *_texts(_worker_arguments(final))])})"


def resolved(reader: Reader, options: LoaderOptions) -> LoaderOptions:
    """Return the options that a loader really has.

    Without workers there is nothing to prefetch, to keep or to start; without an accelerator there
    is no pinned memory; an order other than ``block`` has no blocks; the block that is not given
    is the dataset's chunk.
    """
    if not options.workers:
        options = replace(
            options, prefetch_factor=None, persistent_workers=False, start_method=None
        )
    if options.pin_memory:
        options = replace(options, pin_memory=accelerated())
    if options.order != "block":
        return replace(options, block=None, window=_DEFAULT.window)
    return replace(options, block=options.block or natural_block(reader))


def _worker_arguments(options: LoaderOptions) -> dict[str, Any]:
    """Return the arguments of DataLoader that say something else than its defaults."""
    arguments = {
        "num_workers": options.workers,
        "prefetch_factor": options.prefetch_factor,
        "pin_memory": options.pin_memory,
        "persistent_workers": options.persistent_workers,
        "multiprocessing_context": options.start_method,
    }
    return {name: value for name, value in arguments.items() if value}


def _texts(arguments: dict[str, Any]) -> list[str]:
    return [f"{name}={value!r}" for name, value in arguments.items()]
