"""Mistakes in commands: one rule for the exit code over all of them, one form for the words."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import Run

# What was typed cannot work: 2.
MISTAKES = [
    # a source that is not there, or nothing that is read
    "convert nowhere out.zarr",
    "inspect nowhere",
    "inspect ''",
    "clean nowhere",
    "bench nowhere",
    "convert notes.txt out.zarr",
    "inspect notes.txt",
    "bench notes.txt",
    "convert --files-from nowhere out.zarr",
    "clean --files-from nowhere",
    "clean --restore nowhere",
    "clean images --duplicates near --against nowhere",
    "clean images --duplicates near --against notes.txt",
    # a layout that is none of images
    "convert flat.npy out.zarr",
    "inspect flat.npy",
    "bench flat.npy",
    "convert stack.npy out.zarr --layout NHWC",
    "convert stack.npy out.zarr --layout QQQ",
    # a format that is not there, or cannot do that
    "convert images ''",
    "convert images out.xyz",
    "convert images out --to nope",
    "convert images out.parquet",
    "convert images out --to npy",
    "clean images -o out.xyz",
    "clean images -o out.parquet",
    "formats nope",
    "convert images set.raw --append",
    "convert images q-%06d.zarr",
    "convert images q-%03d.raw",
    "convert images out.tar --shard-samples 3",
    # a place that cannot be written, or is taken
    "convert images set.raw",
    "clean images -o set.raw",
    "convert images nowhere/out.zarr",
    "inspect set.raw --sample 0 -o nowhere/one.png",
    "inspect set.raw --preview nowhere/sheet.png",
    "clean images --report nowhere/why.csv",
    "clean images --gallery nowhere/page.html",
    "clean images --cache nowhere/scores.db",
    "clean images --quarantine notes.txt",
    "clean images --quarantine notes.txt/q",
    "clean images --duplicates near --save-index nowhere/x",
    # flags and values
    "convert images out.zarr --size 0",
    "convert images out.tar --size 70000x4",
    "convert images out.zarr --shard-size 1Q",
    "convert images out.zarr --codec nope",
    "convert images out.zarr --config nowhere",
    "convert images out.zarr --config notes.txt",
    "convert images out.zarr --labels nowhere",
    "convert images out.zarr --classes nowhere",
    "clean images --variance-min x",
    "bench set.raw --step-ms -1",
    "bench set.raw --seconds -1",
    "bench set.raw --workers ²",
    "bench set.raw --threads ²",
    "inspect set.raw --bogus",
    "inspect set.raw --sample nokey -o one.png",
    "inspect",
    "frobnicate",
]

# What the data did: 1.
FAILURES = [
    "convert empty out.zarr",
    "convert fake.zarr out.raw",
    "inspect fake.zarr",
    "inspect empty --preview sheet.png",
]


@pytest.fixture
def here(run: Run, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    for name in ("notes.txt", "fake.zarr"):
        (tmp_path / name).write_text("hello")
    np.save(tmp_path / "flat.npy", np.zeros(7, np.float32))
    np.save(tmp_path / "stack.npy", np.zeros((5, 3, 8, 8), np.uint8))
    run("convert", tree, "set.raw", "--size", 8, "--limit", 2, "-q")
    return tmp_path


@pytest.mark.parametrize("line", MISTAKES)
def test_what_cannot_be_meant_is_usage(run: Run, here: Path, line: str) -> None:
    before = sorted(here.rglob("*"))
    lines = run(*shlex.split(line), code=2).stderr.splitlines()
    assert [each.partition(":")[0] for each in lines if each] in (["error"], ["error", "hint"])
    assert sorted(here.rglob("*")) == before


@pytest.mark.parametrize("line", FAILURES)
def test_what_the_data_did_is_a_failure(run: Run, here: Path, line: str) -> None:
    assert run(*line.split(), code=1).stderr.startswith("error: ")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "inspect images --verfy",
            ["error: no such option: --verfy", "hint: did you mean --verify?"],
        ),
        (
            "clean images --variance-min x",
            [
                "error: invalid value for '--variance-min': it should be a valid number",
                "hint: fastdata clean --help",
            ],
        ),
        ("conver", ["error: no such command 'conver'", "hint: did you mean 'convert'?"]),
        (
            "inspect",
            ["error: missing argument 'PATH'", "hint: fastdata inspect --help lists what there is"],
        ),
        (
            "convert images out.zarr --shard-size 1Q",
            ["error: --shard-size: '1Q' is not a size in bytes", "hint: such as 500MB, 1GB or"],
        ),
    ],
)
def test_the_parser_speaks_as_all_errors_do(run: Run, line: str, said: list[str]) -> None:
    lines = run(*line.split(), code=2).stderr.splitlines()
    assert len(lines) == 2
    assert all(each.startswith(words) for each, words in zip(lines, said, strict=True))


def test_help_shows_values_and_none_for_flags(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = run("clean", "--help").stdout
    assert "<bool>" not in text
    for words in ("[SRC]...", "--quarantine           DIR", "--cache                FILE"):
        assert words in text


def test_a_list_as_source_is_told_apart(run: Run, here: Path) -> None:
    (here / "list.txt").write_text("images/class0/0000.jpg\n")
    os.mkfifo(here / "pipe")
    assert "--files-from list.txt" in run("convert", "list.txt", "out.zarr", code=2).stderr
    assert "--files-from list.txt" in run("clean", "list.txt", code=2).stderr
    assert "this is a pipe" in run("convert", "pipe", "out.zarr", code=2).stderr
    assert "--files-from" not in run("convert", "notes.txt", "out.zarr", code=2).stderr
