"""Grain over ArrayRecord: encoded images, decoded by its threads."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import BATCH, SIDE, Data, files_below
from benchmarks.loops import drained
from benchmarks.row import Ready, Side
from fastdata_cli.imaging.resize import opencv


def _written(data: Data) -> Path:
    from array_record.python.array_record_module import ArrayRecordWriter

    path = Path(data.work) / "photos.array_record"
    if not path.exists():
        partial = path.with_suffix(".partial")
        writer = ArrayRecordWriter(str(partial), "group_size:1,uncompressed")
        for file in files_below(data.photos):
            writer.write(file.read_bytes())
        writer.close()
        partial.rename(path)
    return path


def _ready(data: Data) -> Ready:
    import grain.python as grain

    cv2 = opencv()
    path = _written(data.few)
    seeds = itertools.count()

    def decoded(content: bytes) -> Any:
        image = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR)
        return cv2.resize(image, (SIDE, SIDE), interpolation=cv2.INTER_LINEAR)

    def epoch() -> Any:
        samples = grain.MapDataset.source(grain.ArrayRecordDataSource(str(path)))
        images = samples.shuffle(seed=next(seeds)).map(decoded)
        reads = grain.ReadOptions(num_threads=data.threads, prefetch_buffer_size=4 * BATCH)
        return images.to_iter_dataset(reads).batch(BATCH, drop_remainder=False)

    return Ready(run=drained(epoch, lambda images: images), files=[path])


ENCODED = Side(name="grain", what="Grain threads over ArrayRecord, cv2", ready=_ready, peer="grain")
