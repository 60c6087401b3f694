"""clean over files and datasets: verdicts in order, soon, in bounded memory; cache and report."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from fastdata_cli.errors import UsageError
from fastdata_cli.imaging import ImagePolicy
from fastdata_cli.operations.clean import candidate, tally
from fastdata_cli.operations.clean.cache import ScoreCache
from fastdata_cli.operations.clean.candidate import FileState
from fastdata_cli.operations.clean.opening import open_subject
from fastdata_cli.operations.clean.report import MOST_VALUES, CleanReport
from fastdata_cli.operations.clean.run import Extras, clean
from fastdata_cli.operations.clean.subject import Files, Named
from fastdata_cli.operations.clean.tally import Tally
from fastdata_cli.operations.events import Silent
from fastdata_cli.operations.settings import SourceOptions
from fastdata_cli.quality.judge import Examined, Judge
from fastdata_cli.quality.options import CleanOptions
from fastdata_cli.quality.verdict import Reason, Score, Verdict
from fastdata_cli.quality.view import View
from fastdata_cli.sample import Reject
from fastdata_cli.timing.stages import StageClock
from tests.conftest import jpeg, make_tree

POLICY = ImagePolicy()


class Heard(Silent):
    """Remembers what was said."""

    def __init__(self) -> None:
        self.notices: list[str] = []

    def notice(self, text: str) -> None:
        self.notices.append(text)


def judge(**options: Any) -> Judge:
    return Judge(CleanOptions(**options), POLICY)


def run(
    sources: Sequence[Path | str],
    by: Judge,
    *,
    jobs: int = 2,
    extras: Extras | None = None,
    options: SourceOptions | None = None,
) -> tuple[list[Verdict], CleanReport]:
    verdicts: list[Verdict] = []
    subject = open_subject(list(map(str, sources)), options or SourceOptions(), {}, Silent())
    report = clean(
        subject, by, lambda verdict, moved: verdicts.append(verdict), jobs=jobs, extras=extras
    )
    return verdicts, report


def png(path: Path, pixels: np.ndarray[Any, Any]) -> Path:
    path.write_bytes(bytes(cv2.imencode(".png", pixels)[1]))
    return path


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Good images, and one of each kind that is not."""
    folder = make_tree(tmp_path / "images", 12)
    good = (folder / "class0/0000.jpg").read_bytes()
    (folder / "class0/cut.jpg").write_bytes(good[: len(good) // 2])
    (folder / "class1/empty.jpg").write_bytes(b"")
    (folder / "class1/page.jpg").write_bytes(b"<html></html>")
    (folder / "class2/twin.jpg").write_bytes(good)
    (folder / "class2/gone.jpg").symlink_to("nowhere.jpg")
    png(folder / "class2/black.png", np.zeros((8, 8, 3), np.uint8))
    return folder


def reasons_of(verdicts: Sequence[Verdict]) -> dict[str, list[str]]:
    return {
        os.path.basename(v.key): [reason.name for reason in v.reasons]
        for v in verdicts
        if not v.kept
    }


BAD = {
    "cut.jpg": ["truncated"],
    "empty.jpg": ["empty"],
    "page.jpg": ["not-an-image"],
    "gone.jpg": ["missing"],
}


@pytest.mark.parametrize("jobs", [1, 5])
def test_each_bad_file_has_its_reason(mixed: Path, jobs: int) -> None:
    verdicts, report = run([mixed], judge(), jobs=jobs)
    assert reasons_of(verdicts) == BAD
    assert report.looked_at == len(verdicts) == 18
    assert report.kept == 14
    assert report.reasons == {"truncated": 1, "empty": 1, "not-an-image": 1, "missing": 1}
    verdicts, report = run([mixed], judge(variance_min=10.0, duplicates="exact"), jobs=jobs)
    assert reasons_of(verdicts) == {**BAD, "twin.jpg": ["duplicate"], "black.png": ["low-variance"]}
    assert report.thresholds == {"variance-min": 10.0, "duplicates": "exact"}
    [group] = report.groups
    assert group.first.endswith("class0/0000.jpg")
    assert [os.path.basename(each.key) for each in group.members] == ["twin.jpg"]


def test_sources_are_judged_in_the_order_given(mixed: Path, tmp_path: Path) -> None:
    single = png(tmp_path / "one.png", np.zeros((4, 4, 3), np.uint8))
    verdicts, report = run([single, mixed / "class0", single], judge())
    keys = [verdict.key for verdict in verdicts]
    assert keys[0] == keys[-1] == str(single)
    assert keys[1:-1] == sorted(str(path) for path in (mixed / "class0").iterdir())
    assert [verdict.index for verdict in verdicts] == list(range(len(keys)))
    assert report.looked_at == len(keys)


def test_only_good_images_are_firsts_of_a_group(tmp_path: Path) -> None:
    """A copy that is held back for another reason must not take the good one with it."""
    data = jpeg(40, 40, 1)
    (tmp_path / "a.png").write_bytes(data)
    (tmp_path / "b.jpg").write_bytes(data)
    (tmp_path / "c.jpg").write_bytes(data)
    verdicts, _ = run([tmp_path], judge(format_mismatch=True, duplicates="exact"))
    assert [[reason.name for reason in v.reasons] for v in verdicts] == [
        ["format-mismatch"],
        [],
        ["duplicate"],
    ]
    assert verdicts[2].duplicate_of == str(tmp_path / "b.jpg")


def test_a_file_list_is_relative_to_where_it_fits(
    mixed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (mixed / "list.txt").write_bytes(b"class0/0000.jpg\r\nclass0/nothing.jpg\n")
    options = SourceOptions(files_from=str(mixed / "list.txt"))
    verdicts, _ = run([], judge(), options=options)
    assert [verdict.key for verdict in verdicts] == ["class0/0000.jpg\r", "class0/nothing.jpg"]
    assert [verdict.kept for verdict in verdicts] == [True, False]
    monkeypatch.chdir(mixed)
    assert run([], judge(), options=SourceOptions(files_from="list.txt"))[0] == verdicts


@pytest.mark.parametrize("payload", ["encoded", "pixels"])
def test_a_dataset_is_judged_by_its_samples(tmp_path: Path, payload: str) -> None:
    from tests.operations.test_clean_convert import convert_tree

    folder = make_tree(tmp_path / "images", 9)
    black = np.zeros((40, 48, 3), np.uint8)
    png(folder / "class1/black.png", black)
    dataset = convert_tree(folder, tmp_path / "out.zarr", payload=payload)
    verdicts, report = run([dataset], judge(variance_min=10.0, duplicates="pixels"))
    assert reasons_of(verdicts) == {"black.png": ["low-variance"]}
    assert verdicts[0].key == "class0/0000.jpg"
    assert report.looked_at == 10


def test_a_dataset_stands_alone(tmp_path: Path) -> None:
    from tests.operations.test_clean_convert import convert_tree

    folder = make_tree(tmp_path / "images", 3)
    dataset = convert_tree(folder, tmp_path / "out.lmdb")
    with pytest.raises(UsageError, match="one at a time"):
        run([folder, dataset], judge())


def test_verdicts_come_before_the_list_ends(tmp_path: Path) -> None:
    path = os.fsencode(png(tmp_path / "a.png", np.zeros((4, 4, 3), np.uint8)))
    seen = threading.Event()

    def blocks() -> Iterator[list[Named]]:
        yield [Named("first", path)]
        assert seen.wait(20), "the first verdict was held back"
        yield [Named("second", path)]

    def emit(verdict: Verdict, moved: str | None) -> None:
        seen.set()

    assert clean(Files("list", blocks()), judge(), emit, jobs=2).looked_at == 2


def test_few_files_are_in_memory_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = os.fsencode(tmp_path / "large.jpg")
    Path(os.fsdecode(path)).write_bytes(jpeg(64, 64, 1) + bytes(1 << 20))
    alive = most = done = 0
    view = candidate.Candidate.view

    def counted(self: candidate.Candidate, policy: ImagePolicy) -> View:
        nonlocal most
        most = max(most, self.index - done)
        return view(self, policy)

    def emit(verdict: Verdict, moved: str | None) -> None:
        nonlocal done
        done += 1

    monkeypatch.setattr(candidate.Candidate, "view", counted)
    blocks = [[Named(str(index), path) for index in range(200)]]
    clean(Files("list", blocks), judge(), emit, jobs=2)
    assert done == 200
    assert most <= 2 * 2 + 2 + 2
    assert alive == 0


def test_an_observer_sees_all_in_order_and_draws_what_is_decoded(mixed: Path) -> None:
    class Album:
        def __init__(self) -> None:
            self.seen: list[tuple[str, Any]] = []
            self.report: CleanReport | None = None

        def draw(
            self,
            index: int,
            open_view: Callable[[], View],
            scores: Mapping[str, Score],
            reasons: tuple[Reason, ...],
        ) -> Any:
            return open_view().pixels.shape, [reason.name for reason in reasons]

        def see(self, verdict: Verdict, drawn: Any) -> None:
            self.seen.append((os.path.basename(verdict.key), drawn))

        def finish(self, report: CleanReport) -> None:
            self.report = report

        def close(self) -> None: ...

    cache = mixed.parent / "scores"
    settle(mixed)
    for _ in range(2):  # the second time the scores are known and the images are not
        album = Album()
        by = judge(variance_min=10.0)
        scores = ScoreCache(cache, by, Silent())
        verdicts, report = run([mixed], by, extras=Extras(cache=scores, observer=album))
        scores.close()
        assert album.report is report
        assert [name for name, _ in album.seen] == [os.path.basename(v.key) for v in verdicts]
        drawn = dict(album.seen)
        assert drawn["0000.jpg"] == ((40, 48, 3), [])
        assert drawn["black.png"] == ((8, 8, 3), ["low-variance"])
        assert drawn["cut.jpg"] is None
    assert report.cached == 17


# -- the cache -------------------------------------------------------------------------------------


def settle(folder: Path) -> None:
    """Make files look as if they were not changed just now."""
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            os.utime(path, ns=(0, 10**18))


def cached_run(
    folder: Path, cache: Path, by: Judge, heard: Heard | None = None
) -> tuple[list[Verdict], CleanReport]:
    scores = ScoreCache(cache, by, heard or Heard())
    try:
        return run([folder], by, extras=Extras(cache=scores))
    finally:
        scores.close()


def forbid_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("an image was looked at")

    monkeypatch.setattr(Judge, "examine", refuse)


def test_a_second_run_with_other_thresholds_decodes_nothing(
    mixed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(mixed)
    cache = tmp_path / "scores"
    first = cached_run(mixed, cache, judge(variance_min=10.0, duplicates="exact"))
    assert first[1].cached == 0
    forbid_decoding(monkeypatch)
    again = cached_run(mixed, cache, judge(variance_min=10.0, duplicates="exact"))
    assert again[0] == first[0]
    assert again[1].cached == 17, "all but the missing one"
    strict = cached_run(mixed, cache, judge(variance_min=1e6))
    assert strict[1].kept == 0
    assert cached_run(mixed, cache, judge())[1].kept == 14


def test_scores_of_different_runs_add_up(
    mixed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(mixed)
    cache = tmp_path / "scores"
    cached_run(mixed, cache, judge(variance_min=1.0))
    assert cached_run(mixed, cache, judge(min_side=9, duplicates="near"))[1].cached == 3, (
        "what is no image stays none; the rest lacks a score"
    )
    forbid_decoding(monkeypatch)
    verdicts, report = cached_run(
        mixed, cache, judge(variance_min=10.0, min_side=9, duplicates="near")
    )
    assert report.cached == 17
    assert reasons_of(verdicts)["black.png"] == ["low-variance", "too-small"]


def test_a_cached_run_says_what_the_same_run_says_without_a_cache(
    mixed: Path, tmp_path: Path
) -> None:
    settle(mixed)
    cache = tmp_path / "scores"
    cached_run(mixed, cache, judge(blur_min=0.01, min_side=1, exif=True))
    cached_run(mixed, cache, judge(variance_min=1.0))
    for by in (judge(min_side=1, variance_min=1.0), judge(blur_min=0.01)):
        plain, cached = run([mixed], by)[0], cached_run(mixed, cache, by)[0]
        assert cached == plain
        assert [list(each.scores) for each in cached] == [list(each.scores) for each in plain]
    assert any("flat" in each.notes for each in plain), "there is one to be told"


@pytest.mark.parametrize("change", ["content", "mtime", "replaced", "another policy"])
def test_what_changed_is_measured_again(mixed: Path, tmp_path: Path, change: str) -> None:
    settle(mixed)
    cache, file = tmp_path / "scores", mixed / "class0/0000.jpg"
    cached_run(mixed, cache, judge(variance_min=10.0))
    by, expected = judge(variance_min=10.0), 16
    if change == "content":  # of the same size, and with the old time put back
        data = file.read_bytes()
        file.write_bytes(data[:-40] + bytes(38) + data[-2:])
        os.utime(file, ns=(0, 10**18))
    elif change == "mtime":
        os.utime(file, ns=(0, 10**18 + 1))
    elif change == "replaced":
        (tmp_path / "new").write_bytes(file.read_bytes())
        os.utime(tmp_path / "new", ns=(0, 10**18))
        (tmp_path / "new").rename(file)
    else:
        by, expected = Judge(by.options, ImagePolicy(background=(0, 0, 0))), 0
    assert cached_run(mixed, cache, by)[1].cached == expected


def test_a_file_that_was_changed_just_now_is_not_remembered(tmp_path: Path) -> None:
    """It may change once more within one tick of the clock, and nothing would show it."""
    folder = make_tree(tmp_path / "images", 3)
    cached_run(folder, tmp_path / "scores", judge())
    assert cached_run(folder, tmp_path / "scores", judge())[1].cached == 0


@pytest.mark.parametrize("content", [b"my notes\n", b"SQLite format 3\0" + bytes(100), b"\xff\xd8"])
def test_a_file_that_is_no_cache_is_not_touched(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "scores"
    file.write_bytes(content)
    with pytest.raises(UsageError, match="not touched"):
        ScoreCache(file, judge(), Silent())
    assert file.read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == ["scores"]


def test_another_database_is_not_touched(tmp_path: Path) -> None:
    base = sqlite3.connect(tmp_path / "other.db")
    base.execute("CREATE TABLE scores (path)")
    base.commit()
    base.close()
    before = (tmp_path / "other.db").read_bytes()
    with pytest.raises(UsageError, match="no cache"):
        ScoreCache(tmp_path / "other.db", judge(), Silent())
    assert (tmp_path / "other.db").read_bytes() == before


@pytest.mark.parametrize("place", [200, 4096, 4200])
def test_a_damaged_cache_costs_time_only(mixed: Path, tmp_path: Path, place: int) -> None:
    settle(mixed)
    cache = tmp_path / "scores"
    first = cached_run(mixed, cache, judge(variance_min=10.0))
    data = bytearray(cache.read_bytes())
    data[place:] = os.urandom(len(data) - place)
    cache.write_bytes(data)
    heard = Heard()
    again = cached_run(mixed, cache, judge(variance_min=10.0), heard)
    assert again[0] == first[0]
    assert len(heard.notices) <= 1
    assert all("delete it" in notice for notice in heard.notices)


def test_two_runs_share_a_cache(tmp_path: Path) -> None:
    by, heard = judge(), Heard()
    one, two = (ScoreCache(tmp_path / "scores", by, heard) for _ in range(2))
    state = FileState(1, 2, 3, 4, 5)
    for index in range(1500):
        one.store(b"/one/%d" % index, state, Examined())
        two.store(b"/two/%d" % index, state, Reject("", "corrupt", "why"))
    one.close()
    two.close()
    assert heard.notices == []
    base = sqlite3.connect(tmp_path / "scores")
    assert base.execute("SELECT count(*) FROM scores").fetchone() == (3000,)
    base.close()


def test_a_cache_that_cannot_be_written_is_said_once(mixed: Path, tmp_path: Path) -> None:
    settle(mixed)
    by, heard = judge(), Heard()
    scores = ScoreCache(tmp_path / "scores", by, heard)
    blocker = sqlite3.connect(tmp_path / "scores", isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    scores._base.execute("PRAGMA busy_timeout = 0")
    report = run([mixed], by, extras=Extras(cache=scores))[1]
    scores.close()
    blocker.close()
    assert report.looked_at == 18
    assert len(heard.notices) == 1
    assert "locked" in heard.notices[0]


# -- the report ------------------------------------------------------------------------------------


def test_scores_are_sampled_in_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def report(count: int) -> CleanReport:
        counts = Tally()
        for index in range(count):
            value = float("nan") if index % 10 == 0 else float(index)
            counts.add(Verdict("k", index, scores={"a": value, "word": "x", "flag": True}))
        return counts.report(source="", notes={}, thresholds={}, clock=StageClock())

    small = report(1000).scores
    assert set(small) == {"a"}
    assert (small["a"].count, small["a"].missing) == (900, 100)
    assert (small["a"].low, small["a"].high) == (1.0, 999.0)
    assert small["a"].quantile(0.5) == pytest.approx(500, abs=2)
    assert (small["a"].quantile(0), small["a"].quantile(1)) == (1.0, 999.0)
    large = report(60_000).scores["a"]
    assert len(large.values) == MOST_VALUES
    assert large.values == tuple(sorted(large.values))
    assert large.high == 59_999
    assert large.quantile(0.5) == pytest.approx(30_000, rel=0.05)
    assert large == report(60_000).scores["a"], "the same in every run"


def test_groups_are_bounded_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally, "MOST_GROUPS", 3)
    monkeypatch.setattr(tally, "MOST_MEMBERS", 2)
    counts = Tally()
    for index in range(40):
        first = f"first{index % 5}"
        counts.add(
            Verdict(f"{index}", index, (Reason("near-duplicate"),), duplicate_of=first, distance=1)
        )
    report = counts.report(source="", notes={"junk": 2}, thresholds={}, clock=StageClock())
    assert report.groups_found == 5
    assert [group.first for group in report.groups] == ["first0", "first1", "first2"]
    assert [group.count for group in report.groups] == [8, 8, 8]
    assert [each.key for each in report.groups[0].members] == ["0", "5"]
    assert report.notes == {"junk": 2}


def test_an_image_of_an_index_and_one_of_this_run_have_a_group_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = make_tree(tmp_path / "old", 1), make_tree(tmp_path / "new", 2)
    kept = old / "class0" / "0000.jpg"
    (new / "class0" / "0000.jpg").write_bytes(jpeg(40, 48, 99))
    (new / "class0" / "again.jpg").write_bytes(jpeg(40, 48, 99))
    (new / "class0" / "old.jpg").write_bytes(kept.read_bytes())
    index = str(tmp_path / "index")
    monkeypatch.chdir(old)
    run([Path("class0")], judge(duplicates="exact", save_index=index))
    monkeypatch.chdir(new)
    verdicts, report = run([Path("class0")], judge(duplicates="exact", against=index))
    found = [(v.key, v.duplicate_of, v.against) for v in verdicts if not v.kept]
    first = "class0/0000.jpg"
    assert found == [("class0/again.jpg", first, False), ("class0/old.jpg", first, True)]
    assert report.groups_found == len(report.groups) == 2
    assert [group.against for group in report.groups] == [False, True]


def test_records_are_json(mixed: Path) -> None:
    from fastdata_cli.operations.clean.record import report_record, verdict_record

    verdicts, report = run([mixed], judge(variance_min=10.0, duplicates="near"))
    records = [json.loads(json.dumps(verdict_record(v), allow_nan=False)) for v in verdicts]
    assert {record["fastdata_clean"] for record in records} == {1}
    whole = json.loads(json.dumps(report_record(report), allow_nan=False))
    assert whole["looked_at"] == 18
    assert whole["bad"] == sum(not record["kept"] for record in records)
    assert whole["scores"]["variance"]["quantiles"]["0"] == 0.0
    assert whole["groups"][0]["members"][0]["distance"] == 0
