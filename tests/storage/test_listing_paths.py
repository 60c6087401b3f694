"""Listings of paths that somebody named."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from fastdata_cli.errors import UsageError
from fastdata_cli.keys import from_bytes
from fastdata_cli.storage.listing import list_paths, list_tree, read_path_list, start_of
from fastdata_cli.storage.listing_paths import PathLines, path_of
from tests.storage.folders import grow, keys


def test_deepest_common_folder_is_the_root() -> None:
    listing = list_paths(["/data/set/cat/2.jpg", b"/data/set/dog/1.jpg", "/data/set/cat/1.jpg"])
    assert listing.root == Path("/data/set")
    assert keys(listing) == ["cat/2.jpg", "dog/1.jpg", "cat/1.jpg"]
    assert listing.class_names == ("cat", "dog")
    assert listing.labels.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("paths", "root", "wanted"),
    [
        (["/a/b.jpg"], "/a", ["b.jpg"]),
        (["/b.jpg", "/a/c.jpg"], "/", ["b.jpg", "a/c.jpg"]),
        (["/set1/a.jpg", "/set10/a.jpg"], "/", ["set1/a.jpg", "set10/a.jpg"]),
        (
            ["/s/ab/1.jpg", "/s/abc/1.jpg", "/s/ab/2.jpg"],
            "/s",
            ["ab/1.jpg", "abc/1.jpg", "ab/2.jpg"],
        ),
        (["//s//a/./x/../1.jpg", "/s/b/2.jpg"], "/s", ["a/1.jpg", "b/2.jpg"]),
        (["/s/..dots../.hidden.jpg", "/s/x.jpg"], "/s", ["..dots../.hidden.jpg", "x.jpg"]),
    ],
)
def test_roots_of_lists(paths: list[str], root: str, wanted: list[str]) -> None:
    listing = list_paths(paths)
    assert (str(listing.root), keys(listing)) == (root, wanted)


def test_relative_paths_start_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grow(tmp_path / "set")
    monkeypatch.chdir(tmp_path / "set")
    listing = list_paths(["cat/1.jpg", "./dog/2.jpg", "../set/cat/3.jpg"])
    assert listing.root == tmp_path / "set"
    assert keys(listing) == ["cat/1.jpg", "dog/2.jpg", "cat/3.jpg"]


def test_relative_paths_start_where_the_first_of_them_are(tmp_path: Path) -> None:
    here, beside = grow(tmp_path / "here", "a/1.jpg"), grow(tmp_path / "list", "a/2.jpg", "b/3.jpg")
    folders = [here, beside]
    for paths, wanted in (
        ([b"a/1.jpg", b"a/2.jpg"], here),
        ([b"a/gone.jpg", b"b/3.jpg"], beside),
        ([b"gone.jpg"], here),
        ([os.fsencode(beside / "b/3.jpg"), b"nul\0.jpg"], here),
        ([], here),
    ):
        start, again = start_of(paths, folders)
        assert start == wanted
        assert list(again) == paths
    listing = list_paths([b"a/2.jpg", "../list/b/3.jpg", "/x.jpg"], start=beside, root=Path("/"))
    assert keys(listing)[1:] == [str(beside / "b/3.jpg")[1:], "x.jpg"]


def test_given_root_and_paths_outside() -> None:
    listing = list_paths(["/data/set/cat/1.jpg"], root=Path("/data"))
    assert keys(listing) == ["set/cat/1.jpg"]
    assert listing.class_names == ("set",)
    for stranger in ("/database/1.jpg", "/data", "/data/../x/1.jpg", "/d"):
        with pytest.raises(UsageError, match=f"{os.path.normpath(stranger)} does not lie below"):
            list_paths(["/data/1.jpg", stranger], root=Path("/data"))


def test_repeated_paths_are_rejects() -> None:
    listing = list_paths(["/s/a.jpg", "/s/b.jpg", "/s/./a.jpg", "/s/a.jpg"])
    assert keys(listing) == ["a.jpg", "b.jpg"]
    assert [(each.key, each.reason) for each in listing.rejects] == [("a.jpg", "duplicate-key")] * 2
    assert "path 3" in listing.rejects[0].detail


def test_odd_names_in_a_list() -> None:
    raw = [b"/s/caf\xe9/1.jpg", b"/s/new\nline/2.jpg", b"/s/50%25/3.jpg"]
    listing = list_paths(raw)
    assert keys(listing) == [from_bytes(path.removeprefix(b"/s/")) for path in raw]
    odd_root = list_paths([b"/caf\xe9 100%20/a/1.jpg", b"/caf\xe9 100%20/b/1.jpg"])
    assert os.fsencode(odd_root.root) == b"/caf\xe9 100%20"
    assert keys(odd_root) == ["a/1.jpg", "b/1.jpg"]


def test_nothing_listed() -> None:
    listing = list_paths([])
    assert (len(listing.files), listing.class_names) == (0, ())


def test_nul_bytes_without_the_flag() -> None:
    with pytest.raises(UsageError, match="NUL") as caught:
        list_paths([b"/a/1.jpg\0/a/2.jpg"])
    assert "-0" in caught.value.hint


def test_lists_and_folders_agree(tmp_path: Path) -> None:
    root = grow(tmp_path / "set", *(f"{n % 7}/{n:04d}.jpg" for n in range(9000)))
    walked = list_tree(root)
    listed = list_paths(os.fsencode(root / key) for key in walked.files)
    assert listed.fingerprint() == walked.fingerprint()


@pytest.mark.parametrize(
    ("data", "nul", "wanted"),
    [
        (b"a\nb\n", False, [b"a", b"b"]),
        (b"a\n\n\nb", False, [b"a", b"b"]),
        (b"a\r\nb\r\n\r\n", False, [b"a\r", b"b\r"]),
        (b"a\nb\0c\r\n\0\0d", True, [b"a\nb", b"c\r\n", b"d"]),
        (b"\xef\xbb\xbfa.jpg\nb\n", False, [b"a.jpg", b"b"]),
        (b"\xef\xbb\xbfa\0b", True, [b"\xef\xbb\xbfa", b"b"]),
        (b"\xff\xfe/x.png\n", False, [b"\xff\xfe/x.png"]),
        (b"\xef\xbb\xbf", False, []),
        (b"\xff\n\xfe", False, [b"\xff", b"\xfe"]),
        (b"", False, []),
    ],
)
def test_separators(data: bytes, nul: bool, wanted: list[bytes]) -> None:
    assert list(read_path_list(io.BytesIO(data), nul=nul)) == wanted
    lines = PathLines(nul=nul)
    byte_by_byte = [line for byte in data for line in lines.feed(bytes([byte]))]
    assert byte_by_byte + lines.finish() == wanted


def test_a_carriage_return_belongs_to_a_name_that_has_it(tmp_path: Path) -> None:
    start = os.fsencode(grow(tmp_path / "set", "a.jpg", "b.jpg\r"))
    lines = [b"a.jpg\r", b"b.jpg\r", os.path.join(start, b"b.jpg\r"), b"gone.jpg\r"]
    bare = [b"a.jpg", b"b.jpg\r", os.path.join(start, b"b.jpg\r"), b"gone.jpg"]
    assert [path_of(line, start, nul=False) for line in lines] == bare
    assert [path_of(line, start, nul=True) for line in lines] == lines
    found, paths = start_of(lines[:1], [tmp_path, tmp_path / "set"])
    assert (found, list(paths)) == (tmp_path / "set", bare[:1])


def test_long_lists_are_read_in_pieces() -> None:
    paths = [b"%07d/" % number + b"x" * 90 for number in range(30_000)]
    assert list(read_path_list(io.BytesIO(b"\n".join(paths)), nul=False)) == paths


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_list_in_utf_16_is_named_as_such(encoding: str) -> None:
    listed = "\ufeffa.jpg\nb.jpg\n".encode(encoding)
    with pytest.raises(UsageError, match="the list is UTF-16") as caught:
        list(read_path_list(io.BytesIO(listed), nul=False))
    assert "UTF-8" in caught.value.hint
