"""What may be replaced: never what the source reads, however either of them is written down."""

import os
from pathlib import Path

import pytest

from fastdata_cli import registry
from fastdata_cli.errors import DestinationExistsError
from fastdata_cli.formats.sharded.writer import ShardWriteOptions
from fastdata_cli.operations.destination import check_destination
from fastdata_cli.operations.settings import SourceOptions
from fastdata_cli.operations.source import open_source
from fastdata_cli.sample import Payload
from fastdata_cli.testing import encoded_samples, write_dataset
from tests.conftest import Run

ROW = registry.get("webdataset")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three shards at ``train-%03d.tar``, one tar ``apart.tar``, links to shards elsewhere."""
    folder = tmp_path / "shards"
    folder.mkdir()
    samples = encoded_samples()
    options = ShardWriteOptions(shard_samples=-(-len(samples) // 3))
    write_dataset(ROW, folder / "train-%03d.tar", samples, Payload.ENCODED, options)
    write_dataset(ROW, folder / "apart.tar", samples, Payload.ENCODED)
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "a.tar").symlink_to(folder / "train-001.tar")
    (tmp_path / "same").symlink_to(folder)
    return folder


def check(source: str, path: Path) -> None:
    opened = open_source(source, SourceOptions())
    check_destination(path, ROW, overwrite=True, source=opened)


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ("shards/train-000.tar", "shards/train-%03d.tar"),
        ("shards/train-{000..001}.tar", "shards/train-%03d.tar"),
        ("shards/train-%03d.tar", "shards/train-%03d.tar"),
        ("shards/train-%03d.tar", "shards/train-001.tar"),
        ("shards/train-{000..001}.tar", "shards/train-001.tar"),
        ("same/train-000.tar", "shards/train-%03d.tar"),
        ("shards/train-000.tar", "same/train-%03d.tar"),
        ("links", "shards/train-%03d.tar"),
        ("links/a.tar", "shards/train-001.tar"),
        ("shards/apart.tar", "shards/apart.tar"),
        ("shards/apart.tar", "same/apart.tar"),
    ],
)
def test_what_the_source_reads_is_never_replaced(
    folder: Path, monkeypatch: pytest.MonkeyPatch, source: str, path: str
) -> None:
    monkeypatch.chdir(folder.parent)
    with pytest.raises(DestinationExistsError, match="overlap"):
        check(source, Path(path))
    monkeypatch.chdir(os.sep)
    with pytest.raises(DestinationExistsError, match="overlap"):
        check(str(folder.parent / source), folder.parent / path)


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ("shards/apart.tar", "shards/train-%03d.tar"),
        ("shards/train-%03d.tar", "shards/apart.tar"),
        ("shards/train-000.tar", "shards/train-%02d.tar"),
    ],
)
def test_what_it_does_not_read_is_replaced(folder: Path, source: str, path: str) -> None:
    check(str(folder.parent / source), folder.parent / path)


def test_convert_and_clean_ask(run: Run, folder: Path) -> None:
    before = {each.name: each.read_bytes() for each in folder.iterdir()}
    source, pattern = folder / "train-000.tar", folder / "train-%03d.tar"
    for words in (("convert", source, pattern), ("clean", source, "--min-side", 1, "-o", pattern)):
        assert "overlap" in run(*words, "--overwrite", code=2).stderr
    assert {each.name: each.read_bytes() for each in folder.iterdir()} == before


def test_a_shard_of_a_set_is_not_overwritten_alone(folder: Path, tmp_path: Path) -> None:
    source = str(write_dataset(ROW, tmp_path / "in.tar", encoded_samples(), Payload.ENCODED))
    with pytest.raises(DestinationExistsError, match=r"is a shard of train-%03d\.tar"):
        check(source, folder / "train-001.tar")
    check(source, folder / "train-%03d.tar")
    check(source, folder / "apart.tar")
