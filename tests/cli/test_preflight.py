"""What ``fastdata convert`` looks at before it writes the first sample."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.conftest import Run

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
