"""LitData: encoded images in its chunks, through its StreamingDataLoader with 2 workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import BATCH, SIDE, Data, files_below
from benchmarks.loops import drained, first
from benchmarks.row import Ready, Side
from fastdata_cli.imaging.resize import opencv


def _file_bytes(path: str) -> dict[str, Any]:
    return {"image": Path(path).read_bytes(), "label": 0}


def _batch(samples: list[dict[str, Any]]) -> tuple[Any, Any]:
    import torch

    cv2 = opencv()
    images = np.empty((len(samples), SIDE, SIDE, 3), np.uint8)
    for place, sample in enumerate(samples):
        pixels = cv2.imdecode(np.frombuffer(sample["image"], np.uint8), cv2.IMREAD_COLOR)
        cv2.resize(pixels, (SIDE, SIDE), dst=images[place], interpolation=cv2.INTER_LINEAR)
    labels = torch.tensor([sample["label"] for sample in samples])
    return torch.from_numpy(images), labels


def _ready(data: Data) -> Ready:
    import litdata

    few = data.few
    folder = Path(few.work) / "litdata"
    if not (folder / "index.json").exists():
        files = [str(file) for file in files_below(few.photos)]
        litdata.optimize(_file_bytes, files, str(folder), num_workers=2, chunk_bytes="64MB")
    loader = litdata.StreamingDataLoader(
        litdata.StreamingDataset(str(folder), shuffle=True),
        batch_size=BATCH,
        num_workers=2,
        persistent_workers=True,
        collate_fn=_batch,
    )
    return Ready(run=drained(lambda: loader, first), files=files_below(folder))


ENCODED = Side(name="litdata", what="LitData, 2 workers, cv2", ready=_ready, peer="litdata")
