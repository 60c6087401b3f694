"""Owns loading for training: orders of samples, a dataset and a loader for torch.

    samplers  orders as arrays of positions; NumPy alone
    samples     what is loaded: images as asked for, labels; NumPy alone
    images      batches of one shape from any reader; NumPy alone
    slots       memory of batches that is used again; NumPy alone
    fastloader  FastLoader: threads make batches in the training process
    iteration   one pass of it; recipe, pipeline, flight, filling, readahead, delivery: its parts
    dataset     FastDataset, which needs torch
    shared      memory that a worker process shares; handover is torch's side of it
    loader      torch's DataLoader with settings that fit together, and as source text

Names are imported when first used: those that need torch load it then.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastdata_cli.loading.dataset import FastDataset
    from fastdata_cli.loading.fastloader import FastLoader
    from fastdata_cli.loading.loader import LoaderOptions, loader_line, make_loader
    from fastdata_cli.loading.samplers import (
        BatchSampler,
        BlockShuffleSampler,
        RandomSampler,
        SequentialSampler,
    )
    from fastdata_cli.loading.samples import EncodedImages

_HOMES = {
    "BatchSampler": "samplers",
    "BlockShuffleSampler": "samplers",
    "EncodedImages": "samples",
    "FastDataset": "dataset",
    "FastLoader": "fastloader",
    "LoaderOptions": "loader",
    "RandomSampler": "samplers",
    "SequentialSampler": "samplers",
    "loader_line": "loader",
    "make_loader": "loader",
}

__all__ = [
    "BatchSampler",
    "BlockShuffleSampler",
    "EncodedImages",
    "FastDataset",
    "FastLoader",
    "LoaderOptions",
    "RandomSampler",
    "SequentialSampler",
    "loader_line",
    "make_loader",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
