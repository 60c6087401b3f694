"""HDF5: one file with chunked, resizable datasets that any HDF5 library reads.

out.h5
    images       pixels: N×H×W×C of the schema's dtype
    data         encoded: 1-D uint8; each part of the run begins on a chunk border, zeros between
    begin        int64[N], encoded only: where each image begins in data
    length       int64[N], encoded only: its bytes
    labels       int64[N], -1 without a label; its attribute ``class_names`` names label 0, 1, …
    keys         N strings: the keys in their text form
    checksums    uint64[N], xxh3-64 of each image
    metadata     N strings, one JSON object or nothing each; only where samples carry metadata
    fastdata     one string: the manifest as JSON

All but ``fastdata`` can grow along their first axis. Strings are UTF-8: of fixed length and
gzip-compressed up to 1024 bytes, else of variable length; ``asstr()`` of h5py reads both. Columns
beside the images carry HDF5's own checksum (fletcher32), except strings of variable length.

Attributes beyond 64 KiB (some thousand class names) and the index of the chunks are as HDF5 1.10
introduced them; older libraries cannot open the file. No times are stored, and every part is a
session of its own, so equal runs write equal bytes, interrupted or not.

Files that others made are read when they have one array of images (layout.py), or when each image
is a dataset of its own (pieces.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import cast

from fastdata_cli.contract import Format, Reader, Target, Writer
from fastdata_cli.errors import NotADatasetError
from fastdata_cli.formats.axes import AxisOrder
from fastdata_cli.formats.hdf5.filters import Hdf5WriteOptions
from fastdata_cli.formats.hdf5.open import is_hdf5
from fastdata_cli.formats.hdf5.reader import Hdf5Reader, Hdf5ReadOptions
from fastdata_cli.formats.hdf5.single import open_pieces
from fastdata_cli.formats.hdf5.writer import Hdf5Writer
from fastdata_cli.formats.reordered import put_upright
from fastdata_cli.options import Options
from fastdata_cli.sample import Payload


def _open_reader(path: Path, options: Options) -> Reader:
    chosen = cast(Hdf5ReadOptions, options)
    try:
        reader = Hdf5Reader(path, chosen)
    except NotADatasetError:
        if chosen.array is not None:
            raise
        order = AxisOrder.parse(chosen.layout) if chosen.layout else None
        pieces = open_pieces(path, chosen, order)
        if pieces is None:
            raise
        return put_upright(pieces, pieces.order)
    return put_upright(reader, reader.order)


def _open_writer(target: Target, options: Options) -> Writer:
    return cast(Writer, Hdf5Writer(target, cast(Hdf5WriteOptions, options)))


FORMAT = Format(
    name="hdf5",
    summary="one file that every scientific tool opens; quick random reads",
    suffixes=(".h5", ".hdf5"),
    capabilities=Hdf5Reader.capabilities,
    payloads=(Payload.PIXELS, Payload.ENCODED),
    recognises=is_hdf5,
    open_reader=_open_reader,
    open_writer=_open_writer,
    read_options=Hdf5ReadOptions,
    write_options=Hdf5WriteOptions,
    requires=("h5py",),
)
