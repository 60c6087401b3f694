"""Makes a finished dataset visible, with the list of what it lacks: all of that, or nothing."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from fastdata_cli.contract import Writer
from fastdata_cli.formats.tree.sidecar import is_ours, sidecar_path
from fastdata_cli.manifest import Manifest
from fastdata_cli.operations.rejects import write_rejects
from fastdata_cli.sample import Reject
from fastdata_cli.storage import durable


@dataclass(frozen=True, kw_only=True)
class Published:
    """What is there now beside the dataset."""

    rejects_path: Path | None
    interrupted: bool
    """Somebody pressed Ctrl-C meanwhile: too late, the dataset is complete."""


def publish(
    writer: Writer, destination: Path, manifest: Manifest, rejects: Sequence[Reject]
) -> Published:
    """List the rejects and publish; what only the dataset before needed goes away."""
    sidecar = sidecar_path(destination)
    replaces_tree = manifest.format != "tree" and destination.exists() and is_ours(sidecar)
    with held_back() as interruption:
        listed = write_rejects(destination, rejects)
        writer.publish(manifest)
        if replaces_tree:
            durable.remove(sidecar)
    return Published(rejects_path=listed, interrupted=interruption.is_set())


@contextlib.contextmanager
def held_back() -> Iterator[threading.Event]:
    """Hold the first Ctrl-C back until the block has ended; obey the second at once.

    Yields an event that is set when one came. Where Ctrl-C is nobody's business (in other threads
    than the main one; where it is ignored, or another's handler has it) nothing is held back.
    """
    came = threading.Event()
    before = signal.getsignal(signal.SIGINT)
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or before is not signal.default_int_handler:
        yield came
        return

    def note(number: int, frame: FrameType | None) -> None:
        came.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, note)
    try:
        yield came
    finally:
        signal.signal(signal.SIGINT, before)
