"""One list of paths means the same to every command that takes one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fastdata_cli.errors import UsageError
from fastdata_cli.operations.clean.opening import open_subject
from fastdata_cli.operations.events import Silent
from fastdata_cli.operations.settings import SourceOptions
from fastdata_cli.operations.source import open_source
from tests.conftest import make_tree

HERE = b"class0/0000.jpg"
BESIDE = [b"class1/0001.jpg", b"class2/0002.jpg"]


def judged(options: SourceOptions) -> list[str]:
    """Return the files that clean looks at."""
    subject = open_subject([], options, {}, Silent())
    paths = [each.path for task in subject.tasks(None) for each in task]
    return [os.path.abspath(os.fsdecode(path or b"")) for path in paths]


def converted(options: SourceOptions) -> list[str]:
    """Return the files that convert stores, and those that it misses."""
    source = open_source(None, options)
    assert source.folder is not None
    return [os.path.join(source.folder, key) for key in list(source.reader.keys())]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three images beside a list, and a working directory that holds another one."""
    make_tree(tmp_path / "set", 3)
    make_tree(tmp_path / "here", 1)
    (tmp_path / "set" / "odd.jpg\r").write_bytes((tmp_path / "set/class0/0000.jpg").read_bytes())
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "set"


def given(folder: Path, listed: bytes, *, nul: bool = False) -> SourceOptions:
    (folder / "list").write_bytes(listed)
    return SourceOptions(files_from=str(folder / "list"), nul=nul)


LINES = b"\n".join([*BESIDE, b""])


@pytest.mark.parametrize(
    ("listed", "nul", "wanted"),
    [
        (LINES, False, BESIDE),
        (LINES.removesuffix(b"\n"), False, BESIDE),
        (LINES.replace(b"\n", b"\r\n"), False, BESIDE),
        (b"\xef\xbb\xbf" + LINES, False, BESIDE),
        (b"\n\r\n" + LINES.replace(b"\n", b"\n\n\r\n"), False, BESIDE),
        (LINES.replace(b"\n", b"\0"), True, BESIDE),
        (LINES.replace(b"\n", b"\0").removesuffix(b"\0"), True, BESIDE),
        (BESIDE[0] + b"\r\nodd.jpg\r\n", False, [BESIDE[0], b"odd.jpg\r"]),
        (BESIDE[0] + b"\0odd.jpg\r\0", True, [BESIDE[0], b"odd.jpg\r"]),
        (b"./class1/../" + BESIDE[0] + b"\n", False, BESIDE[:1]),
    ],
)
def test_the_same_paths(folder: Path, listed: bytes, nul: bool, wanted: list[bytes]) -> None:
    options = given(folder, listed, nul=nul)
    paths = [os.path.join(folder, os.fsdecode(path)) for path in wanted]
    assert judged(options) == paths
    assert converted(options) == paths


def test_relative_paths_start_at_the_same_folder(folder: Path) -> None:
    for listed, start in (
        (HERE + b"\n" + BESIDE[0], Path.cwd()),
        (HERE + b"\r\n" + BESIDE[0] + b"\r\n", Path.cwd()),
        (BESIDE[0] + b"\n" + BESIDE[1], folder),
    ):
        options = given(folder, listed)
        paths = [str(start / os.fsdecode(line)) for line in listed.split()]
        assert judged(options) == paths
        assert converted(options) == paths


@pytest.mark.parametrize(
    ("listed", "nul", "said"),
    [
        (LINES.decode().encode("utf-16"), False, "UTF-16"),
        (b"\xfe\xff" + LINES.decode().encode("utf-16-be"), False, "UTF-16"),
        (LINES.replace(b"\n", b"\0"), False, "NUL bytes"),
        (LINES, True, "has lines"),
        (b"x" * (2 << 20), False, "longer than 1 MiB"),
        (b"x" * (2 << 20), True, "longer than 1 MiB"),
        (LINES * 100_000, True, "has lines"),
    ],
)
def test_the_same_errors(folder: Path, listed: bytes, nul: bool, said: str) -> None:
    options = given(folder, listed, nul=nul)
    with pytest.raises(UsageError, match=said) as cleaning:
        judged(options)
    with pytest.raises(UsageError, match=said) as converting:
        converted(options)
    assert str(cleaning.value) == str(converting.value)
    assert cleaning.value.hint == converting.value.hint
