"""Stems of samples, and headers of members."""

import re
import tarfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastdata_cli.formats.webdataset.names import StemRegister, split_field, stem_of
from fastdata_cli.formats.webdataset.tar import header
from fastdata_cli.formats.webdataset.walk import header_is_sound

KEYS = st.lists(
    st.one_of(st.text(max_size=12), st.text("./_ax%\\A", max_size=12)), min_size=1, max_size=12
)
# As the webdataset library has them.
LIBRARY_SPLIT = re.compile(r"^((?:.*/|)[^.]+)[.]([^/]*)$")
LIBRARY_SKIP = re.compile(r"__[^/]*__($|/)")


@pytest.mark.parametrize(
    ("key", "stem"),
    [
        ("cat/1.jpg", "cat/1"),
        ("cat/1.JPEG", "cat/1"),
        ("a.b/22.05.jpg", "a.b/22%2E05"),
        ("archive.tar", "archive%2Etar"),
        (".hidden.png", "%2Ehidden"),
        (".jpg", "%2Ejpg"),
        ("../x.jpg", "%2E%2E/x"),
        ("a/./x.jpg", "a/%2E/x"),
        ("/root.jpg", "%2Froot"),
        ("a//b.jpg", "a%2F/b"),
        ("__x__/a.jpg", "%5F_x__/a"),
        ("a/__x__/a.jpg", "a/__x__/a"),
        ("a\\b.jpg", "a%5Cb"),
        ("100%41.jpg", "100%2541"),
        ("folder/", "folder%2F"),
        ("a.b/", "a%2Eb%2F"),
        ("", "%"),
    ],
)
def test_stem(key: str, stem: str) -> None:
    assert stem_of(key) == stem


def test_equal_stems_keep_their_suffix_later() -> None:
    keys = ["a.jpg", "a.png.jpg", "a.png", "A.jpg", "a.JPG", "a"]
    stems, _ = StemRegister().assign(keys)
    assert stems == ["a", "a%2Epng", "a%2Epng~2", "A", "a%2EJPG", "a~2"]


@given(KEYS)
def test_every_sample_is_one_key_and_one_field(keys: list[str]) -> None:
    keys = list(dict.fromkeys(keys))
    stems, _ = StemRegister().assign(keys)
    assert len(set(stems)) == len(keys)
    for stem in stems:
        name = f"{stem}.jpg"
        match = LIBRARY_SPLIT.match(name)
        assert match is not None
        assert match.groups() == (stem, "jpg")
        assert split_field(name) == (stem, "jpg")
        assert not LIBRARY_SKIP.match(name)
        assert not {"", ".", ".."} & set(stem.split("/"))
        assert not set(name) & set("\n\r\0")


@given(KEYS, st.integers(1, 5))
def test_stems_do_not_depend_on_batches(keys: list[str], size: int) -> None:
    whole, _ = StemRegister().assign(keys)
    register, found = StemRegister(), list[str]()
    for begin in range(0, len(keys), size):
        stems, hashes = register.assign(keys[begin : begin + size])
        register.add(hashes)
        found += stems
    assert found == whole


def test_register_keeps_many_hashes() -> None:
    register = StemRegister()
    keys = [f"{index:05d}.jpg" for index in range(5000)]
    for begin in range(0, len(keys), 64):
        register.add(register.assign(keys[begin : begin + 64])[1])
    assert register.assign(keys)[0] == [f"{index:05d}%2Ejpg" for index in range(5000)]
    assert sum(len(level) for level in register._levels) == 5000


@pytest.mark.parametrize("size", [0, 1, 511, 8**11 - 1, 8**11])
@pytest.mark.parametrize(
    "name", ["a.jpg", "x" * 100, "x" * 101, f"{'d' * 90}/{'n' * 90}.jpg", "é.jpg", "d/" * 300 + "x"]
)
def test_header_is_what_tarfile_writes(name: str, size: int) -> None:
    info = tarfile.TarInfo(name)
    info.size = size
    found = header(name, size)
    ustar = name.isascii() and size < 8**11 and len(name) < 190
    if ustar and name != "x" * 101:
        assert found == info.tobuf(tarfile.USTAR_FORMAT)
    else:
        assert found == info.tobuf(tarfile.PAX_FORMAT)
    assert header_is_sound(found[-512:])
    assert not header_is_sound(np.frombuffer(found[-512:], np.uint8)[::-1].tobytes())
