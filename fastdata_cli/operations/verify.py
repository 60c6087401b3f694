"""verify: reads a whole dataset, in threads, and names what is not as it was written."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fastdata_cli.contract import Finding, Reader
from fastdata_cli.engines.local import ordered_map
from fastdata_cli.keys import to_text
from fastdata_cli.operations.events import Listener, Silent
from fastdata_cli.timing.environment import usable_cores

# Enough spans for progress to be seen and for threads to end together; a span is read by one.
_SPANS = 200


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What reading everything found."""

    samples: int
    compared: str
    """``checksums``, or ``structure`` where a dataset has none."""
    findings: tuple[Finding, ...]


def verify(reader: Reader, listener: Listener | None = None) -> Verification:
    """Compare everything in a dataset with its checksums, or its structure where it has none.

    Args:
        reader: the dataset.
        listener: told how far it is.
    """
    listener = listener or Silent()
    findings = list(reader.verify_whole())
    done, workers = 0, usable_cores()

    def check(span: range) -> tuple[range, list[Finding]]:
        return span, list(reader.verify(span))

    for span, found in ordered_map(check, reader.spans(_SPANS), workers=workers, ahead=2 * workers):
        findings += found
        done += len(span)
        listener.progress(done, len(reader))
    return Verification(
        samples=len(reader),
        compared="structure" if reader.manifest is None else "checksums",
        findings=tuple(replace(each, key=to_text(each.key)) for each in findings),
    )
