"""Adding to a dataset through the API: what is chosen, under which options and numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastdata_cli import open_reader, registry
from fastdata_cli.errors import DamagedDatasetError, UsageError
from fastdata_cli.manifest import Manifest
from fastdata_cli.operations.append import open_standing, plan_append
from fastdata_cli.operations.append_options import agreed_checks, agreed_options
from fastdata_cli.operations.choice import AppendRequest
from fastdata_cli.operations.convert import ConvertReport, convert
from fastdata_cli.operations.estimate import estimate
from fastdata_cli.operations.events import Silent
from fastdata_cli.operations.growth import Growth
from fastdata_cli.operations.plan import make_plan
from fastdata_cli.operations.rejects import read_rejects, write_rejects
from fastdata_cli.operations.settings import ConvertOptions, SourceOptions
from fastdata_cli.operations.source import open_source
from fastdata_cli.operations.subset import Renumbered, Subset
from fastdata_cli.sample import Payload, Reject, Sample, Schema
from tests.conftest import jpeg


class Notes(Silent):
    """Keeps what an operation says."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def notice(self, text: str) -> None:
        self.lines.append(text)


def made(source: Path, path: Path, **options: Any) -> ConvertReport:
    row = registry.for_destination(path)
    opened = open_source(str(source), SourceOptions())
    settings = (ConvertOptions(**options), row.write_options())
    return convert(make_plan(opened, path, row, *settings, Silent()))


def added(
    source: Path, path: Path, listener: Silent | None = None, **request: Any
) -> ConvertReport | None:
    opened = open_source(str(source), SourceOptions())
    wanted = AppendRequest(**request)
    plan = plan_append(opened, open_standing(path), wanted, listener or Silent())
    return None if plan is None else convert(plan)


def test_a_report_says_what_was_added(tree: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.lmdb"
    assert made(tree, out).added is None
    assert added(tree, out) is None
    (tree / "class0" / "new.jpg").write_bytes(jpeg(40, 48, 50))
    (tree / "class0" / "worse.jpg").write_bytes(b"")
    report = added(tree, out)
    assert report is not None
    assert (report.samples, report.added, report.resumed_samples) == (21, 1, 0)
    assert (report.looked_at, report.rejects) == (22, {"empty": 1})
    manifest = open_reader(out).manifest
    assert manifest is not None
    assert manifest.generations[1]["counts"]["rejects"] == {"empty": 1}
    assert manifest.generations[0]["counts"]["rejects"] == {}
    assert manifest.counts["rejects"] == {"empty": 1}


@pytest.mark.parametrize("options", [{"payload": "encoded", "size": "24"}, {"max_side": 30}])
def test_files_that_are_made_anew_go_on_being_made(
    tree: Path, tmp_path: Path, options: dict[str, Any]
) -> None:
    made(tree, tmp_path / "out.tar", **options)
    (tree / "class2" / "zz.jpg").write_bytes(jpeg(60, 70, 50))
    notes = Notes()
    assert added(tree, tmp_path / "out.tar", notes) is not None
    assert not any("changed" in line for line in notes.lines)
    made(tree, tmp_path / "fresh.tar", **options)
    sides = [open_reader(tmp_path / name) for name in ("out.tar", "fresh.tar")]
    assert sides[0].read(20).image.tobytes() == sides[1].read(20).image.tobytes()
    assert sides[0].manifest is not None
    assert sides[0].manifest.options["size" if "size" in options else "max_side"] in ("24", 30)


def test_an_estimate_is_of_what_is_new(tree: Path, tmp_path: Path) -> None:
    made(tree, tmp_path / "out.lmdb")
    for number in range(3):
        (tree / "class0" / f"new{number}.jpg").write_bytes(jpeg(40, 48, number))
    opened = open_source(str(tree), SourceOptions())
    plan = plan_append(opened, open_standing(tmp_path / "out.lmdb"), AppendRequest(), Silent())
    assert plan is not None
    assert estimate(plan).samples == 3
    assert len(open_reader(tmp_path / "out.lmdb")) == 20


def test_more_bad_samples_than_allowed_are_counted_over_all(tree: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.lmdb"
    made(tree, out, max_bad="2")
    for number in range(3):
        (tree / "class0" / f"bad{number}.jpg").write_bytes(b"")
        (tree / "class1" / f"good{number}.jpg").write_bytes(jpeg(40, 48, number + 50))
    report = added(tree, out)
    assert report is not None
    assert report.too_many_bad
    (tree / "class0" / "bad1.jpg").write_bytes(jpeg(40, 48, 60))
    report = added(tree, out, new=False, again=True)
    assert report is not None
    assert not report.too_many_bad
    manifest = open_reader(out).manifest
    assert manifest is not None
    assert "too_many_bad" not in manifest.counts


def test_labels_beyond_the_classes_are_refused(tree: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.lmdb"
    made(tree, out)
    (tree / "class0" / "new.jpg").write_bytes(jpeg(40, 48, 50))
    table = tmp_path / "labels.csv"
    table.write_text("class0/new.jpg,3\nclass0/0000.jpg,0\n")
    opened = open_source(str(tree), SourceOptions(labels=str(table)))
    with pytest.raises(UsageError, match="label 3 is beyond the 3 classes"):
        plan_append(opened, open_standing(out), AppendRequest(), Silent())


def numbered(path: Path, labels: list[int], names: list[str]) -> Path:
    """Make an array of others whose labels may go beyond the names of its classes."""
    import zarr

    group = zarr.create_group(str(path), attributes={"class_names": names})
    shape = (len(labels), 4, 4, 3)
    group.create_array("images", shape=shape, chunks=(1, 4, 4, 3), dtype="u1")[:] = 7
    group.create_array("labels", shape=shape[:1], dtype="i8")[:] = labels
    return path


@pytest.mark.parametrize("beyond", [3, 5])
def test_labels_of_the_source_beyond_its_names_are_refused(
    tree: Path, tmp_path: Path, beyond: int
) -> None:
    made(tree, tmp_path / "out.lmdb", payload="pixels", size="4")
    source = numbered(tmp_path / "in.zarr", [0, beyond], ["x", "y", "z"])
    with pytest.raises(UsageError, match=f"label {beyond} is beyond the 3 classes of the source"):
        added(source, tmp_path / "out.lmdb")


def test_no_new_class_takes_the_number_of_a_label_without_a_name(
    tree: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.tar"
    made(numbered(tmp_path / "in.zarr", [0, 2, 3], ["x", "y", "z"]), out)
    with pytest.raises(UsageError, match="label 3 is beyond the 3 classes of the dataset"):
        added(tree, out)
    # Under the same names a number means the same, with or without a name.
    assert added(numbered(tmp_path / "more.zarr", [0, 2, 3, 5], ["x", "y", "z"]), out) is not None
    assert open_reader(out).labels().tolist() == [0, 2, 3, 5]


def test_the_sample_says_whether_it_stands_for_a_bad_one(tree: Path, tmp_path: Path) -> None:
    out, bad = tmp_path / "out.lmdb", tree / "class0" / "bad.jpg"
    made(tree, out, payload="pixels")
    bad.write_bytes(b"")
    (tree / "class0" / "new.jpg").write_bytes(jpeg(40, 48, 50))
    assert added(tree, out, options={"on_bad": "fill"}) is not None
    listed = read_rejects(out)
    assert [each.key for each in listed] == ["class0/bad.jpg"]
    assert added(tree, out) is None
    assert read_rejects(out) == listed
    (tree / "class1" / "new.jpg").write_bytes(jpeg(40, 48, 51))
    assert added(tree, out) is not None
    manifest = open_reader(out).manifest
    assert manifest is not None
    assert (manifest.counts["rejects"], manifest.counts["notes"]) == ({"empty": 1}, {"filled": 1})


def test_a_stale_line_goes_from_the_list_of_a_dataset_with_grey_images(
    tree: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.lmdb"
    (tree / "class0" / "bad.jpg").write_bytes(b"")
    made(tree, out, payload="pixels", on_bad="fill")
    filled = read_rejects(out)
    write_rejects(out, [*filled, Reject("class1/0001.jpg", "empty", "", 9)])
    assert added(tree, out) is None
    assert read_rejects(out) == filled


def test_a_list_that_is_none_is_refused(tree: Path, tmp_path: Path) -> None:
    made(tree, tmp_path / "out.lmdb")
    (tmp_path / "out.lmdb.rejects.jsonl").write_text('{"key": 3}\n')
    with pytest.raises(DamagedDatasetError, match="not a list of rejects"):
        read_rejects(tmp_path / "out.lmdb")


def test_options_of_the_run_may_differ() -> None:
    manifest = Manifest(
        format="lmdb",
        schema=Schema(payload=Payload.PIXELS, image_shape=(4, 5, 3)),
        options={"on_bad": "skip", "max_bad": "3", "limit": 9, "fit": "pad", "shard_size": 7},
    )
    options = agreed_options(manifest, {"on_bad": "fail", "payload": "pixels", "size": "4x5"})
    assert (options.on_bad, options.max_bad, options.limit) == ("fail", "3", None)
    assert (options.payload, options.size, options.fit) == ("pixels", "4x5", "pad")
    with pytest.raises(UsageError, match=r"--fit crop contradicts .* made with pad"):
        agreed_options(manifest, {"fit": "crop"})


def test_notes_of_the_listing_are_counted_anew() -> None:
    notes = {"hidden": 3, "empty-class: a": 1, "exif-turned": 2}
    schema = Schema(payload=Payload.ENCODED)
    growth = Growth(
        manifest=Manifest(format="lmdb", schema=schema, counts={"notes": notes}),
        samples=1,
        positions=np.array([4, 7]),
        rejects=(Reject("b", "empty", "", 6),),
        source_fingerprint="",
    )
    assert growth.all_notes({"hidden": 4}, {"exif-turned": 1}) == {"hidden": 4, "exif-turned": 3}
    found = growth.in_source([Reject("c", "empty", "", 1), Reject("a", "empty", "", 0)])
    listed = growth.all_rejects((), found)
    assert [(each.key, each.index) for each in listed] == [("a", 4), ("b", 6), ("c", 7)]


def test_a_subset_scans_in_runs_and_numbers_anew(tree: Path) -> None:
    (tree / "class1" / "0004.jpg").unlink()
    whole = open_reader(tree)
    (tree / "class1" / "0007.jpg").unlink()  # after the listing
    wanted = [0, 1, 2, 7, 8, 9, 18]
    subset = Subset(whole, wanted)
    found = list(subset.scan())
    keys = [each.key for each in found]
    assert keys == [whole.keys()[at] for at in wanted] == list(subset.keys())
    assert [each.index for each in found if isinstance(each, Reject)] == [4]
    assert [each.key for each in subset.scan(range(2, 4))] == keys[2:4]
    assert list(subset.scan(range(3, 3))) == []
    renumbered = Renumbered(whole, wanted, np.array([5, 0, 2, -1]), ("x",) * 6)
    labels = [each.label for each in renumbered.scan() if isinstance(each, Sample)]
    assert labels == [5, 5, 5, 0, 0, 2]  # without the one that is gone
    assert renumbered.labels().tolist() == [5, 5, 5, 0, 0, 0, 2]
    assert renumbered.read(6).label == 2
    assert renumbered.read_many([6, 0]).labels.tolist() == [2, 5]


@pytest.mark.parametrize(
    ("stored", "error", "message"),
    [
        ({"of_tomorrow": 1}, UsageError, "--of-tomorrow is not an option of clean"),
        ({"variance_min": "x"}, UsageError, "must be a number"),
        (["variance_min"], DamagedDatasetError, "no options of clean"),
    ],
)
def test_checks_that_are_not_known_are_refused(
    stored: Any, error: type[Exception], message: str
) -> None:
    schema = Schema(payload=Payload.ENCODED)
    manifest = Manifest(format="lmdb", schema=schema, source={}, options={"clean": stored})
    with pytest.raises(error, match=message):
        agreed_checks(manifest)
