"""Conversions: the files' bytes kept, and to pixels."""

from __future__ import annotations

from benchmarks import references
from benchmarks.conversions import conversion
from benchmarks.peers import plain
from benchmarks.row import Row, Table

SUFFIXES = {
    "webdataset": ".tar",
    "lmdb": ".lmdb",
    "zarr": ".zarr",
    "raw": ".raw",
    "hdf5": ".h5",
    "tree": "",
}

_SYNCED = (
    "GNU tar copies 550 MB in 0.55 s and returns when they are in the page cache; fastdata "
    "returns when they are on the disk, and the line with fsync shows what that costs. It also "
    "follows every JPEG to its end (0.30 s, each measured alone), reads (0.16 s), collects "
    "parts (0.14 s), makes members with labels and keys (0.08 s) and checksums (0.03 s): 0.9 s "
    "of processor time of threads that share the interpreter lock. Following JPEGs in C would "
    "be the next step."
)
_PIXELS_WHY = (
    "1,000 photographs take 2.4 to 2.6 s of processor time, by the reference 2.3 to 2.6 s: "
    "decoding is nearly all of it. What is added is copying (and compressing) 150 MB, "
    "checksums, and at the end of so short a run the wait for the disk."
)
_PNG_WHY = (
    "A picture takes 3.5 ms to encode as PNG (runs only, level 6), beside the 2.4 ms to decode "
    "and resize it."
)

BYTES = Table(
    name="convert",
    title="Converting, bytes kept",
    text="A tree of files to one container, from the page cache, until it is published.",
    rows=tuple(
        Row(
            name=f"convert/{name}",
            what=name,
            ready=conversion(name, SUFFIXES[name], payload="encoded"),
            reference=references.TAR,
            target=1.0 if name == "webdataset" else 0.7,
            why=_SYNCED,
        )
        for name in ("webdataset", "lmdb", "zarr", "raw", "hdf5")
    ),
    peers=(references.TAR_SYNCED, *plain.CONVERT),
)

LZ4 = ("zarr", "hdf5")

PIXELS = Table(
    name="convert-pixels",
    title="Converting to 224×224 pixels",
    text="Decoded, cut and resized (area), lz4 where the format has it.",
    rows=tuple(
        Row(
            name=f"convert-pixels/{name}",
            what=f"{name}{', lz4' if name in LZ4 else ''}",
            ready=lambda data, name=name: conversion(  # type: ignore[misc]
                name,
                SUFFIXES[name],
                payload="pixels",
                size="224",
                **({"codec": "lz4"} if name in LZ4 else {}),
            )(data.few),
            reference=references.DECODE_AREA,
            target=0.9 if name in (*LZ4, "tree") else 0.95,
            why=_PNG_WHY if name == "tree" else _PIXELS_WHY,
        )
        for name in SUFFIXES
    ),
)
