"""``fastdata convert`` as its users type it."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import h5py
import lmdb
import numpy as np
import pytest
import webdataset
import zarr

from fastdata_cli import open_reader
from tests.conftest import Run, jpeg, make_tree

FORMATS = {
    "zarr": "out.zarr",
    "raw": "out.raw",
    "hdf5": "out.h5",
    "lmdb": "out.lmdb",
    "webdataset": "out.tar",
}


def files_of(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def left_in(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()}


def test_the_line_of_the_readme(run: Run, mixed_tree: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.zarr"
    run("convert", mixed_tree, out, "--chunk", 1000, "--codec", "lz4")
    group = zarr.open_group(str(out), mode="r")
    images = group["images"]
    assert isinstance(images, zarr.Array)
    assert images.shape == (20, 224, 224, 3)
    assert images.dtype == np.uint8
    assert images.chunks[0] == 1000
    assert "lz4" in str(images.compressors).lower()
    labels = group["labels"]
    assert isinstance(labels, zarr.Array)
    assert labels[:].tolist() == open_reader(out).labels().tolist()  # type: ignore[union-attr]
    assert list(group.attrs["class_names"]) == ["class0", "class1", "class2"]  # type: ignore[arg-type]


# webdataset leaves its files to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_every_format_opens_in_its_plain_library(run: Run, tree: Path, tmp_path: Path) -> None:
    for name in FORMATS.values():
        run("convert", tree, tmp_path / name)
    pixels = open_reader(tmp_path / "out.zarr").read_many(list(range(20)))
    raw = np.memmap(tmp_path / "out.raw" / "data.raw", np.uint8, "r", shape=(20, 40, 48, 3))
    assert np.array_equal(raw, pixels.images)
    with h5py.File(tmp_path / "out.h5") as file:
        assert np.array_equal(file["images"][:], pixels.images)
        assert file["labels"][:].tolist() == pixels.labels.tolist()
    first = (tree / pixels.keys[0]).read_bytes()
    with (
        lmdb.open(str(tmp_path / "out.lmdb"), readonly=True, lock=False) as env,
        env.begin() as txn,
    ):
        assert txn.get(b"%010d" % 0) == first
    samples = list(webdataset.WebDataset(str(tmp_path / "out.tar"), shardshuffle=False))
    assert len(samples) == 20
    assert samples[0]["jpg"] == first
    assert int(samples[0]["cls"]) == pixels.labels[0]


def test_chain_through_all_formats_keeps_every_byte(run: Run, tmp_path: Path) -> None:
    source = make_tree(tmp_path / "images", 12, None)
    odd = [b"photo.v1.jpg", b"photo.v2.jpg", b"a.png", b"A.jpg", b"100%41.jpg", b"\xff\xfe.jpg"]
    odd += ["é.jpg".encode(), "e\u0301.jpg".encode(), b"line\nbreak.jpg", b"a.jpg"]
    for index, name in enumerate(odd):
        with open(os.fsencode(source) + b"/class0/" + name, "wb") as file:
            file.write(jpeg(20, 20, index + 100))
    chain = ["1.lmdb", "2.tar", "3.h5", "4.zarr", "5.raw"]
    previous = source
    wanted = open_reader(source)
    for link in chain:
        run("convert", previous, tmp_path / link, "--payload", "encoded")
        previous = tmp_path / link
        reader = open_reader(previous)
        assert list(reader.keys()) == list(wanted.keys())
        assert reader.labels().tolist() == wanted.labels().tolist()
        assert reader.schema.class_names == wanted.schema.class_names
    run("convert", previous, tmp_path / "back", "--to", "tree")
    assert files_of(tmp_path / "back") == files_of(source)


@pytest.mark.parametrize("name", FORMATS.values())
def test_pixels_are_the_same_everywhere(
    run: Run, mixed_tree: Path, tmp_path: Path, name: str
) -> None:
    run("convert", mixed_tree, tmp_path / "truth.raw", "--size", "32x24")
    run(
        "convert",
        mixed_tree,
        tmp_path / name,
        "--size",
        "32x24",
        "--payload",
        "pixels",
        "--overwrite",
    )
    truth = open_reader(tmp_path / "truth.raw").read_many(range(20))
    found = open_reader(tmp_path / name).read_many(range(20))
    assert found.images.shape == (20, 32, 24, 3)
    assert np.array_equal(found.images, truth.images)


def digest(path: Path) -> str:
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    total = hashlib.sha256()
    for file in files:
        total.update(str(file.relative_to(path)).encode())
        total.update(file.read_bytes())
    return total.hexdigest()


@pytest.mark.parametrize("payload", ["pixels", "encoded"])
@pytest.mark.parametrize("name", ["out.raw", "out.tar", "out.zarr"])
def test_output_does_not_depend_on_jobs(run: Run, tmp_path: Path, name: str, payload: str) -> None:
    source = make_tree(tmp_path / "images", 60, None)
    (source / "class1" / "0004.jpg").write_bytes(b"")
    found = set()
    for jobs in (1, 2, 8):
        folder = tmp_path / str(jobs)
        folder.mkdir()
        options = ["--payload", payload, "--jobs", jobs]
        options += ["--size", 32] if payload == "pixels" else []
        run("convert", source, folder / name, *options)
        found.add(digest(folder / name))
    assert len(found) == 1


def test_bad_samples_are_named_and_listed(run: Run, tree: Path, tmp_path: Path) -> None:
    whole = (tree / "class0" / "0000.jpg").read_bytes()
    (tree / "class0" / "0003.jpg").write_bytes(whole[: len(whole) // 2])
    (tree / "class0" / "0006.jpg").write_bytes(b"")
    (tree / "class0" / "page.jpg").write_bytes(b"<html>403</html>")
    result = run("convert", tree, tmp_path / "out.raw")
    rows = [json.loads(x) for x in (tmp_path / "out.raw.rejects.jsonl").read_text().splitlines()]
    assert {row["key"]: row["reason"] for row in rows} == {
        "class0/0003.jpg": "truncated",
        "class0/0006.jpg": "empty",
        "class0/page.jpg": "not-an-image",
    }
    assert "class0/0003.jpg" in result.stderr
    reader = open_reader(tmp_path / "out.raw")
    assert len(reader) == 18
    assert "class0/0003.jpg" not in list(reader.keys())
    assert reader.manifest is not None
    assert reader.manifest.counts["rejects"] == {"empty": 1, "not-an-image": 1, "truncated": 1}


def test_too_many_bad_is_exit_3_and_published(run: Run, tree: Path, tmp_path: Path) -> None:
    (tree / "class0" / "0003.jpg").write_bytes(b"")
    result = run("convert", tree, tmp_path / "out.raw", "--max-bad", 0, code=3)
    assert "1 of 20" in result.stderr
    reader = open_reader(tmp_path / "out.raw")
    assert len(reader) == 19
    assert reader.manifest is not None
    assert reader.manifest.counts["too_many_bad"] is True
    run("convert", tree, tmp_path / "fine.raw", "--max-bad", "10%")


def test_on_bad_fail_and_fill(run: Run, tree: Path, tmp_path: Path) -> None:
    (tree / "class0" / "0003.jpg").write_bytes(b"")
    result = run("convert", tree, tmp_path / "out.raw", "--on-bad", "fail", code=1)
    assert "class0/0003.jpg" in result.stderr
    assert left_in(tmp_path) == {"images"}
    run("convert", tree, tmp_path / "out.raw", "--on-bad", "fill")
    reader = open_reader(tmp_path / "out.raw")
    filled = reader.read(list(reader.keys()).index("class0/0003.jpg"))
    assert (filled.image == 128).all()
    assert filled.label == 0
    assert filled.metadata == {"filled": "empty"}


def test_nothing_usable_publishes_nothing(run: Run, tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "1.jpg").write_bytes(b"")
    result = run("convert", tmp_path / "images", tmp_path / "out.raw", "--size", 8, code=1)
    assert "1 empty" in result.stderr
    assert not (tmp_path / "out.raw").exists()


def test_max_side_makes_small_jpegs(run: Run, tmp_path: Path) -> None:
    source = make_tree(tmp_path / "images", 4, (300, 400))
    run("convert", source, tmp_path / "small.tar", "--max-side", 100, "--quality", 80)
    run("inspect", tmp_path / "small.tar")
    result = run("inspect", tmp_path / "small.tar", "--json")
    assert json.loads(result.stdout)["images"]["sizes"] == {"75x100": 4}


def test_lists_of_paths(run: Run, tree: Path, tmp_path: Path) -> None:
    paths = sorted(tree.rglob("*.jpg"))
    (tree / "class0" / "new\nline.jpg").write_bytes(jpeg(40, 48, 7))
    paths.append(tree / "class0" / "new\nline.jpg")
    data = b"\0".join(os.fsencode(path) for path in reversed(paths)) + b"\0"
    listed = tmp_path / "list.bin"
    listed.write_bytes(data)
    result = run("convert", "--files-from", listed, "-0", tmp_path / "out.lmdb")
    assert str(tree) in result.stderr
    reader = open_reader(tmp_path / "out.lmdb")
    assert list(reader.keys()) == [str(path.relative_to(tree)) for path in reversed(paths)]
    assert reader.schema.class_names == ("class0", "class1", "class2")
    run("convert", "--files-from", listed, "-0", "--root", tmp_path, tmp_path / "root.lmdb")
    assert open_reader(tmp_path / "root.lmdb").keys()[0].startswith("images/class")


def test_lists_relative_to_their_own_folder_or_the_root(
    run: Run, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = sorted(str(path.relative_to(tree)) for path in tree.rglob("*.jpg"))
    text = "".join(f"{name}\n" for name in ["class0/gone.jpg", *names])
    (tree / "list.txt").write_text(text)
    (tmp_path / "list.txt").write_text(text)
    monkeypatch.chdir(tmp_path)
    run("convert", "--files-from", tree / "list.txt", "beside.lmdb")
    run("convert", "--files-from", "list.txt", "--root", tree, "below-root.lmdb")
    for name in ("beside.lmdb", "below-root.lmdb"):
        assert list(open_reader(tmp_path / name).keys()) == names
        assert '"missing"' in (tmp_path / f"{name}.rejects.jsonl").read_text()


def test_stdin_through_the_real_command(tree: Path, tmp_path: Path) -> None:
    paths = "\n".join(map(str, sorted(tree.rglob("*.jpg")))) + "\nmissing.jpg\n"
    command = [sys.executable, "-m", "fastdata_cli", "convert", "-", str(tmp_path / "out.tar")]
    command += ["--root", "/"]
    done = subprocess.run(command, input=paths, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    rejects = (tmp_path / "out.tar.rejects.jsonl").read_text()
    assert [json.loads(line)["reason"] for line in rejects.splitlines()] == ["missing"]
    assert "missing.jpg" in rejects
    assert len(open_reader(tmp_path / "out.tar")) == 20


def test_labels_and_classes(run: Run, tree: Path, tmp_path: Path) -> None:
    labels = tmp_path / "labels.csv"
    rows = [
        f"{path.relative_to(tree)},{'odd' if i % 2 else 'even'}"
        for i, path in enumerate(sorted(tree.rglob("*.jpg")))
    ]
    labels.write_text("\n".join(["file,label", *rows]) + "\n")
    run("convert", tree, tmp_path / "out.lmdb", "--labels", labels)
    reader = open_reader(tmp_path / "out.lmdb")
    assert set(reader.schema.class_names) == {"even", "odd"}
    run("convert", tree, tmp_path / "train.lmdb")
    only = tmp_path / "validation"
    (only / "class2").mkdir(parents=True)
    (only / "class2" / "1.jpg").write_bytes(jpeg(8, 8, 1))
    run("convert", only, tmp_path / "val.lmdb", "--classes", tmp_path / "train.lmdb")
    assert open_reader(tmp_path / "val.lmdb").labels().tolist() == [2]


def test_dry_run_writes_nothing(run: Run, mixed_tree: Path, tmp_path: Path) -> None:
    before = left_in(tmp_path)
    result = run("convert", mixed_tree, tmp_path / "out.zarr", "--dry-run")
    assert "nothing written" in result.stdout
    assert "3.0 MB" in result.stdout
    assert left_in(tmp_path) == before


def test_config_file(run: Run, tree: Path, tmp_path: Path) -> None:
    config = tmp_path / "run.yaml"
    config.write_text("size: 16\ncodec: zstd\nchunk: 5\n")
    run("convert", tree, tmp_path / "out.zarr", "--config", config, "--chunk", 4)
    result = run("inspect", tmp_path / "out.zarr", "--json")
    report = json.loads(result.stdout)
    assert report["image_shape"] == [16, 16, 3]
    assert report["layout"]["chunk"] == 4
    assert report["options"]["codec"] == "zstd"
    config.write_text("sise: 16\n")
    result = run("convert", tree, tmp_path / "no.zarr", "--config", config, code=2)
    assert "--sise" in result.stderr


def test_overwrite_replaces_only_our_datasets(run: Run, tree: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.lmdb"
    run("convert", tree, out)
    result = run("convert", tree, out, code=2)
    assert "--overwrite" in result.stderr
    run("convert", tree, out, "--limit", 3, "--overwrite")
    assert len(open_reader(out)) == 3
    stranger = tmp_path / "stranger.lmdb"
    stranger.mkdir()
    (stranger / "precious").write_text("x")
    run("convert", tree, stranger, "--overwrite", code=2)
    assert "move it away" in run("convert", tree, stranger, code=2).stderr
    assert (stranger / "precious").read_text() == "x"
    run("convert", tree, tree, "--to", "tree", "--overwrite", code=2)
    assert len(list(tree.rglob("*.jpg"))) == 20


BAD_USE = [
    (["convert", "{tmp}/nowhere", "{tmp}/o.zarr"], 2, "nothing here"),
    (["convert", "{tmp}/empty", "{tmp}/o.zarr"], 1, "no images"),
    (["convert", "{tree}", "{tmp}/o.zarr", "--codec", "lzma9"], 2, "lz4"),
    (["convert", "{tree}", "{tmp}/o.xyz"], 2, "--to"),
    (["convert", "{tree}", "{tmp}/o.zarr", "--chunk", "0"], 2, "at least 1"),
    (["convert", "{tree}", "{tmp}/o.raw", "--zarr-format", "2"], 2, "--zarr-format"),
    (["convert", "{tree}", "{tmp}/no/such/o.raw"], 2, "mkdir -p"),
    (["convert", "{tree}", "{tmp}/o.raw", "--size", "big"], 2, "HxW"),
    (["convert", "{tree}", "{tmp}/o.raw", "--max-side", "8", "--payload", "pixels"], 2, "--size"),
    (["convert", "{tree}", "{tmp}/o.lmdb", "--on-bad", "fill"], 2, "pixel"),
    (["convert", "{tree}", "{tmp}/o.raw", "--background", "mauve"], 2, "white"),
    (["convert", "{tree}", "{tmp}/o.raw", "--max-bad", "many"], 2, "P%"),
    (["convert", "{tree}"], 2, "fastdata convert ./images out.zarr"),
    (["convert", "{tree}", "s3://bucket/o.zarr"], 2, "local path"),
    (["convert", "{tmp}/notes.txt", "{tmp}/o.zarr"], 2, "no format recognises"),
]


@pytest.mark.parametrize(("arguments", "code", "word"), BAD_USE)
def test_bad_use_gets_one_line_and_leaves_nothing(
    run: Run, tree: Path, tmp_path: Path, arguments: list[str], code: int, word: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("hello")
    before = left_in(tmp_path)
    result = run(*[text.format(tmp=tmp_path, tree=tree) for text in arguments], code=code)
    assert word in " ".join(result.stderr.split())
    assert "Traceback" not in result.output
    assert left_in(tmp_path) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_no_permission(run: Run, tree: Path, tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir()
    locked.chmod(stat.S_IRUSR | stat.S_IXUSR)
    assert "permission" in run("convert", tree, locked / "o.raw", code=2).stderr


def test_a_dry_run_says_that_a_real_one_would_be_refused(
    run: Run, tree: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.lmdb"
    assert "refused" not in run("convert", tree, out, "--dry-run").stderr
    run("convert", tree, out)
    said = run("convert", tree, out, "--dry-run").stderr.replace("\n", " ")
    assert "a real run would be refused" in said
    assert "--overwrite" in said
    assert "--append" in said
    assert "refused" not in run("convert", tree, out, "--dry-run", "--overwrite").stderr


@pytest.mark.parametrize("flags", [["q-%06d.zarr"], ["q%d.h5"], ["q-%02d", "--to", "tree"]])
def test_a_pattern_is_for_formats_with_shard_files(
    run: Run, tree: Path, tmp_path: Path, flags: list[str]
) -> None:
    before = left_in(tmp_path)
    said = run("convert", tree, tmp_path / flags[0], *flags[1:], code=2).stderr
    assert "is a pattern of shards" in said.replace("\n", " ")
    assert left_in(tmp_path) == before
