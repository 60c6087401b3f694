"""The arrays of a store as zarr-python makes them: metadata of all, content of the small ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.formats.zarr.compress import Blosc
from fastdata_cli.formats.zarr.layout import ZarrFormat
from fastdata_cli.formats.zarr.options import NO_CODEC, SHUFFLES, SHUFFLES_V3, Plan
from fastdata_cli.formats.zarr.store import CLASSES_ATTRIBUTE, MANIFEST_ATTRIBUTE
from fastdata_cli.key_table import KeyTable
from fastdata_cli.sample import Schema

_SIDE_CHUNK = 65_536
_SIDE_LEVEL = 3


def create_group(
    path: Path, zarr_format: ZarrFormat, manifest: Mapping[str, Any], class_names: Sequence[str]
) -> Any:
    """Create the group, with its attributes, in a folder that may hold chunks already."""
    import zarr
    from zarr.storage import LocalStore

    attributes = {CLASSES_ATTRIBUTE: list(class_names), MANIFEST_ATTRIBUTE: manifest}
    return zarr.create_group(LocalStore(path), zarr_format=zarr_format, attributes=attributes)


def create_images(
    group: Any, name: str, shape: tuple[int, ...], schema: Schema, plan: Plan, blosc: Blosc
) -> None:
    """Create the array whose chunk files are written apart."""
    rest = shape[1:]
    group.create_array(
        name,
        shape=shape,
        dtype=schema.dtype if rest else "uint8",
        chunks=(plan.chunk, *rest),
        shards=None if plan.shard is None else (plan.shard, *rest),
        compressors=None if plan.codec == NO_CODEC else _blosc_codec(blosc, plan.zarr_format),
        fill_value=0,
    )


def write_sides(
    group: Any,
    columns: Mapping[str, NDArray[Any]],
    texts: Mapping[str, KeyTable],
    class_names: Sequence[str],
) -> None:
    """Write the arrays with one value a sample, each chunk of them with a checksum of its codec."""
    for name, column in columns.items():
        attributes = {CLASSES_ATTRIBUTE: list(class_names)} if name == "labels" else {}
        array = _side(group, name, len(column), column.dtype, 0, attributes)
        array[:] = column
    for name, table in texts.items():
        array = _side(group, name, len(table), str, "", {})
        for begin in range(0, len(table), _SIDE_CHUNK):
            rows = range(begin, min(begin + _SIDE_CHUNK, len(table)))
            # By chunk: a million Python strings at once would take as much memory as the images.
            array[rows.start : rows.stop] = np.array([table.text(row) for row in rows], object)


def _side(
    group: Any, name: str, count: int, dtype: Any, fill: Any, attributes: Mapping[str, Any]
) -> Any:
    return group.create_array(
        name,
        shape=(count,),
        dtype=dtype,
        chunks=(max(1, min(count, _SIDE_CHUNK)),),
        compressors=_checksummed_zstd(group.metadata.zarr_format),
        fill_value=fill,
        attributes=dict(attributes),
        config={"write_empty_chunks": True},
    )


def _checksummed_zstd(zarr_format: ZarrFormat) -> Any:
    if zarr_format == 2:
        from numcodecs import Zstd

        return Zstd(level=_SIDE_LEVEL, checksum=True)
    from zarr.codecs import ZstdCodec

    return ZstdCodec(level=_SIDE_LEVEL, checksum=True)


def _blosc_codec(blosc: Blosc, zarr_format: ZarrFormat) -> Any:
    if zarr_format == 2:
        import numcodecs

        return numcodecs.Blosc(
            cname=blosc.codec,
            clevel=blosc.level,
            shuffle=SHUFFLES.index(blosc.shuffle),
            blocksize=blosc.block_bytes,
        )
    from zarr.codecs import BloscCodec

    # Words, not members of BloscCname and BloscShuffle: newer zarr has those as plain texts.
    return BloscCodec(
        cname=blosc.codec,  # type: ignore[arg-type]
        clevel=blosc.level,
        shuffle=SHUFFLES_V3[SHUFFLES.index(blosc.shuffle)],  # type: ignore[arg-type]
        blocksize=blosc.block_bytes,
        typesize=blosc.item_bytes,
    )
