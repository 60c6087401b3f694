"""Made-up but plausible reports of bench, so that showing one needs no measuring."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fastdata_cli.operations.bench.report import (
    BenchReport,
    CacheFacts,
    Ceiling,
    ConsumerRow,
    DatasetFacts,
    LoaderRow,
    ReadRow,
    StageRow,
    Step,
    Verdict,
    case_name,
    read_words,
    workers_words,
)
from fastdata_cli.timing.device import DeviceDoubt, DeviceResult, DeviceWarning, Latency, ReadOrder
from fastdata_cli.timing.doubts import TimingWarning, WarningKind
from fastdata_cli.timing.environment import Environment, Storage
from fastdata_cli.timing.measurement import Failure, Measurement, Repeat

PATHS = (
    "/data/birds/pixels.zarr",
    "/data/birds/files.lmdb",
    "/data/birds/train-%06d.tar",
    "/data/birds/images",
)
_FORMATS = ("zarr", "lmdb", "webdataset", "tree")
_SPEED = (1.0, 0.62, 0.55, 0.31)
_ORDERS = {"sequential": 1.0, "random": 0.34, "block": 0.83}
_STAGES = {
    "read": 0.21,
    "decompress": 0.12,
    "decode": 1.9,
    "resize": 0.4,
    "collate": 0.05,
    "transfer": 0.11,
}

CACHE = CacheFacts(
    before="cold", after="mixed", resident_before=0.0, resident_after=0.4, method="fincore"
)
STARTED = "2026-11-29T20:15:00+00:00"
ENVIRONMENT = Environment(
    cpu_model="AMD EPYC 7763 64-Core Processor",
    cores_present=128,
    cores_allowed=16,
    cores_quota=8.0,
    cores_usable=8,
    memory_bytes=512 << 30,
    memory_available_bytes=300 << 30,
    memory_limit_bytes=64 << 30,
    storage=(
        Storage(
            path="/data/birds/pixels.zarr",
            mount_point="/data",
            filesystem="ext4",
            mount_options=("rw", "relatime"),
            network=False,
            device="nvme0n1",
            model="Samsung SSD 980 PRO 2TB",
            rotational=False,
            read_ahead_bytes=131072,
        ),
    ),
    gpus=(),
    kernel="Linux 6.8.0-45-generic x86_64",
    python="CPython 3.11.9",
    fastdata="0.3.0",
    libraries={"numpy": "2.1.3", "torch": "2.6.0", "zarr": "3.1.6"},
)


def measurement(
    name: str, samples_per_s: float, *, warnings: Sequence[TimingWarning] = ()
) -> Measurement:
    """Return three repeats of about this rate."""
    repeats = tuple(
        Repeat(
            seconds=640 / samples_per_s * factor,
            samples=640,
            bytes=640 * 150_528,
            position=position,
            runs=1,
            others=0.01,
        )
        for position, factor in enumerate((1.0, 1.02, 0.97))
    )
    return Measurement(name=name, repeats=repeats, latencies=1920, warnings=tuple(warnings))


def failed(name: str, message: str) -> Measurement:
    """Return a case that ended in an error."""
    return Measurement(
        name=name, failure=Failure(kind="UnsupportedError", message=message, hint="use another")
    )


def read_row(path: str, order: str, by: str, threads: int, samples_per_s: float) -> ReadRow:
    """Return plain reads of about this rate."""
    requests = samples_per_s / (64 if by == "batch" else 1)
    typical = 1000 * threads / requests
    tails = {"p0": 0.6, "p50": 0.95, "p90": 1.3, "p95": 1.6, "p99": 3.4, "p99.9": 9.0, "p100": 31.0}
    warnings: tuple[TimingWarning, ...] = ()
    if order == "random" and by == "sample":
        text = "repeats differ by ±9% around their median: allow more repeats"
        warnings = (TimingWarning(kind=WarningKind.WIDE_SPREAD, value=0.09, text=text),)
    return ReadRow(
        dataset=path,
        order=order,
        by=by,
        threads=threads,
        measurement=measurement(
            case_name(path, "read", read_words(order, by, threads)),
            samples_per_s,
            warnings=warnings,
        ),
        samples_per_s=samples_per_s,
        megabytes_per_s=samples_per_s * 0.150528,
        requests_per_s=requests,
        latency_ms={name: typical * times for name, times in tails.items()},
        cache=CACHE,
        device_bytes=96_000_000,
        used_bytes=32_000_000,
        amplification=3.0,
    )


def loader_row(path: str, workers: int, samples_per_s: float) -> LoaderRow:
    """Return a DataLoader of about this rate."""
    return LoaderRow(
        dataset=path,
        workers=workers,
        order="block",
        batch_size=64,
        measurement=measurement(
            case_name(path, "DataLoader", "block", workers_words(workers)), samples_per_s
        ),
        samples_per_s=samples_per_s,
        first_batch_s=0.2 + 0.4 * workers,
        wait_ms_per_sample=1000 / samples_per_s,
        memory_bytes=(300 + 180 * workers) * 10**6,
        cpu_share=min(1.0, 0.12 * (workers + 1)),
        each_once=True,
        same_bytes=True,
        cache=CACHE,
        line=f"DataLoader(FastDataset({path!r}), batch_size=64, num_workers={workers})",
    )


def fast_row(path: str, samples_per_s: float) -> LoaderRow:
    """Return a FastLoader of about this rate."""
    return replace(
        loader_row(path, 0, samples_per_s),
        measurement=measurement(case_name(path, "FastLoader", "block"), samples_per_s),
        line=f"FastLoader({path!r}, 64, order='block')",
        loader="FastLoader",
    )


def _steps(path: str) -> Iterator[Step]:
    tried = (("FastLoader", 0.9, "slower"), ("num_workers=2", 1.6, ""), ("num_workers=4", None, ""))
    for setting, ratio, why in tried:
        yield Step(
            setting=setting,
            ratio=ratio,
            samples_per_s=ratio and 1500 * ratio,
            kept=bool(ratio and ratio > 1),
            why=why or "not tried: the time was up",
            dataset=path,
        )


def device_results() -> tuple[DeviceResult, ...]:
    """Return the four jobs of a fast SSD, one of them with a doubt."""
    jobs: tuple[tuple[str, ReadOrder, int, int, float], ...] = (
        ("sequential", "read", 1 << 20, 1, 2.1e9),
        ("sequential deep", "read", 1 << 20, 16, 5.2e9),
        ("random", "randread", 155_648, 1, 0.6e9),
        ("random deep", "randread", 155_648, 32, 4.1e9),
    )
    return tuple(
        DeviceResult(
            name=name,
            rw=rw,
            block_bytes=block,
            depth=depth,
            direct=True,
            engine="libaio" if depth > 1 else "psync",
            bandwidth=bandwidth,
            iops=bandwidth / block,
            latency=Latency(mean=3e-4, p50=2.5e-4, p95=5e-4, p99=9e-4),
            seconds=2.0,
            tool="fio 3.33",
            file_count=12,
            scratch=name == "random deep",
            warnings=(DeviceWarning(kind=DeviceDoubt.SCRATCH, text="a scratch file was read"),)
            if name == "random deep"
            else (),
        )
        for name, rw, block, depth, bandwidth in jobs
    )


def report(
    paths: Sequence[str] = PATHS,
    *,
    workers: Sequence[int] = (0, 2, 4, 8),
    threads: Sequence[int] = (1, 4),
) -> BenchReport:
    """Return a whole report on these datasets, the first being the fastest."""
    speeds = dict(
        zip(paths, (_SPEED[at % 4] / (1 + at // 4) for at in range(len(paths))), strict=True)
    )
    stage_sum = sum(_STAGES.values())
    return BenchReport(
        started=STARTED,
        environment=ENVIRONMENT,
        options={"workers": ",".join(map(str, workers)), "batch_size": 64, "order": "block"},
        datasets=tuple(_facts(path, at) for at, path in enumerate(paths)),
        device={paths[0]: device_results()} if paths else {},
        reads=tuple(
            read_row(
                path,
                order,
                by,
                count,
                9000 * speed * factor * count**0.7 * (1 if by == "sample" else 1.6),
            )
            for order, factor in _ORDERS.items()
            for by in ("sample", "batch")
            for count in threads
            for path, speed in speeds.items()
        ),
        stages=tuple(
            StageRow(
                dataset=path,
                stage=name,
                seconds_per_sample=ms / 1000 / speed,
                share=ms / stage_sum,
            )
            for path, speed in speeds.items()
            for name, ms in _STAGES.items()
        ),
        ceilings=tuple(
            Ceiling(dataset=path, name=name, samples_per_s=rate * speed, how=how)
            for path, speed in speeds.items()
            for name, rate, how in (
                ("device", 27_000, "fio, random reads 32 deep"),
                ("decode on all cores", 4_200, "8 cores, decoded from memory"),
                ("free input", 38_000, "the same batch again and again"),
            )
        ),
        loaders=tuple(
            loader_row(path, count, speed * (380 + 3300 * count / (count + 3)))
            for path, speed in speeds.items()
            for count in workers
        ),
        fast_loaders=tuple(fast_row(path, speed * 2100) for path, speed in speeds.items()),
        consumers=tuple(
            ConsumerRow(
                dataset=path,
                workers=max(workers, default=0),
                step_ms=30.0,
                utilisation=min(0.97, 1.05 * speed),
                steps=200,
            )
            for path, speed in speeds.items()
        ),
        verdicts=tuple(_verdict(path) for path in paths),
        host_to_device="no CUDA device here: copying batches to a GPU was not measured",
        notes=("the disk below /data is shared with a database: 3% of reads waited for it",),
        steps=tuple(step for path in paths for step in _steps(path)),
        to_paste="from fastdata_cli import FastLoader\n\n"
        f"loader = FastLoader('/data/{'deep/' * 20}pixels.zarr', 64)",
        seconds=48.3,
    )


def empty_report() -> BenchReport:
    """Return a report of a dataset without samples: nothing was measured."""
    path = "/data/empty.zarr"
    return BenchReport(
        started=STARTED,
        environment=ENVIRONMENT,
        options={},
        datasets=(replace(_facts(path, 0), samples=0, sample_bytes=0.0),),
        notes=(f"{path} holds no samples: there is nothing to measure",),
    )


def broken_report() -> BenchReport:
    """Return a report in which one dataset could not be read, nor arrived as it should."""
    whole = report(PATHS[:2])
    gone, message = PATHS[1], "files.lmdb vanished while it was measured"
    return replace(
        whole,
        reads=tuple(
            replace(
                row,
                measurement=failed(row.measurement.name, message),
                samples_per_s=None,
                megabytes_per_s=None,
                requests_per_s=None,
                latency_ms={},
                amplification=None,
            )
            if row.dataset == gone
            else row
            for row in whole.reads
        ),
        loaders=tuple(
            replace(row, each_once=False, same_bytes=False) if row.dataset == gone else row
            for row in whole.loaders
        ),
    )


def _facts(path: str, at: int) -> DatasetFacts:
    pixels = at == 0
    return DatasetFacts(
        path=path,
        format=_FORMATS[at % 4],
        samples=50_000,
        payload="pixels" if pixels else "encoded",
        image_shape=(224, 224, 3) if pixels else None,
        sample_bytes=150_528 if pixels else 38_112.5,
        stored_bytes=5_100_000_000 if pixels else 1_900_000_000,
        layout={"chunk": 1000, "codec": "lz4"} if pixels else {"shards": 12},
        random_access=at != 2,
    )


def _verdict(path: str) -> Verdict:
    return Verdict(
        dataset=path,
        bottleneck="decode",
        sentence="decoding takes 68% of the time of a sample; the device could give 6 times",
        action=f"fastdata convert {path} {path}.224.zarr --size 224 --chunk 64 --codec lz4",
    )
