"""What is converted into what: every writable format with both payloads, sharded and not."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

_SIDE = 256
_BAD_EVERY, _FLAT_EVERY, _TWIN_EVERY = 101, 11, 13


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One destination with its flags."""

    name: str
    destination: str
    flags: tuple[str, ...] = ()
    same_bytes: bool = True
    """Two runs give the same files; else the same samples."""

    @property
    def is_pattern(self) -> bool:
        """Whether the destination stands for a set of shards."""
        return "%" in self.destination


def _both(
    name: str, destination: str, *flags: str, same_bytes: bool = True, size: int = 128
) -> list[Subject]:
    """Return the subjects of both payloads; pixels are shrunk, to be made of something."""
    payloads = {
        "pixels": ("--payload", "pixels", "--size", str(size)),
        "encoded": ("--payload", "encoded"),
    }
    return [
        Subject(
            name=f"{name}, {payload}",
            destination=destination,
            flags=(*flags, *more),
            same_bytes=same_bytes,
        )
        for payload, more in payloads.items()
    ]


def _subjects() -> Sequence[Subject]:
    zarr_shards = Subject(
        name="zarr in shards, pixels", destination="out.zarr", flags=("--shard-samples", "24")
    )
    clean = "variance-min=10,near-duplicates=2"
    return (
        *_both("raw", "out.raw", size=192),
        *_both("zarr", "out.zarr"),
        zarr_shards,
        *_both("hdf5", "out.h5", same_bytes=False),
        *_both("lmdb", "out.lmdb", same_bytes=False),
        *_both("webdataset", "out.tar"),
        *_both("webdataset shards", "part-%06d.tar", "--shard-samples", "60"),
        *_both("tree", "out", "--to", "tree", same_bytes=False),
        *_both("tfrecord", "out.tfrecord"),
        *_both("tfrecord shards", "part-%05d.tfrecord", "--shard-samples", "60"),
        Subject(name="raw, cleaned", destination="out.raw", flags=("--clean", clean)),
        Subject(
            name="lmdb, cleaned",
            destination="out.lmdb",
            flags=("--clean", clean),
            same_bytes=False,
        ),
    )


SUBJECTS = _subjects()


def make_source(root: Path, count: int, seed: int = 0) -> Path:
    """Write ``count`` JPEGs of 256×256 into five classes: noise, so that few make many bytes.

    A few are empty files, a few flat, a few copies of the one before: what a run leaves out, and
    its list, are a part of what a crash may damage.
    """
    rng = np.random.default_rng(seed)
    before: Path | None = None
    for index in range(count):
        path = root / f"class{index % 5}" / f"{index:05d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        if index % _BAD_EVERY == _BAD_EVERY // 2:
            path.write_bytes(b"")
        elif index % _TWIN_EVERY == _TWIN_EVERY - 1 and before is not None:
            shutil.copy(before, path)
        else:
            path.write_bytes(_jpeg(rng, flat=index % _FLAT_EVERY == 3))
            before = path
    return root


def _jpeg(rng: np.random.Generator, *, flat: bool) -> bytes:
    shape = (_SIDE, _SIDE, 3)
    pixels = np.full(shape, rng.integers(256), np.uint8) if flat else rng.integers(0, 256, shape)
    return bytes(cv2.imencode(".jpg", pixels.astype(np.uint8), [cv2.IMWRITE_JPEG_QUALITY, 98])[1])
