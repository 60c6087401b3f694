"""Which datasets of an HDF5 file hold what: by our own names, or found by shape and dtype."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fastdata_cli.errors import DamagedDatasetError, NotADatasetError, UsageError
from fastdata_cli.formats.axes import NHWC, AxisOrder, guess_order
from fastdata_cli.formats.foreign import (
    CLASSES_ATTRIBUTES,
    KEY_NAMES,
    LABEL_NAMES,
    unused_labels,
)
from fastdata_cli.formats.hdf5.elsewhere import require_parts
from fastdata_cli.formats.hdf5.heaps import text_attribute
from fastdata_cli.manifest import Manifest
from fastdata_cli.sample import Payload, Schema

MANIFEST_NAME = "fastdata"
_NUMBERS = {"labels": "int64", "checksums": "uint64", "begin": "int64", "length": "int64"}
_TEXT_COLUMNS = ("keys", "metadata")
_ROW_COLUMNS = (*_NUMBERS, *_TEXT_COLUMNS)


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths of the datasets in the file."""

    array: str
    """The images."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Column (labels, keys, checksums, metadata, begin, length) to path, those that there are."""
    ragged: bool = False
    """Each element of the array is a variable-length sequence of bytes: an encoded image."""
    remarks: tuple[str, ...] = ()
    """What is odd, in words."""
    order: AxisOrder = NHWC
    """Of the axes of the images; the schema has their shape as it is stored."""


def find_layout(
    file: Any, path: Path, array: str | None, layout: str | None = None
) -> tuple[Layout, Schema, Manifest | None]:
    """Return what the open file holds.

    Args:
        file: an ``h5py.File``.
        path: its name in messages.
        array: path of the image array inside, or None to find it.
        layout: order of its axes, if others made it; None takes it from the shape.

    Raises:
        UsageError: there are several image arrays, or none at ``array``.
        NotADatasetError: there is no image array.
        DamagedDatasetError: the parts contradict each other.
    """
    if MANIFEST_NAME in file:
        where = f"{path}: /{MANIFEST_NAME}"
        text = _manifest_text(file[MANIFEST_NAME], path, where)
        manifest = Manifest.from_json(text, where=where)
        if array is None or array.strip("/") == manifest.layout.get("array"):
            return _own(file, path, manifest)
    elif array is None and {"labels", "keys", "checksums"} <= file.keys():
        raise DamagedDatasetError(
            f"{path}: /{MANIFEST_NAME}, the manifest, is missing",
            hint="--array images reads it without",
            path=str(path),
        )
    return _foreign(file, path, array, AxisOrder.parse(layout) if layout else None)


def _manifest_text(dataset: Any, path: Path, where: str) -> bytes:
    if not _is_dataset(dataset) or dataset.dtype.kind != "S" or dataset.shape != ():
        raise DamagedDatasetError(f"{where}: not the text that the manifest is")
    require_parts(path, dataset)
    return bytes(dataset[()])


def _own(file: Any, path: Path, manifest: Manifest) -> tuple[Layout, Schema, Manifest]:
    schema = manifest.schema
    encoded = schema.payload is Payload.ENCODED
    array = "data" if encoded else "images"
    needed = {array, "labels", "keys", "checksums", *(("begin", "length") if encoded else ())}
    for name in sorted(needed - file.keys()):
        raise DamagedDatasetError(f"{path}: the dataset /{name} is missing")
    columns = {name: name for name in _ROW_COLUMNS if name in file}
    for name in columns:
        _require_column(file[name], f"{path}: /{name}", schema.num_samples)
    found = file[array]
    if not _is_dataset(found):
        raise DamagedDatasetError(f"{path}: /{array} is no dataset")
    require_parts(path, found, *(file[name] for name in columns))
    if not encoded:
        wanted = (schema.num_samples, *(schema.image_shape or ()))
        if found.shape != wanted or found.dtype != schema.dtype:
            raise DamagedDatasetError(
                f"{path}: /{array} is {found.dtype}{list(found.shape)}, "
                f"and {schema.dtype}{list(wanted)} is expected"
            )
    return Layout(array, columns), schema, manifest


def _require_column(column: Any, where: str, rows: int | None) -> None:
    """Refuse what is no column of ours, before HDF5 is asked for its values."""
    if not _is_dataset(column) or column.ndim != 1:
        raise DamagedDatasetError(f"{where} is no column")
    if len(column) != rows:
        raise DamagedDatasetError(f"{where} has {len(column)} rows for {rows} samples")
    name = where.rpartition("/")[2]
    fits = _is_text(column) if name in _TEXT_COLUMNS else column.dtype == _NUMBERS[name]
    if not fits:
        raise DamagedDatasetError(f"{where} holds {column.dtype}")


def _foreign(
    file: Any, path: Path, array: str | None, wanted: AxisOrder | None
) -> tuple[Layout, Schema, None]:
    if array is None:
        found = _only_candidate(file, path, wanted)
    else:
        found = _chosen(file, path, array, wanted)
    ragged = _is_ragged(found)
    order, remarks = (NHWC, ()) if ragged else _order(found, path, wanted)
    count = order.count(found.shape)
    columns: dict[str, str] = {}
    labels = _column(found.parent, LABEL_NAMES, _is_labels)
    other = _column(found.parent, LABEL_NAMES, lambda item: item != found and _has_dtype(item))
    if labels is None and other is not None:
        remarks += (unused_labels(other.name, other.dtype, other.shape),)
    if labels is not None:
        columns["labels"] = labels.name
        if len(labels) != count:
            raise DamagedDatasetError(
                f"{path}: {count} images, {len(labels)} labels",
                path=str(path),
                expected=count,
                found=len(labels),
            )
    keys = _column(found.parent, KEY_NAMES, _is_text)
    if keys is not None and len(keys) == count:
        columns["keys"] = keys.name
    require_parts(path, *(item for item in (found, labels, keys) if item is not None))
    schema = Schema(
        payload=Payload.ENCODED if ragged else Payload.PIXELS,
        num_samples=count,
        image_shape=None if ragged else order.stored_shape(found.shape),
        dtype="uint8" if ragged else found.dtype.name,
        class_names=_class_names(labels, found, found.parent, file),
    )
    return Layout(found.name, columns, ragged, remarks, order), schema, None


def _order(found: Any, path: Path, wanted: AxisOrder | None) -> tuple[AxisOrder, tuple[str, ...]]:
    if wanted is not None:
        return wanted, ()
    return guess_order(found.shape, f"{path}: {found.name.lstrip('/')}")


def _column(group: Any, names: Sequence[str], fits: Callable[[Any], bool]) -> Any:
    """Return the first of these datasets of a group that fits, or None."""
    candidates = (group.get(name) for name in names)
    return next((item for item in candidates if _is_dataset(item) and fits(item)), None)


def _chosen(file: Any, path: Path, array: str, order: AxisOrder | None) -> Any:
    found = file.get(array)
    if not _is_dataset(found) or not (_is_ragged(found) or _may_be(found, order)):
        what = "a group" if found is not None else "nothing"
        if _is_dataset(found):
            what = f"{found.dtype}{list(found.shape)}"
        raise UsageError(
            f"{path}: --array {array}: {what} there, and an array of images is wanted",
            hint=f"an array {_wanted(order)} of numbers, or N variable-length uint8; of another "
            "order of axes: --layout",
        )
    return found


def _wanted(order: AxisOrder | None) -> str:
    return "N×H×W×C or N×H×W" if order is None else "×".join(str(order))


def _only_candidate(file: Any, path: Path, order: AxisOrder | None) -> Any:
    arrays = [found for found in _datasets(file) if _is_ragged(found) or _may_be(found, order)]
    # Arrays that are surely images come first; others only where there is none of those.
    sure = [found for found in arrays if _is_ragged(found) or _is_plainly(found, order)]
    candidates = sure or arrays
    one_each = order is not None and order.is_one and len(candidates) > 1
    if not candidates or one_each:
        raise NotADatasetError(
            f"{path}: no array of images inside",
            hint=f"looked for {_wanted(order)} numbers, or N variable-length uint8; "
            "of another order of axes: --layout",
            path=str(path),
        )
    if len(candidates) > 1:
        listed = ", ".join(
            f"{f.name.lstrip('/')} {f.dtype}{list(f.shape)}" for f in candidates[:20]
        )
        raise UsageError(
            f"{path}: {len(candidates)} arrays may be the images: {listed}",
            hint="choose one with --array PATH",
            path=str(path),
        )
    return candidates[0]


def _datasets(file: Any) -> Iterator[Any]:
    found: list[Any] = []
    file.visititems(lambda _, item: found.append(item) if _is_dataset(item) else None)
    # Names that are not UTF-8 come as bytes, and cannot be asked for as --array.
    return (each for each in found if isinstance(each.name, str) and _has_dtype(each))


def _has_dtype(dataset: Any) -> bool:
    try:
        return dataset.dtype is not None
    except TypeError:  # HDF5 has types that NumPy has not
        return False


def _is_dataset(item: Any) -> bool:
    import h5py

    return isinstance(item, h5py.Dataset)


def _may_be(dataset: Any, order: AxisOrder | None) -> bool:
    """Numbers, N×H×W×C or N×H×W, whatever depth or dtype they have; or of that order."""
    if not _has_dtype(dataset) or dataset.dtype.kind not in "uif" or dataset.size == 0:
        return False
    if order is not None:
        return order.fits(dataset.shape)
    # An H×W×3 array is one picture, not H pictures that are three pixels wide.
    return bool(dataset.ndim == 4 or (dataset.ndim == 3 and dataset.shape[-1] > 4))


def _is_plainly(dataset: Any, order: AxisOrder | None) -> bool:
    eight_or_sixteen_bits = dataset.dtype.kind == "u" and dataset.dtype.itemsize <= 2
    usual = order is not None or dataset.ndim == 3 or dataset.shape[-1] in (1, 3, 4)
    return bool(eight_or_sixteen_bits and usual)


def _is_ragged(dataset: Any) -> bool:
    import h5py

    inner = h5py.check_vlen_dtype(dataset.dtype)
    return inner is not None and inner == np.uint8 and dataset.ndim == 1 and len(dataset) > 0


def _is_text(dataset: Any) -> bool:
    import h5py

    return h5py.check_string_dtype(dataset.dtype) is not None and dataset.ndim == 1


def _is_labels(dataset: Any) -> bool:
    whole_numbers = dataset.dtype.kind in "iu" and dataset.ndim in (1, 2)
    return bool(whole_numbers and dataset.size == len(dataset))


def _class_names(*carriers: Any) -> tuple[str, ...]:
    """Return the names from the first attribute that lists some."""
    for carrier in carriers:
        for attribute in CLASSES_ATTRIBUTES if carrier is not None else ():
            values = text_attribute(carrier, attribute)
            if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "OSU":
                return tuple(map(_text, values.tolist()))
    return ()


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
