"""Convert, inspect, benchmark and clean image training sets, over one registry of formats.

The public API; each name is imported when first used, so ``import fastdata_cli`` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from fastdata_cli._version import __version__

if TYPE_CHECKING:
    from fastdata_cli.errors import FastdataError
    from fastdata_cli.loading import BlockShuffleSampler, FastDataset, FastLoader
    from fastdata_cli.registry import open_reader
    from fastdata_cli.sample import Batch, Payload, Sample, Schema

_HOMES = {
    "Batch": "fastdata_cli.sample",
    "BlockShuffleSampler": "fastdata_cli.loading",
    "FastDataset": "fastdata_cli.loading",
    "FastLoader": "fastdata_cli.loading",
    "FastdataError": "fastdata_cli.errors",
    "Payload": "fastdata_cli.sample",
    "Sample": "fastdata_cli.sample",
    "Schema": "fastdata_cli.sample",
    "open_reader": "fastdata_cli.registry",
}

__all__ = [
    "Batch",
    "BlockShuffleSampler",
    "FastDataset",
    "FastLoader",
    "FastdataError",
    "Payload",
    "Sample",
    "Schema",
    "__version__",
    "open_reader",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
