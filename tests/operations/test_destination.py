"""Where a destination may be, and what is said where it may not."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from fastdata_cli import registry
from fastdata_cli.contract import Format
from fastdata_cli.errors import UsageError
from fastdata_cli.operations.destination import check_destination, why_unwritable
from fastdata_cli.operations.rejects import rejects_path
from fastdata_cli.storage.journal import JOURNAL
from fastdata_cli.storage.staging import staging_root
from tests.conftest import Run


@pytest.mark.parametrize(
    ("flags", "said"), [(os.ST_RDONLY, "on a read-only file system"), (0, "no permission to write")]
)
def test_a_folder_that_cannot_be_written_in_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: int, said: str
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=flags))
    assert said in why_unwritable(tmp_path)
    with pytest.raises(UsageError, match=said) as caught:
        check_destination(tmp_path / "out.raw", registry.get("raw"), overwrite=False)
    assert caught.value.hint == "choose another place"


@pytest.mark.parametrize("row", registry.all_formats(), ids=lambda row: row.name)
def test_patterns_are_for_formats_that_make_shard_files(tmp_path: Path, row: Format) -> None:
    path = tmp_path / f"set-%06d{'.'.join(row.suffixes[:1])}"
    if row.name in ("webdataset", "tfrecord"):
        check_destination(path, row, overwrite=False)
        return
    with pytest.raises(UsageError, match="is a pattern of shards"):
        check_destination(path, row, overwrite=False)


def test_the_longest_name_that_passes_is_made_to_the_end(run: Run, tree: Path) -> None:
    (tree / "class0" / "bad.jpg").write_bytes(b"")
    most = os.pathconf(tree, "PC_NAME_MAX") - len(staging_root(Path("x")).name) + 1
    for text in ("n", "é"):
        stem = (text * most).encode()[: most - len(".tar")].decode(errors="ignore")
        out = tree.parent / f"{stem:n<{most - 4 - len(stem.encode()) + len(stem)}}.tar"
        assert len(os.fsencode(out.name)) == most
        run("convert", tree, out)
        assert rejects_path(out).exists()
        longer = out.with_name(f"n{out.name}")
        said = run("convert", tree, longer, code=2).output.replace("\n", " ")
        assert "too long a name; while it is made it takes another 18 bytes" in said


@pytest.mark.parametrize("digits", ["0300", "0999999999999"])
def test_a_pattern_whose_shards_have_too_long_names(tmp_path: Path, digits: str) -> None:
    with pytest.raises(UsageError, match="too long a name"):
        check_destination(
            tmp_path / f"part-%{digits}d.tar", registry.get("webdataset"), overwrite=False
        )


def test_a_run_that_cannot_be_read_is_not_cleared_away(
    run: Run, tree: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.raw"
    run("convert", tree, out)
    journal = staging_root(out) / JOURNAL
    journal.parent.mkdir()
    journal.mkdir()  # reading it is refused, as where the disk fails
    assert f"cannot read {journal}" in run("convert", tree, out, code=1).output.replace("\n", "")
    assert journal.is_dir()
