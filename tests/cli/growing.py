"""What the tests of --append share: trees that grow, and what is read out of datasets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fastdata_cli.contract import Reader
from tests.conftest import Run, jpeg

NAMES = ["out.lmdb", "out.tar", "part-%06d.tar"]
GROWING = pytest.mark.parametrize("name", NAMES)


def make(run: Run, source: Path, out: Path, *flags: object) -> None:
    shards = ("--shard-samples", 6) if "%" in out.name else ()
    run("convert", source, out, *shards, *flags)


def append(run: Run, source: Path, out: Path, *flags: object, code: int = 0) -> str:
    return run("convert", source, out, "--append", *flags, code=code).output.replace("\n", " ")


def grow(tree: Path, folder: str = "class1", count: int = 5, seed: int = 500) -> list[str]:
    """Add images to a tree; returns their keys."""
    (tree / folder).mkdir(exist_ok=True)
    names = [f"{folder}/{seed + index:04d}.jpg" for index in range(count)]
    for index, name in enumerate(names):
        (tree / name).write_bytes(jpeg(40, 48, seed + index))
    return names


def is_sound(run: Run, out: Path, *, fresh: Path) -> None:
    run("inspect", out, "--verify")
    run("inspect", "--diff", out, fresh)


def generations(run: Run, out: Path) -> list[dict[str, object]]:
    report = json.loads(run("inspect", out, "--json").stdout)
    found: list[dict[str, object]] = report["generations"]
    return found


def rejected(out: Path) -> list[tuple[str, str, int]]:
    path = out.with_name(f"{out.name}.rejects.jsonl")
    rows = map(json.loads, path.read_text().splitlines()) if path.exists() else ()
    return [(row["key"], row["reason"], row["index"]) for row in rows]


def content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def state(reader: Reader) -> list[tuple[str, int, bytes]]:
    return [
        (each.key, each.label, each.image.tobytes())
        for each in map(reader.read, range(len(reader)))
    ]
