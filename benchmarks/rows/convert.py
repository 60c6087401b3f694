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
    "GNU tar returns when its output is in the page cache, fastdata when it is on the disk: "
    "the line with fsync shows what that costs here."
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
        )
        for name in SUFFIXES
    ),
)
