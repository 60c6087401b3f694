"""The record: everything comes back, a write is whole or not there, what is no record is said."""

from __future__ import annotations

import json
import math
import os
import threading
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastdata_cli.errors import (
    DamagedDatasetError,
    FastdataError,
    SourceNotFoundError,
    StorageError,
    UsageError,
)
from fastdata_cli.timing.doubts import TimingWarning, WarningKind
from fastdata_cli.timing.environment import Environment, Storage, environment
from fastdata_cli.timing.measurement import Failure, Measurement, Repeat
from fastdata_cli.timing.record import Record, load_record, plain, save_record

SLOW = TimingWarning(kind=WarningKind.SLOW_FIRST, value=2.5, text="the first repeat was slow")
MEASURED = Measurement(
    name="random · out.zarr",
    repeats=(
        Repeat(seconds=0.5, samples=100, bytes=1000, position=1, runs=1, facts={"cache": "cold"}),
        Repeat(seconds=1, samples=100, bytes=1000, position=2, runs=2),
    ),
    warmups=(Repeat(seconds=2.0, samples=100, bytes=1000, position=0, runs=1),),
    latency_s={"p50": 0.001, "p99": 0.02},
    latencies=200,
    warnings=(SLOW,),
)
FAILED = Measurement(
    name="block", failure=Failure(kind="DamagedDatasetError", message="cut", hint="")
)


@pytest.fixture
def record(tmp_path: Path) -> Record:
    return Record(
        environment=environment([tmp_path]),
        options={"paths": ["out.zarr"], "workers": 8, "step_ms": None},
        cases=(MEASURED, FAILED),
        facts={"device": {"read_mb_s": 512.5}},
        verdicts=({"bottleneck": "decode", "text": "decode on all cores is the limit"},),
    )


def test_everything_comes_back(record: Record, tmp_path: Path) -> None:
    save_record(record, tmp_path / "record.json")
    assert load_record(tmp_path / "record.json") == record
    assert os.listdir(tmp_path) == ["record.json"]


def test_the_json_is_what_the_documentation_says(record: Record) -> None:
    raw = json.loads(record.to_json())
    assert next(iter(raw)) == "fastdata_bench"
    assert raw["fastdata_bench"] == 1
    documented = (Path(__file__).parents[2] / "docs/bench-json.md").read_text()
    for kind in (Record, Environment, Storage, Measurement, Repeat, TimingWarning, Failure):
        for field in fields(kind):
            assert f"`{field.name}`" in documented, f"{kind.__name__}.{field.name}"


def test_cases_are_replaced_by_name_and_added_at_the_end(record: Record) -> None:
    again = replace(FAILED, failure=None, latencies=7)
    assert record.with_case(again).cases == (MEASURED, again)
    other = replace(MEASURED, name="sequential")
    assert record.with_case(other).cases == (MEASURED, FAILED, other)
    assert record.case("block") is FAILED
    assert record.case("no such") is None


def test_unknown_fields_are_ignored_and_absent_defaults_filled(record: Record) -> None:
    raw = json.loads(record.to_json())
    raw["new_in_1"] = raw["cases"][0]["new_too"] = {"x": 1}
    del raw["verdicts"], raw["cases"][1]["latencies"]
    assert Record.from_json(json.dumps(raw), where="x") == replace(record, verdicts=())


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "{}", "\x00\xff", '{"fastdata_inspect": 1}']
)
def test_what_is_no_record(tmp_path: Path, text: str) -> None:
    path = tmp_path / "some.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"some\.json is not a record") as caught:
        load_record(path)
    assert "--save" in caught.value.hint


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "photo.jpg"
    path.write_bytes(b"\xff\xd8\xff\xe0")
    with pytest.raises(UsageError, match="is not a record"):
        load_record(path)


@pytest.mark.parametrize("version", [2, 0, "1", None])
def test_another_version(record: Record, version: object) -> None:
    raw = {**json.loads(record.to_json()), "fastdata_bench": version}
    with pytest.raises(UsageError, match="this fastdata reads 1"):
        Record.from_json(json.dumps(raw), where="old.json")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda raw: raw.pop("environment"), "environment is missing"),
        (lambda raw: raw["environment"].pop("kernel"), r"environment\.kernel is missing"),
        (lambda raw: raw.update(cases={}), "cases is not a list"),
        (
            lambda raw: raw["cases"][0]["repeats"][1].update(seconds="1"),
            r"cases\[0\]\.repeats\[1\]\.seconds is not a number",
        ),
        (lambda raw: raw["cases"][0]["repeats"][0].update(samples=True), "is not a number"),
        (lambda raw: raw["cases"][0]["repeats"][0].update(samples=1.5), "is not a number"),
        (lambda raw: raw["cases"][0]["warnings"][0].update(kind="odd"), "'odd', which is unknown"),
        (lambda raw: raw["cases"].append(None), r"cases\[2\] is not an object"),
        (lambda raw: raw.update(finished=1), "finished is not true or false"),
        (lambda raw: raw.update(started=None), "started is not a text"),
    ],
)
def test_a_damaged_record_says_where(
    record: Record, damage: Callable[[dict[str, Any]], object], message: str
) -> None:
    raw = json.loads(record.to_json())
    damage(raw)
    with pytest.raises(DamagedDatasetError, match=message):
        Record.from_json(json.dumps(raw), where="cut.json")


def test_a_record_cut_anywhere_is_never_half_read(record: Record) -> None:
    text = record.to_json().rstrip()
    for length in range(0, len(text), 37):
        with pytest.raises(FastdataError):
            Record.from_json(text[:length], where="cut.json")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SourceNotFoundError, match="no such file"):
        load_record(tmp_path / "none.json")
    with pytest.raises(UsageError, match="directory"):
        load_record(tmp_path)


def test_a_write_that_fails_leaves_the_old_record(
    record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "record.json"
    save_record(record, path)

    def no_space(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", no_space)
    with pytest.raises(StorageError, match=r"record\.json.*No space left"):
        save_record(replace(record, finished=True), path)
    assert load_record(path) == record
    assert os.listdir(tmp_path) == ["record.json"]
    with pytest.raises(StorageError):
        save_record(record, tmp_path / "no such folder" / "record.json")


def test_a_value_without_a_form_leaves_the_old_record(record: Record, tmp_path: Path) -> None:
    save_record(record, tmp_path / "record.json")
    with pytest.raises(TypeError, match="object"):
        save_record(replace(record, facts={"x": object()}), tmp_path / "record.json")
    assert load_record(tmp_path / "record.json") == record


def test_a_link_stays_a_link(record: Record, tmp_path: Path) -> None:
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    link.symlink_to(real)
    save_record(record, link)
    assert link.is_symlink()
    assert load_record(real) == record


def test_a_pipe_is_written_into(record: Record, tmp_path: Path) -> None:
    pipe, received = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: received.append(pipe.read_text()))
    reader.start()
    save_record(record, pipe)
    reader.join()
    assert received == [record.to_json()]
    assert pipe.is_fifo()


def test_plain_values() -> None:
    odd = {
        1: np.float32(0.5),
        "nan": math.nan,
        "inf": [np.float64("inf")],
        "array": np.arange(2),
        "path": Path(os.fsdecode(b"a\xff")),
        "flag": np.bool_(True),
        "kind": WarningKind.BUDGET,
        "warning": SLOW,
    }
    assert json.loads(json.dumps(plain(odd), allow_nan=False)) == {
        "1": 0.5,
        "nan": None,
        "inf": [None],
        "array": [0, 1],
        "path": "a%FF",
        "flag": True,
        "kind": "budget",
        "warning": {"kind": "slow-first", "value": 2.5, "text": "the first repeat was slow"},
    }
