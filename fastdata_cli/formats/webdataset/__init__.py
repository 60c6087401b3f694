"""WebDataset: plain tars that the webdataset library, tar and we read, with an index inside.

A dataset is one tar, or a set of shards: ``train-%06d.tar`` stands for ``train-000000.tar``,
``train-000001.tar``, … and the index ``train-%06d.tar.fastdata.json`` beside them.

Members of a sample, in this order
    STEM.EXT       the image: jpg, png, webp … by its content; pixels are an ``npy`` with the array
    STEM.cls       the label in decimal; only with a label
    STEM.json      {"key": …, "class_name": …, metadata …}; sample.py has the rules

    STEM is the key without its suffix, with ``%XX`` for what readers of tars would split, skip or
    refuse: dots in the last part, ``..``, a leading ``/``, a top folder ``__x__``. Of two keys with
    one stem the later keeps its suffix: ``a.jpg, a.png`` are ``a.jpg, a%2Epng.png``. The key itself
    is in the JSON and in the index: nothing needs to be decoded.

    Headers are USTAR where the name fits, with a PAX header before it where not; mtime, uid and gid
    are 0, the mode is 0644. Every content begins at a multiple of 512 bytes; the header of all
    ``npy`` of a dataset has one length, a multiple of 64, so that pixels can be mapped.

After the samples of every tar, in a folder that the webdataset library skips
    __fastdata__/labels.npy            int64[N], -1 without a label
    __fastdata__/keys.npy              uint8: the text forms of the keys, end to end
    __fastdata__/key_offsets.npy       int64[N + 1] into it
    __fastdata__/checksums.npy         uint64[N], xxh3-64 of each image
    __fastdata__/begins.npy            int64[N], the byte of this file at which the image begins;
                                       that of its first pixel, for pixels
    __fastdata__/lengths.npy           int64[N], its bytes
    __fastdata__/metadata.npy          uint8: JSON objects, end to end; only where any sample has
    __fastdata__/metadata_offsets.npy  int64[N + 1] into it
    __fastdata__/manifest.json         the manifest of this shard as a dataset of its own; its
                                       layout has [begin, bytes, xxh3-64] of every column above
    __fastdata__/footer.json           512 bytes: {"fastdata_footer": 1, "file_bytes": …,
                                       "manifest": [begin, bytes, xxh3-64]}, blanks, a newline
    two blocks of zeros                and the file ends: its last 2048 bytes are the footer's
                                       header, the footer and these

The index of a set is JSON: {"fastdata_shards": 1, "shards": [{"name", "samples", "bytes", "footer"
(xxh3-64 of the shard's footer)}, …], "manifest": of the whole}. Shards are published first and the
index last. Replacing a set removes its index, then its shards, and puts the new ones in place; a
set without an index whose staging place is there is incomplete and refused, and the same command
finishes it. Shards are cut between samples, never empty, and each can be read alone. What is added
to a set later makes shards of its own: the manifests of those that were there keep the class names
and the number of shards of their time, and the index has those of now.

Tars that others made are read too: foreign.py has the rules.
"""

from __future__ import annotations

from pathlib import Path
from typing import cast

from fastdata_cli.contract import Capability, Format, Reader, Target, Writer
from fastdata_cli.formats.axes import order_of_pictures
from fastdata_cli.formats.reordered import put_upright
from fastdata_cli.formats.sharded.find import recognises
from fastdata_cli.formats.sharded.writer import ShardWriteOptions
from fastdata_cli.formats.webdataset.reader import WebDatasetReader, WebDatasetReadOptions
from fastdata_cli.formats.webdataset.shards import TARS
from fastdata_cli.formats.webdataset.writer import WebDatasetWriter
from fastdata_cli.options import Options
from fastdata_cli.sample import Payload

NAME = "webdataset"


def _recognises(path: Path) -> bool:
    return recognises(path, TARS)


def _open_reader(path: Path, options: Options) -> Reader:
    chosen = cast(WebDatasetReadOptions, options)
    reader = WebDatasetReader(path, chosen)
    if reader.manifest is not None or reader.schema.image_shape is None:
        return reader
    order, remarks = order_of_pictures(reader.schema.image_shape, chosen.layout, str(path))
    return put_upright(reader, order, remarks)


def _open_writer(target: Target, options: Options) -> Writer:
    return cast(Writer, WebDatasetWriter(target, cast(ShardWriteOptions, options)))


FORMAT = Format(
    name=NAME,
    summary="tars for streaming, one or many; read by the webdataset library and by tar",
    suffixes=(".tar",),
    capabilities=WebDatasetReader.capabilities | Capability.APPEND,
    payloads=(Payload.ENCODED, Payload.PIXELS),
    recognises=_recognises,
    open_reader=_open_reader,
    open_writer=_open_writer,
    read_options=WebDatasetReadOptions,
    write_options=ShardWriteOptions,
)
