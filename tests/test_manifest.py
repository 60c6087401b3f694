"""The manifest: equal for equal runs, whole or refused."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from fastdata_cli.errors import DamagedDatasetError
from fastdata_cli.manifest import MANIFEST_VERSION, Manifest
from fastdata_cli.sample import Payload, Schema

PIXELS = Manifest(
    format="raw",
    schema=Schema(
        payload=Payload.PIXELS,
        num_samples=3,
        image_shape=(4, 5, 3),
        dtype="uint16",
        class_names=("cat", "Ä"),
    ),
    source={"path": "images/\udcff", "format": "tree"},
    options={"chunk": 10, "codec": None},
    counts={"rejects": {"truncated": 1}},
    layout={"data_bytes": 360},
    tool="fastdata-cli 0.1",
)
ENCODED = Manifest(format="lmdb", schema=Schema(payload=Payload.ENCODED, max_image_bytes=99))


GROWN = dataclasses.replace(ENCODED, generations=({"number": 1, "samples": 3, "counts": {}},))


def test_what_appends_made_of_a_dataset_continues_it() -> None:
    first = dataclasses.replace(PIXELS, source={"fingerprint": "a"})
    second = dataclasses.replace(
        first, generations=(*first.runs, first.generation(2, 5, {})), counts={"rejects": {}}
    )
    third = dataclasses.replace(second, generations=(*second.runs, first.generation(3, 1, {})))
    assert [each["samples"] for each in third.runs] == [3, 5, 1]
    assert third.continues(second)
    assert third.continues(first)
    assert second.continues(first)
    assert not second.continues(third)
    others = (
        {"source": {"fingerprint": "b"}},
        {"options": {"fit": "pad"}},
        {"schema": dataclasses.replace(first.schema, num_samples=2)},
        {"schema": dataclasses.replace(first.schema, dtype="uint8")},
    )
    for other in others:
        assert not second.continues(dataclasses.replace(first, **other))


def test_without_generations_there_is_no_such_field() -> None:
    assert "generations" not in json.loads(ENCODED.to_json())
    assert json.loads(GROWN.to_json())["generations"] == list(GROWN.generations)


@pytest.mark.parametrize("manifest", [PIXELS, ENCODED, GROWN])
def test_comes_back(manifest: Manifest) -> None:
    text = manifest.to_json()
    assert text.isascii()
    assert Manifest.from_json(text, where="meta.json") == manifest
    assert Manifest.from_json(text.encode(), where="meta.json") == manifest


def test_equal_manifests_have_equal_texts() -> None:
    swapped = dataclasses.replace(PIXELS, options={"codec": None, "chunk": 10})
    assert swapped.to_json() == PIXELS.to_json()


def test_finished_fills_in_the_numbers_alone() -> None:
    done = ENCODED.finished(12, 4096)
    assert done.schema == dataclasses.replace(ENCODED.schema, num_samples=12, max_image_bytes=4096)
    assert dataclasses.replace(done, schema=ENCODED.schema) == ENCODED


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "7", '"text"', "{}", b"\xff\xfe", '{"format": "raw"}']
)
def test_what_is_no_manifest_is_refused(text: str | bytes) -> None:
    with pytest.raises(DamagedDatasetError, match=r"meta\.json: the manifest cannot be read"):
        Manifest.from_json(text, where="meta.json")


def test_a_later_version_says_what_to_do() -> None:
    record = {**json.loads(PIXELS.to_json()), "fastdata_manifest": MANIFEST_VERSION + 1}
    with pytest.raises(DamagedDatasetError, match=f"version {MANIFEST_VERSION + 1}.*reads") as e:
        Manifest.from_json(json.dumps(record), where="meta.json")
    assert "upgrade" in e.value.hint


def without(*path: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(PIXELS.to_json())
    inner = record
    for name in path[:-1]:
        inner = inner[name]
    del inner[path[-1]]
    return record


def with_schema(**changes: Any) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(PIXELS.to_json())
    return {**record, "schema": {**record["schema"], **changes}}


@pytest.mark.parametrize(
    "record",
    [
        without("format"),
        without("schema"),
        without("schema", "payload"),
        without("schema", "image_shape"),
        {**without("format"), "fromat": "raw"},
        {**without("format"), "format": "raw", "schema": []},
        {**without("format"), "format": "raw", "schema": None},
        with_schema(payload="vectors"),
        with_schema(num_samples="many"),
        with_schema(image_shape=7),
        with_schema(class_names=None),
    ],
)
def test_a_manifest_that_lacks_a_field_is_refused(record: dict[str, Any]) -> None:
    with pytest.raises(DamagedDatasetError, match=r"meta\.json: the manifest lacks a field"):
        Manifest.from_json(json.dumps(record), where="meta.json")


def test_every_cut_is_refused() -> None:
    text = PIXELS.to_json()
    for length in range(len(text)):
        with pytest.raises(DamagedDatasetError):
            Manifest.from_json(text[:length], where="meta.json")
