"""Thrift's compact protocol, read as the footers of Parquet use it."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastdata_cli.formats.parquet.compact import parse


def footer(path: Path) -> bytes:
    data = path.read_bytes()
    return data[-8 - int.from_bytes(data[-8:-4], "little") : -8]


@pytest.mark.parametrize("codec", ["none", "zstd", "gzip"])
def test_it_says_what_arrow_says(tmp_path: Path, codec: str) -> None:
    path = tmp_path / "set.parquet"
    table = pa.table({"a": [1, None, 3] * 50, "b": [{"x": b"1", "y": [0.5]}] * 150})
    pq.write_table(table, path, row_group_size=40, compression=codec)
    found, wanted = parse(footer(path)), pq.ParquetFile(path).metadata
    assert found[3] == wanted.num_rows
    assert len(found[4]) == wanted.num_row_groups
    for group, record in enumerate(found[4]):
        assert record[3] == wanted.row_group(group).num_rows
        for at, chunk in enumerate(record[1]):
            expected = wanted.row_group(group).column(at)
            assert b".".join(chunk[3][3]).decode() == expected.path_in_schema
            assert chunk[3][5] == expected.num_values
            assert chunk[3][6] == expected.total_uncompressed_size
            assert chunk[3][12].get(3) == expected.statistics.null_count


def test_every_kind_of_value() -> None:
    data = bytes.fromhex(
        "11 12 1305 1406 1501 1602 17000000000000f03f 180161 191504 1a1506 1b0185016202 1c1100 00"
    )
    wanted = {1: True, 2: False, 3: 5, 4: 3, 5: -1, 6: 1, 7: 1.0, 8: b"a", 9: [2], 10: [3]}
    assert parse(data) == {**wanted, 11: [b"b", 1], 12: {1: True}}
    assert parse(bytes.fromhex("0528 02 00")) == {20: 1}, "a number that is far from the last"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x15",
        b"\x15" + b"\xff" * 11,
        b"\x19\xf5\xff\xff\xff\xff\x0f",
        b"\x1d\0",
        b"\x1c" * 60,
    ],
    ids=["nothing", "cut", "long number", "many members", "unknown kind", "deep"],
)
def test_what_is_none_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse(data)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_struct_or_a_value_error(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(parse(data), dict)
