"""The raw format."""

from pathlib import Path

import numpy as np
import pytest

from fastdata_cli import registry
from fastdata_cli.errors import DamagedDatasetError
from fastdata_cli.formats.raw import FORMAT
from fastdata_cli.sample import Payload
from fastdata_cli.testing import (
    FormatConformance,
    encoded_samples,
    pixel_samples,
    write_dataset,
)


class TestRaw(FormatConformance):
    format = FORMAT


def test_numpy_alone_opens_it(tmp_path: Path) -> None:
    samples = pixel_samples()
    path = write_dataset(FORMAT, tmp_path / "set.raw", samples, Payload.PIXELS)
    images = np.memmap(path / "data.raw", np.uint8, "r", shape=(len(samples), 6, 5, 3))
    assert np.array_equal(images, [sample.image for sample in samples])
    assert np.load(path / "labels.npy").tolist() == [sample.label for sample in samples]


@pytest.mark.parametrize("change", [-1, 1])
def test_wrong_length_is_named(tmp_path: Path, change: int) -> None:
    path = write_dataset(FORMAT, tmp_path / "set.raw", pixel_samples(), Payload.PIXELS)
    data = path / "data.raw"
    whole = data.read_bytes()
    data.write_bytes(whole[:change] if change < 0 else whole + b"x")
    with pytest.raises(DamagedDatasetError, match=f"{len(whole) + change} bytes.*{len(whole)}"):
        registry.open_reader(path)


def test_flipped_byte_is_found(tmp_path: Path) -> None:
    path = write_dataset(FORMAT, tmp_path / "set.raw", pixel_samples(), Payload.PIXELS)
    with open(path / "data.raw", "r+b") as file:
        file.seek(90 * 5 + 7)
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 1]))
    findings = list(registry.open_reader(path).verify())
    assert [(found.index, found.kind) for found in findings] == [(5, "corrupt")]


@pytest.mark.parametrize("name", ["begin", "length"])
@pytest.mark.parametrize("value", [-1, 1 << 40])
def test_images_that_lie_outside_are_named(tmp_path: Path, name: str, value: int) -> None:
    path = write_dataset(FORMAT, tmp_path / "set.raw", encoded_samples(), Payload.ENCODED)
    column = np.load(path / f"{name}.npy")
    column[5] = value
    np.save(path / f"{name}.npy", column)
    reader = registry.open_reader(path)
    with pytest.raises(DamagedDatasetError, match=r"data\.raw: begin\.npy and length\.npy point"):
        reader.read(0)
