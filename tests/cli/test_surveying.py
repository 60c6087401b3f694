"""``convert --dry-run`` without a DST: a table, and commands that do what they say."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from fastdata_cli import open_reader
from fastdata_cli.operations import survey
from tests.conftest import Run

COLUMNS = 80


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure for a moment only."""
    for name in ("_READING_S", "_DEVICE_S"):
        monkeypatch.setattr(survey, name, 0.2)
    monkeypatch.setenv("COLUMNS", str(COLUMNS))


def test_the_command_that_is_advised_runs(
    run: Run, mixed_tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = set(tmp_path.rglob("*"))
    found = run("convert", mixed_tree, "--dry-run", "--size", "20x24", "--fit", "pad", "--quiet")
    assert set(tmp_path.rglob("*")) == before
    lines = found.stdout.splitlines()
    commands = [line.strip() for line in lines if line.startswith("  fastdata convert")]
    assert all(len(line) <= COLUMNS for line in lines if line.strip() not in commands)
    for name in ("as it is", "out.lmdb --max-side 37", "out.raw", "out.h5"):
        assert any(re.match(rf" *{name}  ", line) for line in lines), name
    words = shlex.split(commands[0])
    run(*words[1:])
    destination = words[3]
    reader = open_reader(tmp_path / destination)
    assert reader.schema.image_shape == (20, 24, 3)
    assert reader.manifest is not None
    assert reader.manifest.options["fit"] == "pad"


def test_a_list_is_a_source_too(run: Run, tree: Path, tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("\n".join(map(str, sorted(tree.rglob("*.jpg")))))
    found = run(
        "convert", "--files-from", tmp_path / "list.txt", "--dry-run", "--payload", "encoded"
    )
    assert "20 samples, as 20 became" in found.stdout
    assert "out.raw" not in found.stdout


@pytest.mark.parametrize(
    "flags", [["--to", "zarr"], ["--chunk", "3"], ["--append"], ["--codec", "lz4"]]
)
def test_flags_of_a_destination_need_one(run: Run, tree: Path, flags: list[str]) -> None:
    said = run("convert", tree, "--dry-run", *flags, code=2).stderr
    assert f"{flags[0]} needs a destination" in said
