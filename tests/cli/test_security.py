"""Datasets and names that mean harm, through the command line."""

from __future__ import annotations

import io
import json
import os
import pickle
import re
import struct
import tarfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from fastdata_cli import registry
from fastdata_cli.sample import Payload
from fastdata_cli.testing.synthetic import encoded_samples, png, write_dataset
from tests.conftest import Run

# What a terminal obeys or shows in another order.
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
HOSTILE = "a\x1b[2J\x1b]0;owned\x07\u202egnp.\x9b31m"


@pytest.fixture(autouse=True)
def canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever a test does, no command of the data is run."""
    monkeypatch.chdir(tmp_path)
    yield
    assert not (tmp_path / "owned").exists(), "a command was run"


class Bomb:
    """Pickled, it runs a command when it is loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch owned",)


def tar(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, data in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return path


# -- nothing is unpickled


def pickled_lmdb(folder: Path) -> Path:
    import lmdb

    path = folder / "set.lmdb"
    with lmdb.open(str(path), subdir=False, lock=False) as base, base.begin(write=True) as writing:
        for number in range(3):
            writing.put(b"%d" % number, pickle.dumps((Bomb(), number)))
    return path


def pickled_npy(folder: Path) -> Path:
    path = folder / "set.npy"
    np.save(path, np.array([Bomb(), Bomb()], object), allow_pickle=True)
    return path


def pickled_raw(folder: Path) -> Path:
    row = registry.get("raw")
    path = write_dataset(row, folder / "set.raw", encoded_samples(3), Payload.ENCODED)
    np.save(path / "labels.npy", np.array([Bomb()] * 3, object), allow_pickle=True)
    return path


def pickled_zarr(folder: Path, codec: str = "pickle") -> Path:
    import numcodecs

    path = folder / "set.zarr"
    array = path / "images"
    array.mkdir(parents=True)
    (path / ".zgroup").write_text('{"zarr_format": 2}')
    record = {
        "zarr_format": 2, "shape": [2, 4, 4, 3], "chunks": [1, 4, 4, 3], "dtype": "|O",
        "compressor": None, "filters": [{"id": codec}], "fill_value": None, "order": "C",
    }  # fmt: skip
    (array / ".zarray").write_text(json.dumps(record))
    for number in range(2):
        data = numcodecs.Pickle().encode(np.array([Bomb()], object))
        (array / f"{number}.0.0.0").write_bytes(data)
    return path


def pickled_shard(folder: Path) -> Path:
    buffer = io.BytesIO()
    np.save(buffer, np.array([Bomb()], object), allow_pickle=True)
    return tar(folder / "set.tar", {"a.npy": buffer.getvalue(), "a.pyd": pickle.dumps(Bomb())})


@pytest.mark.parametrize("make", [pickled_lmdb, pickled_npy, pickled_raw, pickled_zarr])
@pytest.mark.parametrize("verb", ["convert", "inspect", "bench"])
def test_pickles_are_refused(
    tmp_path: Path, run: Run, make: Callable[[Path], Path], verb: str
) -> None:
    path = make(tmp_path)
    words = {
        "convert": (path, tmp_path / "out.raw"),
        "inspect": (path,),
        "bench": (path, "--quick"),
    }
    result = run(verb, *words[verb], code=1)
    assert re.search("pickled|run code", result.stderr), result.stderr


def test_pickles_in_a_shard_stay_where_they_are(tmp_path: Path, run: Run) -> None:
    result = run("convert", pickled_shard(tmp_path), tmp_path / "out.raw", code=1)
    assert "no images" in result.stderr


# -- no command is run unasked


def test_a_pipe_is_run_only_when_allowed(tmp_path: Path, run: Run) -> None:
    shard = tar(tmp_path / "a b.tar", {"x.png": png(3, 4, 0), "x.cls": b"1"})
    source = f"pipe:cat '{shard}'; echo some words >&2"
    for verb in ("inspect", "bench", "clean"):
        assert "command" in run(verb, "pipe:touch owned", code=2).stderr
    refused = run("convert", "pipe:touch owned", "out.raw", code=2)
    assert "--allow-pipe" in refused.stderr
    run("convert", source, "out.raw", "--allow-pipe")
    reader = registry.open_reader(tmp_path / "out.raw")
    assert (reader.read(0).key, reader.read(0).label) == ("x.png", 1)


def test_a_pipe_that_fails_is_named(tmp_path: Path, run: Run) -> None:
    shard = tar(tmp_path / "set.tar", {"x.png": png(3, 4, 0)})
    source = f"pipe:cat {shard}; echo 'no such bucket' >&2; exit 7"
    result = run("convert", source, "out.raw", "--allow-pipe", code=1)
    assert "ended with status 7: no such bucket" in result.stderr
    assert not (tmp_path / "out.raw").exists()


# -- names stay within the destination


ASTRAY = (
    "../out.png", "../../out.png", "/abs.png", "a/../../b.png", "./c.png", "d//e.png", "..",
    "f/..", "con.png", "trailing./x.png", "~root.png", "-rf.png", "g\\..\\h.png", "NUL.png",
)  # fmt: skip


def test_no_name_leads_out_of_a_tree(tmp_path: Path, run: Run) -> None:
    names = [f"{name}/x.png" for name in ASTRAY] + [f"{name}~.png" for name in ASTRAY]
    source = tar(tmp_path / "set.tar", {name: png(3, 4, n) for n, name in enumerate(names)})
    inside = tmp_path / "inside"
    inside = tmp_path / "inside"
    inside.mkdir()
    before = sorted(tmp_path.iterdir())
    run("convert", source, inside / "out", "--to", "tree")
    assert sorted(tmp_path.iterdir()) == before
    assert sorted(entry.name for entry in inside.iterdir()) == ["out", "out.fastdata"]
    files = [entry for entry in (inside / "out").rglob("*") if entry.is_file()]
    assert len(files) == len(names) - 2, "two names are dots and no suffix"
    assert all(entry.resolve().is_relative_to(inside / "out") for entry in files)
    keys = set(registry.open_reader(source).keys())
    assert set(registry.open_reader(inside / "out").keys()) == keys


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("place", ["out", ".out.fastdata-partial", "out.fastdata"])
def test_a_link_in_the_way_is_not_followed(
    tmp_path: Path, application: object, place: str, overwrite: bool
) -> None:
    source = tmp_path / "images" / "cat"
    source.mkdir(parents=True)
    (source / "a.png").write_bytes(png(3, 4, 0))
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "precious.png").write_bytes(png(3, 4, 1))
    (tmp_path / place).symlink_to(victim)
    words = ["convert", str(tmp_path / "images"), str(tmp_path / "out"), "--to", "tree"]
    result = CliRunner().invoke(application, [*words, *(["--overwrite"] * overwrite)])  # type: ignore[arg-type]
    assert result.exit_code == 2, result.output
    assert str(tmp_path / place) in result.stderr
    assert [entry.name for entry in victim.iterdir()] == ["precious.png"]
    assert (victim / "precious.png").read_bytes() == png(3, 4, 1)


# -- what claims to be huge is refused by its header


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


# -- nothing that a terminal obeys


def hostile_tree(folder: Path) -> Path:
    root = folder / HOSTILE
    (root / HOSTILE).mkdir(parents=True)
    (root / HOSTILE / f"{HOSTILE}.png").write_bytes(png(3, 4, 0))
    (root / HOSTILE / f"broken {HOSTILE}.png").write_bytes(png(3, 4, 0)[:40])
    (root / "dog").mkdir()
    (root / "dog" / "b.png").write_bytes(png(3, 4, 1))
    return root


def clean_words(result: Any) -> None:
    for name in ("stdout", "stderr"):
        found = OBEYED.search(getattr(result, name).replace("\t", " "))
        assert found is None, f"{name} has {found[0]!r}: {result.output!r}"


@pytest.mark.parametrize("suffix", [".zarr", ".lmdb", ".tar", ".tfrecord", ".h5", ".raw", ""])
def test_names_are_never_printed_raw(tmp_path: Path, run: Run, suffix: str) -> None:
    root, out = hostile_tree(tmp_path), tmp_path / f"{HOSTILE}out{suffix}"
    to = [] if suffix else ["--to", "tree"]
    clean_words(run("convert", root, out, *to, "--max-bad", "100%"))
    clean_words(run("convert", root, out, *to, code=2))  # it is there
    clean_words(run("inspect", out))
    clean_words(run("inspect", out, "--json"))
    clean_words(run("inspect", out, "--verify"))
    clean_words(run("inspect", root, code=0))
    (root / "dog" / f"{HOSTILE}.png").write_bytes(png(5, 4, 1))
    clean_words(run("inspect", "--diff", root, out, code=3))
    clean_words(run("inspect", f"{out}{HOSTILE}", code=2))
    clean_words(run("inspect", out, "--sample", HOSTILE, "-o", tmp_path / "x.png", code=2))


def test_clean_says_nothing_raw(tmp_path: Path, run: Run) -> None:
    root = hostile_tree(tmp_path)
    clean_words(run("clean", root, "--json"))
    moved = run("clean", root, "--quarantine", tmp_path / f"bad{HOSTILE}")
    assert OBEYED.search(moved.stderr) is None
    assert HOSTILE in moved.stdout, "names go to a pipe as they are"


def foreign_codec(folder: Path) -> Path:
    path = pickled_zarr(folder, codec=HOSTILE)
    file = path / "images" / ".zarray"
    file.write_text(file.read_text().replace("|O", "|u1"))
    return path


def foreign_arrays(folder: Path) -> Path:
    import h5py

    path = folder / "set.h5"
    with h5py.File(path, "w") as file:
        for name in ("x", "y"):
            file[f"{name}{HOSTILE}"] = np.zeros((2, 8, 8, 3), np.uint8)
    return path


def foreign_manifest(folder: Path) -> Path:
    row = registry.get("raw")
    path = write_dataset(row, folder / "set.raw", encoded_samples(3), Payload.ENCODED)
    record = json.loads((path / "meta.json").read_text())
    record["manifest"].update(
        tool=HOSTILE,
        source={HOSTILE: HOSTILE},
        options={HOSTILE: 1},
        counts={"notes": {HOSTILE: 3}},
    )
    record["manifest"]["schema"]["class_names"] = [HOSTILE, "a", "b"]
    (path / "meta.json").write_text(json.dumps(record))
    return path


def foreign_tar(folder: Path) -> Path:
    return tar(
        folder / "set.tar",
        {
            f"{HOSTILE}.png": png(3, 4, 0),
            f"{HOSTILE}.cls": HOSTILE.encode(),
            f"{HOSTILE}2.png": b"x",
        },
    )


@pytest.mark.parametrize(
    "make", [foreign_codec, foreign_arrays, foreign_manifest, foreign_tar], ids=lambda m: m.__name__
)
@pytest.mark.parametrize("verb", ["inspect", "convert"])
def test_what_is_inside_is_never_printed_raw(
    tmp_path: Path, application: object, make: Callable[[Path], Path], verb: str
) -> None:
    words = [verb, str(make(tmp_path)), *(["out.raw"] if verb == "convert" else ["--verify"])]
    result = CliRunner().invoke(application, words)  # type: ignore[arg-type]
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert "internal error" not in result.output
    clean_words(result)


def half_zarr(folder: Path) -> Path:
    import zarr

    path = folder / "set.zarr"
    root = zarr.open_group(path, mode="w")
    root.create_array("images", data=np.ones((2, 8, 8, 3), np.uint8))
    root.create_array("labels", data=np.array([0, 1]), attributes={"class_names": ["\ud800", "a"]})
    return path


def half_parquet(folder: Path) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    label = {"names": ["\ud800", "a"], "_type": "ClassLabel"}
    facts = json.dumps({"info": {"features": {"image": {"_type": "Image"}, "label": label}}})
    table = pa.table({"image": [{"bytes": png(3, 4, 0), "path": "0.png"}], "label": [1]})
    path = folder / "set.parquet"
    pq.write_table(table.replace_schema_metadata({"huggingface": facts}), path)
    return path


@pytest.mark.parametrize("make", [half_zarr, half_parquet])
def test_half_a_character_in_a_class_name(
    tmp_path: Path, run: Run, make: Callable[[Path], Path]
) -> None:
    path = make(tmp_path)
    clean_words(run("inspect", path))
    run("convert", path, "out.raw")
    assert registry.open_reader(tmp_path / "out.raw").schema.class_names == ("\ufffd", "a")


def test_half_a_character_in_a_quarantine_list(tmp_path: Path, run: Run) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    (folder / "bad.png").write_bytes(b"no image")
    run("clean", folder, "--quarantine", "bad")
    (listed,) = (tmp_path / "bad").glob("*.jsonl")
    listed.write_text(listed.read_text().replace('"from": "', '"from": "/\\ud800'))
    result = run("clean", "--restore", "bad", code=1)
    assert "internal error" not in result.output
