"""convert --dry-run: what would be written, how large and how long, measured on a small sample."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from fastdata_cli.contract import Target
from fastdata_cli.operations.convert import convert
from fastdata_cli.operations.plan import Plan
from fastdata_cli.operations.sampling import spread
from fastdata_cli.operations.subset import Subset
from fastdata_cli.operations.temporary import temporary_folder
from fastdata_cli.timing.environment import usable_cores

# At least this many samples are really converted, and one whole part of the format up to the most:
# a chunk that is nearly empty says nothing about the size of a full one.
_FEWEST = 64
_MOST = 1024


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What a conversion would make; sizes and time are extrapolated from ``measured`` samples."""

    path: str
    format: str
    payload: str
    image_shape: tuple[int, ...] | None
    samples: int
    measured: int
    bad: int
    """Of the measured ones."""
    logical_bytes: int
    stored_bytes: int
    seconds: float


def estimate(plan: Plan, *, jobs: int | None = None) -> Estimate:
    """Convert a spread-out sample into a temporary folder and extrapolate.

    Raises:
        NothingUsableError: no sampled image was usable.
    """
    with temporary_folder() as folder:
        path = folder / plan.path.name
        positions = spread(plan.total, max(_FEWEST, min(_MOST, _part_samples(plan, path))))
        reader = Subset(plan.source.reader, positions)
        small = plan.trial(path, replace(plan.source, reader=reader))
        report = convert(small, jobs=jobs or usable_cores())
    scale = plan.total / len(positions)
    return Estimate(
        path=str(plan.path),
        format=report.format,
        payload=report.payload,
        image_shape=report.image_shape,
        samples=round(report.samples * scale),
        measured=len(positions),
        bad=report.bad,
        logical_bytes=round(report.logical_bytes * scale),
        stored_bytes=round(report.stored_bytes * scale),
        seconds=report.seconds * scale,
    )


def _part_samples(plan: Plan, path: Path) -> int:
    assert plan.format.open_writer is not None
    writer = plan.format.open_writer(
        Target(path=path, manifest=plan.manifest()), plan.write_options
    )
    return writer.limits.samples
