"""What the metadata of one Zarr array says: shape, chunks, codecs, and the names of its chunks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fastdata_cli.errors import DamagedDatasetError, UnsupportedError
from fastdata_cli.formats.zarr.files import StoreFiles, joined
from fastdata_cli.json_text import parse_object

ZarrFormat = Literal[2, 3]

CodecConfig = Mapping[str, Any]
"""``name`` of a codec, and what its configuration holds."""

TEXTS = np.dtype("O")
"""The dtype that an array of strings of any length is given here."""

_TEXT_CODEC = "vlen-utf8"
# Codecs that take bytes to bytes and of which numcodecs makes the same on its own.
_COMPRESSORS = frozenset({"blosc", "zstd", "gzip", "zlib", "lz4", "bz2", "lzma"})
# Strings of one width in the metadata of version 3: NumPy's letter, and bytes per character.
_FIXED_TEXTS = {"fixed_length_utf32": ("U", 4), "null_terminated_bytes": ("S", 1)}
_SEPARATORS = ("/", ".")
# Beyond what any disk holds, and 64-bit sums of it still fit.
_MOST = 1 << 48
_INDEX_CODECS = ("bytes", "crc32c")


@dataclass(frozen=True, slots=True)
class ArrayLayout:
    """One array."""

    files: StoreFiles
    """Of the store."""
    name: str
    """Path of the array inside the store; empty when the store is an array."""
    zarr_format: ZarrFormat
    shape: tuple[int, ...]
    dtype: np.dtype[Any] | None
    """None for dtypes that NumPy has not."""
    chunk: tuple[int, ...]
    """The smallest piece: the inner chunk where there are shards."""
    shard: tuple[int, ...] | None
    codecs: tuple[CodecConfig, ...]
    """From the array to bytes, without the sharding."""
    plain: bool
    """C order, this machine's byte order, and at most one compressor that we call ourselves."""
    index_at_end: bool | None
    """Where a shard keeps its index; None: nowhere, or not as little-endian with CRC-32C."""
    key_prefix: str
    separator: str
    attributes: Mapping[str, Any]

    @property
    def file_shape(self) -> tuple[int, ...]:
        """Shape of what one file holds: a shard, or else a chunk."""
        return self.shard or self.chunk

    @property
    def compressor(self) -> CodecConfig | None:
        """The codec that makes bytes smaller, where ``plain``."""
        return next((codec for codec in self.codecs if codec["name"] in _COMPRESSORS), None)

    @property
    def rows_whole(self) -> bool:
        """Whether chunks and files are cut along the first axis only."""
        rest = self.shape[1:]
        return bool(self.shape) and self.chunk[1:] == rest and self.file_shape[1:] == rest

    @property
    def row_bytes(self) -> int:
        """Bytes of one position of the first axis, of an array of numbers."""
        assert self.dtype is not None
        return math.prod(self.shape[1:]) * self.dtype.itemsize

    @property
    def chunk_bytes(self) -> int:
        """Bytes of a decoded chunk, of an array of numbers or of strings of one width."""
        return math.prod(self.chunk) * (1 if self.dtype is None else self.dtype.itemsize)

    @property
    def label(self) -> str:
        """What messages call the array."""
        return self.name or self.files.root.name

    @property
    def folder(self) -> str:
        """Where it lies, for messages."""
        return self.files.path(self.name)

    def file(self, *position: int) -> str:
        """Return the name in the store of the chunk or shard at a position of the grid of files."""
        key = self.separator.join(map(str, position)) or ("0" if self.zarr_format == 2 else "")
        return joined(self.name, self.key_prefix + key)

    @property
    def file_rows(self) -> range:
        """The rows of the grid of files along the first axis."""
        return range(-(-self.shape[0] // self.file_shape[0]))

    def row_files(self, number: int) -> Iterator[str]:
        """Yield the names of all files in row ``number`` of the grid along the first axis."""
        sides = zip(self.shape[1:], self.file_shape[1:], strict=True)
        grids = [range(-(-size // step)) for size, step in sides]
        return (self.file(number, *rest) for rest in itertools.product(*grids))


def read_layout(files: StoreFiles, name: str, zarr_format: ZarrFormat) -> ArrayLayout:
    """Read the metadata of the array at a path inside the store.

    Raises:
        DamagedDatasetError: the metadata is missing, or not that of an array.
        UnsupportedError: reading it would run code (pickle).
    """
    at = joined(name, "zarr.json" if zarr_format == 3 else ".zarray")
    record, path = read_json(files, at), files.path(at)
    try:
        layout = (_v3 if zarr_format == 3 else _v2)(files, name, record)
        _require_sense(layout)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as problem:
        raise DamagedDatasetError(f"{path}: not the metadata of an array ({problem})") from problem
    if any(codec["name"].removeprefix("numcodecs.") == "pickle" for codec in layout.codecs):
        raise UnsupportedError(
            f"{path}: its values are pickled, and loading them would run code",
            hint="store them again, as strings or numbers",
        )
    return layout


def read_json(files: StoreFiles, name: str) -> dict[str, Any]:
    """Read a JSON object of a store.

    Raises:
        DamagedDatasetError: there is none.
    """
    try:
        return parse_object(files.read(name))
    except FileNotFoundError as problem:
        raise DamagedDatasetError(f"{files.path(name)} is missing") from problem
    except (OSError, ValueError) as problem:
        raise DamagedDatasetError(
            f"{files.path(name)}: cannot be read as a JSON object"
        ) from problem


def chunk_key(zarr_format: ZarrFormat, *position: int) -> str:
    """Return the name of a chunk as we write it, relative to its array."""
    if zarr_format == 3:
        return "/".join(("c", *map(str, position)))
    return ".".join(map(str, position))


def _v3(files: StoreFiles, name: str, record: dict[str, Any]) -> ArrayLayout:
    grid = record["chunk_grid"]
    if grid["name"] != "regular":
        raise UnsupportedError(
            f"{files.path(name)}: chunks on a {grid['name']!r} grid; only the regular one is read"
        )
    file_shape = _shape(grid["configuration"]["chunk_shape"])
    codecs = tuple(map(_codec, record["codecs"]))
    chunk, shard, index_at_end = file_shape, None, None
    if codecs[0]["name"] == "sharding_indexed":
        sharding, shard = codecs[0], file_shape
        chunk = _shape(sharding["chunk_shape"])
        codecs = tuple(map(_codec, sharding["codecs"]))
        index = tuple(map(_codec, sharding["index_codecs"]))
        names = tuple(codec["name"] for codec in index)
        if names == _INDEX_CODECS and index[0].get("endian", "little") == "little":
            index_at_end = sharding.get("index_location", "end") == "end"
    encoding = _codec(record.get("chunk_key_encoding", "default"))
    default = encoding["name"] == "default"
    separator = encoding.get("separator", "/" if default else ".")
    dtype = _v3_dtype(record["data_type"])
    return ArrayLayout(
        files,
        name,
        3,
        _shape(record["shape"]),
        dtype,
        chunk,
        shard,
        codecs,
        _is_plain(codecs, dtype),
        index_at_end,
        "c" + separator if default else "",
        separator,
        dict(record.get("attributes") or {}),
    )


def _v2(files: StoreFiles, name: str, record: dict[str, Any]) -> ArrayLayout:
    shape, chunk = _shape(record["shape"]), _shape(record["chunks"])
    chain = [*(record.get("filters") or []), record.get("compressor")]
    codecs = tuple(_v2_codec(codec) for codec in chain if codec is not None)
    dtype = _v2_dtype(record["dtype"], codecs)
    big_endian = dtype is not None and dtype.byteorder == ">"
    attributes = joined(name, ".zattrs")
    endian = {"name": "bytes", "endian": "big" if big_endian else "little"}
    if dtype != TEXTS:
        codecs = (endian, *codecs)
    return ArrayLayout(
        files,
        name,
        2,
        shape,
        dtype,
        chunk,
        None,
        codecs,
        record.get("order", "C") == "C" and _is_plain(codecs, dtype),
        None,
        "",
        record.get("dimension_separator", "."),
        read_json(files, attributes) if files.has(attributes) else {},
    )


def _is_plain(codecs: Sequence[CodecConfig], dtype: np.dtype[Any] | None) -> bool:
    """Return whether the chain is the bytes as they are, then one compressor or none."""
    if dtype is None or dtype.kind not in "biufO":
        return False
    if not codecs:
        return False
    head, rest = codecs[0], codecs[1:]
    texts = dtype == TEXTS
    if head["name"] != (_TEXT_CODEC if texts else "bytes"):
        return False
    if not texts and dtype.itemsize > 1 and head.get("endian", "little") != "little":
        return False
    return len(rest) <= 1 and all(codec["name"] in _COMPRESSORS for codec in rest)


def _codec(record: Any) -> CodecConfig:
    if isinstance(record, str):
        return {"name": record}
    return {**(record.get("configuration") or {}), "name": str(record["name"])}


def _v2_codec(record: Mapping[str, Any]) -> CodecConfig:
    return {
        **{key: value for key, value in record.items() if key != "id"},
        "name": str(record["id"]),
    }


def _v3_dtype(data_type: Any) -> np.dtype[Any] | None:
    if data_type == "string":
        return TEXTS
    if isinstance(data_type, Mapping):
        letter, width = _FIXED_TEXTS.get(data_type["name"], ("", 1))
        length = (data_type.get("configuration") or {}).get("length_bytes", 0)
        return np.dtype(f"{letter}{length // width}") if letter else None
    try:
        found = np.dtype(str(data_type))
    except TypeError:
        return None
    return found if found.kind in "biufc" else None


def _v2_dtype(dtype: Any, codecs: Sequence[CodecConfig]) -> np.dtype[Any] | None:
    if not isinstance(dtype, str):
        return None
    found = np.dtype(dtype)
    if found == TEXTS and not any(codec["name"] == _TEXT_CODEC for codec in codecs):
        return TEXTS if any(codec["name"] == "pickle" for codec in codecs) else None
    return found


def _shape(values: Any) -> tuple[int, ...]:
    shape = tuple(values)
    if not all(type(value) is int and 0 <= value <= _MOST for value in shape):
        raise ValueError(f"{values} is no shape")
    return shape


def _require_sense(layout: ArrayLayout) -> None:
    """Raise ValueError where parts of the metadata contradict each other."""
    if not len(layout.chunk) == len(layout.file_shape) == len(layout.shape):
        raise ValueError("chunks do not fit the shape")
    sides = zip(layout.file_shape, layout.chunk, strict=True)
    if min(layout.chunk, default=1) < 1 or any(whole % part or not whole for whole, part in sides):
        raise ValueError("chunks do not fit the shards")
    item = 1 if layout.dtype is None else layout.dtype.itemsize
    largest = map(max, layout.shape, layout.file_shape)
    if math.prod((max(side, 1) for side in largest), start=max(item, 1)) > _MOST:
        raise ValueError("more bytes than any disk holds")
    if layout.separator not in _SEPARATORS:  # it becomes part of the names of files
        raise ValueError(f"{layout.separator!r} separates no chunk numbers")
