"""What bench gives to paste runs as it stands, on the dataset that it was made for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fastdata_cli.loading.loader import LoaderOptions
from fastdata_cli.operations.bench.advise import Choice
from fastdata_cli.operations.bench.paste import fast_loader_block, fast_loader_line, loader_block
from tests.conftest import make_tree
from tests.operations.bench.readers import subject_of, write_raw

OPTIONS = LoaderOptions(batch_size=16)
LONG = LoaderOptions(
    batch_size=16,
    order="block",
    workers=1,
    prefetch_factor=4,
    persistent_workers=True,
    start_method="fork",
)


def run(source: str) -> list[tuple[int, ...]]:
    """Return the shapes of the batches that a pasted loader gives."""
    scope: dict[str, Any] = {}
    exec(source, scope)
    return [tuple(images.shape) for images, _ in scope["loader"]]


@pytest.mark.parametrize("threads", [True, False])
@pytest.mark.parametrize("order", ["sequential", "random", "block"])
def test_it_runs(tmp_path: Path, order: str, threads: bool) -> None:
    subject = subject_of(write_raw(tmp_path / 'it\'s "a" dataset.raw', 40))
    options = LoaderOptions(batch_size=16, order=order)
    shapes = run(loader_block(subject, Choice(options=options, threads=threads)))
    assert shapes == [(16, 64, 64, 3), (16, 64, 64, 3), (8, 64, 64, 3)]


@pytest.mark.parametrize("threads", [True, False])
def test_images_of_different_sizes_are_resized_as_they_were_measured(
    tmp_path: Path, threads: bool
) -> None:
    subject = subject_of(make_tree(tmp_path / "images", 24), size="20x30")
    shapes = run(loader_block(subject, Choice(options=OPTIONS, threads=threads)))
    assert shapes == [(16, 20, 30, 3), (8, 20, 30, 3)]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_loader_of_many_settings_has_one_to_a_line(tmp_path: Path) -> None:
    subject = subject_of(write_raw(tmp_path / "a.raw", 40))
    text = loader_block(subject, Choice(options=LONG))
    assert max(map(len, text.replace(str(tmp_path), "").splitlines())) < 80
    assert "\n    num_workers=1,\n    prefetch_factor=4,\n    persistent_workers=True,\n" in text
    assert text.startswith("from torch.utils.data import DataLoader\n\nfrom fastdata_cli import ")
    assert len(run(text)) == 3


def test_the_line_of_a_row_is_enough(tmp_path: Path) -> None:
    subject = subject_of(write_raw(tmp_path / "a.raw", 40))
    line = fast_loader_line(subject, LoaderOptions(batch_size=16, pin_memory=True))
    assert line == f"FastLoader({subject.name!r}, 16, order='block', pin_memory=True)"
    assert len(run(fast_loader_block(line.replace(", pin_memory=True", "")))) == 3
