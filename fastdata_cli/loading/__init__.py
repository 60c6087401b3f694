"""Owns loading for training: orders of samples, a dataset and a loader for torch.

    samplers  orders as arrays of positions; NumPy alone
    images    batches of one shape from any reader; NumPy alone
    dataset   FastDataset, which needs torch
    loader    torch's DataLoader with settings that fit together, and as source text

Names are imported when first used: those that need torch load it then.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastdata_cli.loading.dataset import EncodedImages, FastDataset
    from fastdata_cli.loading.loader import LoaderOptions, loader_line, make_loader
    from fastdata_cli.loading.samplers import (
        BatchSampler,
        BlockShuffleSampler,
        RandomSampler,
        SequentialSampler,
    )

_HOMES = {
    "BatchSampler": "samplers",
    "BlockShuffleSampler": "samplers",
    "EncodedImages": "dataset",
    "FastDataset": "dataset",
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
