"""What must hold after a stop, and after the run that follows it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fastdata_cli import registry
from fastdata_cli.contract import Reader
from fastdata_cli.errors import DamagedDatasetError, FastdataError
from fastdata_cli.operations.diff import diff
from fastdata_cli.operations.rejects import rejects_path
from fastdata_cli.operations.verify import verify
from fastdata_cli.testing.conformance import content
from tests.crash.subjects import Subject


def check_visible(
    subject: Subject, destination: Path, reference: Path, old: Path | None
) -> Iterator[str]:
    """Yield what is wrong with what a stopped run has left to be seen.

    Nothing may be visible at the destination, or a complete dataset: the new one, or the old one
    that it replaces. A set of shards or a tree, which appear by several renames, may be refused
    as incomplete, in words.

    Args:
        subject: what was converted.
        destination: where to.
        reference: an undisturbed run's.
        old: what was to be replaced, if anything.
    """
    try:
        reader = registry.open_reader(destination)
        if reader.manifest is None:
            yield "what is visible looks like a dataset that others made"
            return
        findings = verify(reader).findings
    except DamagedDatasetError as problem:
        several = subject.is_pattern or subject.name.startswith("tree")
        if not (several and "incomplete" in problem.message):
            yield f"visible, and damaged: {problem.message}"
        return
    except FastdataError as problem:
        if destination.exists() or (old is not None and not subject.is_pattern):
            yield f"visible, and not to be read: {problem.message}"
        return
    if findings:
        yield f"visible, with {len(findings)} findings, the first: {findings[0]}"
    lengths = {len(registry.open_reader(each)) for each in (reference, old) if each is not None}
    if len(reader) not in lengths:
        yield f"visible, with {len(reader)} samples of {lengths}"


def check_finished(subject: Subject, destination: Path, reference: Path) -> Iterator[str]:
    """Yield how what stands there in the end differs from an undisturbed run's."""
    found, expected = _names(destination.parent), _names(reference.parent)
    if found != expected:
        yield f"left over: {sorted(found - expected)}, missing: {sorted(expected - found)}"
        return
    one, two = registry.open_reader(destination), registry.open_reader(reference)
    findings = verify(one).findings
    if findings:
        yield f"{len(findings)} findings, the first: {findings[0]}"
    yield from _differences(one, two)
    if _bytes(rejects_path(destination)) != _bytes(rejects_path(reference)):
        yield "the lists of rejects differ"
    if subject.same_bytes:
        for name in sorted(expected):
            if content(destination.parent / name) != content(reference.parent / name):
                yield f"the bytes of {name} differ"


def _differences(one: Reader, two: Reader) -> Iterator[str]:
    report = diff(one, two)
    if not report.equal or not report.same_order:
        yield f"not the same samples: {report.differences[:3]}"


def _names(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()}


def _bytes(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None
