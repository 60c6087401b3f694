"""Owns the references: loops without any library of containers, at the limit of the machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.conversions import writing
from benchmarks.data import BATCH, SIDE, Data, files_below
from benchmarks.loops import DECODED_AT_ONCE, buffer, drained, epochs_for, first, orders, threaded
from benchmarks.row import Ready, Side
from fastdata_cli.errors import MissingDependencyError
from fastdata_cli.imaging.resize import crop_box, opencv
from fastdata_cli.loading.samplers import Positions
from fastdata_cli.timing.measure import Work

# As in OpenCV, which is imported when a side is made ready.
_LINEAR, _AREA = 1, 3

# Images that are compressed for a codec: far more than a processor caches, and soon done.
_COMPRESSED = 2000


def _decode(data: Data, *, cut: bool, interpolation: int) -> Ready:
    cv2 = opencv()
    files = files_below(data.photos)
    paths = [str(path) for path in files]

    def fill(batch: Positions, out: NDArray[np.uint8]) -> None:
        for place, index in enumerate(batch):
            with open(paths[index], "rb") as file:
                content = np.frombuffer(file.read(), np.uint8)
            pixels = cv2.imdecode(content, cv2.IMREAD_COLOR)
            if cut:
                top, left, height, width = crop_box(pixels.shape[:2], (SIDE, SIDE))
                pixels = pixels[top : top + height, left : left + width]
            cv2.resize(pixels, (SIDE, SIDE), dst=out[place], interpolation=interpolation)

    run = threaded(len(paths), data.threads, fill, batch=DECODED_AT_ONCE)
    return Ready(run=run, files=files)


DECODE = Side(
    name="decode",
    what="plain threads: read the file, cv2.imdecode, cv2.resize (linear) into the batch",
    ready=lambda data: _decode(data.few, cut=False, interpolation=_LINEAR),
)
DECODE_LARGE = Side(
    name="decode-large",
    what=DECODE.what,
    ready=lambda data: _decode(data.of_large, cut=False, interpolation=_LINEAR),
)
DECODE_AREA = Side(
    name="decode-area",
    what="plain threads: read the file, cv2.imdecode, cv2.resize (area) of the middle; no writing",
    ready=lambda data: _decode(data.few, cut=True, interpolation=_AREA),
)


def _memmap(data: Data) -> Ready:
    file = data.pixels("raw") / "data.raw"
    pixels = np.memmap(file, np.uint8, "r").reshape(-1, SIDE, SIDE, 3)
    fill = partial(_take, pixels)
    epochs = epochs_for(len(pixels))
    return Ready(run=threaded(len(pixels), data.threads, fill, epochs=epochs), files=[file])


def _take(pixels: NDArray[np.uint8], batch: Positions, out: NDArray[np.uint8]) -> None:
    np.take(pixels, batch, axis=0, out=out, mode="clip")


MEMMAP = Side(
    name="memmap",
    what='plain threads: np.take(memmap, out=, mode="clip") over the raw file',
    ready=_memmap,
)


def _ram(data: Data) -> Ready:
    file = data.pixels("raw") / "data.raw"
    pixels = np.fromfile(file, np.uint8).reshape(-1, SIDE, SIDE, 3)
    epochs = epochs_for(len(pixels))
    batches, out = orders(len(pixels), epochs=epochs), buffer()

    def run() -> Work:
        for batch in batches:
            _take(pixels, batch, out[: len(batch)])
        return Work(samples=epochs * len(pixels), bytes=epochs * pixels.nbytes)

    return Ready(run=run)


RAM = Side(name="ram", what='one thread: np.take(array, out=, mode="clip") from memory', ready=_ram)


def _codec(make: Callable[[], Any], data: Data) -> Ready:
    codec = make()
    file = data.pixels("raw") / "data.raw"
    pixels = np.memmap(file, np.uint8, "r").reshape(-1, SIDE, SIDE, 3)[:_COMPRESSED]
    stored = [np.frombuffer(codec.encode(image), np.uint8) for image in pixels]

    def fill(batch: Positions, out: NDArray[np.uint8]) -> None:
        for place, index in enumerate(batch):
            codec.decode(stored[index], out=out[place])

    epochs = epochs_for(len(stored))
    return Ready(run=threaded(len(stored), data.threads, fill, epochs=epochs))


def _blosc(cname: str, level: int) -> Any:
    from numcodecs import Blosc, blosc

    blosc.use_threads = False
    return Blosc(cname, clevel=level, shuffle=Blosc.NOSHUFFLE)


def _lz4() -> Any:
    from numcodecs import LZ4

    return LZ4()


def _zstd(level: int) -> Any:
    from numcodecs import Zstd

    return Zstd(level)


def codec_side(name: str, what: str, make: Callable[[], Any]) -> Side:
    """Return the codec alone: every image compressed in memory, decoded into its place."""
    return Side(
        name=name,
        what=f"plain threads: {what} alone, from memory into the batch",
        ready=partial(_codec, make),
    )


# Levels are those that our formats write with unless told otherwise.
BLOSC_LZ4 = codec_side("blosc-lz4", "Blosc lz4", partial(_blosc, "lz4", 9))
BLOSC_ZSTD = codec_side("blosc-zstd", "Blosc zstd", partial(_blosc, "zstd", 3))
LZ4 = codec_side("lz4", "LZ4", _lz4)
ZSTD = codec_side("zstd", "Zstandard", partial(_zstd, 3))


def _memmap_torch(data: Data) -> Ready:
    import torch
    from torch.utils.data import DataLoader, Dataset

    file = data.pixels("raw") / "data.raw"

    class Memmap(Dataset[Any]):
        def __init__(self) -> None:
            self.pixels = np.memmap(file, np.uint8, "r").reshape(-1, SIDE, SIDE, 3)

        def __len__(self) -> int:
            return len(self.pixels)

        def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
            return torch.from_numpy(np.array(self.pixels[index])), 0

    loader = DataLoader(Memmap(), BATCH, shuffle=True, num_workers=2, persistent_workers=True)
    return Ready(run=drained(lambda: loader, first), files=[file])


MEMMAP_TORCH = Side(
    name="memmap-torch",
    what="a memmap dataset through the same DataLoader, sample by sample",
    ready=_memmap_torch,
)


def _tar(data: Data, *, synced: bool) -> Ready:
    target = data.scratch(f"gnu{'-synced' if synced else ''}.tar")

    def run() -> None:
        command = ["tar", "-cf", str(target), "-C", data.photos, "."]
        subprocess.run(command, check=True)
        if synced:
            with open(target, "rb") as file:
                os.fsync(file.fileno())

    if shutil.which("tar") is None:
        raise MissingDependencyError("GNU tar is not installed", hint="apt-get install tar")
    return writing(data, target, run)


TAR = Side(name="tar", what="GNU tar -cf", ready=partial(_tar, synced=False))
TAR_SYNCED = Side(
    name="tar-synced",
    what="GNU tar -cf, then fsync: as safe as what fastdata publishes",
    ready=partial(_tar, synced=True),
)
