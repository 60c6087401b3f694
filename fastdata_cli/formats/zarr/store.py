"""What a Zarr store holds: our own arrays by name, those of others by shape, dtype and name."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fastdata_cli.errors import DamagedDatasetError, NotADatasetError, UsageError
from fastdata_cli.formats.foreign import (
    CLASSES_ATTRIBUTES,
    KEY_NAMES,
    LABEL_NAMES,
    unused_labels,
)
from fastdata_cli.formats.zarr.layout import TEXTS, ArrayLayout, ZarrFormat, read_json, read_layout
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
_IMAGE_DTYPES = ("uint8", "uint16")
_MOST_CHANNELS = 4
_DEEPEST = 16


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


def is_store(path: Path) -> bool:
    """Return whether a folder carries the metadata of a Zarr group or array."""
    return any(os.path.isfile(path / name) for name in ("zarr.json", ".zgroup", ".zarray"))


def read_contents(path: Path, array: str | None) -> Contents:
    """Find out what the store at ``path`` holds.

    Args:
        array: path of the image array inside the store; None finds it.

    Raises:
        DamagedDatasetError: metadata is missing or broken.
        NotADatasetError: no array holds images.
        UsageError: several arrays may be meant, or ``array`` is none.
    """
    zarr_format: ZarrFormat = 3 if (path / "zarr.json").is_file() else 2
    _check_root(path, zarr_format)
    attributes = _attributes(path, zarr_format)
    if MANIFEST_ATTRIBUTE in attributes and array is None:
        found = _own(path, zarr_format, attributes[MANIFEST_ATTRIBUTE])
    else:
        found = _foreign(path, zarr_format, array)
    older = (path / ".zgroup").exists() or (path / ".zarray").exists()
    return replace(found, both_versions=zarr_format == 3 and older)


def _check_root(path: Path, zarr_format: ZarrFormat) -> None:
    names = ("zarr.json",) if zarr_format == 3 else (".zgroup", ".zarray")
    root = next(path / name for name in names if (path / name).exists())
    found = read_json(root).get("zarr_format")
    if found != zarr_format:
        raise DamagedDatasetError(f"{root}: zarr_format is {found!r}, not {zarr_format}")


def _own(path: Path, zarr_format: ZarrFormat, record: Any) -> Contents:
    manifest = Manifest.from_json(json.dumps(record), where=str(path))
    schema, count = manifest.schema, manifest.schema.num_samples
    names = set(_OWN_SIDES)
    if schema.payload is Payload.ENCODED:
        names |= {"begin", "length"}
    if manifest.layout.get("metadata"):
        names.add("metadata")
    sides = {name: read_layout(path / name, name, zarr_format) for name in sorted(names)}
    for name, side in sides.items():
        _expect(side, (count,), _SIDE_DTYPES[name])
    if schema.payload is Payload.ENCODED:
        found = read_layout(path / "data", "data", zarr_format)
        _expect(found, found.shape[:1], "uint8")
    else:
        found = read_layout(path / "images", "images", zarr_format)
        _expect(found, (count, *(schema.image_shape or ())), schema.dtype)
    return Contents(zarr_format, found, schema, manifest, sides, False)


def _expect(layout: ArrayLayout, shape: tuple[int | None, ...], dtype: str) -> None:
    found = None if layout.dtype is None else layout.dtype.name
    if layout.shape != shape or found != dtype:
        raise DamagedDatasetError(
            f"{layout.folder}: {found} of shape {layout.shape}; "
            f"the manifest expects {dtype} of {shape}"
        )


def _foreign(path: Path, zarr_format: ZarrFormat, array: str | None) -> Contents:
    arrays = list(_walk(path, "", zarr_format))
    if array is None and {layout.name for layout in arrays} >= _OWN_SIDES:
        raise DamagedDatasetError(
            f"{path}: the attribute {MANIFEST_ATTRIBUTE!r} with the manifest is missing",
            hint="--array images reads it without",
        )
    images = _image_array(path, arrays, array)
    assert images.dtype is not None
    shape = images.shape[1:]
    group = images.name.rpartition("/")[0]
    labels = _column(arrays, group, images.shape[0], LABEL_NAMES, "iu")
    keys = _column(arrays, group, images.shape[0], KEY_NAMES, "OSU")
    remarks = _unused(path, arrays, images, group) if labels is None and array is None else ()
    sides = {"labels": labels, "keys": keys}
    carriers = [*([labels.attributes] if labels else []), images.attributes]
    carriers += [_attributes(path / folder, zarr_format) for folder in dict.fromkeys((group, ""))]
    schema = Schema(
        payload=Payload.PIXELS,
        num_samples=images.shape[0],
        image_shape=(*shape, 1) if len(shape) == 2 else shape,
        dtype=images.dtype.newbyteorder("=").name,
        class_names=_class_names(carriers),
    )
    present = {name: layout for name, layout in sides.items() if layout is not None}
    return Contents(zarr_format, images, schema, None, present, False, remarks)


def _unused(
    path: Path, arrays: Sequence[ArrayLayout], images: ArrayLayout, group: str
) -> tuple[str, ...]:
    """Return a remark on what is named like labels beside the images and cannot be theirs.

    Raises:
        DamagedDatasetError: they are labels, and not as many.
    """
    names = [f"{group}/{name}" if group else name for name in LABEL_NAMES]
    for layout in arrays:
        if layout.name not in names or layout is images:
            continue
        if len(layout.shape) == 1 and layout.dtype is not None and layout.dtype.kind in "iu":
            counts = f"{images.shape[0]} images, {layout.shape[0]} labels"
            raise DamagedDatasetError(f"{path}: {counts}", hint=f"--array {images.name} ignores it")
        return (unused_labels(layout.name, layout.dtype, layout.shape),)
    return ()


def _image_array(path: Path, arrays: Sequence[ArrayLayout], wanted: str | None) -> ArrayLayout:
    if wanted is not None:
        named = next((layout for layout in arrays if layout.name == wanted.strip("/")), None)
        if named is None or named.dtype is None or len(named.shape) < 3:
            raise UsageError(
                f"{path}: --array {wanted!r} is no array of images", hint=_listing(arrays)
            )
        return named
    for rank in (_is_colour, _is_grey, _may_be_images):
        candidates = [layout for layout in arrays if rank(layout)]
        if len(candidates) > 1:
            raise UsageError(
                f"{path}: {len(candidates)} arrays may be the images: "
                + ", ".join(layout.name for layout in candidates),
                hint="choose one with --array; " + _listing(candidates),
            )
        if candidates:
            return candidates[0]
    raise NotADatasetError(
        f"{path}: a Zarr store without an array of images (N, H, W, C) or (N, H, W)",
        hint=_listing(arrays),
    )


def _is_colour(layout: ArrayLayout) -> bool:
    narrow = len(layout.shape) == 4 and 1 <= layout.shape[3] <= _MOST_CHANNELS
    return narrow and layout.dtype is not None and layout.dtype.name in _IMAGE_DTYPES


def _is_grey(layout: ArrayLayout) -> bool:
    flat = len(layout.shape) == 3
    return flat and layout.dtype is not None and layout.dtype.name in _IMAGE_DTYPES


def _may_be_images(layout: ArrayLayout) -> bool:
    """Return whether these are numbers in four dimensions: channels first, or floats, say."""
    return len(layout.shape) == 4 and layout.dtype is not None and layout.dtype.kind in "iuf"


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
                return tuple(values)
    return ()


def _walk(
    folder: Path, name: str, zarr_format: ZarrFormat, depth: int = 0
) -> Iterator[ArrayLayout]:
    """Yield every array below ``folder``, in the order of their names."""
    if _is_array(folder, zarr_format):
        yield read_layout(folder, name, zarr_format)
        return
    if depth == _DEEPEST:
        return
    with os.scandir(folder) as entries:
        below = sorted(entry.name for entry in entries if entry.is_dir())
    for child in below:
        yield from _walk(
            folder / child, f"{name}/{child}" if name else child, zarr_format, depth + 1
        )


def _is_array(folder: Path, zarr_format: ZarrFormat) -> bool:
    if zarr_format == 2:
        return (folder / ".zarray").is_file()
    path = folder / "zarr.json"
    return path.is_file() and read_json(path).get("node_type") == "array"


def _attributes(folder: Path, zarr_format: ZarrFormat) -> Mapping[str, Any]:
    path = folder / ("zarr.json" if zarr_format == 3 else ".zattrs")
    if not path.is_file():
        return {}
    record = read_json(path)
    found = (record.get("attributes") or {}) if zarr_format == 3 else record
    return found if isinstance(found, dict) else {}


def _listing(arrays: Sequence[ArrayLayout]) -> str:
    texts = (f"{a.label} {a.dtype} {list(a.shape)}" for a in arrays[:8])
    more = f" and {len(arrays) - 8} more" if len(arrays) > 8 else ""
    return "arrays there: " + (", ".join(texts) or "none") + more
