"""``inspect --verify`` and ``convert`` on damaged datasets: exit codes, and who is named."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastdata_cli import open_reader
from fastdata_cli.contract import Capability
from tests.conftest import Run

NAMES = ["set.raw", "set.zarr", "set.h5", "set.lmdb", "set.tar", "set.tfrecord"]


@pytest.fixture(params=NAMES)
def whole(request: pytest.FixtureRequest, run: Run, tree: Path, tmp_path: Path) -> Path:
    path = tmp_path / str(request.param)
    run("convert", tree, path, "--payload", "encoded")
    return path


def place_of(path: Path, index: int) -> tuple[Path, int]:
    """Return the file and the byte in the middle of a stored image."""
    reader = open_reader(path)
    if Capability.LOCATE not in reader.capabilities:
        pytest.skip("where its images are is not known")
    extents = reader.locate([index])
    file = Path(extents.path_of(int(extents.file[0])))
    return file, int(extents.offset[0] + extents.length[0] // 2)


def test_a_flipped_byte_names_the_sample(run: Run, whole: Path) -> None:
    key = open_reader(whole).keys()[7]
    file, at = place_of(whole, 7)
    data = bytearray(file.read_bytes())
    data[at] ^= 4
    file.write_bytes(data)
    found = run("inspect", whole, "--verify", code=3)
    assert key in found.output
    assert " in 20 samples" in found.stdout.replace("\n", " ")
    run("convert", whole, whole.with_name("again.lmdb"))
    assert len(open_reader(whole.with_name("again.lmdb"))) == 19
    assert key in whole.with_name("again.lmdb.rejects.jsonl").read_text()


def test_a_cut_file_is_named_in_one_line(run: Run, whole: Path) -> None:
    file = max(files(whole), key=lambda each: each.stat().st_size)
    os.truncate(file, 300)
    if whole.suffix == ".zarr":  # the array is there, and each sample lacks its chunk
        found = run("inspect", whole, "--verify", code=3)
        assert "20 findings in 20 samples" in found.stdout.replace("\n", " ")
        return
    found = run("inspect", whole, "--verify", code=1)
    lines = [line for line in found.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1
    assert whole.name in lines[0]
    assert "Traceback" not in found.output


def files(path: Path) -> Iterator[Path]:
    return (each for each in ([path] if path.is_file() else path.rglob("*")) if each.is_file())


def test_metadata_that_is_no_json_costs_its_sample_alone(
    run: Run, tree: Path, tmp_path: Path
) -> None:
    (tree / "class0" / "0000.jpg").write_bytes(b"")
    run("convert", tree, tmp_path / "set.raw", "--on-bad", "fill", "--size", 8)
    side = tmp_path / "set.raw" / "metadata.jsonl"
    side.write_text(side.read_text().replace("{", "[", 1))
    found = run("inspect", tmp_path / "set.raw", "--verify", code=3)
    assert "class0/0000.jpg" in found.output
    assert "keys, labels or metadata are not what was written" in found.output.replace("\n", " ")


def test_a_tar_whose_index_is_not_at_its_end(run: Run, tree: Path, tmp_path: Path) -> None:
    path = tmp_path / "set.tar"
    run("convert", tree, path)
    path.write_bytes(path.read_bytes() + bytes(512))
    found = run("inspect", path, "--verify", code=3)
    assert "its index is not used" in found.output
