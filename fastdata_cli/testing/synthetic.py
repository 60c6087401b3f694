"""Samples made by code, and a plain way to write them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from fastdata_cli.contract import Format, Part, PartLimits, Target, Writer
from fastdata_cli.manifest import Manifest
from fastdata_cli.options import Options
from fastdata_cli.sample import Batch, Payload, Sample, Schema

CLASS_NAMES = ("cat", "dog", "Ä")

# Names that containers are known to fold, cut or refuse.
AWKWARD_KEYS = (
    "cat/photo.v1.jpg",
    "cat/photo.v2.jpg",
    "cat/a.jpg",
    "cat/a.png",
    "cat/A.jpg",
    "cat/.hidden.jpg",
    "cat/no-suffix",
    "cat/two words, 'quotes' and \"more\".jpg",
    "cat/line\nbreak.jpg",
    "cat/100%41.jpg",
    "cat/100%.jpg",
    "cat/not-utf8-\udcff\udcfe.jpg",
    "dog/a.jpg",
    "dog/é.jpg",
    "dog/e\u0301.jpg",
    "__x__/a.jpg",
    "Ä/" + "long" * 45 + ".jpg",
    "Ä/" + "deep/" * 120 + "1.jpg",
)


def pixel_samples(count: int = 41, shape: tuple[int, int, int] = (6, 5, 3)) -> list[Sample]:
    """Return samples of random uint8 pixels with awkward keys, some without label."""
    rng = np.random.default_rng(7)
    return [
        Sample(key, rng.integers(0, 256, shape, np.uint8), label, metadata)
        for key, label, metadata in _descriptions(count)
    ]


def encoded_samples(count: int = 41) -> list[Sample]:
    """Return samples whose images are small PNG files of different sizes."""
    return [
        Sample(key, np.frombuffer(png(3 + index % 5, 4, index), np.uint8), label, metadata)
        for index, (key, label, metadata) in enumerate(_descriptions(count))
    ]


def png(height: int, width: int, seed: int) -> bytes:
    """Return a sound little RGB PNG of noise."""
    import cv2

    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    return bytes(cv2.imencode(".png", pixels)[1])


def samples_for(payload: Payload, count: int = 41) -> list[Sample]:
    """Return samples of that payload."""
    return pixel_samples(count) if payload is Payload.PIXELS else encoded_samples(count)


def schema_for(samples: Sequence[Sample], payload: Payload) -> Schema:
    """Return the schema under which ``samples`` are written."""
    first = samples[0].image
    shape = first.shape if payload is Payload.PIXELS else None
    return Schema(
        payload=payload, image_shape=shape, dtype=str(first.dtype), class_names=CLASS_NAMES
    )


def manifest_for(samples: Sequence[Sample], payload: Payload, format_name: str) -> Manifest:
    """Return a manifest for ``samples``."""
    schema = schema_for(samples, payload)
    return Manifest(format=format_name, schema=schema, tool="synthetic")


def parts_of(
    samples: Sequence[Sample], limits: PartLimits, payload: Payload
) -> Iterator[tuple[Part, Batch]]:
    """Cut samples into parts and batches, as an engine does."""
    cuts, size = [0], 0
    for position, sample in enumerate(samples):
        full = position - cuts[-1] == limits.samples
        heavy = limits.bytes is not None and size + sample.image.nbytes > limits.bytes
        if position > cuts[-1] and (full or heavy):
            cuts.append(position)
            size = 0
        size += sample.image.nbytes
    for index, (begin, end) in enumerate(pairwise([*cuts, len(samples)])):
        part = Part(index=index, start=begin, samples=end - begin, source_stop=end)
        yield part, Batch.from_samples(samples[begin:end], payload)


def open_writer(
    row: Format,
    path: Path,
    manifest: Manifest,
    options: Options | None = None,
    *,
    overwrite: bool = False,
) -> Writer:
    """Open a writer of a format that has one."""
    assert row.open_writer is not None, f"format {row.name} cannot be written"
    target = Target(path=path, manifest=manifest, overwrite=overwrite)
    return row.open_writer(target, options or row.write_options())


def write_dataset(
    row: Format,
    path: Path,
    samples: Sequence[Sample],
    payload: Payload,
    options: Options | None = None,
    *,
    part_samples: int | None = None,
    overwrite: bool = False,
) -> Path:
    """Write ``samples`` with a format's own writer and return the path.

    Args:
        part_samples: smaller parts than the format asks for.
    """
    manifest = manifest_for(samples, payload, row.name)
    writer = open_writer(row, path, manifest, options, overwrite=overwrite)
    done = {receipt.part.index for receipt in writer.begin("synthetic")}
    for part, batch in parts_of(samples, limits(writer, part_samples), payload):
        if part.index not in done:
            writer.write_part(part, batch)
    writer.publish(manifest)
    return path


def limits(writer: Writer, part_samples: int | None) -> PartLimits:
    """Return the writer's limits, tightened to ``part_samples``."""
    own = writer.limits
    return PartLimits(min(own.samples, part_samples or own.samples), own.bytes)


def _descriptions(count: int) -> Iterator[tuple[str, int, dict[str, object] | None]]:
    for index in range(count):
        awkward = index < len(AWKWARD_KEYS)
        key = AWKWARD_KEYS[index] if awkward else f"dog/{index:05d}.jpg"
        metadata: dict[str, object] | None = {"index": index, "text": "ü"} if index % 3 else None
        yield key, index % 4 - 1, metadata
