"""Figures that must not be exceeded: peak memory of conversions, opening a million samples."""

from __future__ import annotations

from pathlib import Path

from benchmarks.conversions import clear, remove
from benchmarks.data import BATCH, Data, convert_command, files_of
from benchmarks.memory import peak_of
from benchmarks.row import Limit, MakeReady, Ready, Row, Table
from benchmarks.rows.convert import LZ4, SUFFIXES
from benchmarks.small import million, small_tree
from fastdata_cli.timing.measure import Work

_MEMORY = Limit(most=400, unit="MB", fact="peak_mb")
_MEGA = 1e6
# What the contract allows for each sample beside a constant: its key, label and checksum.
_A_SAMPLE = Limit(most=150, unit="bytes more a sample", fact="growth_bytes")
_BYTES = ("webdataset", "lmdb", "zarr", "raw", "hdf5")


def _peak(data: Data, name: str, source: Path, flags: tuple[str, ...]) -> dict[str, float]:
    """Convert in a process of its own and return its peak memory in megabytes."""
    target = data.scratch(f"memory{SUFFIXES[name]}")
    clear(target)
    peak = peak_of(convert_command([str(source), str(target), "--to", name, *flags]))
    remove(target)
    return {"peak_mb": peak.rss_bytes / _MEGA, "pss_mb": peak.pss_bytes / _MEGA}


def _memory(name: str, *flags: str) -> MakeReady:
    def ready(data: Data) -> Ready:
        def run() -> Work:
            return Work(samples=1, bytes=0, facts=_peak(data, name, Path(data.photos), flags))

        return Ready(run=run)

    return ready


def _flat(name: str) -> MakeReady:
    def ready(data: Data) -> Ready:
        few, many = data.many // 200, data.many // 2
        trees = [small_tree(data, count) for count in (few, many)]

        def run() -> Work:
            flags = ("--payload", "encoded")
            first, last = (_peak(data, name, tree, flags)["peak_mb"] for tree in trees)
            growth = (last - first) * _MEGA / (many - few)
            return Work(samples=1, bytes=0, facts={"peak_mb": last, "growth_bytes": growth})

        return Ready(run=run)

    return ready


def _first_batch(name: str, **options: object) -> MakeReady:
    def ready(data: Data) -> Ready:
        from fastdata_cli.loading import FastLoader
        from fastdata_cli.registry import open_reader

        path = million(data, name, SUFFIXES[name], **options)

        def run() -> Work:
            reader = open_reader(path)
            batches = iter(FastLoader(reader, batch_size=BATCH))
            images, *_ = next(batches)
            batches.close()
            reader.close()
            return Work(samples=len(images), bytes=images.nbytes)

        return Ready(run=run, files=files_of(open_reader(path)))

    return ready


def _opening(table: str, name: str, **options: object) -> Row:
    return Row(
        name=f"{table}/{name}",
        what=name,
        ready=_first_batch(name, **options),
        limits=(Limit(most=0.5, unit="s"),),
    )


MEMORY = Table(
    name="memory",
    title="Peak memory of conversions",
    text="The command line in a process of its own; resident memory, mapped files included.",
    rounds=1,
    warmup=0,
    min_repeat_s=0.0,
    rows=(
        *(
            Row(
                name=f"memory/{name}-encoded",
                what=f"{name}, bytes kept",
                ready=_memory(name, "--payload", "encoded"),
                limits=(_MEMORY,),
            )
            for name in _BYTES
        ),
        *(
            Row(
                name=f"memory/{name}-pixels",
                what=f"{name}, 224×224 pixels{', lz4' if name in LZ4 else ''}",
                ready=_memory(
                    name, "--payload", "pixels", "--size", "224",
                    *(("--codec", "lz4") if name in LZ4 else ()),
                ),
                limits=(_MEMORY,),
            )
            for name in _BYTES
        ),
    ),
)  # fmt: skip

FLAT = Table(
    name="flat",
    title="Peak memory of converting 500,000 small files",
    text="Bytes kept; the growth is from 5,000 files on. Minutes.",
    rounds=1,
    warmup=0,
    min_repeat_s=0.0,
    by_default=False,
    rows=tuple(
        Row(
            name=f"flat/{name}",
            what=name,
            ready=_flat(name),
            limits=(_MEMORY, _A_SAMPLE),
        )
        for name in _BYTES
    ),
)

OPENING = Table(
    name="opening",
    title="First batch after opening 1,000,000 samples",
    text="From the path to the first batch of 64 in random order, warm, libraries loaded.",
    rows=(
        _opening("opening", "raw"),
        _opening("opening", "lmdb"),
        _opening("opening", "zarr", chunk=1000),
    ),
)

OPENING_REST = Table(
    name="opening-rest",
    title="First batch after opening 1,000,000 samples, formats that take minutes to write",
    text="As before.",
    by_default=False,
    rows=(_opening("opening-rest", "webdataset"), _opening("opening-rest", "hdf5")),
)
