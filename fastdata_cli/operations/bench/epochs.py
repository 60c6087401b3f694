"""Whole epochs of a DataLoader, each begun anew as training does. Needs torch, so it comes late.

A stream over many epochs (stream.py) never starts its workers again; only here does it show what
that costs, and what ``persistent_workers`` spares.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

from fastdata_cli.loading.loader import LoaderOptions, make_loader
from fastdata_cli.operations.bench.report import case_name
from fastdata_cli.operations.bench.stream import SkippingDataset, look_at, size_of, words_of
from fastdata_cli.operations.bench.subject import Subject
from fastdata_cli.timing.measure import Work
from fastdata_cli.timing.measurement import Measurement


class EpochCase:
    """Epoch after epoch over one dataset, by one DataLoader.

    Args:
        subject: the dataset.
        options: of the loader.
        label: tells it from others in its name.
    """

    def __init__(self, subject: Subject, options: LoaderOptions, label: str) -> None:
        self.name = case_name(subject.name, "whole epochs", label)
        self._subject = subject
        self._options = options
        self._dataset = SkippingDataset(subject.reader, size=subject.size, with_index=True)
        self._loader: Any = None

    def prepare(self) -> None:
        """Make the loader, the first time, and load one epoch: workers that are kept start here."""
        self._subject.check_unchanged()
        if self._loader is None:
            self._loader = make_loader(self._dataset, self._options)
            self.run()

    def run(self) -> Work:
        """Load an epoch, from starting the workers, if they are not kept, to its last batch."""
        samples = size = 0
        waits: list[float] = []
        with words_of(self._dataset), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # more workers than cores: asked for
            begin = time.perf_counter()
            for batch in self._loader:
                look_at(batch)
                waits.append(time.perf_counter() - begin)
                count, length = size_of(batch)
                samples, size = samples + count, size + length
                begin = time.perf_counter()
        return Work(samples=samples, bytes=size, latencies_s=np.array(waits))

    def settle(self, so_far: Measurement) -> None:
        """End a repeat: the workers that are to be kept go on."""

    def stop(self) -> None:
        """End the workers."""
        self._loader = None
