"""FastLoader over a dataset, measured as the DataLoader is and between its cases."""

from __future__ import annotations

from typing import Any, cast

from fastdata_cli.loading.dataset import FastDataset
from fastdata_cli.loading.fastloader import FastLoader
from fastdata_cli.loading.loader import LoaderOptions
from fastdata_cli.loading.orders import Order
from fastdata_cli.operations.bench.loader_case import LoaderCase
from fastdata_cli.operations.bench.paste import fast_loader_line
from fastdata_cli.operations.bench.stream import ENDLESS, Stream


class FastLoaderCase(LoaderCase):
    """FastLoader over one dataset, with as many threads as it takes by itself."""

    loader = "FastLoader"

    def _line(self) -> str:
        return fast_loader_line(self._subject, self._options)

    def _stream_of(self) -> Stream:
        return _ThreadStream(self.dataset, self._options, epochs=1 if self._cold else ENDLESS)


class _ThreadStream(Stream):
    """One iteration of a FastLoader."""

    _ahead = 0

    @property
    def ahead(self) -> int:
        """Batches that may lie ready before they are asked for."""
        return self._ahead

    def _iterate(self) -> Any:
        loader = _fast_loader(self._dataset, self._options, self._epochs)
        self._ahead = loader.prefetch
        return iter(loader)

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
