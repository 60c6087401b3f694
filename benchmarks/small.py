"""Owns sets of very many small samples: a tree of links, and a million pixels in any format."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.data import Data, files_below
from fastdata_cli import registry
from fastdata_cli.contract import Part
from fastdata_cli.imaging.resize import opencv
from fastdata_cli.manifest import Manifest
from fastdata_cli.sample import Batch, Payload, Schema
from fastdata_cli.testing.synthetic import open_writer

_SHAPE = (8, 8, 3)
_DISTINCT = 100
_FOLDER = 1000


def small_tree(data: Data, count: int) -> Path:
    """Return a tree of ``count`` JPEG files of 32×32 pixels.

    They are links to a few files: as many files of their own would be 2 GB of half-empty blocks.
    """
    folder = Path(data.work) / f"small-{count}"
    with data.making():
        if not folder.exists():
            _link(files_below(data.photos)[:_DISTINCT], folder, count)
    return folder


def _link(photos: Sequence[Path], folder: Path, count: int) -> None:
    cv2 = opencv()
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    originals = partial.with_name("small-originals")
    originals.mkdir(parents=True, exist_ok=True)
    for at, path in enumerate(photos):
        pixels = cv2.imread(str(path), cv2.IMREAD_COLOR)
        cv2.imwrite(str(originals / f"{at:02d}.jpg"), cv2.resize(pixels, (32, 32)))
    files = files_below(originals)
    for at in range(count):
        place = partial / f"class-{at // _FOLDER:03d}" / f"{at:06d}.jpg"
        if at % _FOLDER == 0:
            place.parent.mkdir(parents=True)
        place.hardlink_to(files[at % len(files)])
    partial.rename(folder)


def million(data: Data, name: str, suffix: str, **options: object) -> Path:
    """Return a dataset of ``data.many`` images of 8×8 pixels, written by the format's own writer.

    Args:
        data: says where and how many.
        name: of the format.
        suffix: of the dataset.
        options: of the format.
    """
    count = data.many
    path = Path(data.work) / f"many-{count}{suffix}"
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    row = registry.get(name)
    schema = Schema(payload=Payload.PIXELS, image_shape=_SHAPE, class_names=("all",))
    manifest = Manifest(format=name, schema=schema, tool="benchmarks")
    writer = open_writer(row, path, manifest, row.write_options.from_mapping(options, owner=name))
    writer.begin("benchmarks")
    for part, batch in _parts(count, writer.limits.samples):
        writer.write_part(part, batch)
    writer.publish(manifest)
    return path


def _parts(count: int, most: int) -> Iterator[tuple[Part, Batch]]:
    random = np.random.default_rng(0)
    for index, start in enumerate(range(0, count, most)):
        stop = min(start + most, count)
        keys = [f"all/{at:07d}.png" for at in range(start, stop)]
        images = random.integers(0, 256, (len(keys), *_SHAPE), np.uint8)
        labels = np.zeros(len(keys), np.int64)
        part = Part(index=index, start=start, samples=len(keys), source_stop=stop)
        yield part, Batch(keys, labels, images, None, [None] * len(keys))
