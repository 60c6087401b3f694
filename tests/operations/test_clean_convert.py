"""``convert --clean`` and ``clean -o``: the same checks in the same decode, also after a kill."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from fastdata_cli import open_reader, registry
from fastdata_cli.contract import Part, PartLimits, Receipt
from fastdata_cli.errors import BadSampleError, NothingUsableError, StaleStagingError
from fastdata_cli.formats.staged import StagedWriter
from fastdata_cli.imaging import ImagePolicy
from fastdata_cli.imaging import decode as decode_module
from fastdata_cli.operations.clean.run import clean
from fastdata_cli.operations.clean.subject import Samples
from fastdata_cli.operations.convert import ConvertReport, convert
from fastdata_cli.operations.events import Silent
from fastdata_cli.operations.plan import make_plan
from fastdata_cli.operations.settings import ConvertOptions, SourceOptions
from fastdata_cli.operations.source import open_source
from fastdata_cli.quality.judge import Judge
from fastdata_cli.quality.options import CleanOptions
from fastdata_cli.sample import Batch
from fastdata_cli.storage.staging import staging_root
from tests.conftest import jpeg, make_tree

DUPLICATES = ("exact", "pixels", "near")


def converted(
    source: Path,
    out: Path,
    checks: CleanOptions | None = None,
    *,
    jobs: int = 2,
    **options: Any,
) -> ConvertReport:
    row = registry.for_destination(out)
    opened = open_source(str(source), SourceOptions())
    plan = make_plan(
        opened,
        out,
        row,
        ConvertOptions(**options),
        row.write_options(),
        Silent(),
        clean=checks,
    )
    return convert(plan, jobs=jobs)


def convert_tree(source: Path, out: Path, **options: Any) -> Path:
    converted(source, out, **options)
    return out


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Forty images: some cut, some black, some twice."""
    folder = make_tree(tmp_path / "images", 40)
    for index in range(0, 40, 7):
        twin = folder / f"class{index % 3}/{index:04d}-twin.jpg"
        twin.write_bytes((folder / f"class{index % 3}/{index:04d}.jpg").read_bytes())
    black = bytes(cv2.imencode(".png", np.zeros((40, 48, 3), np.uint8))[1])
    (folder / "class1/black.png").write_bytes(black)
    (folder / "class2/cut.jpg").write_bytes(jpeg(40, 48, 5)[:500])
    return folder


def rejects_of(out: Path) -> dict[str, str]:
    path = out.parent / f"{out.name}.rejects.jsonl"
    if not path.exists():
        return {}
    records = map(json.loads, path.read_text().splitlines())
    return {record["key"]: record["reason"] for record in records}


def test_what_the_checks_reject_is_left_out_and_listed(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.raw"
    report = converted(source, out, clean="variance-min=10,duplicates=exact")
    assert report.cleaned == {"duplicate": 6, "low-variance": 1}
    assert report.rejects == {"truncated": 1}
    assert (report.samples, report.looked_at) == (40, 48)
    assert not report.too_many_bad, "what was asked for is not bad"
    found = rejects_of(out)
    assert found["class1/black.png"] == "low-variance"
    assert found["class2/cut.jpg"] == "truncated"
    assert sum(reason == "duplicate" for reason in found.values()) == 6
    reader = open_reader(out)
    assert list(reader.keys()) == [
        key for key in list(open_reader(source).keys()) if key not in found
    ]
    assert reader.manifest is not None
    assert reader.manifest.counts["cleaned"] == report.cleaned
    assert reader.manifest.options["clean"] == {"variance_min": 10.0, "duplicates": "exact"}


def test_kept_samples_are_stored_as_without_checks(source: Path, tmp_path: Path) -> None:
    for payload in ("encoded", "pixels"):
        plain, checked = tmp_path / f"plain-{payload}.raw", tmp_path / f"checked-{payload}.raw"
        converted(source, plain, payload=payload)
        converted(source, checked, CleanOptions(variance_min=10.0), payload=payload)
        first, second = open_reader(plain), open_reader(checked)
        where = {key: index for index, key in enumerate(first.keys())}
        assert len(second) == len(first) - 1
        for index, key in enumerate(second.keys()):
            one, other = first.read(where[key]), second.read(index)
            assert np.array_equal(one.image, other.image)
            assert one.label == other.label


@pytest.mark.parametrize("options", [{"payload": "pixels"}, {"payload": "pixels", "size": "16"}])
def test_one_decode_serves_checks_and_pixels(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    (source / "class2/cut.jpg").unlink()
    decodes = []
    whole = decode_module.decode

    def counted(*arguments: Any, **named: Any) -> Any:
        decodes.append(named)
        return whole(*arguments, **named)

    for name in ("quality.view", "operations.transform", "imaging.decode"):
        monkeypatch.setattr(f"fastdata_cli.{name}.decode", counted)
    checks = CleanOptions(variance_min=10.0, blur_min=0.001, duplicates="near")
    report = converted(source, tmp_path / "out.raw", checks, **options)
    assert len(decodes) == report.looked_at == 47


def test_on_bad_is_about_bad_samples_only(source: Path, tmp_path: Path) -> None:
    checks = CleanOptions(variance_min=10.0)
    with pytest.raises(BadSampleError, match="truncated"):
        converted(source, tmp_path / "a.raw", checks, on_bad="fail")
    report = converted(source, tmp_path / "b.raw", checks, on_bad="fill", payload="pixels")
    assert (report.samples, report.cleaned) == (47, {"low-variance": 1})
    (source / "class2/cut.jpg").unlink()
    converted(source, tmp_path / "c.raw", checks, on_bad="fail")
    with pytest.raises(NothingUsableError, match="low-variance"):
        converted(source, tmp_path / "d.raw", CleanOptions(variance_min=1e9))


@pytest.mark.parametrize("kind", DUPLICATES)
@pytest.mark.parametrize("payload", ["encoded", "pixels"])
def test_the_same_as_clean_says(source: Path, tmp_path: Path, kind: str, payload: str) -> None:
    packed = convert_tree(source, tmp_path / "packed.lmdb", payload=payload)
    checks = CleanOptions(variance_min=10.0, duplicates=kind)
    kept = []
    reader = open_reader(packed)
    clean(
        Samples("packed", reader),
        Judge(checks, ImagePolicy()),
        lambda verdict, _: kept.append(verdict.key) if verdict.kept else None,
    )
    out = tmp_path / "out.h5"
    converted(packed, out, checks, payload=payload)
    assert list(open_reader(out).keys()) == kept
    assert len(kept) == 40


# -- interruptions ---------------------------------------------------------------------------------


def interrupt_after(parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    store = StagedWriter.write_part
    monkeypatch.setattr(StagedWriter, "limits", PartLimits(samples=4))

    def write_part(self: StagedWriter, part: Part, batch: Batch) -> Receipt:
        if part.index == parts:
            raise KeyboardInterrupt
        return store(self, part, batch)

    monkeypatch.setattr(StagedWriter, "write_part", write_part)


def lose_prints(out: Path) -> None:
    for file in (staging_root(out) / "prints").iterdir():
        file.unlink()


def cut_prints(out: Path) -> None:
    for file in (staging_root(out) / "prints").iterdir():
        file.write_bytes(file.read_bytes()[:-3])


def touch_nothing(out: Path) -> None:
    assert list((staging_root(out) / "prints").iterdir()) != []


@pytest.mark.parametrize("kind", DUPLICATES)
@pytest.mark.parametrize("meanwhile", [touch_nothing, lose_prints, cut_prints])
@pytest.mark.parametrize("on_bad", ["skip", "fill"])
def test_a_continued_run_finds_the_same_duplicates(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    meanwhile: Callable[[Path], None],
    on_bad: str,
) -> None:
    source = tmp_path / "images"
    source.mkdir()
    for index in range(40):
        # What repeats an image comes 20 later: by then its part is finished.
        (source / f"{index:02d}.jpg").write_bytes(jpeg(40, 48, index % 20 + (index % 3 == 0) * 50))
    (source / "03.jpg").write_bytes(jpeg(40, 48, 3)[:500])
    checks = CleanOptions(variance_min=1.0, duplicates=kind)
    options: dict[str, Any] = {"payload": "pixels", "on_bad": on_bad}
    whole = tmp_path / "whole.raw"
    report = converted(source, whole, checks, **options)
    assert sum(report.cleaned.values()) > 5

    out = tmp_path / "out.raw"
    with monkeypatch.context() as patch:
        interrupt_after(4, patch)
        with pytest.raises(KeyboardInterrupt):
            converted(source, out, checks, jobs=1, **options)
    meanwhile(out)
    resumed = converted(source, out, checks, **options)
    assert resumed.resumed_samples == 16
    assert (resumed.samples, resumed.cleaned) == (report.samples, report.cleaned)
    assert rejects_of(out) == rejects_of(whole)
    first, second = open_reader(whole), open_reader(out)
    assert list(first.keys()) == list(second.keys())
    assert np.array_equal(first.read_many(range(20)).images, second.read_many(range(20)).images)
    assert not staging_root(out).exists()


def test_other_checks_do_not_continue_a_run(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.raw"
    with monkeypatch.context() as patch:
        interrupt_after(2, patch)
        with pytest.raises(KeyboardInterrupt):
            converted(source, out, CleanOptions(variance_min=10.0))
    with pytest.raises(StaleStagingError):
        converted(source, out, CleanOptions(variance_min=11.0))
    assert converted(source, out, CleanOptions(variance_min=10.0)).samples


def test_a_different_index_does_not_continue_a_run(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = tmp_path / "seen.index"
    saving = CleanOptions(duplicates="exact", save_index=str(index))
    first = converted(make_tree(tmp_path / "few", 6), tmp_path / "few.raw", saving)
    assert first.samples == 6
    against = CleanOptions(duplicates="exact", against=str(index))
    out = tmp_path / "out.raw"
    with monkeypatch.context() as patch:
        interrupt_after(2, patch)
        with pytest.raises(KeyboardInterrupt):
            converted(source, out, against)
    converted(make_tree(tmp_path / "more", 9), tmp_path / "more.raw", saving)
    with pytest.raises(StaleStagingError):
        converted(source, out, against)


def test_an_index_is_written_by_runs_that_end(source: Path, tmp_path: Path) -> None:
    index = tmp_path / "seen.index"
    saving = CleanOptions(variance_min=1e9, duplicates="exact", save_index=str(index))
    with pytest.raises(NothingUsableError):
        converted(source, tmp_path / "out.raw", saving)
    assert not index.exists()
