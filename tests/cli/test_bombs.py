"""Datasets that claim to be huge, or would become it, are refused by their headers."""

from __future__ import annotations

import io
import struct
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fastdata_cli.testing.synthetic import png
from tests.cli.hostile import tar
from tests.conftest import Run


def huge_png(folder: Path) -> Path:
    head = struct.pack(">IIBBBBB", 200_000, 200_000, 8, 2, 0, 0, 0)
    rows = zlib.compress(bytes(1 << 20))
    chunks = b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in ((b"IHDR", head), (b"IDAT", rows), (b"IEND", b""))
    )
    path = folder / "images"
    path.mkdir()
    (path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + chunks)
    return path


def huge_npy(folder: Path) -> Path:
    path = folder / "set.npy"
    head = np.lib.format.magic(1, 0)
    text = "{'descr': '|u1', 'fortran_order': False, 'shape': (1000000, 1000000, 3), }"
    path.write_bytes(head + struct.pack("<H", 118) + text.ljust(117).encode() + b"\n" + bytes(64))
    return path


def huge_zarr(folder: Path) -> Path:
    import zarr

    path = folder / "set.zarr"
    root = zarr.open_group(path, mode="w")
    root.create_array("images", shape=(2, 8, 8, 3), chunks=(1, 8, 8, 3), dtype="uint8")
    for number in range(2):
        chunk = path / "images" / "c" / str(number) / "0" / "0" / "0"
        chunk.parent.mkdir(parents=True, exist_ok=True)
        # A Zstandard frame whose header tells of 2^62 bytes.
        chunk.write_bytes(b"\x28\xb5\x2f\xfd\xe0" + (1 << 62).to_bytes(8, "little") + bytes(16))
    return path


def huge_gzip(folder: Path) -> Path:
    import zarr
    from zarr.codecs import GzipCodec

    path = folder / "set.zarr"
    root = zarr.open_group(path, mode="w")
    images = root.create_array(
        "images", shape=(2, 8, 8, 3), chunks=(1, 8, 8, 3), dtype="uint8", compressors=GzipCodec()
    )
    images[:] = 1
    bomb = zlib.compressobj(1, zlib.DEFLATED, 31)
    data = b"".join(bomb.compress(bytes(1 << 24)) for _ in range(32)) + bomb.flush()
    for number in range(2):
        (path / "images" / "c" / str(number) / "0" / "0" / "0").write_bytes(data)
    return path


def huge_hdf5(folder: Path) -> Path:
    import h5py

    path = folder / "set.h5"
    with h5py.File(path, "w") as file:
        shape = (2, 100_000, 10_000, 3)
        images = file.create_dataset(
            "images", shape, np.uint8, chunks=(1, 20_000, 10_000, 3), compression="gzip"
        )
        images.id.write_direct_chunk((0, 0, 0, 0), zlib.compress(bytes(100)))
    return path


def huge_sparse(folder: Path) -> Path:
    path = tar(folder / "set.tar", {"a.png": png(3, 4, 0)})
    entry = tarfile.TarInfo("big.png")
    entry.pax_headers = {
        "GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "big.png",
        "GNU.sparse.realsize": str(1 << 50),
    }  # fmt: skip
    data = b"1\n0\n1\n".ljust(512, b"\0") + b"x"
    entry.size = len(data)
    with tarfile.open(path, "a", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(entry, io.BytesIO(data))
    return path


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "make",
    [huge_png, huge_npy, huge_zarr, huge_gzip, huge_hdf5, huge_sparse],
    ids=lambda m: m.__name__,
)
def test_bombs(
    tmp_path: Path, run: Run, make: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make(tmp_path)
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    code = 0 if make is huge_sparse else 1
    result = run("convert", path, tmp_path / "out.raw", "--max-bad", "100%", code=code)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
    assert grown < 350, f"{grown} MB for {make.__name__}: {result.output}"


def test_yaml_aliases_are_not_expanded(tmp_path: Path, run: Run) -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [
        f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]"
        for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    ]
    config = tmp_path / "bomb.yaml"
    config.write_text("\n".join([*lines, "to: *i"]) + "\n")
    assert "aliases" in run("convert", "x", "y.raw", "--config", config, code=2).stderr
