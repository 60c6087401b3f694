"""Makes a finished dataset visible, with the list of what it lacks: all of that, or nothing."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from fastdata_cli.contract import Writer
from fastdata_cli.formats.tree.sidecar import is_ours, sidecar_path
from fastdata_cli.operations.plan import Plan
from fastdata_cli.operations.rejects import write_rejects
from fastdata_cli.operations.totals import Totals
from fastdata_cli.storage import durable


@dataclass(frozen=True, kw_only=True)
class Published:
    """What is there now beside the dataset."""

    rejects_path: Path | None
    interrupted: bool
    """Somebody pressed Ctrl-C meanwhile: too late, the dataset is complete."""


def publish(writer: Writer, plan: Plan, totals: Totals) -> Published:
    """List the rejects and publish; what only the dataset before needed goes away.

    Where nothing stood before, the list is there first: no dataset is seen without it. Where one is
    replaced or added to, the list comes last: until then the old dataset has its own. A run that is
    killed in between leaves the old list, which the same command, run again, puts right. If nothing
    can be added, only the list is new.
    """
    manifest, destination = plan.manifest(totals.counts), plan.path
    sidecar = sidecar_path(destination)
    replaces_tree = manifest.format != "tree" and destination.exists() and is_ours(sidecar)
    stood = os.path.lexists(destination) or plan.format.recognises(destination)
    with held_back() as interruption:
        listed = None if stood else write_rejects(destination, totals.rejects)
        if plan.growth is None:
            writer.publish(manifest)
        elif totals.added:
            own = plan.growth.with_generation(manifest, totals.added, totals.own_counts)
            writer.publish(own)
        else:
            writer.abort(keep=False)
        if stood:
            listed = write_rejects(destination, totals.rejects)
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
