"""Whatever samples there are, every format gives them back: keys, labels, images, metadata.

``FASTDATA_EXAMPLES=500 pytest tests/formats/test_round_trip_properties.py`` draws other, and more,
examples than the few that are the same in every run.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fastdata_cli import registry
from fastdata_cli.contract import Format, Target
from fastdata_cli.errors import FastdataError
from fastdata_cli.keys import from_bytes, to_bytes
from fastdata_cli.manifest import Manifest
from fastdata_cli.sample import UNLABELLED, Payload, Sample, Schema
from fastdata_cli.testing.reader_conformance import assert_same
from fastdata_cli.testing.synthetic import parts_of

MORE = os.environ.get("FASTDATA_EXAMPLES")
FORMATS = ("raw", "zarr", "lmdb", "webdataset", "tfrecord", "hdf5", "tree")
DTYPES = ("uint8", "uint16", "float32")

seldom = settings(
    max_examples=int(MORE or 10),
    derandomize=MORE is None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)

# Path components as they may stand on a disk: any bytes but NUL and slash.
_plain_name = st.text(
    st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1
)
_other_name = st.sampled_from(
    ["a.b.c", ".hidden", "two  words ", "..x", "%2F", "e\u0301", "\u202e"]
)
_bytes_name = st.binary(min_size=1, max_size=8).filter(lambda name: not {0, 0x2F} & set(name))
_long_name = st.integers(100, 255).map(lambda length: "n" * length)
_name = st.one_of(
    _plain_name.map(to_bytes), _other_name.map(to_bytes), _bytes_name, _long_name.map(to_bytes)
).filter(lambda name: name not in (b".", b"..") and len(name) <= 255)
_key = st.lists(_name, min_size=1, max_size=4).map(lambda names: from_bytes(b"/".join(names)))

_float = st.floats(allow_nan=False, allow_infinity=False)  # JSON has neither
_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | _float
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=10),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text("ab", max_size=3), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
_metadata_name = st.sampled_from(["key", "_key", "class_name", "label", "__key__", "json", ""])
_metadata = st.none() | st.dictionaries(
    _metadata_name | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    _json,
    max_size=3,
)
_encoded = st.binary(min_size=1, max_size=200).map(lambda data: np.frombuffer(data, np.uint8))


@st.composite
def datasets(draw: st.DrawFn, payload: Payload, dtypes: Sequence[str]) -> list[Sample]:
    """Draw some samples of one payload, with keys that are no folder of one another."""
    keys = draw(st.lists(_key, min_size=1, max_size=7, unique=True))
    folders = {key[:at] for key in keys for at, letter in enumerate(key) if letter == "/"}
    keys = [key for key in keys if key not in folders] or ["one"]
    shape = draw(st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(1, 4)))
    image: st.SearchStrategy[Any] = _encoded
    if payload is Payload.PIXELS:
        image = hnp.arrays(dtype := draw(st.sampled_from(dtypes)), shape, elements=_numbers(dtype))
    label = st.integers(UNLABELLED, 3)
    return [Sample(key, draw(image), draw(label), draw(_metadata) or None) for key in keys]


def _numbers(dtype: str) -> st.SearchStrategy[Any]:
    return hnp.from_dtype(np.dtype(dtype), allow_nan=False)


def written(row: Format, folder: Path, samples: list[Sample], payload: Payload) -> Path:
    """Write samples in parts of two."""
    first = samples[0].image
    schema = Schema(
        payload=payload,
        image_shape=first.shape if payload is Payload.PIXELS else None,
        dtype=str(first.dtype),
        class_names=("a", "b/ü", "c\n", ""),
    )
    path = folder / f"set{row.suffixes[0] if row.suffixes else ''}"
    manifest = Manifest(format=row.name, schema=schema)
    assert row.open_writer is not None
    writer = row.open_writer(Target(path=path, manifest=manifest), row.write_options())
    writer.begin("drawn")
    for part, batch in parts_of(samples, writer.limits, payload):
        writer.write_part(part, batch)
    writer.publish(manifest)
    return path


def assert_round_trip(row: Format, folder: Path, samples: list[Sample], payload: Payload) -> None:
    shutil.rmtree(folder, ignore_errors=True)  # one folder serves all examples of a test
    folder.mkdir()
    reader = registry.open_reader(written(row, folder, samples, payload))
    try:
        assert list(reader.keys()) == [sample.key for sample in samples]
        for index, sample in enumerate(samples):
            assert_same(reader.read(index), sample)
        for got, sample in zip(reader.read_many(range(len(samples))), samples, strict=True):
            assert_same(got, sample)
        assert list(reader.verify()) == []
        assert reader.schema.class_names == ("a", "b/ü", "c\n", "")
    finally:
        reader.close()


@pytest.mark.parametrize("name", FORMATS)
def test_encoded_images_come_back(name: str, tmp_path: Path) -> None:
    @seldom
    @given(datasets(Payload.ENCODED, ("uint8",)))
    def check(samples: list[Sample]) -> None:
        assert_round_trip(registry.get(name), tmp_path / "drawn", samples, Payload.ENCODED)

    check()


# A tree keeps pixels as PNG files: they come back encoded.
@pytest.mark.parametrize("name", [name for name in FORMATS if name != "tree"])
def test_pixels_come_back(name: str, tmp_path: Path) -> None:
    @seldom
    @given(datasets(Payload.PIXELS, DTYPES))
    def check(samples: list[Sample]) -> None:
        assert_round_trip(registry.get(name), tmp_path / "drawn", samples, Payload.PIXELS)

    check()


@pytest.mark.parametrize("name", FORMATS)
def test_a_dataset_of_no_samples_is_read_or_refused_in_words(name: str, tmp_path: Path) -> None:
    row = registry.get(name)
    schema = Schema(payload=Payload.ENCODED)
    manifest = Manifest(format=name, schema=schema)
    path = tmp_path / f"set{row.suffixes[0] if row.suffixes else ''}"
    assert row.open_writer is not None
    try:
        writer = row.open_writer(Target(path=path, manifest=manifest), row.write_options())
        writer.begin("nothing")
        writer.publish(manifest)
        reader = registry.open_reader(path)
    except FastdataError:
        return
    assert len(reader) == 0
    assert not [*reader.keys(), *reader.scan(), *reader.verify()]
