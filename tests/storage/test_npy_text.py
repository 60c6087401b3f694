"""Headers of .npy files: read as NumPy reads them, by many threads at once."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fastdata_cli.storage.npy_text import parse_npy_header

ARRAYS: list[NDArray[Any]] = [
    np.zeros((3, 4, 5), np.uint8),
    np.zeros(7, np.int64),
    np.zeros((), np.float32),
    np.zeros((0, 2), np.bool_),
    np.zeros((2, 3), ">u2"),
    np.asfortranarray(np.zeros((4, 5), np.float64)),
    np.zeros(3, "S5"),
    np.zeros(3, "<U2"),
    np.zeros(2, "<M8[s]"),
    np.zeros(2, [("a", "<i4"), ("b", "u1")]),
]


def npy(array: NDArray[Any], version: tuple[int, int] = (1, 0)) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, version)
    return stream.getvalue()


@pytest.mark.parametrize("version", [(1, 0), (2, 0)])
@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}{array.shape}")
def test_what_numpy_writes(array: NDArray[Any], version: tuple[int, int]) -> None:
    data = npy(array, version)
    shape, fortran, dtype, begin = parse_npy_header(data)
    assert (shape, dtype) == (array.shape, array.dtype)
    assert fortran == (not array.flags.c_contiguous)
    assert len(data) - begin == array.nbytes


@pytest.mark.parametrize(
    "text",
    [
        "{'descr':'<f4','fortran_order':False,'shape':(32,32)}",
        "{'shape': (32, 32), 'descr': '<f4', 'fortran_order': False}",
        '{"descr": "<f4", "fortran_order": False, "shape": (32, 32), }',
    ],
)
def test_what_others_write(text: str) -> None:
    raw = text.encode() + b"\n"
    data = b"\x93NUMPY\x01\x00" + len(raw).to_bytes(2, "little") + raw
    assert parse_npy_header(data)[:3] == ((32, 32), False, np.dtype("<f4"))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x93NUMPY",
        b"\x93NUMPY\x03\x00\x00\x00",
        npy(ARRAYS[0])[:20],
        npy(ARRAYS[0])[:100],
        npy(ARRAYS[0]).replace(b"|u1", b"|q9"),
        npy(ARRAYS[0]).replace(b"(3, 4, 5)", b"(3, 4,-5)"),
        npy(ARRAYS[0]).replace(b"{'descr'", b"{((((((("),
    ],
)
def test_what_is_none_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"npy|broken"):
        parse_npy_header(data)


def test_usual_headers_need_no_parser_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(np.lib.format, "read_array_header_1_0")
    assert parse_npy_header(npy(ARRAYS[0]))[0] == (3, 4, 5)


def test_threads_do_not_meet_in_it() -> None:
    headers = [npy(np.zeros((number % 7, number), np.uint8)) for number in range(400)]
    with ThreadPoolExecutor(4) as pool:
        shapes = list(pool.map(lambda data: parse_npy_header(data)[0], headers))
    assert shapes == [(number % 7, number) for number in range(400)]
