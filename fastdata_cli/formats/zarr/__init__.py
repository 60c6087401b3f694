"""Zarr: chunks of pixels in the files of an open specification, one shard or chunk a file.

out.zarr/                      a group of Zarr 3 (or 2), with two attributes:
    class_names                names of label 0, 1, …
    fastdata                   the manifest
out.zarr/images                pixels: (N, H, W, C); chunks of whole samples, shards of whole chunks
out.zarr/data                  encoded: 1-D uint8, the images of each part one after another; each
                               part begins on a chunk boundary, and zeros lie between
out.zarr/begin, length         encoded: int64 (N,), where each image begins in data, and its bytes
out.zarr/labels                int64 (N,), -1 without a label; class_names as attribute
out.zarr/keys                  strings (N,), the text form of each key
out.zarr/checksums             uint64 (N,), xxh3-64 of each image
out.zarr/metadata              strings (N,), one JSON object each or empty; only where there is any

Pixels are compressed by Blosc in blocks of one sample, so that one sample can be decoded alone out
of a chunk of any size; every chunk is written, also of zeros, and the last one is padded with them.
Without --chunk and --shard-samples, Zarr 3 gets chunks of one sample in shards of a power of two of
samples, at most 64 MiB and 1024 samples: few files, and true random reads for everyone. Zarr 2 has
no shards and gets chunks of a power of two, at most 1 MiB and 16 samples. Encoded images lie in
chunks of 4 MiB (1 MiB with a codec).

Stores that others made are read too, and zips of either: store.py and zipped.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import cast

from fastdata_cli.contract import Capability, Format, Reader, Target, Writer
from fastdata_cli.formats.reordered import put_upright
from fastdata_cli.formats.zarr.options import ZarrReadOptions, ZarrWriteOptions
from fastdata_cli.formats.zarr.reader import ZarrReader
from fastdata_cli.formats.zarr.store import is_store
from fastdata_cli.formats.zarr.writer import ZarrWriter
from fastdata_cli.options import Options
from fastdata_cli.sample import Payload


def _open_reader(path: Path, options: Options) -> Reader:
    reader = ZarrReader(path, options)
    return put_upright(reader, reader.order)


def _open_writer(target: Target, options: Options) -> Writer:
    assert isinstance(options, ZarrWriteOptions)
    return cast(Writer, ZarrWriter(target, options))


FORMAT = Format(
    name="zarr",
    summary="chunked arrays of an open specification; compressed, and read at random",
    suffixes=(".zarr",),
    capabilities=ZarrReader.capabilities | Capability.PARALLEL_WRITE,
    payloads=(Payload.PIXELS, Payload.ENCODED),
    recognises=is_store,
    open_reader=_open_reader,
    open_writer=_open_writer,
    read_options=ZarrReadOptions,
    write_options=ZarrWriteOptions,
    requires=("zarr", "numcodecs"),
)
