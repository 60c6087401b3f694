"""What a source becomes in several formats: each is made, read and judged; nothing stays."""

from __future__ import annotations

import shlex
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from fastdata_cli import registry
from fastdata_cli.errors import NothingUsableError, UsageError
from fastdata_cli.operations import survey as module
from fastdata_cli.operations.candidates import candidates
from fastdata_cli.operations.convert import convert
from fastdata_cli.operations.events import Silent
from fastdata_cli.operations.plan import make_plan
from fastdata_cli.operations.settings import ConvertOptions, SourceOptions
from fastdata_cli.operations.source import open_source
from fastdata_cli.operations.survey import survey
from fastdata_cli.operations.survey_report import AS_IT_IS, Survey, Trial
from fastdata_cli.sample import Payload
from tests.conftest import make_tree

PIXELS, ENCODED = Payload.PIXELS, Payload.ENCODED
SIZE = (20, 24)
MAX_SIDE = 37  # of images of 31x50, whose 20 rows must stay a seventh more


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Measure for a moment only; return the folder of temporary files."""
    for name in ("_READING_S", "_DEVICE_S"):
        monkeypatch.setattr(module, name, 0.2)
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def look(source: Path, **options: object) -> Survey:
    return survey(
        open_source(str(source), SourceOptions()),
        ConvertOptions(**options),  # type: ignore[arg-type]
        listener=Silent(),
    )


def trial(name: str, rate: float, stored: float, **facts: object) -> Trial:
    usual = Trial(
        name=name,
        words=(name,),
        payload=PIXELS,
        reencoded=False,
        stored_bytes=stored,
        convert_s=1.0,
        memory_samples_per_s=rate,
        disk_samples_per_s=rate / 10,
        fits=True,
    )
    return replace(usual, **facts)  # type: ignore[arg-type]


def names(options: ConvertOptions, stored: Payload = ENCODED) -> list[str]:
    return [each.name for each in candidates(stored, options, MAX_SIDE)]


def test_what_is_tried_depends_on_what_was_decided() -> None:
    every = names(ConvertOptions())
    assert {"out.lmdb", "out.lmdb --max-side 37", "out.raw", "out.zarr", "out.h5"} <= set(every)
    pixels = names(ConvertOptions(payload="pixels"))
    assert "out.lmdb" not in pixels
    assert "out.raw" in pixels
    assert "out.raw" not in names(ConvertOptions(payload="encoded"))
    assert names(ConvertOptions(max_side=99)) == ["out.lmdb", "train-%06d.tar --shard-samples 1000"]
    assert names(ConvertOptions(), PIXELS) == pixels


def test_a_set_that_does_not_fit_is_read_from_the_disk() -> None:
    assert trial("a", 1000, 1).samples_per_s == 1000
    assert trial("a", 1000, 1, fits=False).samples_per_s == 100
    assert trial("a", 1000, 1, fits=False, disk_samples_per_s=None).samples_per_s == 1000


def test_the_best_is_the_smallest_of_the_fast() -> None:
    found = Survey(
        source="",
        samples=1,
        measured=1,
        size=SIZE,
        trials=(
            trial(AS_IT_IS, 10, 5, payload=ENCODED),
            trial("kept", 11, 6, payload=ENCODED),
            trial("smaller", 100, 2, payload=ENCODED, reencoded=True),
            trial("large", 1000, 9),
            trial("packed", 950, 4),
            trial("slow", 800, 1),
        ),
        disk=None,
        memory_bytes=100,
    )
    assert found.fastest.name == "packed"
    assert found.faithful.name == AS_IT_IS


def test_every_candidate_is_made_and_read(tmp_path: Path, quick: Path) -> None:
    tree = make_tree(tmp_path / "images", 20, None)
    found = look(tree, size="20x24")
    assert [each.name for each in found.trials] == [AS_IT_IS, *names(ConvertOptions())]
    assert (found.samples, found.measured, found.size) == (20, 20, SIZE)
    assert all(each.memory_samples_per_s > 0 for each in found.trials)
    by_name = {each.name: each for each in found.trials}
    files = sum(file.stat().st_size for file in tree.rglob("*.jpg"))
    assert by_name[AS_IT_IS].stored_bytes == files
    assert by_name["out.raw"].stored_bytes >= 20 * 20 * 24 * 3
    assert by_name["out.raw"].payload is PIXELS
    assert by_name["out.lmdb --max-side 37"].reencoded
    assert not by_name["out.lmdb"].reencoded
    assert list(quick.iterdir()) == []


def test_the_words_of_a_trial_make_what_was_tried(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "images", 12, None)
    for each in look(tree, fit="pad").trials[1:]:
        destination, *flags = each.words
        assert ("--fit" in flags) == (each.payload is PIXELS)
        assert ("--size" in flags) == (each.payload is PIXELS)
        row = registry.for_destination(tmp_path / destination)
        assert row.open_writer is not None
        assert shlex.join(each.words).startswith(shlex.quote(destination))


def test_pixels_stay_as_they_are(tmp_path: Path) -> None:
    source = open_source(str(make_tree(tmp_path / "images", 12, SIZE)), SourceOptions())
    row = registry.for_destination(tmp_path / "in.raw")
    plan = make_plan(
        source, tmp_path / "in.raw", row, ConvertOptions(), row.write_options(), Silent()
    )
    convert(plan)
    found = look(tmp_path / "in.raw")
    assert found.size is None
    assert {each.payload for each in found.trials} == {PIXELS}
    assert not any("--size" in each.words for each in found.trials)
    with pytest.raises(UsageError, match="holds pixels"):
        look(tmp_path / "in.raw", payload="encoded")


def test_the_whole_is_extrapolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST", 5)
    monkeypatch.setattr(module, "_FEWEST", 5)
    found = look(make_tree(tmp_path / "images", 40, SIZE), limit=20)
    assert (found.samples, found.measured) == (20, 5)
    raw = next(each for each in found.trials if each.name == "out.raw")
    assert raw.stored_bytes >= 20 * 20 * 24 * 3


def test_what_cannot_be_is_left_out_and_said(tmp_path: Path) -> None:
    said: list[str] = []

    class Listener(Silent):
        def notice(self, text: str) -> None:
            said.append(text)

    source = open_source(str(make_tree(tmp_path / "images", 12, SIZE)), SourceOptions())
    found = survey(source, ConvertOptions(on_bad="fill"), listener=Listener())
    assert {each.payload for each in found.trials[1:]} == {PIXELS}
    assert said
    assert all("is not tried: --on-bad fill" in text for text in said)


def test_an_empty_source_is_refused(tmp_path: Path, quick: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "a.jpg").write_bytes(b"")
    with pytest.raises(NothingUsableError):
        look(tmp_path / "empty")
    assert list(quick.iterdir()) == []
