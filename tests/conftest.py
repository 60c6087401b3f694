"""Fixtures shared by the tests: small image trees, and the command line in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from typer.testing import CliRunner, Result

from fastdata_cli.cli.main import build_app

Run = Callable[..., Result]

# A busy machine is no reason to fail.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


def jpeg(height: int, width: int, seed: int) -> bytes:
    """Return a smooth JPEG that differs with its seed."""
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 256, (5, 6, 3), np.uint8)
    pixels = cv2.resize(small, (width, height), interpolation=cv2.INTER_CUBIC)
    return bytes(cv2.imencode(".jpg", pixels)[1])


def make_tree(root: Path, count: int, size: tuple[int, int] | None = (40, 48)) -> Path:
    """Write ``count`` JPEGs into class folders below ``root``; mixed sizes for None."""
    for index in range(count):
        height, width = size or (30 + index % 7, 50 - index % 5)
        path = root / f"class{index % 3}" / f"{index:04d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg(height, width, index))
    return root


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Twenty JPEGs of one size in three classes."""
    return make_tree(tmp_path / "images", 20)


@pytest.fixture
def mixed_tree(tmp_path: Path) -> Path:
    """Twenty JPEGs of different sizes in three classes."""
    return make_tree(tmp_path / "mixed", 20, None)


@pytest.fixture(scope="session")
def application() -> object:
    """The command line with all verbs."""
    return build_app()


@pytest.fixture
def run(application: object) -> Run:
    """Run ``fastdata`` with these arguments; the exit code must be the expected one."""

    def call(*arguments: object, code: int = 0, stdin: bytes | None = None) -> Result:
        words = [str(argument) for argument in arguments]
        result = CliRunner().invoke(application, words, input=stdin)  # type: ignore[arg-type]
        assert result.exit_code == code, f"{words}: {result.exit_code}\n{result.output}"
        assert result.exception is None or isinstance(result.exception, SystemExit)
        return result

    return call
