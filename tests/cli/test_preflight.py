"""What ``fastdata convert`` looks at before it writes the first sample."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.conftest import Run, jpeg

Disk = Callable[[int], None]


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    def of(free: int) -> None:
        monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=free, f_frsize=1))

    return of


@pytest.mark.parametrize("name", ["out.zarr", "out.tar", "out.lmdb"])
def test_a_disk_that_is_too_small_is_told_before_anything_is_written(
    run: Run, tree: Path, tmp_path: Path, disk: Disk, name: str
) -> None:
    disk(5_000)
    before = set(tmp_path.iterdir())
    result = run("convert", tree, tmp_path / name, code=1)
    text = result.stderr.replace("\n", " ")
    assert "no space: " in text
    assert f"and {tmp_path} has 5.0 KB free" in text
    assert "--no-preflight" in result.stderr
    assert set(tmp_path.iterdir()) == before


def test_it_is_tried_all_the_same_when_asked_for(
    run: Run, tree: Path, tmp_path: Path, disk: Disk
) -> None:
    disk(5_000)
    run("convert", tree, tmp_path / "out.zarr", "--no-preflight")
    assert (tmp_path / "out.zarr").is_dir()


def test_what_the_codec_saves_counts(run: Run, tmp_path: Path, disk: Disk) -> None:
    import cv2
    import numpy as np

    folder = tmp_path / "flat"
    folder.mkdir()
    for index in range(30):
        assert cv2.imwrite(str(folder / f"{index}.png"), np.full((64, 64, 3), index, np.uint8))
    disk(200_000)  # 30 × 12,288 bytes of pixels, which shrink to nearly nothing
    run("convert", folder, tmp_path / "out.zarr", "--codec", "zstd", "--chunk", 10)
    run("convert", folder, tmp_path / "out.raw", code=1)


def test_a_low_limit_of_open_files_is_raised(run: Run, tree: Path, tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, soft), hard))
    try:
        run("convert", tree, tmp_path / "out.zarr", "--chunk", 1)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= min(1024, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_too_few_open_files_are_told_before_anything_is_written(
    run: Run, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (20, 20))
    refused = run("convert", tree, tmp_path / "out.zarr", code=1).stderr
    assert "only 20 files may be open at once, and 64 are needed" in refused
    assert {path.name for path in tmp_path.iterdir()} == {"images"}


@pytest.mark.parametrize("suffix", [".zarr", ".tar", ".h5", ".lmdb", ".raw"])
def test_a_name_that_is_too_long_is_told(run: Run, tree: Path, tmp_path: Path, suffix: str) -> None:
    refused = run("convert", tree, tmp_path / ("n" * 240 + suffix), code=2).stderr
    assert "too long a name; while it is made it takes another 18 bytes" in refused
    assert {path.name for path in tmp_path.iterdir()} == {"images"}


def limits(monkeypatch: pytest.MonkeyPatch, **least: int) -> None:
    """Have the file system take names and paths of these lengths."""
    monkeypatch.setattr(os, "pathconf", lambda _, name: least.get(name, 255))


@pytest.mark.parametrize(
    ("least", "fits"),
    [
        ({"PC_NAME_MAX": 143, "PC_PATH_MAX": 4096}, 143),  # encrypted folders (eCryptfs)
        ({"PC_NAME_MAX": 255, "PC_PATH_MAX": 900}, 300),
    ],
)
def test_file_names_that_are_too_long_are_told(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, least: dict[str, int], fits: int
) -> None:
    for folder, name in (("short", "a" * 100), ("long", "b" * 200)):
        path = tmp_path / folder / "/".join([name] * 3) / f"{name}.jpg"
        path.parent.mkdir(parents=True)
        path.write_bytes(jpeg(8, 8, 1))
    limits(monkeypatch, **least)
    refused = run("convert", tmp_path / "long", tmp_path / "out", "--to", "tree", code=2).stderr
    assert f"too long a name for a file below {tmp_path / 'out'}" in refused.replace("\n", " ")
    assert not (tmp_path / "out").exists()
    run("convert", tmp_path / "short", tmp_path / "out", "--to", "tree")
    run("convert", tmp_path / "long", tmp_path / "out.tar")


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("a.h5", ["--codec", "lz4", "--chunk", 20_000], "the LZ4 filter takes 2,147,483,647"),
        ("a.h5", ["--codec", "gzip", "--chunk", 30_000], "a chunk of HDF5 takes 4,294,967,295"),
        ("a.h5", ["--chunk", 30_000], "--chunk 28532 or less"),
        ("a.h5", ["--codec", "lz4", "--chunk", 20_000], "--chunk 14266 or less, or --codec zstd"),
        ("a.zarr", ["--chunk", 20_000], "Blosc takes 2,147,483,631"),
        ("a.zarr", ["--chunk", 20_000], "--chunk 14266 or less, or --codec none"),
        ("a.zarr", ["--chunk", 1, "--shard-samples", 30_000], "--shard-samples 28532 or less"),
        ("a.h5", ["--size", "40000"], "smaller images, by --size"),
        ("a.zarr", ["--size", "40000"], "smaller images, by --size"),
        ("a.lmdb", ["--size", "40000", "--payload", "pixels"], "a value of LMDB takes"),
        ("a.tfrecord", ["--size", "30000", "--payload", "pixels"], "a message of protobuf takes"),
    ],
)
def test_what_a_container_cannot_hold_is_told_before_anything_is_written(
    run: Run, tree: Path, tmp_path: Path, name: str, options: list[object], words: str
) -> None:
    sized = [] if "--size" in options else ["--size", 224]
    refused = run(
        "convert", tree, tmp_path / name, *options, *sized, "--no-preflight", code=2
    ).stderr
    assert words in refused.replace("\n", " ")
    assert {path.name for path in tmp_path.iterdir()} == {"images"}


@pytest.mark.parametrize(
    ("name", "options", "fits"),
    [
        ("a.tfrecord", [], False),
        ("a.tfrecord", ["--limit", 10], True),
        ("a-%03d.tfrecord", [], True),
        ("a-%03d.tfrecord", ["--shard-samples", 10], True),
        ("a-%03d.tfrecord", ["--shard-samples", 20], False),
    ],
)
def test_an_index_that_no_record_holds_is_told(
    run: Run,
    tree: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    options: list[object],
    fits: bool,
) -> None:
    monkeypatch.setattr("fastdata_cli.formats.tfrecord.index._COLUMN_BYTES", (1 << 31) // 15)
    refused = run("convert", tree, tmp_path / name, *options, code=0 if fits else 2).stderr
    if not fits:
        assert "the index of 20 samples is larger than a record can be" in refused
        assert "train-%05d.tfrecord" in refused
        assert {path.name for path in tmp_path.iterdir()} == {"images"}
