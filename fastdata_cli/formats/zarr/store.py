"""What a Zarr store holds: our own arrays by name, those of others by shape, dtype and name."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fastdata_cli.errors import DamagedDatasetError, UnsupportedError
from fastdata_cli.formats.axes import NHWC, AxisOrder, guess_order
from fastdata_cli.formats.foreign import (
    CLASSES_ATTRIBUTES,
    KEY_NAMES,
    LABEL_NAMES,
    unused_labels,
)
from fastdata_cli.formats.zarr.choose import image_array
from fastdata_cli.formats.zarr.files import METADATA, FolderFiles, StoreFiles, joined
from fastdata_cli.formats.zarr.layout import TEXTS, ArrayLayout, ZarrFormat, read_json, read_layout
from fastdata_cli.formats.zarr.zipped import ZippedFiles, is_zipped_store
from fastdata_cli.keys import mended
from fastdata_cli.manifest import Manifest
from fastdata_cli.sample import Payload, Schema

MANIFEST_ATTRIBUTE = "fastdata"
CLASSES_ATTRIBUTE = "class_names"
_OWN_SIDES = frozenset({"labels", "keys", "checksums"})
_SIDE_DTYPES = {
    "labels": "int64",
    "keys": TEXTS.name,
    "checksums": "uint64",
    "metadata": TEXTS.name,
    "begin": "int64",
    "length": "int64",
}


@dataclass(frozen=True, slots=True)
class Contents:
    """The arrays of a dataset. Those but ``images`` may be absent in the stores of others."""

    zarr_format: ZarrFormat
    images: ArrayLayout
    """Pixels, or the bytes of all encoded images."""
    schema: Schema
    manifest: Manifest | None
    sides: Mapping[str, ArrayLayout]
    """``labels``, ``keys``, ``checksums``, ``metadata``, ``begin``, ``length``."""
    both_versions: bool
    """Metadata of version 2 lies there as well, and was not read."""
    remarks: tuple[str, ...] = ()
    """What else is odd, in words."""
    order: AxisOrder = NHWC
    """Of the axes of the images; the schema has their shape as it is stored."""


def is_store(path: Path) -> bool:
    """Return whether a folder, or a zip, carries the metadata of a Zarr group or array."""
    named = (os.path.join(path, name) for name in METADATA)
    return any(map(os.path.isfile, named)) or is_zipped_store(path)


def read_contents(path: Path, array: str | None, layout: str | None = None) -> Contents:
    """Find out what the store at ``path`` holds.

    Args:
        array: path of the image array inside the store; None finds it.
        layout: order of its axes, if others made it; None takes it from the shape.

    Raises:
        DamagedDatasetError: metadata is missing or broken.
        NotADatasetError: no array holds images.
        UsageError: several arrays may be meant, or ``array`` is none.
    """
    files: StoreFiles = FolderFiles(path) if path.is_dir() else ZippedFiles(path)
    zarr_format: ZarrFormat = 3 if files.has("zarr.json") else 2
    _check_root(files, zarr_format)
    attributes = _attributes(files, "", zarr_format)
    if MANIFEST_ATTRIBUTE in attributes and array is None:
        found = _own(files, zarr_format, attributes[MANIFEST_ATTRIBUTE])
    else:
        found = _foreign(files, zarr_format, array, AxisOrder.parse(layout) if layout else None)
    older = files.has(".zgroup") or files.has(".zarray")
    return replace(found, both_versions=zarr_format == 3 and older)


def _check_root(files: StoreFiles, zarr_format: ZarrFormat) -> None:
    root = next((name for name in METADATA if files.has(name)), METADATA[0])
    found = read_json(files, root).get("zarr_format")
    if found != zarr_format:
        raise DamagedDatasetError(
            f"{files.path(root)}: zarr_format is {found!r}, not {zarr_format}"
        )


def _own(files: StoreFiles, zarr_format: ZarrFormat, record: Any) -> Contents:
    if not files.can_map:
        raise UnsupportedError(
            f"{files.root}: the zip compresses what is compressed already",
            hint="zip it again without: zip -0 -r",
        )
    manifest = Manifest.from_json(json.dumps(record), where=str(files.root))
    schema, count = manifest.schema, manifest.schema.num_samples
    names = set(_OWN_SIDES)
    if schema.payload is Payload.ENCODED:
        names |= {"begin", "length"}
    if manifest.layout.get("metadata"):
        names.add("metadata")
    sides = {name: read_layout(files, name, zarr_format) for name in sorted(names)}
    for name, side in sides.items():
        _expect(side, (count,), _SIDE_DTYPES[name])
    if schema.payload is Payload.ENCODED:
        found = read_layout(files, "data", zarr_format)
        _expect(found, found.shape[:1], "uint8")
    else:
        found = read_layout(files, "images", zarr_format)
        _expect(found, (count, *(schema.image_shape or ())), schema.dtype)
    return Contents(zarr_format, found, schema, manifest, sides, False)


def _expect(layout: ArrayLayout, shape: tuple[int | None, ...], dtype: str) -> None:
    found = None if layout.dtype is None else layout.dtype.name
    if layout.shape != shape or found != dtype:
        raise DamagedDatasetError(
            f"{layout.folder}: {found} of shape {layout.shape}; "
            f"the manifest expects {dtype} of {shape}"
        )


def _foreign(
    files: StoreFiles, zarr_format: ZarrFormat, array: str | None, order: AxisOrder | None
) -> Contents:
    folders = files.arrays(lambda name: _is_array(files, name, zarr_format))
    arrays = [read_layout(files, name, zarr_format) for name in folders]
    if array is None and {layout.name for layout in arrays} >= _OWN_SIDES:
        raise DamagedDatasetError(
            f"{files.root}: the attribute {MANIFEST_ATTRIBUTE!r} with the manifest is missing",
            hint="--array images reads it without",
        )
    where = str(files.root)
    images = image_array(where, arrays, array, order)
    assert images.dtype is not None
    order, remarks = (order, ()) if order else guess_order(images.shape, f"{where}: {images.label}")
    count = order.count(images.shape)
    group = images.name.rpartition("/")[0]
    labels = _column(arrays, group, count, LABEL_NAMES, "iu")
    keys = _column(arrays, group, count, KEY_NAMES, "OSU")
    if labels is None and array is None:
        remarks += _unused(where, arrays, images, count)
    sides = {"labels": labels, "keys": keys}
    carriers = [*([labels.attributes] if labels else []), images.attributes]
    carriers += [_attributes(files, folder, zarr_format) for folder in dict.fromkeys((group, ""))]
    schema = Schema(
        payload=Payload.PIXELS,
        num_samples=count,
        image_shape=order.stored_shape(images.shape),
        dtype=images.dtype.newbyteorder("=").name,
        class_names=_class_names(carriers),
    )
    present = {name: layout for name, layout in sides.items() if layout is not None}
    return Contents(zarr_format, images, schema, None, present, False, remarks, order)


def _unused(
    where: str, arrays: Sequence[ArrayLayout], images: ArrayLayout, count: int
) -> tuple[str, ...]:
    """Return a remark on what is named like labels beside the images and cannot be theirs.

    Raises:
        DamagedDatasetError: they are labels, and not as many.
    """
    group = images.name.rpartition("/")[0]
    names = [f"{group}/{name}" if group else name for name in LABEL_NAMES]
    for layout in arrays:
        if layout.name not in names or layout is images:
            continue
        if len(layout.shape) == 1 and layout.dtype is not None and layout.dtype.kind in "iu":
            counts = f"{count} images, {layout.shape[0]} labels"
            raise DamagedDatasetError(
                f"{where}: {counts}", hint=f"--array {images.name} ignores it"
            )
        return (unused_labels(layout.name, layout.dtype, layout.shape),)
    return ()


def _column(
    arrays: Sequence[ArrayLayout], group: str, count: int, names: Sequence[str], kinds: str
) -> ArrayLayout | None:
    """Return the array of ``count`` values with the first of these names, the group's own first."""
    fitting = {
        layout.name: layout
        for layout in arrays
        if layout.shape in ((count,), (count, 1))
        and layout.dtype is not None
        and layout.dtype.kind in kinds
    }
    folders = [f"{group}/" if group else "", ""]
    places = (folder + name for folder in folders for name in names)
    return next((fitting[place] for place in places if place in fitting), None)


def _class_names(carriers: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    for attributes in carriers:
        for name in CLASSES_ATTRIBUTES:
            values = attributes.get(name)
            if isinstance(values, list) and all(isinstance(value, str) for value in values):
                return tuple(map(mended, values))
    return ()


def _is_array(files: StoreFiles, name: str, zarr_format: ZarrFormat) -> bool:
    if zarr_format == 2:
        return files.has(joined(name, ".zarray"))
    at = joined(name, "zarr.json")
    return files.has(at) and read_json(files, at).get("node_type") == "array"


def _attributes(files: StoreFiles, name: str, zarr_format: ZarrFormat) -> Mapping[str, Any]:
    at = joined(name, "zarr.json" if zarr_format == 3 else ".zattrs")
    if not files.has(at):
        return {}
    record = read_json(files, at)
    found = (record.get("attributes") or {}) if zarr_format == 3 else record
    return found if isinstance(found, dict) else {}
