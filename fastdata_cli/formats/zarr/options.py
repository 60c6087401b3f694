"""The options of the Zarr format, and the plan that they and the schema come to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fastdata_cli.contract import PartLimits
from fastdata_cli.errors import UsageError
from fastdata_cli.formats.axes import layout_option
from fastdata_cli.formats.limits import require_fit
from fastdata_cli.formats.zarr.layout import ZarrFormat
from fastdata_cli.options import Options, option
from fastdata_cli.sample import Payload, Schema

NO_CODEC = "none"
# Of each Blosc codec the level beyond which photographs shrink little, or decode slower.
_LEVELS = {"lz4": 9, "lz4hc": 5, "zstd": 3, "zlib": 1, "blosclz": 5}
_HIGHEST_LEVEL = 9
SHUFFLES = ("none", "byte", "bit")
"""By the number that Blosc gives each."""
SHUFFLES_V3 = ("noshuffle", "shuffle", "bitshuffle")
"""The same in the metadata of Zarr 3."""

# Blosc adds 16 bytes and counts in signed 32-bit numbers.
_BLOSC_LIMIT = 2**31 - 1 - 16

_SHARD_BYTES = 64 << 20
_SHARD_SAMPLES = 1024
_V2_CHUNK_BYTES = 1 << 20
_V2_CHUNK_SAMPLES = 16
_PART_BYTES = 32 << 20
_MOST_UNIT_BYTES = 4 << 30
_ENCODED_PART = PartLimits(samples=16_384, bytes=32 << 20)
_DATA_CHUNK = 4 << 20
_DATA_CHUNK_COMPRESSED = 1 << 20


@dataclass(frozen=True, kw_only=True)
class ZarrReadOptions(Options):
    """How to read a Zarr store."""

    array: str | None = option(
        None, "path of the image array inside the store; without it, found by shape and dtype"
    )
    layout: str | None = layout_option()


@dataclass(frozen=True, kw_only=True)
class ZarrWriteOptions(Options):
    """How to write a Zarr store."""

    chunk: int | None = option(
        None,
        "samples a chunk; default 1; encoded: samples that begin on a chunk boundary together",
        minimum=1,
    )
    shard_samples: int | None = option(
        None, "samples in a shard; a multiple of the chunk; Zarr 3 and pixels only", minimum=1
    )
    codec: str | None = option(
        None,
        "compression of the images; Blosc; default lz4 for pixels, none for encoded images",
        choices=(NO_CODEC, *_LEVELS),
    )
    level: int | None = option(None, "level of the codec; 0 to 9; default by codec", minimum=0)
    shuffle: str | None = option(
        None, "rearrange bytes or bits before the codec; default none", choices=SHUFFLES
    )
    zarr_format: str = option("3", "version of the Zarr specification", choices=("2", "3"))


@dataclass(frozen=True, slots=True)
class Plan:
    """What a store is to look like: every default resolved."""

    zarr_format: ZarrFormat
    chunk: int
    """Samples a chunk of pixels; bytes a chunk of encoded images."""
    shard: int | None
    """Samples a shard; None without shards."""
    codec: str
    level: int
    shuffle: str
    limits: PartLimits

    def layout(self, schema: Schema) -> dict[str, int | str]:
        """Return the plan as the manifest records it and ``describe`` shows it."""
        encoded = schema.payload is Payload.ENCODED
        facts: dict[str, int | str] = {"zarr_format": self.zarr_format}
        facts["chunk_bytes" if encoded else "chunk"] = self.chunk
        if self.shard is not None:
            facts["shard_samples"] = self.shard
        facts["codec"] = self.codec
        if self.codec != NO_CODEC:
            facts.update(level=self.level, shuffle=self.shuffle)
        return facts


def plan(options: ZarrWriteOptions, schema: Schema) -> Plan:
    """Resolve the options for a schema.

    Raises:
        UsageError: they contradict each other, the schema, or a limit of Blosc.
    """
    codec, level, shuffle = _compression(options, schema.payload)
    zarr_format: ZarrFormat = 2 if options.zarr_format == "2" else 3
    if options.shard_samples is not None and zarr_format == 2:
        raise UsageError(
            "--shard-samples needs Zarr 3: version 2 has no shards",
            hint="leave out --zarr-format 2, or set --chunk alone",
        )
    if schema.payload is Payload.ENCODED:
        chunk, shard, limits = _encoded_chunks(options, codec)
    else:
        chunk, shard, limits = _pixel_chunks(options, schema.pixel_bytes, zarr_format)
        if codec != NO_CODEC:
            require_fit(
                chunk,
                schema.pixel_bytes,
                _BLOSC_LIMIT,
                "Blosc takes",
                flag="--chunk",
                otherwise="--codec none",
            )
    return Plan(zarr_format, chunk, shard, codec, level, shuffle, limits)


def _compression(options: ZarrWriteOptions, payload: Payload) -> tuple[str, int, str]:
    default = "lz4" if payload is Payload.PIXELS else NO_CODEC
    codec = options.codec or default
    if codec == NO_CODEC:
        if options.level is not None or options.shuffle not in (None, "none"):
            raise UsageError(
                "--level and --shuffle have nothing to act on: the codec is none",
                hint="name a codec, such as --codec zstd",
            )
        return codec, 0, "none"
    level = _LEVELS[codec] if options.level is None else options.level
    if level > _HIGHEST_LEVEL:
        raise UsageError(f"--level must be at most {_HIGHEST_LEVEL}, not {level}")
    return codec, level, options.shuffle or "none"


def _encoded_chunks(options: ZarrWriteOptions, codec: str) -> tuple[int, None, PartLimits]:
    if options.shard_samples is not None:
        raise UsageError(
            "--shard-samples is for pixels: encoded images lie in chunks of bytes",
            hint="use --chunk for how many samples begin on a chunk boundary together",
        )
    samples = options.chunk or _ENCODED_PART.samples
    limits = PartLimits(samples, _ENCODED_PART.bytes)
    return _DATA_CHUNK if codec == NO_CODEC else _DATA_CHUNK_COMPRESSED, None, limits


def _pixel_chunks(
    options: ZarrWriteOptions, pixel_bytes: int, zarr_format: ZarrFormat
) -> tuple[int, int | None, PartLimits]:
    chunk, shard = options.chunk, options.shard_samples
    if chunk is None and shard is None:
        if zarr_format == 2:
            chunk = _power_of_two(_V2_CHUNK_BYTES // pixel_bytes, _V2_CHUNK_SAMPLES)
        else:
            shard = _power_of_two(_SHARD_BYTES // pixel_bytes, _SHARD_SAMPLES)
    chunk = chunk or 1
    if shard is not None and shard % chunk:
        raise UsageError(
            f"--shard-samples {shard} is not a multiple of --chunk {chunk}",
            hint=f"the nearest are {max(1, shard // chunk) * chunk} "
            f"and {(shard // chunk + 1) * chunk}",
        )
    unit = shard or chunk
    require_fit(
        unit,
        pixel_bytes,
        _MOST_UNIT_BYTES,
        f"a {'shard' if shard else 'chunk'}, which is held in memory while it is written, takes",
        flag="--shard-samples" if shard else "--chunk",
    )
    # A part is whole files, and large enough that syncing and journalling it cost little.
    limits = PartLimits(samples=unit * max(1, _PART_BYTES // (unit * pixel_bytes)))
    return chunk, shard, limits


def _power_of_two(at_most: int, limit: int) -> int:
    """Return the largest power of two up to both bounds, at least 1."""
    bound = int(np.clip(at_most, 1, limit))
    return 1 << (bound.bit_length() - 1)
