"""Makes little trees."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fastdata_cli.contract import Target, Writer
from fastdata_cli.formats.tree import FORMAT
from fastdata_cli.manifest import Manifest
from fastdata_cli.options import Options
from fastdata_cli.sample import Sample
from fastdata_cli.testing.synthetic import png


def folder_of(root: Path, files: Mapping[str, bytes]) -> Path:
    """Create files below a folder, and return the folder."""
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def plain_tree(tmp_path: Path) -> Path:
    return folder_of(
        tmp_path / "set",
        {"cat/a.png": png(3, 4, 0), "cat/b.png": png(3, 4, 1), "dog/a.png": png(3, 4, 2)},
    )


def images_of(samples: list[tuple[str, int]]) -> list[Sample]:
    """Return encoded samples with these keys and labels."""
    return [
        Sample(key, np.frombuffer(png(3, 4, seed), np.uint8), label)
        for seed, (key, label) in enumerate(samples)
    ]


def open_writer(path: Path, manifest: Manifest) -> Writer:
    assert FORMAT.open_writer is not None
    return FORMAT.open_writer(Target(path=path, manifest=manifest), Options())
