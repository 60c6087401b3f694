"""Owns our sides that read: FastLoader, torch's DataLoader over our dataset, bare reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.data import BATCH, SIDE, Data, files_of
from benchmarks.loops import drained, epochs_for, first, threaded
from benchmarks.row import MakeReady, Ready
from fastdata_cli.loading.samplers import Positions
from fastdata_cli.sample import Payload

Place = Callable[[Data], Path]
"""Returns the dataset that a side reads, making it if it is not there."""


def encoded(name: str, *flags: str) -> Place:
    """Return the place of the photographs' bytes in a format; few, for they will be decoded."""
    return lambda data: data.few.encoded(name, *flags)


def pixels(name: str, *flags: str) -> Place:
    """Return the place of 224×224 pixels in a format."""
    return lambda data: data.pixels(name, *flags)


def fast_loader(place: Place, **arguments: Any) -> MakeReady:
    """Return a side that iterates over a FastLoader in random order.

    A run is an epoch; of stored pixels several, as of their references.
    """

    def ready(data: Data) -> Ready:
        from fastdata_cli.loading import FastLoader
        from fastdata_cli.registry import open_reader

        reader = open_reader(place(data))
        quick = reader.schema.payload is Payload.PIXELS
        epochs = epochs_for(len(reader)) if quick else 1
        loader = FastLoader(reader, batch_size=BATCH, epochs=epochs, **arguments)
        return Ready(run=drained(lambda: loader, first), files=files_of(reader))

    return ready


def decoding_loader(place: Place) -> MakeReady:
    """Return a FastLoader that decodes, with the plain linear resize of the reference."""
    return fast_loader(place, size=SIDE, fit="stretch", interpolation="linear")


def bare_reads(place: Place, *, block: int = 1) -> MakeReady:
    """Return a side of plain threads that call ``read_many`` into a buffer of their own."""

    def ready(data: Data) -> Ready:
        from fastdata_cli.registry import open_reader

        reader = open_reader(place(data))

        def fill(batch: Positions, out: NDArray[np.uint8]) -> None:
            reader.read_many(batch, out)

        count = len(reader)
        run = threaded(count, data.threads, fill, epochs=epochs_for(count), block=block)
        return Ready(run=run, files=files_of(reader))

    return ready


def torch_loader(place: Place, *, order: str = "random", **arguments: Any) -> MakeReady:
    """Return a side that iterates over torch's DataLoader with 2 workers, an epoch a run."""

    def ready(data: Data) -> Ready:
        from fastdata_cli.loading import FastDataset, LoaderOptions, make_loader

        dataset = FastDataset(place(data), **arguments)
        options = LoaderOptions(batch_size=BATCH, order=order, workers=2, persistent_workers=True)
        loader = make_loader(dataset, options)
        return Ready(run=drained(lambda: loader, first), files=files_of(dataset.reader))

    return ready


def decoding_torch_loader(place: Place) -> MakeReady:
    """Return torch's DataLoader that decodes, with the plain linear resize of the reference."""
    return torch_loader(place, size=SIDE, fit="stretch", interpolation="linear")
