"""What happens to trees of ours, and to their sidecars, later."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from fastdata_cli import registry
from fastdata_cli.contract import Part
from fastdata_cli.errors import (
    DamagedDatasetError,
    UsageError,
)
from fastdata_cli.formats.tree import FORMAT
from fastdata_cli.formats.tree.reader import TreeReadOptions
from fastdata_cli.sample import Batch, Payload
from fastdata_cli.testing import write_dataset
from fastdata_cli.testing.reader_conformance import digests
from fastdata_cli.testing.synthetic import manifest_for, png
from tests.formats.trees import folder_of, images_of, open_writer


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    samples = images_of([("cat/a.png", 0), ("cat/b.png", 0), ("dog/a.png", 1), ("Ä/a.png", 2)])
    return write_dataset(FORMAT, tmp_path / "out", samples, Payload.ENCODED)


def test_damage_is_found(ours: Path) -> None:
    (ours / "cat/a.png").unlink()
    flipped = bytearray((ours / "dog/a.png").read_bytes())
    flipped[40] ^= 1
    (ours / "dog/a.png").write_bytes(flipped)
    (ours / "cat/b.png").write_bytes((ours / "cat/b.png").read_bytes()[:-5])
    folder_of(ours, {"cat/new.png": png(3, 4, 9)})
    reader = registry.open_reader(ours)
    assert len(reader) == 4
    assert reader.notes == {"surplus-file": 1}
    assert [(each.index, each.key, each.kind) for each in reader.verify()] == [
        (-1, "cat/new.png", "surplus"),
        (0, "cat/a.png", "missing"),
        (1, "cat/b.png", "corrupt"),
        (2, "dog/a.png", "corrupt"),
    ]
    assert [each.index for each in reader.verify(range(2, 4))] == [2]


def test_labels_and_classes_override_the_sidecar(ours: Path, tmp_path: Path) -> None:
    classes = folder_of(tmp_path, {"classes.txt": "Ä\ndog\ncat\n".encode()}) / "classes.txt"
    reader = FORMAT.open_reader(ours, TreeReadOptions(classes=str(classes)))
    assert reader.labels().tolist() == [2, 2, 1, 0]
    assert [reader.read(index).label for index in range(4)] == [2, 2, 1, 0]
    table = folder_of(tmp_path, {"labels.csv": b"cat/a.png,5\n"}) / "labels.csv"
    reader = FORMAT.open_reader(ours, TreeReadOptions(labels=str(table)))
    assert reader.labels().tolist() == [5, -1, -1, -1]
    numbered = images_of([("a.png", 1), ("b.png", 3)])
    manifest = manifest_for(numbered, Payload.ENCODED, "tree")
    manifest = replace(manifest, schema=replace(manifest.schema, class_names=()))
    writer = open_writer(tmp_path / "numbered", manifest)
    writer.begin("x")
    writer.write_part(Part(0, 0, 2, 2), Batch.from_samples(numbered, Payload.ENCODED))
    writer.publish(manifest)
    with pytest.raises(UsageError, match="label 3 is beyond the 3 classes"):
        FORMAT.open_reader(tmp_path / "numbered", TreeReadOptions(classes=str(classes)))
    short = folder_of(tmp_path, {"short.txt": b"cat\n"}) / "short.txt"
    with pytest.raises(UsageError, match="not among"):
        FORMAT.open_reader(ours, TreeReadOptions(classes=str(short)))


@pytest.mark.parametrize("name", ["manifest.json", "keys.npy", "labels.npy", "checksums.npy"])
@pytest.mark.parametrize("damage", ["cut", "gone", "empty"])
def test_a_damaged_sidecar_is_named(ours: Path, name: str, damage: str) -> None:
    part = ours.with_name("out.fastdata") / name
    if damage == "gone":
        part.unlink()
    else:
        os.truncate(part, part.stat().st_size // 2 if damage == "cut" else 0)
    with pytest.raises(DamagedDatasetError, match=r"out\.fastdata"):
        registry.open_reader(ours)


@pytest.mark.parametrize("name", ["../../a.p", "%2E%2E/a.", "%2e./a.pn", ".%2E%2Fa.", "%2Fetc/pa"])
def test_a_sidecar_that_leads_out_is_refused(ours: Path, name: str) -> None:
    sidecar = ours.with_name("out.fastdata")
    (sidecar / "keys.npy").write_bytes(
        (sidecar / "keys.npy").read_bytes().replace(b"cat/a.png", name.encode())
    )
    with pytest.raises(DamagedDatasetError, match="outside the tree"):
        registry.open_reader(ours)


def test_a_moved_tree_takes_its_sidecar_along_or_is_a_plain_one(ours: Path) -> None:
    before = digests(registry.open_reader(ours))
    moved = ours.rename(ours.with_name("moved"))
    assert registry.open_reader(moved).manifest is None
    ours.with_name("out.fastdata").rename(ours.with_name("moved.fastdata"))
    reader = registry.open_reader(moved)
    assert reader.manifest is not None
    assert digests(reader) == before
