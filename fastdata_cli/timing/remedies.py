"""The next command or loader setting against each bottleneck."""

from __future__ import annotations

import shlex

from fastdata_cli.timing.observation import Observation

SMALL_JPEG_BYTES = 50_000
"""A JPEG of 256 pixels a side has about 25 kB at quality 90: below twice that, re-encoding at that
size gains little."""

CLEARLY_SLOWER = 2.0
"""An order that is slower by less may be so by chance and by read-ahead alone."""

_SIZE = "224"
_SIDE = 256  # leaves a margin about 224, where images are square
_BLOCK = 256
_BATCH = 64
_SUFFIX = {"zarr": ".zarr", "hdf5": ".h5"}


def loader_setting(text: str) -> str:
    """Return a setting of the DataLoader as source text."""
    return f"DataLoader(..., {text})"


def bench(seen: Observation, flags: str) -> str:
    """Return the command that measures this dataset with other flags."""
    return f"fastdata bench {shlex.quote(seen.dataset)} {flags}".rstrip()


def convert(seen: Observation, destination: str, flags: str = "") -> str:
    """Return the command that writes the dataset anew."""
    return f"fastdata convert {shlex.quote(seen.dataset)} {destination} {flags}".rstrip()


def against_memory(seen: Observation) -> str:
    """Fewer batches in memory at a time: half the workers, or half the batch."""
    workers = max(seen.loader, default=0)
    if workers:
        return loader_setting(f"num_workers={workers // 2}")
    return bench(seen, f"--workers 0 --batch-size {max(1, (seen.batch_size or _BATCH) // 2)}")


def against_device(seen: Observation) -> str:
    """Read in longer pieces, or fewer bytes."""
    if wants_blocks(seen):
        return in_blocks(seen)
    if seen.format == "tree":
        return convert(seen, "train-%06d.tar", "--shard-samples 1000")
    pixels = seen.payload == "pixels"
    if seen.format == "zarr" and pixels and seen.chunk == 1 and not seen.shard_samples:
        return convert(seen, "out-sharded.zarr", "--chunk 1 --shard-samples 1000")
    if seen.payload == "encoded" and (seen.sample_bytes or 0) > SMALL_JPEG_BYTES:
        return smaller_images(seen)
    if pixels and seen.codec in (None, "none"):
        return with_codec(seen, "lz4")
    # Nothing about the dataset is left to change: see what faster storage would bring.
    return bench(seen, "--cache warm")


def against_decode(seen: Observation) -> str:
    """Decode fewer pixels; where images are small already, none."""
    if (seen.sample_bytes or 0) > SMALL_JPEG_BYTES:
        return smaller_images(seen)
    return as_pixels(seen)


def against_decompression(seen: Observation) -> str:
    """Decompress each chunk once; else with a faster codec; else not at all."""
    if wants_blocks(seen):
        return in_blocks(seen)
    return with_codec(seen, "none" if seen.codec in (None, "lz4", "lzf") else "lz4")


def against_transfer(seen: Observation) -> str:
    """Read in longer pieces; else spare the copy between processes; else hand over less often."""
    if wants_blocks(seen):
        return in_blocks(seen)
    if seen.workers == 0 and len(seen.loader) > 1:
        return loader_setting("num_workers=0")
    if seen.workers and 0 not in seen.loader:
        return bench(seen, f"--workers 0,{seen.workers}")
    return bench(seen, f"--batch-size {2 * (seen.batch_size or _BATCH)}")


def smaller_images(seen: Observation) -> str:
    """Re-encode, a little larger than a batch needs, so that crops keep their sharpness."""
    side = seen.max_side or _SIDE
    return convert(seen, f"out{side}.tar", f"--max-side {side} --quality 90")


def as_pixels(seen: Observation) -> str:
    """Store what a batch holds."""
    size = seen.size or _SIZE
    return convert(seen, f"out{size}.zarr", f"--payload pixels --size {size}")


def with_codec(seen: Observation, codec: str) -> str:
    """Compress otherwise, in the same format if it compresses at all."""
    return convert(seen, f"out-{codec}{_SUFFIX.get(seen.format, '.zarr')}", f"--codec {codec}")


def wants_blocks(seen: Observation) -> bool:
    """Whether random order is what makes it slow."""
    if seen.order != "random":
        return False
    rates = seen.reads
    ordered = rates.get("block") or rates.get("sequential") or 0.0
    slower = "random" in rates and ordered >= CLEARLY_SLOWER * rates["random"]
    return slower or not seen.random_access or (seen.amplification or 0.0) >= CLEARLY_SLOWER


def in_blocks(seen: Observation) -> str:
    """Shuffle by blocks."""
    block = seen.chunk if seen.chunk and seen.chunk > 1 else _BLOCK
    sampler = f"BlockShuffleSampler(len(dataset), block={block})"
    return f"{bench(seen, '--order block')}  (in training: {sampler})"
