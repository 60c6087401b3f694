"""Small steps of a staged run, for the tests of staging and publishing."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fastdata_cli.contract import Part, Receipt
from fastdata_cli.sample import Batch, Payload, Reject, Sample
from fastdata_cli.storage.staging import Staging
from fastdata_cli.storage.table import SampleTable


def part(index: int) -> Part:
    rejects = (Reject(f"bad\udcff/{index}", "truncated", "at byte 7", 3 * index + 1),)
    return Part(
        index=index,
        start=2 * index,
        samples=2,
        source_stop=3 * index + 3,
        rejects=rejects,
        bytes=6,
        notes={"cmyk": 1},
    )


def table(index: int) -> SampleTable:
    images = np.full((2, 3), index, np.uint8)
    samples = [Sample(f"{index}/{n}\n", image, index) for n, image in enumerate(images)]
    return SampleTable.from_batch(Batch.from_samples(samples, Payload.ENCODED))


def commit(staging: Staging, index: int) -> Receipt:
    return staging.commit(part(index), table(index), {"end": 6 * index, "name": "ü"})


def interrupted(destination: Path, *indices: int) -> list[Receipt]:
    """Leave the place of a run that committed these parts, in this order."""
    staging = Staging(destination)
    staging.begin("same")
    receipts = [commit(staging, index) for index in indices]
    staging.abort(keep=True)
    return receipts


def resume(destination: Path) -> list[Receipt]:
    """Return what a next run would continue from."""
    staging = Staging(destination)
    receipts = staging.begin("same")
    staging.abort(keep=True)
    return receipts
