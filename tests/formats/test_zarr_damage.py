"""Damaged Zarr stores of ours: every loss ends in an error or a finding, never in a wrong image."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fastdata_cli import registry
from fastdata_cli.contract import Finding
from fastdata_cli.errors import BadSampleError, DamagedDatasetError, FastdataError
from fastdata_cli.formats.zarr import FORMAT
from fastdata_cli.formats.zarr.options import ZarrWriteOptions
from fastdata_cli.sample import Payload
from fastdata_cli.testing import synthetic, write_dataset

LAYOUTS: dict[str, tuple[Payload, dict[str, Any]]] = {
    "shards": (Payload.PIXELS, {"shard_samples": 8}),
    "chunks": (Payload.PIXELS, {"chunk": 4, "codec": "zstd"}),
    "plain": (Payload.PIXELS, {"chunk": 4, "codec": "none"}),
    "version 2": (Payload.PIXELS, {"chunk": 4, "zarr_format": "2"}),
    "encoded": (Payload.ENCODED, {}),
    "encoded, compressed": (Payload.ENCODED, {"codec": "zstd", "zarr_format": "2"}),
}


@pytest.fixture(scope="module", params=list(LAYOUTS))
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound dataset of each layout; it is only read."""
    payload, options = LAYOUTS[request.param]
    return write_dataset(
        FORMAT,
        tmp_path_factory.mktemp("whole") / "set.zarr",
        synthetic.samples_for(payload, 20),
        payload,
        ZarrWriteOptions(**options),
        part_samples=8,
    )


@pytest.fixture
def path(whole: Path, tmp_path: Path) -> Path:
    """A copy of it to be damaged."""
    return Path(shutil.copytree(whole, tmp_path / "set.zarr"))


def test_every_lost_file_is_noticed(whole: Path, path: Path) -> None:
    for victim in needed_files(whole):
        (path / victim).unlink()
        assert noticed(path, {"missing"}), f"{victim} is gone, and nobody noticed"
        shutil.copy(whole / victim, path / victim)


def test_every_cut_file_is_noticed(whole: Path, path: Path) -> None:
    for victim in needed_files(whole):
        for keep in (0.0, 0.5, 0.99):
            shutil.copy(whole / victim, path / victim)
            with open(path / victim, "r+b") as file:
                file.truncate(int(file.seek(0, 2) * keep))
            assert noticed(path, {"corrupt"}), f"{victim} is cut, and nobody noticed"
        shutil.copy(whole / victim, path / victim)


def test_every_flipped_byte_of_data_is_noticed(whole: Path, path: Path) -> None:
    rng = np.random.default_rng(1)
    for victim in files(whole):
        if is_metadata(victim):
            continue
        data = (whole / victim).read_bytes()
        used = len(data.rstrip(b"\0"))  # the padding of encoded images is nobody's
        for position in rng.integers(0, used, 6).tolist():
            changed = bytearray(data)
            changed[position] ^= 1 << int(rng.integers(8))
            (path / victim).write_bytes(changed)
            if not noticed(path, {"corrupt", "missing"}):
                assert sound(path, whole), f"byte {position} of {victim}: wrong, and not noticed"
        (path / victim).write_bytes(data)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_no_metadata_makes_it_crash(
    data: st.DataObject, whole: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    victim = data.draw(st.sampled_from([file for file in files(whole) if is_metadata(file)]))
    content = bytearray((whole / victim).read_bytes())
    position = data.draw(st.integers(0, len(content) - 1))
    content[position] = data.draw(st.integers(32, 126))
    path = Path(shutil.copytree(whole, tmp_path_factory.mktemp("bad") / "set.zarr"))
    (path / victim).write_bytes(content)
    noticed(path, {"corrupt", "missing"})


def test_a_lost_chunk_costs_only_its_samples(tmp_path: Path) -> None:
    samples = synthetic.pixel_samples()
    path = write_dataset(
        FORMAT, tmp_path / "set.zarr", samples, Payload.PIXELS, ZarrWriteOptions(chunk=4)
    )
    lost = path / "images" / "c" / "3" / "0" / "0" / "0"
    lost.unlink()
    reader = registry.open_reader(path)
    assert [(finding.index, finding.kind) for finding in reader.verify()] == [
        (index, "missing") for index in range(12, 16)
    ]
    with pytest.raises(BadSampleError, match=str(lost)) as caught:
        reader.read(13)
    assert caught.value.reason == "missing"
    good = [sample for sample in reader.scan() if hasattr(sample, "image")]
    assert len(good) == 37


def test_a_surplus_of_rows_is_named(tmp_path: Path) -> None:
    samples = synthetic.pixel_samples()
    path = write_dataset(FORMAT, tmp_path / "set.zarr", samples, Payload.PIXELS)
    meta = path / "images" / "zarr.json"
    meta.write_text(meta.read_text().replace("41", "40", 1))
    with pytest.raises(DamagedDatasetError, match=r"images: uint8 of .*40.* expects .*41"):
        registry.open_reader(path)


def test_a_folder_by_that_name_is_no_store(tmp_path: Path) -> None:
    path = tmp_path / "set.zarr"
    path.mkdir()
    (path / "notes.txt").write_text("x")
    with pytest.raises(DamagedDatasetError, match="named like zarr"):
        registry.open_reader(path)


def files(path: Path) -> list[Path]:
    return sorted(entry.relative_to(path) for entry in path.rglob("*") if entry.is_file())


def needed_files(path: Path) -> list[Path]:
    """All files but attributes that only repeat what the group says."""
    return [file for file in files(path) if file.name != ".zattrs" or len(file.parts) == 1]


def is_metadata(file: Path) -> bool:
    return file.name.startswith(".z") or file.name == "zarr.json"


def noticed(path: Path, kinds: set[str]) -> list[Finding] | FastdataError | None:
    """Return what a full check says about the damage; None for nothing."""
    try:
        reader = registry.open_reader(path)
        findings = list(reader.verify())
        reader.labels()
        reader.keys()
    except FastdataError as problem:
        return problem
    assert {finding.kind for finding in findings} <= kinds
    return findings or None


def sound(path: Path, whole: Path) -> bool:
    """Whether two datasets give the same samples all the same."""
    one, two = registry.open_reader(path), registry.open_reader(whole)
    everything = range(len(two))
    same = np.array_equal(one.read_many(everything).images, two.read_many(everything).images)
    return same and list(one.keys()) == list(two.keys())
