"""The steps between container and batch: each is measured, and nothing stands in its own way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from fastdata_cli.imaging.resize import resize
from fastdata_cli.operations.bench import stages
from fastdata_cli.operations.bench.stages import measure_stages, stage_batches
from tests.conftest import make_tree
from tests.operations.bench.readers import SHAPE, subject_of, write_raw

Pixels = NDArray[np.uint8]


def test_pixels_are_resized_from_one_memory_into_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = subject_of(write_raw(tmp_path / "a.raw", 40), size="24x32")
    calls = []

    def spy(image: Pixels, size: tuple[int, int], out: Pixels) -> Pixels:
        calls.append((image.shape, out.shape, np.may_share_memory(out, image)))
        return resize(image, size, out=out)

    monkeypatch.setattr(stages, "resize", spy)
    rows = measure_stages(subject, stage_batches(subject, 16, 0.5), 0.5)
    assert [row.stage for row in rows] == ["read", "resize"]
    assert set(calls) == {(SHAPE, (24, 32, 3), False)}


def test_smaller_files_would_still_cover_the_batch(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "images", 12, (48, 64))
    assert subject_of(tree, size="21").max_side == 32
    assert subject_of(write_raw(tmp_path / "a.raw", 4)).max_side is None
