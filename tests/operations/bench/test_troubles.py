"""Troubles of the machine: each kind is told once, in the words of the worst."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fastdata_cli.operations.bench.troubles import Trouble, sentences, troubles
from fastdata_cli.timing.resource_use import DiskUse, Resources
from fastdata_cli.timing.resources import ResourceWatch


def test_the_worst_of_each_kind_speaks_for_all() -> None:
    found = [
        Trouble(kind="swap", where="a, 2 workers", value=1.0, text="little"),
        Trouble(kind="queue sda", where="a, 2 workers", value=40.0, text="full"),
        Trouble(kind="swap", where="b, 4 workers", value=9.0, text="much"),
        Trouble(kind="swap", where="b, 2 workers", value=5.0, text="some"),
    ]
    assert list(sentences(found)) == ["a, 2 workers: full", "b, 4 workers and 2 more: much"]
    assert list(sentences([])) == []


@pytest.fixture
def resources(tmp_path: Path) -> Resources:
    """What nothing takes."""
    with ResourceWatch([tmp_path]) as watch:
        pass
    assert watch.resources is not None
    return replace(watch.resources, disks=(), swapped_in_bytes=0, swapped_out_bytes=None)


def disk(utilisation: float, queue: float) -> DiskUse:
    return DiskUse(
        device="sda",
        utilisation_mean=utilisation,
        utilisation_peak=1.0,
        queue_mean=queue,
        queue_peak=queue,
        reads=1,
        read_bytes=1,
    )


def test_swapping_and_a_full_queue_are_trouble(resources: Resources) -> None:
    met = replace(resources, swapped_in_bytes=30_000_000, disks=(disk(0.95, 64), disk(0.95, 2)))
    texts = [each.text for each in troubles("a, 2 workers", met)]
    assert texts == [
        "the machine swapped 30 MB meanwhile: memory is short",
        "the queue of disk sda was full: busy 95% of the time, 64 requests waiting",
    ]
    assert list(troubles("a, 2 workers", resources)) == []
