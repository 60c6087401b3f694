"""Owns stores as others write them, where a layout of our own would be no test."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from benchmarks.data import SIDE, Data

CHUNK = 1000


def zarr_python_store(data: Data) -> Path:
    """Return the pixels as zarr-python writes them: Blosc lz4, chunks of 1000, its block sizes.

    Blosc then takes blocks of its own choice, which do not begin where a sample does.
    """
    import zarr
    from zarr.codecs import BloscCodec

    path = Path(data.work) / "zarr-python-chunk-1000.zarr"
    if path.exists():
        return path
    pixels = np.memmap(data.pixels("raw") / "data.raw", np.uint8, "r").reshape(-1, SIDE, SIDE, 3)
    partial = path.with_name(f".{path.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    group = zarr.open_group(str(partial), mode="w")
    array = group.create_array(
        "images",
        shape=pixels.shape,
        chunks=(min(CHUNK, len(pixels)), *pixels.shape[1:]),
        dtype="uint8",
        compressors=BloscCodec(cname="lz4", clevel=5, shuffle="noshuffle"),
    )
    for begin in range(0, len(pixels), CHUNK):
        array[begin : begin + CHUNK] = pixels[begin : begin + CHUNK]
    partial.rename(path)
    return path
