"""Reads values of variable length out of HDF5's global heap, which HDF5 itself cannot be asked for.

Over damaged ones it loops for ever or crashes: so their references are followed here, (length,
address of a collection, number in it). A collection is ``GCOL``, a version, three bytes and its
size; then objects: number (2 bytes), references (2), reserve (4), size, and the data, padded to 8
bytes. Number 0 is what is free, and its size counts its own head: HDF5 (2.0) steps over it by that
size, and where it is 0 never ends.

Attributes have no address that h5py tells. They are read by HDF5, after a look at the heap.
"""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.errors import BadSampleError, DamagedDatasetError
from fastdata_cli.extents import Column, Window
from fastdata_cli.formats.hdf5.decoding import codec_for
from fastdata_cli.formats.hdf5.filters import filters_of

_COLLECTION, _CONTINUED = b"GCOL", b"OCHK"
_ADDRESS = 8
_CHARSETS = ("utf-8", "ascii")
# Bytes of one header that are searched; those with attributes that name classes have some hundred.
_HEADER_LIMIT = 1 << 18
_REFERENCE = np.dtype([("length", "<u4"), ("address", "<u8"), ("number", "<u4")])


class Heaps:
    """The global heap of one open file.

    Args:
        file: an ``h5py.File``.
    """

    def __init__(self, file: Any) -> None:
        with open(file.filename, "rb") as raw:
            self._data = mmap.mmap(raw.fileno(), 0, access=mmap.ACCESS_READ)
        self._base = int(file.userblock_size)
        addresses, self._word = file.id.get_create_plist().get_sizes()
        self._known = addresses == _ADDRESS
        self._walked: dict[int, dict[int, tuple[int, int]]] = {}

    def close(self) -> None:
        """Let go of the file."""
        self._data.close()

    def value(self, length: int, address: int, number: int) -> bytes:
        """Return what a reference leads to.

        Raises:
            ValueError: it leads nowhere, or HDF5 could not walk the collection to its end.
        """
        if address not in self._walked:
            self._walked[address] = self._walk(self._base + address)
        begin, size = self._walked[address].get(number, (0, -1))
        if size < length:
            raise ValueError(f"the heap at byte {self._base + address} has no {length} bytes there")
        return self._data[begin : begin + length]

    def _walk(self, begin: int) -> dict[int, tuple[int, int]]:
        """Return where the objects of a collection begin, and their sizes, by their numbers."""
        head, data = 8 + self._word, self._data
        if data[begin : begin + 4] != _COLLECTION:
            raise ValueError(f"no heap at byte {begin}")
        end = begin + self._number(begin + 8)
        if not begin + head <= end <= len(data):
            raise ValueError(f"the heap at byte {begin} reaches beyond the file")
        at, found = begin + head, dict[int, tuple[int, int]]()
        while at + head <= end:
            number, size = int.from_bytes(data[at : at + 2], "little"), self._number(at + 8)
            step = head + (size + 7) // 8 * 8 if number else size
            if step < head or at + step > end:
                raise ValueError(f"the heap at byte {begin} is damaged")
            found[number] = (at + head, size if number else -1)
            at += step
        return found

    def references(self, dataset: Any) -> NDArray[Any]:
        """Return what a 1-D dataset stores: (length, address, number)[N], zeros for empty values.

        Raises:
            LookupError: only HDF5 can tell.
        """
        if not self._known:
            raise LookupError("the file has addresses of another size")
        found = np.zeros(len(dataset), _REFERENCE)
        for start, raw in self._stored(dataset):
            block = np.frombuffer(raw, _REFERENCE)[: len(dataset) - start]
            found[start : start + len(block)] = block
        return found

    def header_is_sound(self, item: Any) -> bool:
        """Tell whether HDF5 may read the attributes of a group or dataset.

        Their references lie somewhere in the header of the object, which is searched for all that
        could be one. Where none is found they lie elsewhere, and nobody has looked at the heap.
        """
        found = 0
        for segment in self._header(item):
            for at, address in self._addresses(segment):
                if not self._begins(address, _COLLECTION):
                    continue
                found += 1
                length = int.from_bytes(segment[max(at - 4, 0) : at], "little")
                number = int.from_bytes(segment[at + _ADDRESS : at + _ADDRESS + 4], "little")
                try:
                    self.value(length, address, number)
                except ValueError:
                    return False
        return found > 0

    def _stored(self, dataset: Any) -> Iterator[tuple[int, bytes]]:
        """Yield the first row and the stored references of each chunk."""
        from h5py import h5d

        size, offset = _REFERENCE.itemsize, dataset.id.get_offset()
        kind = dataset.id.get_create_plist().get_layout()
        if kind == h5d.CONTIGUOUS and not dataset.external:
            if offset is not None:
                yield 0, self._data[offset : offset + len(dataset) * size]
            return
        if kind != h5d.CHUNKED:
            raise LookupError("they lie in another file, or in the header of the dataset")
        chunks: list[Any] = []
        dataset.id.chunk_iter(chunks.append)
        filters, whole = filters_of(dataset), dataset.chunks[0] * size
        for chunk in chunks:
            raw = self._data[chunk.byte_offset : chunk.byte_offset + chunk.size]
            codec = codec_for(filters, chunk.filter_mask)
            if codec is not None:
                out = np.empty(whole, np.uint8)
                codec.decode(Window.over(np.frombuffer(raw, np.uint8)), Window.over(out))
                raw = out.tobytes()
            yield chunk.chunk_offset[0], raw[: len(raw) // size * size]

    def _header(self, item: Any) -> Iterator[bytes]:
        """Yield the first block of an object's header, and those that it is continued in."""
        from h5py import h5o

        info = h5o.get_info(item.id)
        pending, seen, left = [(info.addr, info.hdr.space.total)], set(), _HEADER_LIMIT
        while pending and left > 0:
            address, size = pending.pop()
            if address in seen:
                continue
            seen.add(address)
            begin = self._base + address
            segment = self._data[begin : begin + min(size, left)]
            left -= len(segment)
            yield segment
            for at, following in self._addresses(segment):
                versioned = self._begins(following, _CONTINUED)
                # Message 16 of 16 bytes, in headers of the first version.
                if versioned or segment[max(at - 8, 0) : at][:4] == b"\x10\0\x10\0":
                    length = segment[at + _ADDRESS : at + 2 * _ADDRESS]
                    pending.append((following, int.from_bytes(length, "little")))

    def _addresses(self, segment: bytes) -> Iterator[tuple[int, int]]:
        """Yield position and value of what may be an address, wherever it begins."""
        raw = np.frombuffer(segment, np.uint8)
        if len(raw) < _ADDRESS:
            return
        rows = np.ascontiguousarray(np.lib.stride_tricks.sliding_window_view(raw, _ADDRESS))
        words = rows.view("<u8").reshape(-1)
        places = np.flatnonzero((words > 0) & (words < len(self._data) - self._base))
        yield from zip(places.tolist(), words[places].tolist(), strict=True)

    def _begins(self, address: int, magic: bytes) -> bool:
        begin = self._base + address
        return self._data[begin : begin + len(magic)] == magic

    def _number(self, at: int) -> int:
        return int.from_bytes(self._data[at : at + self._word], "little")


def text_attribute(item: Any, name: str) -> Any:
    """Return an attribute that is a text or an array of texts, as h5py does; None if there is none.

    None also where its values lie in a heap that HDF5 could not walk.
    """
    from h5py import h5a, h5t, string_dtype

    if name not in item.attrs:
        return None
    kind = h5a.open(item.id, name.encode()).get_type()
    if kind.get_class() != h5t.STRING:
        return None
    if kind.is_variable_str():
        # Other bits of the type that are damaged crash HDF5 while it converts.
        usual = (h5t.py_create(string_dtype(charset), logical=True) for charset in _CHARSETS)
        if not any(kind.equal(each) for each in usual):
            return None
        with contextlib.closing(Heaps(item.file)) as heaps:
            if not heaps.header_is_sound(item):
                return None
    return item.attrs[name]


class HeapValues:
    """The values of a 1-D dataset of variable length.

    Args:
        dataset: an open dataset.

    Raises:
        DamagedDatasetError: where they are cannot be told.
    """

    def __init__(self, dataset: Any) -> None:
        self._heaps = Heaps(dataset.file)
        try:
            self._references = self._heaps.references(dataset)
        except (LookupError, ValueError) as problem:
            self._heaps.close()
            raise DamagedDatasetError(
                f"{dataset.file.filename}: where {dataset.name} has its values cannot be told "
                f"({problem})"
            ) from problem

    def read(self, indices: Column) -> list[bytes]:
        """Return some values; one that was never written is empty.

        Raises:
            BadSampleError: one is damaged.
        """
        value = self._heaps.value
        try:
            return [value(*each) if each[0] else b"" for each in self._references[indices].tolist()]
        except ValueError as problem:
            raise BadSampleError(reason="corrupt", detail=str(problem)) from problem

    def close(self) -> None:
        """Let go of the file."""
        self._heaps.close()
