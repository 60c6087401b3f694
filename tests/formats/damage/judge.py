"""What must come of damage: one error that names it, findings, or the samples as they were."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fastdata_cli import registry
from fastdata_cli.contract import Finding, Reader
from fastdata_cli.errors import BadSampleError, FastdataError
from fastdata_cli.loading.samples import Samples
from fastdata_cli.operations.verify import verify
from fastdata_cli.sample import Payload, Reject, Sample

Row = tuple[str, int, bytes, dict[str, Any]]
"""Key, label, image, metadata."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one case."""

    outcome: str
    """``refused``, ``found`` or ``harmless``; ``unnoticed`` where there are no checksums; or
    ``fault``, which none may be."""
    detail: str = ""
    unchecked: bool = False
    """A loader that compares nothing would have trained on something else than was stored."""


def rows(reader: Reader) -> list[Row]:
    """Return what a sound dataset holds."""
    return [row_of(found) for found in reader.scan() if isinstance(found, Sample)]


def row_of(sample: Sample) -> Row:
    """Return a sample as plain values."""
    return sample.key, sample.label, sample.image.tobytes(), dict(sample.metadata or {})


def judge(path: Path, originals: Sequence[Row], *, has_checksums: bool = True) -> Verdict:
    """Open, verify and read a damaged dataset.

    Args:
        path: where it is.
        originals: what it held.
        has_checksums: False for datasets that cannot tell a wrong image.
    """
    try:
        reader = registry.open_reader(path)
        findings = verify(reader).findings
        read = list(reader.scan())
    except FastdataError as problem:
        return _refusal(path, problem)
    try:
        fault = _fault_of(findings, read, originals)
        fault = fault or _training_fault(path, originals)
        if fault:
            return Verdict("fault" if has_checksums else "unnoticed", fault)
        unchecked = _trains_wrong(reader, originals)
        return Verdict("found" if findings else "harmless", unchecked=unchecked)
    finally:
        reader.close()


def _refusal(path: Path, problem: FastdataError) -> Verdict:
    if path.name.split("%")[0] not in problem.message:
        return Verdict("fault", f"an error that names no file: {problem.message}")
    if "\n" in problem.message:
        return Verdict("fault", f"an error of several lines: {problem.message}")
    return Verdict("refused", problem.message)


def _fault_of(
    findings: Sequence[Finding], read: Sequence[Sample | Reject], originals: Sequence[Row]
) -> str | None:
    unnamed = [each for each in findings if each.index >= 0 and not (each.key or each.detail)]
    if unnamed:
        return f"a finding without a name: {unnamed[0]}"
    good = [row_of(each) for each in read if isinstance(each, Sample)]
    if not findings:
        return None if good == list(originals) else f"silent: {_difference(good, originals)}"
    of_the_set = any(each.index < 0 for each in findings)
    known = [row[2] if of_the_set else row for row in originals]
    for row in good:
        if (row[2] if of_the_set else row) not in known:
            return f"wrong beside {findings[0]}: {row[:2]}"
    return None


def _difference(good: Sequence[Row], originals: Sequence[Row]) -> str:
    if len(good) != len(originals):
        return f"{len(good)} samples of {len(originals)}"
    at = next(at for at, pair in enumerate(zip(good, originals, strict=True)) if pair[0] != pair[1])
    fields = ("key", "label", "image", "metadata")
    return f"sample {at}: " + ", ".join(
        name for name, one, two in zip(fields, good[at], originals[at], strict=True) if one != two
    )


def _training_fault(path: Path, originals: Sequence[Row]) -> str | None:
    """Read as a loader does that was told ``verify=True``."""
    try:
        reader = registry.open_reader(path)
        encoded = reader.schema.payload is Payload.ENCODED
        samples = Samples(reader, verify=True, decode=not encoded)
        images = samples.images.stored_each(np.arange(len(samples)))
    except FastdataError as problem:
        return None if problem.message else "an error without words in training"
    known = {(label, image) for _, label, image, _ in originals}
    for image, label, key in zip(images, samples.labels.tolist(), samples.keys, strict=True):
        if isinstance(image, BadSampleError):
            if not image.key:
                return f"training: a bad sample without its key: {image}"
        elif (label, image.tobytes()) not in known:
            return f"training with verify=True: {key!r} is wrong, and nobody says so"
    return None


def _trains_wrong(reader: Reader, originals: Sequence[Row]) -> bool:
    """Return whether reading without comparing gives an image or label that never was."""
    known = {(label, image) for _, label, image, _ in originals}
    for index in range(len(reader)):
        try:
            sample = reader.read(index)
        except FastdataError:
            continue
        if (sample.label, sample.image.tobytes()) not in known:
            return True
    return False
