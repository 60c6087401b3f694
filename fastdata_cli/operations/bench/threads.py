"""FastLoader over each dataset, measured as the DataLoader is and between its cases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from fastdata_cli.loading.dataset import FastDataset
from fastdata_cli.loading.fastloader import FastLoader
from fastdata_cli.loading.loader import LoaderOptions
from fastdata_cli.loading.orders import Order
from fastdata_cli.operations.bench.arrivals import PlainRead
from fastdata_cli.operations.bench.loaders import LoaderCase, loader_options
from fastdata_cli.operations.bench.report import LoaderRow
from fastdata_cli.operations.bench.settings import BenchOptions
from fastdata_cli.operations.bench.stream import ENDLESS, Stream
from fastdata_cli.operations.bench.subject import Subject


class FastLoaderCase(LoaderCase):
    """FastLoader over one dataset, with as many threads as it takes by itself."""

    def __init__(self, subject: Subject, options: BenchOptions, plain: PlainRead) -> None:
        super().__init__(subject, loader_options(subject, options, 0), options.cache, plain=plain)
        self.name = f"{subject.name} · FastLoader {self._options.order}"

    def row(self) -> LoaderRow:
        """Return what was measured."""
        options, size = self._options, self._subject.size
        settings = f"{options.batch_size}, order={options.order!r}"
        settings += f", size={size}" if size else ""
        return replace(super().row(), line=f"FastLoader(path, {settings})")

    def _stream_of(self) -> Stream:
        return _ThreadStream(self.dataset, self._options, epochs=1 if self._cold else ENDLESS)


class _ThreadStream(Stream):
    """One iteration of a FastLoader."""

    _ahead = 0

    def _iterate(self) -> Any:
        loader = _fast_loader(self._dataset, self._options, self._epochs)
        self._ahead = loader.prefetch
        return iter(loader)

    def is_filled(self, taken: int) -> bool:
        """Return whether what is taken next was made while it was waited for."""
        return taken > self._ahead or (taken > 0 and self.is_slow)

    def stop(self) -> None:
        """End the threads."""
        batches = self._batches
        super().stop()
        if batches is not None:
            batches.close()


def _fast_loader(dataset: FastDataset, options: LoaderOptions, epochs: int) -> FastLoader:
    return FastLoader(
        dataset,
        options.batch_size,
        order=cast(Order, options.order),
        epochs=epochs,
        pin_memory=options.pin_memory,
        on_bad="skip",
    )
