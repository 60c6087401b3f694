"""Convert, inspect, benchmark and clean image training sets, over one registry of formats.

The public API; each name is imported when first used, so ``import fastdata_cli`` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from fastdata_cli._version import __version__

if TYPE_CHECKING:
    from fastdata_cli.errors import FastdataError
    from fastdata_cli.imaging import ImagePolicy
    from fastdata_cli.loading import (
        BatchSampler,
        BlockShuffleSampler,
        EncodedImages,
        FastDataset,
        FastLoader,
        LoaderOptions,
        RandomSampler,
        SequentialSampler,
        make_loader,
    )
    from fastdata_cli.registry import open_reader
    from fastdata_cli.sample import Batch, Payload, Sample, Schema

_HOMES = {
    "Batch": "fastdata_cli.sample",
    "BatchSampler": "fastdata_cli.loading",
    "BlockShuffleSampler": "fastdata_cli.loading",
    "EncodedImages": "fastdata_cli.loading",
    "FastDataset": "fastdata_cli.loading",
    "FastLoader": "fastdata_cli.loading",
    "FastdataError": "fastdata_cli.errors",
    "ImagePolicy": "fastdata_cli.imaging",
    "LoaderOptions": "fastdata_cli.loading",
    "Payload": "fastdata_cli.sample",
    "RandomSampler": "fastdata_cli.loading",
    "Sample": "fastdata_cli.sample",
    "Schema": "fastdata_cli.sample",
    "SequentialSampler": "fastdata_cli.loading",
    "make_loader": "fastdata_cli.loading",
    "open_reader": "fastdata_cli.registry",
}

__all__ = [
    "Batch",
    "BatchSampler",
    "BlockShuffleSampler",
    "EncodedImages",
    "FastDataset",
    "FastLoader",
    "FastdataError",
    "ImagePolicy",
    "LoaderOptions",
    "Payload",
    "RandomSampler",
    "Sample",
    "Schema",
    "SequentialSampler",
    "__version__",
    "make_loader",
    "open_reader",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
