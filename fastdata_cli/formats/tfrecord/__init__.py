"""TFRecord: files of ``tf.train.Example``, as TensorFlow's readers expect images in them.

A dataset is one file, or a set of shards: ``train-%05d.tfrecord`` stands for
``train-00000.tfrecord``, ``train-00001.tfrecord``, … and the index
``train-%05d.tfrecord.fastdata.json`` beside them. ``framing.py`` has the frame of a record.

Features of a sample
    image/encoded         the bytes of the image file; pixels: H×W×C in C order, little-endian
    image/format          jpeg, png, webp … by the image's content; ``raw`` for pixels
    image/filename        the key, in its text form
    image/class/label     the label; only with one
    image/class/text      the name of its class; only where it has one
    image/height, image/width, image/channels, image/dtype    of pixels only
    fastdata/index        position of the sample in the dataset, through all shards
    fastdata/metadata     a JSON object; only where the sample has one

More features of the last sample of each file: its index (``index.py`` says why there)
    fastdata/labels.npy            int64[N], -1 without a label
    fastdata/keys.npy              uint8: the text forms of the keys, end to end
    fastdata/key_offsets.npy       int64[N + 1] into it
    fastdata/checksums.npy         uint64[N], xxh3-64 of each image
    fastdata/begins.npy            int64[N], the byte of this file at which the image begins
    fastdata/lengths.npy           int64[N], its bytes
    fastdata/metadata.npy          uint8: JSON objects, end to end; only where any sample has
    fastdata/metadata_offsets.npy  int64[N + 1] into it
    fastdata/manifest.json         the manifest of this file as a dataset of its own; its layout
                                   has [begin, bytes, xxh3-64] of every column above
    fastdata/footer.json           512 bytes, at the end of the file but for the record's checksum

Files that others made are read too: foreign.py has the rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

from fastdata_cli.contract import Format, Reader, Target, Writer
from fastdata_cli.formats.limits import require_fit
from fastdata_cli.formats.sharded.find import recognises
from fastdata_cli.formats.sharded.set import ShardPattern
from fastdata_cli.formats.sharded.writer import ShardWriteOptions
from fastdata_cli.formats.tfrecord.index import require_index
from fastdata_cli.formats.tfrecord.reader import TfRecordReader, TfRecordReadOptions
from fastdata_cli.formats.tfrecord.shards import TFRECORDS
from fastdata_cli.formats.tfrecord.writer import TfRecordWriter
from fastdata_cli.options import Options
from fastdata_cli.sample import Payload

# A message is at most 2 GiB: what is left is for the key, the metadata and the names of features.
_MOST_IMAGE_BYTES = (2 << 30) - (16 << 20)


def _recognises(path: Path) -> bool:
    return recognises(path, TFRECORDS)


def _open_reader(path: Path, options: Options) -> Reader:
    return TfRecordReader(path, cast(TfRecordReadOptions, options))


def _open_writer(target: Target, options: Options) -> Writer:
    require_fit(
        1, target.manifest.schema.pixel_bytes, _MOST_IMAGE_BYTES, "a message of protobuf takes"
    )
    return cast(Writer, TfRecordWriter(target, cast(ShardWriteOptions, options)))


def _check(target: Target, options: Options, keys: Sequence[str]) -> None:
    """Refuse more samples in one file than its index can hold."""
    chosen = cast(ShardWriteOptions, options)
    if ShardPattern.parse(target.path) is not None and chosen.shard_samples is None:
        return  # files are cut by their size
    require_index(min(len(keys), chosen.shard_samples or len(keys)), keys)


FORMAT = Format(
    name="tfrecord",
    summary="records for TensorFlow and its kin, one file or many",
    suffixes=(TFRECORDS.suffix,),
    capabilities=TfRecordReader.capabilities,
    payloads=(Payload.ENCODED, Payload.PIXELS),
    recognises=_recognises,
    open_reader=_open_reader,
    open_writer=_open_writer,
    read_options=TfRecordReadOptions,
    write_options=ShardWriteOptions,
    requires=("google.protobuf",),
    install_extra="tfrecord",
    check=_check,
)
