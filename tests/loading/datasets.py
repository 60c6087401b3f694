"""Small datasets in several formats, for the tests of loading."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastdata_cli import registry
from fastdata_cli.sample import Payload, Sample
from fastdata_cli.testing import encoded_samples, pixel_samples, write_dataset

COUNT = 41
# Larger than a batch, smaller than the dataset, and no divisor of either.
CHUNK = 7

PIXELS, ENCODED = Payload.PIXELS, Payload.ENCODED
KINDS: dict[str, tuple[str, Payload, dict[str, Any]]] = {
    "raw": ("set.raw", PIXELS, {}),
    "zarr": ("set.zarr", PIXELS, {"chunk": CHUNK, "codec": "lz4"}),
    "hdf5": ("set.h5", PIXELS, {"chunk": CHUNK}),
    "lmdb": ("set.lmdb", ENCODED, {}),
    "webdataset": ("set.tar", ENCODED, {}),
}
"""Format to file name, payload and write options."""


def write(folder: Path, name: str, samples: list[Sample] | None = None) -> Path:
    """Write a dataset of one of KINDS: ``samples``, or 41 of its payload."""
    file, payload, options = KINDS[name]
    row = registry.get(name)
    if samples is None:
        samples = pixel_samples(COUNT) if payload is PIXELS else encoded_samples(COUNT)
    written = row.write_options.from_mapping(options, owner=name)
    return write_dataset(row, folder / file, samples, payload, written)
