"""FFCV: its own container, JPEG or pixels, decoded by its own compiled loop."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.data import BATCH, SIDE, Data, files_below
from benchmarks.loops import drained, first
from benchmarks.row import Ready, Side
from fastdata_cli.imaging.resize import opencv


class _Photos:
    """Photographs as FFCV's writer wants them: decoded, RGB, with a label."""

    def __init__(self, folder: str) -> None:
        self._files = files_below(folder)

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> tuple[NDArray[np.uint8], int]:
        cv2 = opencv()
        return cv2.imread(str(self._files[index]), cv2.IMREAD_COLOR)[:, :, ::-1], 0


class _Pixels:
    """Stored pixels, with a label."""

    def __init__(self, file: Path) -> None:
        self._pixels = np.memmap(file, np.uint8, "r").reshape(-1, SIDE, SIDE, 3)

    def __len__(self) -> int:
        return len(self._pixels)

    def __getitem__(self, index: int) -> tuple[NDArray[np.uint8], int]:
        return self._pixels[index], 0


def _written(path: Path, samples: Any, **field: Any) -> Path:
    from ffcv.fields import IntField, RGBImageField
    from ffcv.writer import DatasetWriter

    if not path.exists():
        partial_path = path.with_suffix(".partial")
        fields = {"image": RGBImageField(**field), "label": IntField()}
        writer = DatasetWriter(str(partial_path), fields, num_workers=2)
        writer.from_indexed_dataset(samples)
        partial_path.rename(path)
    return path


def _loader(path: Path, decoder: Any, threads: int) -> Ready:
    from ffcv.fields.decoders import IntDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import ToTensor

    loader = Loader(
        str(path),
        batch_size=BATCH,
        num_workers=threads,
        order=OrderOption.RANDOM,
        os_cache=True,
        drop_last=False,
        pipelines={"image": [decoder, ToTensor()], "label": [IntDecoder(), ToTensor()]},
    )
    return Ready(run=drained(lambda: loader, first), files=[path])


def _jpeg(data: Data, *, name: str, **field: Any) -> Ready:
    from ffcv.fields.rgb_image import CenterCropRGBImageDecoder

    few = data.few
    path = Path(few.work) / f"ffcv-{name}.beton"
    _written(path, _Photos(few.photos), write_mode="jpg", jpeg_quality=90, **field)
    return _loader(path, CenterCropRGBImageDecoder((SIDE, SIDE), ratio=1), data.threads)


def _pixels(data: Data) -> Ready:
    from ffcv.fields.rgb_image import SimpleRGBImageDecoder

    path = Path(data.work) / "ffcv-pixels.beton"
    _written(path, _Pixels(data.pixels("raw") / "data.raw"), write_mode="raw")
    return _loader(path, SimpleRGBImageDecoder(), data.threads)


ENCODED = Side(
    name="ffcv",
    what="FFCV, JPEG mode, quality 90",
    ready=partial(_jpeg, name="full"),
    peer="ffcv",
)
SMALLER = Side(
    name="ffcv-256",
    what="FFCV, JPEG mode, at most 256 pixels, quality 90",
    ready=partial(_jpeg, name="256", max_resolution=256),
    peer="ffcv",
)
PIXELS = Side(name="ffcv-raw", what="FFCV, raw mode", ready=_pixels, peer="ffcv")
