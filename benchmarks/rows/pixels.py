"""Stored pixels as batches: uncompressed, compressed, chunks of 1000, torch's loader."""

from __future__ import annotations

from benchmarks import references
from benchmarks.foreign import CHUNK, zarr_python_store
from benchmarks.ours import Place, bare_reads, fast_loader, pixels, torch_loader
from benchmarks.peers import ffcv, plain, tensorstore
from benchmarks.row import Row, Side, Table
from fastdata_cli.loading.orders import Order

NONE = ("--codec", "none")
PLAIN: dict[str, tuple[Place, float, float | None]] = {
    "raw": (pixels("raw"), 0.9, 1.0),
    "zarr": (pixels("zarr", "--chunk", "1", *NONE), 0.9, 1.0),
    "zarr-shard": (pixels("zarr", "--chunk", "1", "--shard-samples", "1000", *NONE), 0.9, 1.0),
    "hdf5": (pixels("hdf5", *NONE), 0.9, 1.0),
    "lmdb": (pixels("lmdb"), 0.75, None),
    "webdataset": (pixels("webdataset"), 0.75, None),
}
"""Where each layout lies, its target, its aim."""

PACKED: dict[str, tuple[Place, Side, float]] = {
    "zarr-lz4": (pixels("zarr", "--chunk", "1", "--codec", "lz4"), references.BLOSC_LZ4, 0.85),
    "zarr-zstd": (pixels("zarr", "--chunk", "1", "--codec", "zstd"), references.BLOSC_ZSTD, 0.85),
    "hdf5-lz4": (pixels("hdf5", "--codec", "lz4"), references.LZ4, 0.85),
    "hdf5-zstd": (pixels("hdf5", "--codec", "zstd"), references.ZSTD, 0.85),
}
"""Where each layout of one sample a chunk lies, the codec it is held against, its target."""

CHUNK_1000: dict[str, tuple[Place, Order, float]] = {
    "random": (pixels("zarr", "--chunk", "1000", "--codec", "lz4"), "random", 0.8),
    "block": (pixels("zarr", "--chunk", "1000", "--codec", "lz4"), "block", 0.85),
    "foreign": (zarr_python_store, "random", 0.4),
}
"""Where each layout lies, the order, the target."""

_HANDED_OUT = (
    "Bare `read_many` into the reference's two buffers reaches 0.95 to 1.07 of it (the table "
    "`bare`). A loader hands its batches out and cannot write to the same two again: the "
    "reference, given three buffers a thread, falls to 0.75 of itself, for six batches of 9.6 "
    "MB exceed the 32 MB of cache. The rest is the interpreter lock, which two threads that "
    "gather and the one that trains take in turn: `perf` shows 10 to 15 % of the time in the "
    "interpreter. A gather of many files written in C would need it once a batch."
)
_CALL_EACH = (
    "`perf` over the epochs shows 43 % of the processor time in the codec and 34 % in the "
    "interpreter: each image takes a call, with its header checked first, as damaged ones would "
    "be read beyond their end; the slower Zstandard hides that. A call that decodes many images "
    "at once would be needed."
)
_COPIED = (
    "A chunk is decoded once, and each image is then copied out of it: 8.5 µs more (a copy from "
    "memory by two threads) than the 21.7 µs that the codec alone takes, which leaves 0.72."
)
_CHUNK_WHY = {"block": _COPIED}

LOADER = Table(
    name="pixels",
    title="Pixels → shuffled batches",
    text="Stored pixels, uncompressed, to batches of 64×224×224×3 in random order, by FastLoader.",
    rows=tuple(
        Row(
            name=f"pixels/{name}",
            what=f"{name}, FastLoader",
            ready=fast_loader(place),
            reference=references.MEMMAP,
            target=target,
            aim=aim,
            why=_HANDED_OUT,
        )
        for name, (place, target, aim) in PLAIN.items()
    ),
    peers=(ffcv.PIXELS, tensorstore.PIXELS, *plain.PIXELS),
)

CODECS = Table(
    name="codecs",
    title="Compressed pixels, one sample a chunk → shuffled batches",
    text="FastLoader in random order, against the codec alone.",
    rows=tuple(
        Row(
            name=f"codecs/{name}",
            what=f"{name}, FastLoader",
            ready=fast_loader(place),
            reference=reference,
            target=target,
            why=_CALL_EACH,
        )
        for name, (place, reference, target) in PACKED.items()
    ),
    peers=(tensorstore.PACKED,),
)

CHUNKS = Table(
    name="chunk-1000",
    title="Zarr, lz4, chunks of 1000 → shuffled batches",
    text="`--chunk 1000 --codec lz4` in random and in block order, and a store by zarr-python.",
    rows=tuple(
        Row(
            name=f"chunk-1000/{name}",
            what=f"{name}, FastLoader",
            ready=fast_loader(place, order=order),
            reference=references.BLOSC_LZ4,
            target=target,
            why=_CHUNK_WHY.get(name, _CALL_EACH),
        )
        for name, (place, order, target) in CHUNK_1000.items()
    ),
    peers=(plain.ZARR_CHUNK_1000,),
)

_BARE = (
    *((name, place, 1, references.MEMMAP, target) for name, (place, target, _) in PLAIN.items()),
    *((name, place, 1, reference, target) for name, (place, reference, target) in PACKED.items()),
    *(
        (
            f"chunk-1000-{name}",
            place,
            CHUNK if order == "block" else 1,
            references.BLOSC_LZ4,
            target,
        )
        for name, (place, order, target) in CHUNK_1000.items()
    ),
)

MEMORY = Table(
    name="in-memory",
    title="Pixels held in memory → shuffled batches",
    text="A raw dataset, read once into memory: `FastLoader(..., in_memory=True)`.",
    rows=(
        Row(
            name="in-memory/raw",
            what="raw, FastLoader, in memory",
            ready=fast_loader(pixels("raw"), in_memory=True),
            reference=references.RAM,
            target=0.85,
        ),
    ),
)

BARE = Table(
    name="bare",
    title="Bare reads",
    text="What `read_many` of each layout reaches from plain threads, without a loader.",
    by_default=False,
    rows=tuple(
        Row(
            name=f"bare/{name}",
            what=f"{name}, read_many",
            ready=bare_reads(place, block=block),
            reference=reference,
            target=target,
        )
        for name, place, block, reference, target in _BARE
    ),
)

TORCH = Table(
    name="pixels-torch",
    title="Pixels → shuffled batches, torch's DataLoader with 2 workers",
    text="Worker processes hand batches over through shared memory.",
    rows=tuple(
        Row(
            name=f"pixels-torch/{name}",
            what=f"{name}, DataLoader",
            ready=torch_loader(PLAIN[name][0]),
            reference=references.MEMMAP_TORCH,
            target=3.0,
        )
        for name in ("raw", "zarr")
    ),
)
