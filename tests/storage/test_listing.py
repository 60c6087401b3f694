"""Listings of folders."""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastdata_cli.errors import NotADatasetError, SourceNotFoundError, UsageError
from fastdata_cli.key_table import KeyTable
from fastdata_cli.keys import from_bytes
from fastdata_cli.sample import Reject
from fastdata_cli.storage.labels import load_labels
from fastdata_cli.storage.listing import list_image, list_tree
from fastdata_cli.storage.listing_names import IMAGE_SUFFIXES
from fastdata_cli.storage.listing_rows import digests, texts_of
from tests.storage.folders import grow, keys


def test_order_is_by_path_components(tmp_path: Path) -> None:
    root = grow(tmp_path / "set", "b/1.jpg", "a.jpg", "a/z.jpg", "a/b/1.jpg", "a-b/1.jpg", "c.png")
    wanted = ["a/b/1.jpg", "a/z.jpg", "a-b/1.jpg", "a.jpg", "b/1.jpg", "c.png"]
    assert keys(list_tree(root)) == wanted
    assert wanted == sorted(wanted, key=lambda key: key.encode().split(b"/"))


def test_classes_are_numbered_in_code_point_order(tmp_path: Path) -> None:
    names = ["1", "10", "2", "B", "a", "Ä"]
    root = grow(tmp_path / "set", *(f"{name}/x.png" for name in reversed(names)))
    listing = list_tree(root)
    assert listing.class_names == tuple(names)
    assert dict(zip(listing.files, listing.labels.tolist(), strict=True)) == {
        f"{name}/x.png": number for number, name in enumerate(names)
    }


def test_every_folder_is_a_class_and_hidden_ones_are_not(tmp_path: Path) -> None:
    root = grow(
        tmp_path / "set", "cat/a.png", "dog/", "emu/deep/er/b.png", ".ipynb_checkpoints/a.png"
    )
    listing = list_tree(root)
    assert keys(listing) == ["cat/a.png", "emu/deep/er/b.png"]
    assert listing.class_names == ("cat", "dog", "emu")
    assert listing.labels.tolist() == [0, 2]
    assert listing.notes == {"empty-class: dog": 1, "hidden": 1}


def test_files_in_the_root_are_unlabelled(tmp_path: Path) -> None:
    mixed = list_tree(grow(tmp_path / "mixed", "cat/a.png", "b.png"))
    assert mixed.labels.tolist() == [-1, 0]
    flat = list_tree(grow(tmp_path / "flat", "a.png", "b.png"))
    assert flat.labels.tolist() == [-1, -1]
    assert flat.class_names == ()


def test_suffixes_in_any_case(tmp_path: Path) -> None:
    names = [f"{number}{suffix.decode()}" for number, suffix in enumerate(sorted(IMAGE_SUFFIXES))]
    names += [name.upper().replace(".", "u.") for name in names] + ["x.Jpeg", "y.tar.pNg"]
    root = grow(tmp_path / "set", *names, "notes.txt", "jpg", "no-suffix", "a.jpg.txt", "b.npy")
    listing = list_tree(root)
    assert sorted(keys(listing)) == sorted(names)
    assert listing.notes == {"other-name": 5}


def test_what_desktops_leave_behind_is_counted(tmp_path: Path) -> None:
    junk = ["._a.jpg", ".DS_Store", "Thumbs.db", "c/desktop.ini", "__MACOSX/a.jpg", "@eaDir/a.jpg"]
    root = grow(
        tmp_path / "set",
        "c/..a..jpg",
        "c/a.jpg",
        *junk,
        "out.fastdata/x.png",
        ".h.jpg",
        "c/.git/a.png",
    )
    listing = list_tree(root)
    assert keys(listing) == ["c/..a..jpg", "c/a.jpg"]
    assert listing.class_names == ("c",)
    assert listing.notes == {"junk": 7, "hidden": 2}


def test_names_of_any_bytes(tmp_path: Path) -> None:
    raw = [
        b"caf\xe9.png",
        b"\xff\xfe/x.png",
        b"new\nline/y.png",
        b"100%41.png",
        "ä\u00a0.png".encode(),
    ]
    root = grow(tmp_path / "set", *raw)
    listing = list_tree(root)
    assert sorted(keys(listing)) == sorted(map(from_bytes, raw))
    assert set(listing.class_names) == {from_bytes(b"\xff\xfe"), "new\nline"}
    for key in listing.files:
        assert os.path.exists(os.path.join(os.fsencode(root), key.encode(errors="surrogateescape")))


def test_links_are_followed_where_they_stand(tmp_path: Path) -> None:
    root = grow(tmp_path / "set", "normal/1.png", "normal/2.png", "abnormal/")
    grow(tmp_path / "elsewhere", "9.png")
    (root / "abnormal/3.png").symlink_to("../normal/2.png")
    (root / "extra").symlink_to("../elsewhere")
    (root / "alias").symlink_to("normal")
    listing = list_tree(root)
    names = [listing.class_names[label] for label in listing.labels]
    assert dict(zip(listing.files, names, strict=True)) == {
        "abnormal/3.png": "abnormal",
        "alias/1.png": "alias",
        "alias/2.png": "alias",
        "extra/9.png": "extra",
        "normal/1.png": "normal",
        "normal/2.png": "normal",
    }


def test_loops_end_and_dangling_images_are_rejects(tmp_path: Path) -> None:
    root = grow(tmp_path / "set", "cat/a.png")
    (root / "cat/up").symlink_to("..")
    (root / "cat/self").symlink_to("self")
    (root / "cat/me.png").symlink_to("me.png")
    (root / "cat/gone.png").symlink_to("nowhere.png")
    (root / "cat/readme").symlink_to("nowhere")
    listing = list_tree(root)
    assert keys(listing) == ["cat/a.png"]
    assert listing.notes == {"dangling-link": 1, "link-loop": 2}
    assert sorted((reject.key, reject.reason) for reject in listing.rejects) == [
        ("cat/gone.png", "missing"),
        ("cat/me.png", "unreadable"),
    ]


def test_folders_that_link_to_each_other_end(tmp_path: Path) -> None:
    root = grow(tmp_path / "set", "a/1.png", "b/2.png")
    (root / "a/b").symlink_to("../b")
    (root / "b/a").symlink_to("../a")
    listing = list_tree(root)
    assert keys(listing) == ["a/1.png", "a/b/2.png", "b/2.png", "b/a/1.png"]
    assert listing.notes == {"link-loop": 2}


def test_special_files_are_counted_and_not_opened(tmp_path: Path) -> None:
    root = grow(tmp_path / "set", "a.png")
    os.mkfifo(root / "pipe.jpg")
    (root / "link.jpg").symlink_to("pipe.jpg")
    (root / "null.jpg").symlink_to("/dev/null")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(root / "s.jpg"))
        listing = list_tree(root)
    assert keys(listing) == ["a.png"]
    assert listing.notes == {"special-file": 4}


def test_unlistable_folder_is_a_reject(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = grow(tmp_path / "set", "cat/a.png", "locked/b.png")
    plain = os.scandir

    def scandir(path: bytes) -> object:
        if path.endswith(b"locked"):
            raise PermissionError(13, "Permission denied", path)
        return plain(path)

    monkeypatch.setattr(os, "scandir", scandir)
    listing = list_tree(root)
    assert keys(listing) == ["cat/a.png"]
    assert listing.class_names == ("cat", "locked")
    assert listing.rejects == (Reject("locked", "unreadable", "Permission denied"),)


def test_roots_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(SourceNotFoundError, match="no-such"):
        list_tree(tmp_path / "no-such")
    with pytest.raises(NotADatasetError, match=r"a\.png.*Not a directory"):
        list_tree(grow(tmp_path, "a.png") / "a.png")
    empty = list_tree(grow(tmp_path / "empty"))
    assert (len(empty.files), empty.labels.dtype) == (0, np.dtype(np.int64))
    assert empty.notes == {}


def test_deeper_than_the_interpreter_recurses(tmp_path: Path) -> None:
    root = tmp_path / "set"
    root.mkdir()
    here = os.open(root, os.O_RDONLY)
    for _ in range(1100):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("a.png", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    try:
        assert keys(list_tree(root)) == ["d/" * 1100 + "a.png"]
    finally:  # pytest's own clean-up recurses
        subprocess.run(["rm", "-rf", root], check=True)


def test_given_classes(tmp_path: Path) -> None:
    root = grow(tmp_path / "set", "cat/a.png", "dog/b.png", "docs/", "c.png")
    listing = list_tree(root, classes=("zebra", "dog", "cat"))
    assert listing.class_names == ("zebra", "dog", "cat")
    assert listing.labels.tolist() == [-1, 2, 1]
    with pytest.raises(UsageError, match="'cat' is not among the 1 given") as caught:
        list_tree(root, classes=("dog",))
    assert "--classes" in caught.value.hint


def test_label_table_takes_the_place_of_folders(tmp_path: Path) -> None:
    root = grow(tmp_path / "set", "x/a.png", "x/b.png", "y/c.png", "empty/")
    table = tmp_path / "labels.csv"
    table.write_text("path,label\nx/a.png,dog\ny/c.png,cat\nz.png,cat\n")
    listing = list_tree(root, labels=load_labels(table))
    assert listing.class_names == ("cat", "dog")
    assert listing.labels.tolist() == [1, -1, 0]
    assert listing.notes == {"image-without-label": 1, "label-without-image": 1}


def test_size_in_memory(tmp_path: Path) -> None:
    root = tmp_path / "set"
    names = [f"{number:06d}.jpg" for number in range(2000)]
    grow(root, *(f"{letter}/{name}" for letter in "abcd" for name in names))
    list_tree(root)
    tracemalloc.start()
    listing = list_tree(root)
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept / len(listing.files) < 60
    assert peak / len(listing.files) < 150


def test_fingerprint_depends_on_keys_labels_and_classes(tmp_path: Path) -> None:
    root = grow(tmp_path / "set", "cat/a.png", "dog/b.png")
    first = list_tree(root).fingerprint()
    assert first == list_tree(root).fingerprint()
    assert len(first) == 32
    assert first != list_tree(root, classes=("dog", "cat")).fingerprint()
    assert first != list_tree(root, classes=("cat", "dog", "emu")).fingerprint()
    grow(root, "cat/c.png")
    assert first != list_tree(root).fingerprint()


def test_listing_pickles(tmp_path: Path) -> None:
    listing = list_tree(grow(tmp_path / "set", "cat/a.png", "dog/b.png"))
    again = pickle.loads(pickle.dumps(listing))  # noqa: S301 - our own bytes
    assert again.fingerprint() == listing.fingerprint()
    assert again.root == listing.root


def test_a_plain_ascii_locale_lists_the_same(tmp_path: Path) -> None:
    root = grow(tmp_path / "set", "ärger/雪.png", b"\xff/x.png", "100%/a.png")
    code = (
        "import sys; from pathlib import Path; from fastdata_cli.storage.listing import list_tree;"
        "listing = list_tree(Path(sys.argv[1])); print(listing.fingerprint());"
        "print(listing.files.lines().hex())"
    )
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C", "PYTHONUTF8": "0"}
    found = subprocess.run(
        [sys.executable, "-c", code, str(root)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    listing = list_tree(root)
    assert found == [listing.fingerprint(), listing.files.lines().hex()]


def test_a_single_image(tmp_path: Path) -> None:
    listing = list_image(tmp_path / "one.jpg")
    assert (listing.root, keys(listing), listing.labels.tolist()) == (tmp_path, ["one.jpg"], [-1])


@given(st.lists(st.binary(min_size=1).map(lambda raw: raw.replace(b"/", b"_")), max_size=8))
def test_text_forms_in_bulk_are_those_of_each(names: list[bytes]) -> None:
    table = KeyTable.from_keys(map(from_bytes, names))
    assert b"".join(texts_of(names)) == table.blob.tobytes()


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=5), max_size=9))
def test_digests_tell_keys_apart(names: list[str]) -> None:
    found = digests(KeyTable.from_keys(names))
    for one, first in zip(found, names, strict=True):
        for other, second in zip(found, names, strict=True):
            assert (one == other) == (first == second)
