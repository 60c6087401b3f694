"""TensorStore reading the Zarr stores that we write, a batch of futures at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks.data import Data, files_of
from benchmarks.loops import threaded
from benchmarks.ours import Place, pixels
from benchmarks.row import MakeReady, Ready, Side
from fastdata_cli.loading.samplers import Positions
from fastdata_cli.registry import open_reader


def _reads(place: Place) -> MakeReady:
    def ready(data: Data) -> Ready:
        import tensorstore

        path = place(data)
        limits = {"data_copy_concurrency": {"limit": data.threads}}
        array = tensorstore.open(
            {
                "driver": "zarr3",
                "kvstore": {"driver": "file", "path": str(path / "images")},
                "context": limits,
            },
            read=True,
        ).result()

        def fill(batch: Positions, out: NDArray[np.uint8]) -> None:
            waiting = [array[int(index)].read() for index in batch]
            for place, future in enumerate(waiting):
                out[place] = future.result()

        files = files_of(open_reader(path))
        return Ready(run=threaded(len(open_reader(path)), 1, fill), files=files)

    return ready


PIXELS = Side(
    name="tensorstore",
    what="TensorStore, Zarr uncompressed, chunk 1",
    ready=_reads(pixels("zarr", "--chunk", "1", "--codec", "none")),
    peer="tensorstore",
)
PACKED = Side(
    name="tensorstore-lz4",
    what="TensorStore, Zarr lz4, chunk 1",
    ready=_reads(pixels("zarr", "--chunk", "1", "--codec", "lz4")),
    peer="tensorstore",
)
