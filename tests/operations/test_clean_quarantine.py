"""Quarantine and restore: nothing lost, nothing overwritten, only what was asked for."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from pathlib import Path

import pytest

from fastdata_cli.errors import BusyError, DamagedDatasetError, SourceNotFoundError, UsageError
from fastdata_cli.operations.clean.move_list import NAME, MoveList
from fastdata_cli.operations.clean.moves import move
from fastdata_cli.operations.clean.quarantine import Quarantine, restore
from fastdata_cli.quality.verdict import Reason, Verdict
from fastdata_cli.storage import durable

BAD = Verdict("", 0, (Reason("corrupt"),))


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(params=["rename", "copy"])
def other_file_system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Moves by rename, and as if source and quarantine lay on different file systems."""
    if request.param == "rename":
        return
    rename = durable.rename_new

    def across(source: Path, target: Path) -> bool:
        if source.parent != target.parent:
            raise OSError(errno.EXDEV, "Invalid cross-device link", str(target))
        return rename(source, target)

    monkeypatch.setattr(durable, "rename_new", across)


def write(path: str, text: str = "") -> bytes:
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text or path)
    return os.fsencode(path)


def quarantined(*paths: bytes, verdict: Verdict = BAD, folder: str = "q") -> list[str | None]:
    quarantine = Quarantine(Path(folder))
    try:
        return [quarantine.take(path, verdict) for path in paths]
    finally:
        assert quarantine.troubles == []
        quarantine.close()


def tree_of(root: Path) -> dict[str, str]:
    """Return what lies below a folder: the text of files, the target of links."""
    return {
        str(path.relative_to(root)): os.readlink(path) if path.is_symlink() else path.read_text()
        for path in sorted(root.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


@pytest.mark.usefixtures("other_file_system")
def test_there_and_back(here: Path) -> None:
    paths = [write("images/a.jpg"), write("images/cat/b.jpg"), write(str(here.parent / "c.jpg"))]
    os.utime("images/a.jpg", ns=(1, 10**18 + 1))
    before = tree_of(here)
    moved = quarantined(*paths)
    assert moved[:2] == ["q/images/a.jpg", "q/images/cat/b.jpg"]
    assert moved[2] == "q" + str(here.parent / "c.jpg"), "an absolute path keeps all of itself"
    assert not any(os.path.lexists(path) for path in paths)
    assert Path("images/cat").is_dir(), "folders stay"

    back: list[bytes] = []
    report = restore(Path("q"), back.append)
    assert (report.restored, report.refused, report.gone) == (3, (), 0)
    assert set(back) == {os.fsencode(os.path.abspath(path)) for path in paths}
    assert tree_of(here) == before
    assert os.stat("images/a.jpg").st_mtime_ns == 10**18 + 1
    assert not Path("q").exists(), "an empty quarantine goes"
    os.unlink(paths[2])


@pytest.mark.usefixtures("other_file_system")
def test_names_that_are_not_text(here: Path) -> None:
    path = b"images/\xff\n %41.jpg"
    os.makedirs("images")
    with open(path, "wb") as file:
        file.write(b"1")
    quarantined(path)
    assert not os.path.lexists(path)
    restore(Path("q"), lambda _: None)
    with open(path, "rb") as file:
        assert file.read() == b"1"


@pytest.mark.usefixtures("other_file_system")
def test_names_that_begin_with_dots_come_back(here: Path) -> None:
    paths = [write("..cut..png"), write("images/...jpg"), write("..images/a.jpg")]
    before = tree_of(here)
    quarantined(*paths)
    assert restore(Path("q"), lambda path: None).refused == ()
    assert tree_of(here) == before


def test_a_link_is_moved_as_a_link(here: Path) -> None:
    kept = write("precious/keep.jpg")
    os.makedirs("images")
    os.symlink("../precious/keep.jpg", "images/link.jpg")
    assert quarantined(b"images/link.jpg") == ["q/images/link.jpg"]
    assert os.readlink("q/images/link.jpg") == "../precious/keep.jpg"
    assert os.path.exists(kept)
    restore(Path("q"), lambda _: None)
    assert Path("images/link.jpg").read_text() == "precious/keep.jpg"


def test_the_image_that_is_kept_is_not_pulled_from_under_its_link() -> None:
    real = write("images/real.jpg")
    os.symlink("real.jpg", "images/a-link.jpg")
    repeats = Verdict("", 1, (Reason("duplicate"),), duplicate_of="images/a-link.jpg")
    assert quarantined(real, verdict=repeats) == [None]
    again = Verdict("", 1, (Reason("duplicate"),), duplicate_of="./images/real.jpg")
    assert quarantined(real, verdict=again) == [None], "the same file, named twice"
    assert os.path.exists(real)
    os.link("images/real.jpg", "images/z-hard.jpg")
    assert quarantined(b"images/z-hard.jpg", verdict=again) == ["q/images/z-hard.jpg"]
    assert os.path.exists(real)


def test_names_of_a_list_that_lies_elsewhere_are_understood() -> None:
    real = write("set/real.jpg")
    os.symlink("real.jpg", "set/link.jpg")
    reasons = (Reason("duplicate"),)
    repeats = Verdict("real.jpg\r", 1, reasons, duplicate_of="link.jpg\r")
    assert quarantined(real, verdict=repeats) == [None]
    repeats = Verdict("real.jpg", 1, reasons, duplicate_of=os.path.abspath("set/link.jpg"))
    assert quarantined(real, verdict=repeats) == [None]


def test_a_name_in_an_index_is_not_taken_for_a_file_of_this_run() -> None:
    copy = write("new/cat/1.jpg")
    reasons = (Reason("duplicate"),)
    repeats = Verdict("cat/1.jpg", 0, reasons, duplicate_of="cat/1.jpg", against=True)
    assert quarantined(copy, verdict=repeats) == ["q/new/cat/1.jpg"]


def test_a_file_that_is_itself_in_an_index_under_its_whole_path_stays() -> None:
    path = os.path.abspath(write("set/1.jpg"))
    name = os.fsdecode(path)
    repeats = Verdict(name, 0, (Reason("duplicate"),), duplicate_of=name, against=True)
    assert quarantined(path, verdict=repeats) == [None]


@pytest.mark.parametrize("reason", ["missing", "unreadable", "unsupported-format", "too-large"])
def test_what_could_not_be_judged_stays(reason: str) -> None:
    path = write("images/phone.heic")
    assert quarantined(path, verdict=Verdict("", 0, (Reason(reason),))) == [None]
    assert os.path.exists(path)
    assert not os.path.exists("q"), "where nothing is moved, nothing is left"


def test_a_file_that_two_paths_lead_to_is_moved_once(here: Path) -> None:
    write("images/real/a.jpg")
    os.symlink("real", "images/linked")
    moved = quarantined(b"images/linked/a.jpg", b"images/real/a.jpg")
    assert moved == ["q/images/linked/a.jpg", None]
    restore(Path("q"), lambda _: None)
    assert Path("images/real/a.jpg").exists()


def test_folders_pipes_and_the_quarantine_itself_stay() -> None:
    os.makedirs("images/folder.jpg")
    os.mkfifo("images/pipe.jpg")
    inside = write("q/images/old.jpg")
    assert quarantined(b"images/folder.jpg", b"images/pipe.jpg", inside) == [None] * 3
    assert os.path.isdir("images/folder.jpg")
    assert os.path.exists(inside)


@pytest.mark.usefixtures("other_file_system")
def test_nothing_is_overwritten_on_the_way_in() -> None:
    path = write("images/a.jpg", "first")
    quarantined(path)
    write("images/a.jpg", "second")
    assert quarantined(path) == ["q/images/a~1.jpg"]
    assert Path("q/images/a.jpg").read_text() == "first"
    assert Path("q/images/a~1.jpg").read_text() == "second"


@pytest.mark.usefixtures("other_file_system")
def test_nothing_is_overwritten_on_the_way_back() -> None:
    quarantined(write("images/a.jpg", "bad"), write("images/b.jpg", "worse"))
    write("images/a.jpg", "a new picture")
    report = restore(Path("q"), lambda _: None)
    assert report.restored == 1
    assert len(report.refused) == 1
    assert "images/a.jpg" in report.refused[0]
    assert Path("images/a.jpg").read_text() == "a new picture"
    assert Path("q/images/a.jpg").read_text() == "bad"
    os.rename("images/a.jpg", "images/elsewhere.jpg")
    assert restore(Path("q"), lambda _: None).restored == 1, "what stayed is still on the list"
    assert Path("images/a.jpg").read_text() == "bad"


def test_a_file_that_somebody_took_out_is_counted(here: Path) -> None:
    quarantined(write("images/a.jpg"))
    os.unlink("q/images/a.jpg")
    report = restore(Path("q"), lambda _: None)
    assert (report.restored, report.gone) == (0, 1)
    assert not Path("q").exists()


def test_a_kill_between_the_line_and_the_move_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = write("images/a.jpg")

    def killed(source: bytes, target: bytes) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("fastdata_cli.operations.clean.quarantine.move", killed)
        with pytest.raises(KeyboardInterrupt):
            quarantined(path)
    report = restore(Path("q"), lambda _: None)
    assert (report.restored, report.refused) == (0, ())
    assert Path("images/a.jpg").read_text() == "images/a.jpg"


def test_a_kill_between_copy_and_removal_loses_nothing() -> None:
    path = write("images/a.jpg")
    quarantined(path)
    write("images/a.jpg")  # the same content at both places
    report = restore(Path("q"), lambda _: None)
    assert (report.restored, report.refused) == (1, ())
    assert Path("images/a.jpg").exists()
    assert not Path("q").exists()


def test_a_line_that_a_kill_cut_short_is_passed_over() -> None:
    quarantined(write("images/a.jpg"))
    with open(f"q/{NAME}", "ab") as file:
        file.write(b'{"from": "/cut')
    quarantined(write("images/b.jpg"))
    moves = MoveList(Path("q"), new=False)
    listed, unread = moves.moves()
    moves.close()
    assert [os.path.basename(each.place) for each in listed] == [b"a.jpg", b"b.jpg"]
    assert unread == 1
    report = restore(Path("q"), lambda _: None)
    assert (report.restored, report.unread) == (2, 1)
    assert Path(f"q/{NAME}").exists(), "a list that cannot be read in full is not thrown away"


def test_a_list_that_leads_elsewhere_is_refused(here: Path) -> None:
    quarantined(write("images/a.jpg"))
    victim = write("victim.jpg")
    lines = Path(f"q/{NAME}").read_text().splitlines()
    record = json.loads(lines[1]) | {"to": "../victim.jpg", "from": str(here / "stolen.jpg")}
    Path(f"q/{NAME}").write_text("\n".join([lines[0], json.dumps(record)]) + "\n")
    report = restore(Path("q"), lambda _: None)
    assert report.restored == 0
    assert "leads out" in report.refused[0]
    assert os.path.exists(victim)


def test_the_list_tells_why() -> None:
    repeats = Verdict("", 1, (Reason("duplicate"),), duplicate_of="images/first.jpg")
    quarantined(write("images/a.jpg"), verdict=repeats)
    head, line = map(json.loads, Path(f"q/{NAME}").read_text().splitlines())
    assert head == {"fastdata_quarantine": 1}
    assert line["from"] == os.path.abspath("images/a.jpg")
    assert line["to"] == "images/a.jpg"
    assert line["reasons"] == ["duplicate"]
    assert line["duplicate_of"] == "images/first.jpg"


def test_two_runs_do_not_share_a_quarantine() -> None:
    first = Quarantine(Path("q"))
    with pytest.raises(BusyError):
        Quarantine(Path("q"))
    with pytest.raises(BusyError):
        restore(Path("q"), lambda _: None)
    first.close()


def test_other_files_and_folders_are_not_taken_for_a_quarantine(here: Path) -> None:
    with pytest.raises(SourceNotFoundError):
        restore(Path("nowhere"), lambda _: None)
    write("file")
    with pytest.raises(UsageError, match="no folder"):
        Quarantine(Path("file"))
    write(f"foreign/{NAME}", "notes of mine\n")
    for refused in (lambda: Quarantine(Path("foreign")), lambda: restore(Path("foreign"), print)):
        with pytest.raises(UsageError, match="not touched"):
            refused()
    assert Path(f"foreign/{NAME}").read_text() == "notes of mine\n"
    write(f"later/{NAME}", '{"fastdata_quarantine": 99}\n')
    with pytest.raises(DamagedDatasetError, match="99"):
        restore(Path("later"), lambda _: None)


def test_a_file_that_cannot_be_moved_is_told_and_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("images/a.jpg")

    def refused(source: bytes, target: bytes) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("fastdata_cli.operations.clean.quarantine.move", refused)
    quarantine = Quarantine(Path("q"))
    assert quarantine.take(path, BAD) is None
    quarantine.close()
    assert quarantine.failed == 1
    assert quarantine.troubles == ["images/a.jpg: Permission denied"]
    assert os.path.exists(path)


def test_a_file_that_changes_while_it_is_copied_stays(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("images/a.jpg", "old")
    rename = durable.rename_new

    def slowly(source: Path, target: Path) -> bool:
        if source.parent != target.parent:
            raise OSError(errno.EXDEV, "Invalid cross-device link", str(target))
        Path("images/a.jpg").write_text("a newer one")
        return rename(source, target)

    monkeypatch.setattr(durable, "rename_new", slowly)
    with pytest.raises(OSError, match="changed"):
        move(path, os.fsencode(here / "q/a.jpg"))
    assert Path("images/a.jpg").read_text() == "a newer one"
    assert not Path("q/a.jpg").exists()


@pytest.mark.parametrize("stem", ["a" * 251, "é" * 125 + "a", "a" + "é" * 125, "\udcff" * 251])
def test_a_name_as_long_as_names_can_be_is_moved_again(stem: str) -> None:
    path = os.fsencode(f"d/{stem}.jpg")
    for text in ("first", "second", "third"):
        os.makedirs("d", exist_ok=True)
        Path(os.fsdecode(path)).write_text(text)
        [moved] = quarantined(path)
        assert moved is not None
        assert Path(moved).read_text() == text
    assert len(os.listdir("q/d")) == 3
    with pytest.raises(UnicodeDecodeError) if "\udcff" in stem else contextlib.nullcontext():
        b"".join(map(os.fsencode, os.listdir("q/d"))).decode()


def test_a_place_where_no_folder_can_be_made() -> None:
    write("file")
    for folder in ("file", "file/q"):
        with pytest.raises(UsageError, match="file is no folder"):
            Quarantine(Path(folder))
