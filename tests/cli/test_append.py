"""``fastdata convert --append`` and ``--retry-bad``: what is added, what stays, how it ends."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from fastdata_cli import open_reader
from fastdata_cli.contract import Reader
from fastdata_cli.operations import convert
from fastdata_cli.storage.staging import staging_root
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


@GROWING
@pytest.mark.parametrize("payload", ["encoded", "pixels"])
def test_a_grown_tree(run: Run, tree: Path, tmp_path: Path, name: str, payload: str) -> None:
    out, held = tmp_path / name, [str(p.relative_to(tree)) for p in sorted(tree.rglob("*.jpg"))]
    make(run, tree, out, "--payload", payload)
    assert generations(run, out) == []
    new = grow(tree)
    text = append(run, tree, out)
    assert "5 samples are new; 20 of the source are there already" in text
    assert list(open_reader(out).keys()) == [*held, *new]
    make(run, tree, tmp_path / "fresh.raw", "--payload", payload)
    is_sound(run, out, fresh=tmp_path / "fresh.raw")
    first, second = generations(run, out)
    assert (first["number"], first["samples"]) == (1, 20)
    assert (second["number"], second["samples"]) == (2, 5)
    assert first["source"] != second["source"]
    assert "generations" in run("inspect", out).stdout
    assert not staging_root(out).exists()


@GROWING
def test_nothing_new_touches_nothing(run: Run, tree: Path, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "sets"
    folder.mkdir()
    make(run, tree, folder / name)
    before = {path: path.stat() for path in sorted(folder.rglob("*"))}
    assert "nothing new" in append(run, tree, folder / name)
    assert {path: path.stat() for path in sorted(folder.rglob("*"))} == before


@GROWING
def test_a_class_in_the_middle_of_the_alphabet_takes_the_next_number(
    run: Run, tree: Path, tmp_path: Path, name: str
) -> None:
    out = tmp_path / name
    make(run, tree, out)
    before = open_reader(out).labels().tolist()
    grow(tree, "class01", count=3)
    grow(tree, "class2", count=2, seed=600)
    assert "new classes take the next numbers, whatever their names: 3 class01" in append(
        run, tree, out
    )
    found = open_reader(out)
    assert found.schema.class_names == ("class0", "class1", "class2", "class01")
    assert found.labels().tolist() == [*before, 3, 3, 3, 2, 2]
    make(run, tree, tmp_path / "fresh.raw", "--payload", "encoded", "--classes", out)
    is_sound(run, out, fresh=tmp_path / "fresh.raw")


def test_shards_of_two_generations_are_read_without_their_index(
    run: Run, tree: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "sets"
    folder.mkdir()
    out = folder / "part-%06d.tar"
    make(run, tree, out)
    before = content(folder)
    grow(tree, "another")
    append(run, tree, out)
    after = content(folder)
    index = f"{out.name}.fastdata.json"
    assert {name: after[name] for name in before if name != index} == {
        name: data for name, data in before.items() if name != index
    }, "shards that were there are not touched"
    (folder / index).unlink()
    assert list(open_reader(folder).keys()) == list(open_reader(out).keys())
    assert open_reader(folder).schema.class_names[-1] == "another"


@GROWING
def test_appended_again_and_again(run: Run, tree: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / name
    make(run, tree, out)
    for number in range(3):
        grow(tree, f"more{number}", count=2, seed=700 + 10 * number)
        append(run, tree, out)
    assert [each["samples"] for each in generations(run, out)] == [20, 2, 2, 2]
    make(run, tree, tmp_path / "fresh.raw", "--payload", "encoded", "--classes", out)
    is_sound(run, out, fresh=tmp_path / "fresh.raw")


@pytest.mark.parametrize("payload", ["encoded", "pixels"])
def test_what_changed_or_went_away_stays_and_is_named(
    run: Run, tree: Path, tmp_path: Path, payload: str
) -> None:
    out = tmp_path / "out.lmdb"
    make(run, tree, out, "--payload", payload)
    before = open_reader(out).read(1).image.copy()
    (tree / "class0" / "0003.jpg").write_bytes(jpeg(40, 48, 999))
    (tree / "class0" / "0006.jpg").touch()  # newer, and the same
    (tree / "class2" / "0002.jpg").unlink()
    text = append(run, tree, out)
    assert "1 samples have changed in the source and stay as they were: class0/0003.jpg" in text
    assert "1 samples are not in the source any more and stay: class2/0002.jpg" in text
    assert "nothing new" in text
    assert np.array_equal(open_reader(out).read(1).image, before)
    grow(tree, count=1)
    assert "have changed" in append(run, tree, out)
    assert len(open_reader(out)) == 21


def test_another_label_is_named(run: Run, tree: Path, tmp_path: Path) -> None:
    out, table = tmp_path / "out.lmdb", tmp_path / "labels.csv"
    keys = [str(p.relative_to(tree)) for p in sorted(tree.rglob("*.jpg"))]
    table.write_text("".join(f"{key},cat\n" for key in keys))
    make(run, tree, out, "--labels", table)
    (new,) = grow(tree, count=1)
    table.write_text("".join(f"{key},cat\n" for key in keys[1:]) + f"{keys[0]},ant\n{new},cat\n")
    text = append(run, tree, out, "--labels", table)
    assert f"1 samples have another label now and keep theirs: {keys[0]}" in text
    assert "1 ant" in text
    assert open_reader(out).labels().tolist() == [0] * 21


@GROWING
def test_retry_bad_after_a_repair(run: Run, tree: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / name
    broken = [tree / "class0" / f"bad{number}.jpg" for number in range(3)]
    for path in broken:
        path.write_bytes(jpeg(40, 48, 1)[:100])
    make(run, tree, out)
    assert [key for key, _, _ in rejected(out)] == [f"class0/bad{n}.jpg" for n in range(3)]
    (new,) = grow(tree, count=1)
    broken[1].write_bytes(jpeg(40, 48, 77))
    text = run("convert", tree, out, "--retry-bad").output
    assert "3 samples are tried again" in text
    keys = list(open_reader(out).keys())
    assert keys[-1] == "class0/bad1.jpg"
    assert new not in keys
    assert [key for key, _, _ in rejected(out)] == ["class0/bad0.jpg", "class0/bad2.jpg"]
    assert [index for _, _, index in rejected(out)] == [7, 9]
    assert [each["samples"] for each in generations(run, out)] == [20, 1]
    assert json.loads(run("inspect", out, "--json").stdout)["counts"]["rejects"] == {"truncated": 2}
    assert "1 samples are new" in append(run, tree, out), "bad ones are not tried again unasked"
    assert "but for 2 bad samples listed" in append(run, tree, out)
    broken[0].write_bytes(jpeg(40, 48, 78))
    broken[2].write_bytes(jpeg(40, 48, 79))
    grow(tree, "more", count=1)
    text = append(run, tree, out, "--retry-bad")
    assert "3 samples are new or tried again" in text
    assert rejected(out) == []
    make(run, tree, tmp_path / "fresh.raw", "--payload", "encoded", "--classes", out)
    is_sound(run, out, fresh=tmp_path / "fresh.raw")
    assert "lists no sample" in run("convert", tree, out, "--retry-bad").output


def test_new_samples_that_are_all_bad_are_listed_and_the_dataset_stays(
    run: Run, tree: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.lmdb"
    make(run, tree, out)
    before = content(out)
    (tree / "class0" / "empty.jpg").write_bytes(b"")
    append(run, tree, out)
    assert content(out) == before
    assert rejected(out) == [("class0/empty.jpg", "empty", 7)]
    assert not staging_root(out).exists()


def test_a_list_that_a_killed_run_left_too_long_is_put_right(
    run: Run, tree: Path, tmp_path: Path
) -> None:
    out, bad = tmp_path / "out.tar", tree / "class0" / "bad.jpg"
    bad.write_bytes(b"")
    make(run, tree, out)
    listed = (tmp_path / "out.tar.rejects.jsonl").read_bytes()
    bad.write_bytes(jpeg(40, 48, 5))
    run("convert", tree, out, "--retry-bad")
    (tmp_path / "out.tar.rejects.jsonl").write_bytes(listed)  # killed before it was written
    assert "nothing new" in append(run, tree, out)
    assert rejected(out) == []


def test_options_come_from_the_dataset(run: Run, tree: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.tar"
    make(run, tree, out, "--payload", "pixels", "--size", 24, "--fit", "pad")
    grow(tree)
    for flags, words in (
        (("--size", 32), "--size 32 contradicts the dataset, which was made with 24x24"),
        (("--payload", "encoded"), "--payload encoded contradicts the dataset"),
        (("--fit", "crop"), "--fit crop contradicts the dataset, which was made with pad"),
        (("--quality", 80), "--quality 80 contradicts the dataset, which was made with none"),
        (("--clean", "grayscale"), "--clean grayscale contradicts the dataset"),
        (("--chunk", 3), "--chunk is not an option of format webdataset"),
        (("--overwrite",), "--overwrite replaces a dataset"),
        (("--to", "lmdb"), "is webdataset, not lmdb"),
    ):
        assert words in append(run, tree, out, *flags, code=2)
    assert len(open_reader(out)) == 20
    append(run, tree, out, "--size", "24x24", "--fit", "pad", "--limit", 2, "--on-bad", "fail")
    assert len(open_reader(out)) == 22
    append(run, tree, out)
    make(run, tree, tmp_path / "fresh.raw", "--size", 24, "--fit", "pad")
    is_sound(run, out, fresh=tmp_path / "fresh.raw")


def test_new_images_of_other_sizes_are_resized_like_none_before(
    run: Run, tree: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.lmdb"
    make(run, tree, out, "--payload", "pixels")
    (tree / "class0" / "large.jpg").write_bytes(jpeg(80, 99, 3))
    assert "new images have other sizes: they are stored as 40x48" in append(run, tree, out)
    make(run, tree, tmp_path / "fresh.raw", "--size", "40x48")
    is_sound(run, out, fresh=tmp_path / "fresh.raw")


def test_checks_go_on_and_those_for_duplicates_cannot(run: Run, tree: Path, tmp_path: Path) -> None:
    make(run, tree, tmp_path / "a.lmdb", "--clean", "min-side=30")
    make(run, tree, tmp_path / "b.lmdb", "--clean", "duplicates=exact")
    grow(tree)
    (tree / "class0" / "small.jpg").write_bytes(jpeg(20, 20, 3))
    append(run, tree, tmp_path / "a.lmdb")
    assert [key for key, _, _ in rejected(tmp_path / "a.lmdb")] == ["class0/small.jpg"]
    assert "fingerprints" in append(run, tree, tmp_path / "b.lmdb", code=1)


@pytest.mark.parametrize("name", ["out.zarr", "out.raw", "out.h5", "out.tfrecord"])
def test_other_formats_say_what_to_do(run: Run, tree: Path, tmp_path: Path, name: str) -> None:
    make(run, tree, tmp_path / name)
    text = append(run, tree, tmp_path / name, code=1)
    assert "nothing can be added to a dataset in format" in text
    assert "--overwrite; formats that grow: lmdb, webdataset" in text


def test_what_is_not_there_or_not_ours(run: Run, tree: Path, tmp_path: Path) -> None:
    assert "there is no dataset yet to add to" in append(run, tree, tmp_path / "a.lmdb", code=2)
    subprocess.run(["tar", "-cf", tmp_path / "a.tar", "-C", tree, "."], check=True)
    text = append(run, tree, tmp_path / "a.tar", code=1)
    assert "was not made by fastdata: no manifest" in text
    assert "convert it first" in text


def test_a_shard_in_the_way_is_not_replaced(run: Run, tree: Path, tmp_path: Path) -> None:
    out = tmp_path / "part-%06d.tar"
    make(run, tree, out)
    grow(tree)
    stranger = tmp_path / "part-000004.tar"
    stranger.write_bytes(b"mine")
    assert "part-000004.tar exists already" in append(run, tree, out, code=2)
    assert stranger.read_bytes() == b"mine"
    assert len(open_reader(out)) == 20
    assert not staging_root(out).exists()


def test_unlabelled_sets_and_numbers(run: Run, tmp_path: Path) -> None:
    flat = tmp_path / "flat"
    flat.mkdir()
    (flat / "1.jpg").write_bytes(jpeg(40, 48, 1))
    make(run, flat, tmp_path / "out.lmdb")
    (flat / "2.jpg").write_bytes(jpeg(40, 48, 2))
    append(run, flat, tmp_path / "out.lmdb")
    assert open_reader(tmp_path / "out.lmdb").labels().tolist() == [-1, -1]
    (tmp_path / "labels.csv").write_text("1.jpg,4\n2.jpg,7\n3.jpg,5\n")
    make(run, flat, tmp_path / "n.lmdb", "--labels", tmp_path / "labels.csv")
    (flat / "3.jpg").write_bytes(jpeg(40, 48, 3))
    append(run, flat, tmp_path / "n.lmdb", "--labels", tmp_path / "labels.csv")
    assert open_reader(tmp_path / "n.lmdb").labels().tolist() == [4, 7, 5]


def test_the_rest_of_the_folder_stays(run: Run, tree: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.lmdb"
    make(run, tree, out)
    (out / "README").write_text("mine")
    old = open_reader(out)
    first = old.read(0).image.copy()
    grow(tree)
    append(run, tree, out)
    assert (out / "README").read_text() == "mine"
    assert np.array_equal(old.read(0).image, first), "who has the old file open keeps it"


def test_a_dataset_as_the_source(run: Run, tree: Path, tmp_path: Path) -> None:
    make(run, tree, tmp_path / "out.lmdb")
    grow(tree, "class01")
    make(run, tree, tmp_path / "all.tar")
    append(run, tmp_path / "all.tar", tmp_path / "out.lmdb")
    run("inspect", "--diff", tmp_path / "out.lmdb", tmp_path / "all.tar", code=3)  # the numbering
    make(
        run,
        tree,
        tmp_path / "fresh.raw",
        "--payload",
        "encoded",
        "--classes",
        tmp_path / "out.lmdb",
    )
    is_sound(run, tmp_path / "out.lmdb", fresh=tmp_path / "fresh.raw")


# Imitates kill -9 at the nth time that something touches the files of the destination.
_KILLED = """
    import os, sys
    from fastdata_cli.formats.base import StagedWriter
    from fastdata_cli.contract import PartLimits
    from fastdata_cli.cli.main import main
    left = int(sys.argv.pop(1))
    StagedWriter.limits = PartLimits(samples=4)
    from fastdata_cli.formats.lmdb.writer import LmdbWriter
    LmdbWriter.limits = PartLimits(samples=4)
    def count(event, arguments):
        global left
        if any(os.fsencode("out") in os.fsencode(each) for each in arguments
               if isinstance(each, (str, bytes, os.PathLike))):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), 9)
    sys.addaudithook(count)
    main()
"""


def killed_at(moment: int, *arguments: object) -> int:
    script = textwrap.dedent(_KILLED)
    words = [sys.executable, "-c", script, str(moment), *map(str, arguments)]
    return subprocess.run(words, check=False, capture_output=True).returncode


def state(reader: Reader) -> list[tuple[str, int, bytes]]:
    return [
        (each.key, each.label, each.image.tobytes())
        for each in map(reader.read, range(len(reader)))
    ]


@pytest.mark.parametrize("name", ["out.lmdb", "out.tar", "out-%06d.tar"])
def test_killed_at_any_moment(run: Run, tree: Path, tmp_path: Path, name: str) -> None:
    start, work = tmp_path / "start", tmp_path / "work"
    start.mkdir()
    make(run, tree, start / name)
    before = state(open_reader(start / name))
    grow(tree, "class01", count=9)
    (tree / "class01" / "bad.jpg").write_bytes(b"")
    shutil.copytree(start, work)
    append(run, tree, work / name)
    after = state(open_reader(work / name))
    moments = random.Random(name).sample(range(8, 70), 4)
    killed = 0
    for moment in moments:
        shutil.rmtree(work)
        shutil.copytree(start, work)
        code = killed_at(moment, "convert", tree, work / name, "--append", "-q")
        killed += code == -9
        found = state(open_reader(work / name))
        assert found in (before, after), moment
        append(run, tree, work / name)
        assert state(open_reader(work / name)) == after, moment
        assert [key for key, _, _ in rejected(work / name)] == ["class01/bad.jpg"]
        assert not staging_root(work / name).exists()
        run("inspect", work / name, "--verify")
    assert killed > 1


@GROWING
def test_a_full_disk_leaves_the_old_dataset(
    run: Run, tree: Path, tmp_path: Path, name: str
) -> None:
    out = tmp_path / name
    make(run, tree, out)
    before = state(open_reader(out))
    noise = np.random.default_rng(1).integers(0, 256, 400_000, np.uint8).tobytes()
    (tree / "class1" / "zz.jpg").write_bytes(jpeg(40, 48, 4) + noise)
    script = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000));"
        "from fastdata_cli.cli.main import main; main()"
    )
    words = [sys.executable, "-c", script, "convert", tree, out, "--append", "--no-preflight"]
    done = subprocess.run(list(map(str, words)), check=False, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert "file too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert state(open_reader(out)) == before
    append(run, tree, out)
    assert len(open_reader(out)) == 21
    run("inspect", out, "--verify")


def test_a_run_that_another_overtook_is_refused(
    run: Run, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.lmdb"
    make(run, tree, out)
    grow(tree)
    begin = convert._Run._begin

    def overtaken(self: object, writer: object) -> object:
        monkeypatch.setattr(convert._Run, "_begin", begin)
        append(run, tree, out)
        return begin(self, writer)  # type: ignore[arg-type]

    monkeypatch.setattr(convert._Run, "_begin", overtaken)
    assert "changed by another run" in append(run, tree, out, code=1)
    assert len(open_reader(out)) == 25
    assert not staging_root(out).exists()


def test_stray_shards_of_an_unfinished_run_are_not_read_with_the_folder(
    run: Run, tree: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "sets"
    folder.mkdir()
    out = folder / "part-%06d.tar"
    make(run, tree, out)
    os.makedirs(staging_root(out))
    (staging_root(out) / "journal.jsonl").write_text("{}\n")
    shutil.copy(folder / "part-000000.tar", folder / "part-000004.tar")
    assert len(open_reader(folder)) == 20
