"""Lance: encoded images in a column, taken a batch at a time, decoded by plain threads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.data import SIDE, Data, files_below
from benchmarks.loops import threaded
from benchmarks.row import Ready, Side
from fastdata_cli.imaging.resize import opencv
from fastdata_cli.loading.samplers import Positions


def _ready(data: Data) -> Ready:
    import lance
    import pyarrow

    cv2 = opencv()
    few = data.few
    path = Path(few.work) / "photos.lance"
    if not path.exists():
        partial = path.with_suffix(".partial")
        images = pyarrow.array([file.read_bytes() for file in files_below(few.photos)])
        lance.write_dataset(pyarrow.table({"image": images}), str(partial), mode="overwrite")
        partial.rename(path)
    dataset = lance.dataset(str(path))

    def fill(batch: Positions, out: NDArray[np.uint8]) -> None:
        column = dataset.take(batch, columns=["image"])["image"]
        for place, value in enumerate(column):
            content = np.frombuffer(value.as_buffer(), np.uint8)
            pixels = cv2.imdecode(content, cv2.IMREAD_COLOR)
            cv2.resize(pixels, (SIDE, SIDE), dst=out[place], interpolation=cv2.INTER_LINEAR)

    run = threaded(dataset.count_rows(), data.threads, fill)
    return Ready(run=run, files=files_below(path))


ENCODED = Side(name="lance", what="Lance take, cv2 in plain threads", ready=_ready, peer="lance")
