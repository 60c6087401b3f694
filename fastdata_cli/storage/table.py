"""What is stored beside the images, one row per sample, as arrays: keys, labels, checksums …"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import xxhash
from numpy.typing import NDArray

from fastdata_cli.errors import DamagedDatasetError
from fastdata_cli.key_table import KeyTable
from fastdata_cli.sample import Batch
from fastdata_cli.storage.npy_text import parse_npy_header

_NO_METADATA = ""

_NEEDED: Mapping[str, str] = {
    "keys": "uint8",
    "key_offsets": "int64",
    "labels": "int64",
    "checksums": "uint64",
    "lengths": "int64",
}
_COLUMNS = {**_NEEDED, "metadata": "uint8", "metadata_offsets": "int64"}
"""The columns of a table, each with its dtype."""

# A header that NumPy reads is no longer.
_MOST_HEADER_BYTES = 10_012


@dataclass(frozen=True, slots=True)
class SampleTable:
    """N rows. About 50 bytes a sample and the length of its key; no Python object per row."""

    keys: KeyTable
    labels: NDArray[np.int64]
    checksums: NDArray[np.uint64]
    """xxh3-64 of the image: the pixels in C order, or the encoded bytes. Empty (of any number of
    rows) in a dataset that others made."""
    lengths: NDArray[np.int64]
    """Bytes of the image as handed over."""
    metadata: KeyTable | None = None
    """JSON texts, empty where a sample has none; None when no sample has any."""

    def __len__(self) -> int:
        return len(self.labels)

    @classmethod
    def from_batch(cls, batch: Batch) -> SampleTable:
        """Describe a batch, its checksums included."""
        texts = [text or _NO_METADATA for text in batch.metadata]
        if batch.offsets is None:
            each = batch.images[0].nbytes if len(batch) else 0
            lengths = np.full(len(batch), each, np.int64)
        else:
            lengths = np.diff(batch.offsets)
        return cls(
            KeyTable.from_keys(batch.keys),
            np.asarray(batch.labels, np.int64),
            checksums(batch),
            lengths,
            KeyTable.from_texts(texts) if any(texts) else None,
        )

    @classmethod
    def concatenate(cls, tables: Sequence[SampleTable]) -> SampleTable:
        """Join tables end to end."""
        metadata = None
        if any(table.metadata for table in tables):
            metadata = KeyTable.concatenate([t.metadata or _blank(len(t)) for t in tables])
        return cls(
            KeyTable.concatenate([table.keys for table in tables]),
            np.concatenate([np.empty(0, np.int64), *(table.labels for table in tables)]),
            np.concatenate([np.empty(0, np.uint64), *(table.checksums for table in tables)]),
            np.concatenate([np.empty(0, np.int64), *(table.lengths for table in tables)]),
            metadata,
        )

    def metadata_texts(self, indices: NDArray[np.int64]) -> Sequence[str | None]:
        """Return the JSON texts of some rows; an empty sequence when no row has any."""
        if self.metadata is None:
            return []
        text = self.metadata.text
        return TakenTexts(lambda index: text(index) or None, indices)

    def digest(self) -> str:
        """Return the xxh3-128 over keys, labels and metadata; images have their own checksums."""
        digest = xxhash.xxh3_128()
        columns = [self.keys.blob, self.keys.offsets, self.labels]
        if self.metadata is not None:
            columns += [self.metadata.blob, self.metadata.offsets]
        for column in columns:
            digest.update(np.ascontiguousarray(column).data)
        return str(digest.hexdigest())

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the table as plain arrays, the inverse of ``from_columns``."""
        columns: dict[str, NDArray[Any]] = {
            "keys": self.keys.blob,
            "key_offsets": self.keys.offsets,
            "labels": self.labels,
            "checksums": self.checksums,
            "lengths": self.lengths,
        }
        if self.metadata is not None:
            columns["metadata"] = self.metadata.blob
            columns["metadata_offsets"] = self.metadata.offsets
        return columns

    @classmethod
    def from_columns(cls, columns: Mapping[str, NDArray[Any]], *, where: str) -> SampleTable:
        """Rebuild a table; ``where`` names its file in errors.

        Raises:
            DamagedDatasetError: a column is missing or of another kind, or they disagree.
        """
        for name in _COLUMNS if "metadata" in columns else _NEEDED:
            if name not in columns:
                raise DamagedDatasetError(f"{where}: the column {name!r} is missing")
            require_column(columns[name], _COLUMNS[name], where=f"{where}: {name}")
        metadata = None
        if "metadata" in columns:
            metadata = text_column(columns, "metadata", "metadata_offsets", where=where)
        table = cls(
            text_column(columns, "keys", "key_offsets", where=where),
            columns["labels"],
            columns["checksums"],
            columns["lengths"],
            metadata,
        )
        rows = {len(table.keys), len(table.labels), len(table.checksums), len(table.lengths)}
        if len(rows) != 1 or (metadata is not None and len(metadata) not in rows):
            raise DamagedDatasetError(f"{where}: its columns have different lengths {sorted(rows)}")
        return table


class TakenTexts(Sequence[str | None]):
    """The texts of some rows, made when looked at: training reads batches, and none of them.

    Args:
        text_of: returns the text of a row.
        indices: the rows.
    """

    __slots__ = ("_indices", "_text_of")

    def __init__(self, text_of: Callable[[int], str | None], indices: NDArray[np.int64]) -> None:
        self._text_of = text_of
        self._indices = indices.copy()  # the caller may use his array again

    def __len__(self) -> int:
        return len(self._indices)

    @overload
    def __getitem__(self, index: int) -> str | None: ...
    @overload
    def __getitem__(self, index: slice) -> list[str | None]: ...
    def __getitem__(self, index: int | slice) -> str | list[str | None] | None:
        if isinstance(index, slice):
            return list(TakenTexts(self._text_of, self._indices[index]))
        return self._text_of(int(self._indices[index]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)


def checksums(batch: Batch) -> NDArray[np.uint64]:
    """Return the xxh3-64 of every image of a batch, uint64[N]."""
    digests = (checksum(batch.image(index)) for index in range(len(batch)))
    return np.fromiter(digests, np.uint64, len(batch))


def checksum(image: NDArray[Any]) -> int:
    """Return the xxh3-64 of one image: its pixels in C order, or its encoded bytes."""
    return xxhash.xxh3_64_intdigest(np.ascontiguousarray(image).data)


def fingerprint(keys: KeyTable, labels: NDArray[np.int64], class_names: Sequence[str]) -> str:
    """Return the xxh3-128 over keys, labels and class names, in hexadecimal."""
    digest = xxhash.xxh3_128()
    for column in (keys.blob, keys.offsets, labels):
        digest.update(np.ascontiguousarray(column).data)
    digest.update(KeyTable.from_keys(class_names).lines())
    return str(digest.hexdigest())


def npy_bytes(array: NDArray[Any]) -> bytes:
    """Return ``array`` as the bytes of a ``.npy`` file, the same for equal arrays."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.ascontiguousarray(array), (1, 0), allow_pickle=False)
    return buffer.getvalue()


def npy_array(data: bytes | memoryview, *, where: str) -> NDArray[Any]:
    """Read the bytes of a ``.npy`` file; nothing is unpickled.

    Raises:
        DamagedDatasetError: not a whole ``.npy``.
    """
    try:
        shape, fortran, dtype, begin = parse_npy_header(bytes(data[:_MOST_HEADER_BYTES]))
        if dtype.hasobject:
            raise ValueError("its values are pickled")
        whole = np.frombuffer(data, dtype, math.prod(shape), begin)
        array: NDArray[Any] = whole.reshape(shape, order="F" if fortran else "C")
    except (ValueError, MemoryError, OverflowError) as problem:
        raise DamagedDatasetError(f"{where}: not a whole .npy file ({problem})") from problem
    return array.copy("K")


def require_column(column: NDArray[Any], dtype: str, *, where: str) -> None:
    """Refuse an array that is no column of this dtype.

    Raises:
        DamagedDatasetError: it has another dtype, or is not one-dimensional.
    """
    if column.dtype != dtype or column.ndim != 1:
        raise DamagedDatasetError(
            f"{where}: {column.dtype}{list(column.shape)}, and a column of {dtype} is expected"
        )


def lead_outside(begins: NDArray[np.int64], lengths: NDArray[np.int64], size: int) -> bool:
    """Tell whether ranges, int64[N] each, are not all within ``size`` bytes."""
    # Each on its own first: the sum of two broken numbers may be a sound one.
    return bool(((begins < 0) | (lengths < 0) | (lengths > size) | (begins > size - lengths)).any())


def text_column(
    columns: Mapping[str, NDArray[Any]], blob: str, offsets: str, *, where: str
) -> KeyTable:
    """Return the texts of two columns.

    Raises:
        DamagedDatasetError: they are not what texts are stored in.
    """
    require_column(columns[blob], "uint8", where=f"{where}: {blob}")
    require_column(columns[offsets], "int64", where=f"{where}: {offsets}")
    texts = KeyTable(columns[blob], columns[offsets])
    if not _fit(texts):
        raise DamagedDatasetError(f"{where}: its {offsets} lead outside of the texts")
    return texts


def _fit(texts: KeyTable) -> bool:
    """Tell whether the offsets of some texts go through them from end to end."""
    offsets = texts.offsets
    rises = bool((offsets[1:] >= offsets[:-1]).all())
    return len(offsets) > 0 and rises and offsets[0] == 0 and offsets[-1] == len(texts.blob)


def _blank(rows: int) -> KeyTable:
    return KeyTable(np.empty(0, np.uint8), np.zeros(rows + 1, np.int64))
