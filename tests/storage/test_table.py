"""The sample table and the arrays it is stored as: whole, or refused by name."""

from __future__ import annotations

import contextlib
import io
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fastdata_cli.errors import DamagedDatasetError
from fastdata_cli.sample import Batch, Payload, Sample
from fastdata_cli.storage.table import SampleTable, checksum, checksums, npy_array, npy_bytes
from fastdata_cli.testing.synthetic import samples_for

PAYLOADS = list(Payload)


def table_of(samples: list[Sample], payload: Payload) -> SampleTable:
    return SampleTable.from_batch(Batch.from_samples(samples, payload))


def assert_equal(one: SampleTable, two: SampleTable) -> None:
    assert list(one.keys) == list(two.keys)
    everything = np.arange(len(one))
    assert one.metadata_texts(everything) == two.metadata_texts(everything)
    for name in ("labels", "checksums", "lengths"):
        mine, yours = getattr(one, name), getattr(two, name)
        assert mine.dtype == yours.dtype
        assert mine.tolist() == yours.tolist()


@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_batch_is_described(payload: Payload) -> None:
    samples = samples_for(payload)
    table = table_of(samples, payload)
    assert len(table) == len(samples)
    assert list(table.keys) == [sample.key for sample in samples]
    assert table.labels.tolist() == [sample.label for sample in samples]
    assert table.lengths.tolist() == [sample.image.nbytes for sample in samples]
    assert table.checksums.tolist() == [checksum(sample.image) for sample in samples]
    texts = table.metadata_texts(np.array([0, 1, 1]))
    assert texts[0] is None, "the first of these samples has no metadata"
    assert texts[1] == texts[2] == '{"index":1,"text":"\\u00fc"}'


def test_no_metadata_at_all_costs_nothing() -> None:
    plain = [Sample(s.key, s.image) for s in samples_for(Payload.PIXELS, 3)]
    table = table_of(plain, Payload.PIXELS)
    assert table.metadata is None
    assert table.metadata_texts(np.array([0, 2])) == []
    assert "metadata" not in table.columns()


@pytest.mark.parametrize("payload", PAYLOADS)
def test_columns_come_back(payload: Payload) -> None:
    table = table_of(samples_for(payload), payload)
    columns = {
        name: npy_array(npy_bytes(column), where=name) for name, column in table.columns().items()
    }
    assert_equal(SampleTable.from_columns(columns, where="table.npz"), table)


@given(st.lists(st.integers(0, 41), max_size=4))
@pytest.mark.parametrize("payload", PAYLOADS)
def test_joined_tables_are_the_table_of_all(payload: Payload, cuts: list[int]) -> None:
    samples = samples_for(payload)
    bounds = [0, *sorted(cuts), len(samples)]
    groups = [samples[begin:end] for begin, end in pairwise(bounds)]
    parts = [table_of(group, payload) for group in groups if group]
    assert_equal(SampleTable.concatenate(parts), table_of(samples, payload))


def test_joined_where_only_some_parts_have_metadata() -> None:
    image = np.zeros(3, np.uint8)
    with_text, without = Sample("a", image, 0, {"x": 1}), Sample("b", image)
    tables = [table_of([sample], Payload.ENCODED) for sample in (without, with_text, without)]
    joined = SampleTable.concatenate(tables)
    assert joined.metadata_texts(np.arange(3)) == [None, '{"x":1}', None]


def test_joining_nothing() -> None:
    nothing = SampleTable.concatenate([])
    assert len(nothing) == len(nothing.keys) == len(nothing.lengths) == 0


@pytest.mark.parametrize("name", ["keys", "key_offsets", "labels", "checksums", "metadata_offsets"])
def test_a_missing_column_is_named(name: str) -> None:
    columns = table_of(samples_for(Payload.PIXELS), Payload.PIXELS).columns()
    del columns[name]
    with pytest.raises(DamagedDatasetError, match=f"table.npz: the column '{name}' is missing"):
        SampleTable.from_columns(columns, where="table.npz")


@pytest.mark.parametrize(
    "name", ["key_offsets", "labels", "checksums", "lengths", "metadata_offsets"]
)
def test_columns_of_different_lengths_are_refused(name: str) -> None:
    columns = table_of(samples_for(Payload.PIXELS), Payload.PIXELS).columns()
    columns[name] = columns[name][:-1]
    with pytest.raises(DamagedDatasetError, match=r"table\.npz: its (columns|\w+ lead)"):
        SampleTable.from_columns(columns, where="table.npz")


def test_checksums_are_xxh3_of_the_pixels_in_c_order() -> None:
    """Anybody can check a dataset with xxh3-64: this is part of every format."""
    image = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    expected = xxhash.xxh3_64_intdigest(bytes(range(24)))
    assert checksum(image) == checksum(np.asfortranarray(image)) == expected
    wide = np.zeros((2, 8, 3), np.uint8)
    wide[:, ::2] = image
    assert checksum(wide[:, ::2]) == expected
    batch = Batch(["a"], np.array([0]), image[None])
    assert checksums(batch).tolist() == [expected]
    assert checksums(batch).dtype == np.uint64


ARRAYS: list[NDArray[Any]] = [
    np.arange(41),
    np.zeros((3, 4, 3), np.uint8),
    np.empty(0, np.uint64),
    np.arange(12, dtype=np.uint16).reshape(3, 4)[:, ::2],
]


@pytest.mark.parametrize("array", ARRAYS)
def test_npy_comes_back(array: NDArray[Any]) -> None:
    data = npy_bytes(array)
    assert data == npy_bytes(array.copy()), "equal arrays have equal bytes"
    again = npy_array(data, where="x.npy")
    assert again.dtype == array.dtype
    assert np.array_equal(again, array)
    assert np.array_equal(np.load(io.BytesIO(data)), array), "NumPy alone reads it"


def test_every_cut_npy_is_refused() -> None:
    data = npy_bytes(np.arange(41))
    for length in range(len(data)):
        with pytest.raises(DamagedDatasetError, match=r"^x\.npy: not a whole \.npy file"):
            npy_array(data[:length], where="x.npy")


@given(st.lists(st.tuples(st.integers(0, 127), st.integers(0, 255)), min_size=1, max_size=4))
@pytest.mark.filterwarnings("ignore:Reading `.npy`:UserWarning")
def test_a_damaged_npy_header_is_an_array_or_refused(changes: list[tuple[int, int]]) -> None:
    data = bytearray(npy_bytes(np.arange(41)))
    for position, byte in changes:
        data[position] = byte
    with contextlib.suppress(DamagedDatasetError):
        assert isinstance(npy_array(bytes(data), where="x.npy"), np.ndarray)


def test_a_header_with_a_flipped_bracket_is_refused() -> None:
    data = npy_bytes(np.arange(41)).replace(b"(41,)", b"(41,(")
    with pytest.raises(DamagedDatasetError):
        npy_array(data, where="x.npy")


def test_a_shape_that_no_memory_holds_is_refused() -> None:
    data = npy_bytes(np.arange(41)).replace(b"(41,), }" + b" " * 18, b"(4" + b"0" * 16 + b",), }  ")
    assert b"0" * 16 in data
    with pytest.raises(DamagedDatasetError):
        npy_array(data, where="x.npy")


def test_pickled_objects_are_not_loaded() -> None:
    buffer = io.BytesIO()
    np.save(buffer, np.array([{"a": 1}], object), allow_pickle=True)
    with pytest.raises(DamagedDatasetError, match="pickled"):
        npy_array(buffer.getvalue(), where="x.npy")
