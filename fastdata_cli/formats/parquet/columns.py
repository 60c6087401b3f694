"""Owns which columns of a Parquet file hold images, labels and keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastdata_cli.errors import UnsupportedError, UsageError
from fastdata_cli.formats.foreign import KEY_NAMES, LABEL_NAMES
from fastdata_cli.json_text import parse
from fastdata_cli.keys import mended

_BYTES, _PATH = "bytes", "path"

ColumnPath = tuple[str, ...]
"""A column, and what leads from it into its structs; any of the names may have dots."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a dataset."""

    image: ColumnPath
    """The bytes of the image files."""
    key: ColumnPath | None = None
    label: str | None = None
    others: tuple[str, ...] = ()
    """Carried as metadata."""
    ignored: tuple[str, ...] = ()
    """Of bytes, which JSON cannot hold."""
    class_names: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


def find_columns(schema: Any, where: str, field: str | None) -> Columns:
    """Return which column is which, by type and by what the Hugging Face library noted.

    Args:
        schema: the ``pyarrow.Schema``.
        where: names the file in messages.
        field: the column of the image; None finds it.

    Raises:
        UsageError: several columns may be the image, or none is at ``field``.
        UnsupportedError: no column may be.
    """
    features = _features(schema)
    image = _image(schema, features, where, field)
    kind = schema.field(image).type
    in_struct = _is_struct(kind)
    has_path = in_struct and kind.get_field_index(_PATH) >= 0
    key = (image, _PATH) if has_path else _text_column(schema)
    label, remarks = _label(schema, features)
    used = (image, label, *(key or ())[:1])
    rest = [name for name in schema.names if name not in used]
    others = [name for name in rest if not _has_bytes(schema.field(name).type)]
    names = features.get(label or "", {}).get("names", ())
    return Columns(
        image=(image, _BYTES) if in_struct else (image,),
        key=key,
        label=label,
        others=tuple(others),
        ignored=tuple(name for name in rest if name not in others),
        class_names=tuple(mended(str(name)) for name in names),
        remarks=remarks,
    )


def _features(schema: Any) -> Mapping[str, Mapping[str, Any]]:
    """Return the features that the library ``datasets`` noted in the schema's metadata."""
    try:
        noted = parse((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return {name: each for name, each in noted.items() if isinstance(each, dict)}
    except (KeyError, TypeError, ValueError, AttributeError):
        return {}


def _image(
    schema: Any, features: Mapping[str, Mapping[str, Any]], where: str, field: str | None
) -> str:
    fitting: list[str] = [name for name in schema.names if _may_be_image(schema.field(name).type)]
    if field is not None:
        if field not in fitting:
            found = schema.field(field).type if field in schema.names else "not there"
            raise UsageError(
                f"{where}: --field {field} is {found}, and bytes are wanted, or a struct with some",
                hint="columns that may be: " + (", ".join(fitting) or "none"),
            )
        return field
    noted = [name for name in fitting if features.get(name, {}).get("_type") == "Image"]
    structs = [name for name in fitting if _is_struct(schema.field(name).type)]
    found = noted or structs or fitting
    if len(found) > 1:
        raise UsageError(
            f"{where}: {len(found)} columns may be the image: {', '.join(found)}",
            hint="choose one with --field",
        )
    if not found:
        listed = ", ".join(f"{name} ({schema.field(name).type})" for name in schema.names[:20])
        raise UnsupportedError(
            f"{where}: no column holds images, only {listed}",
            hint="a column of bytes, or of struct<bytes, path>, is read",
        )
    return found[0]


def _label(
    schema: Any, features: Mapping[str, Mapping[str, Any]]
) -> tuple[str | None, tuple[str, ...]]:
    """Return the column of the labels, and what to say about it."""
    classes = [
        name
        for name, feature in features.items()
        if feature.get("_type") == "ClassLabel" and name in schema.names
    ]
    usual = [name for name in LABEL_NAMES if name in schema.names]
    whole = [name for name in [*classes, *usual] if _is_whole(schema.field(name).type)]
    if not whole:
        unused = "{} holds {}: not used as labels, which are whole numbers"
        return None, tuple(unused.format(name, schema.field(name).type) for name in usual[:1])
    chosen = next((name for name in whole if name in usual), whole[0])
    others = [name for name in classes if name != chosen]
    remark = f"labels are those of {chosen}; metadata: {', '.join(others)}"
    return chosen, (remark,) if others else ()


def _text_column(schema: Any) -> ColumnPath | None:
    """Return the column of the keys: the first of a usual name that holds text."""
    names = (name for name in KEY_NAMES if name in schema.names)
    return next(((name,) for name in names if _is_text(schema.field(name).type)), None)


def _may_be_image(kind: Any) -> bool:
    if _is_struct(kind):
        at = kind.get_field_index(_BYTES)
        return at >= 0 and _is_content(kind.field(at).type)
    return _is_content(kind)


def _is_content(kind: Any) -> bool:
    """Tell whether values of a type are bytes as whole files are stored."""
    from pyarrow import types

    return bool(types.is_binary(kind) or types.is_large_binary(kind))


def _has_bytes(kind: Any) -> bool:
    """Tell whether values of a type are bytes of any kind, or hold some."""
    from pyarrow import types

    kind = _plain(kind)
    views = types.is_fixed_size_binary(kind) or types.is_binary_view(kind)
    children = [kind.field(at).type for at in range(kind.num_fields)]
    return _is_content(kind) or bool(views) or any(map(_has_bytes, children))


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    kind = _plain(kind)
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _plain(kind: Any) -> Any:
    """Return the type that values are stored as: without a dictionary, or a name given to it."""
    import pyarrow

    while True:
        if pyarrow.types.is_dictionary(kind):
            kind = kind.value_type
        elif isinstance(kind, pyarrow.BaseExtensionType):
            kind = kind.storage_type
        else:
            return kind


def _is_struct(kind: Any) -> bool:
    import pyarrow.types

    return bool(pyarrow.types.is_struct(kind))


def _is_whole(kind: Any) -> bool:
    import pyarrow.types

    return bool(pyarrow.types.is_integer(kind))


def missing_columns(columns: Columns, schema: Any) -> list[str]:
    """Return which of the columns that are read a file of this ``pyarrow.Schema`` does not have."""
    rest = [(name,) for name in (columns.label, *columns.others) if name is not None]
    keys = [] if columns.key is None else [columns.key]
    missing = [dotted(path) for path in (*keys, *rest) if not _has(schema, path)]
    image = columns.image
    if not _has(schema, image) or not _may_be_image(schema.field(image[0]).type):
        missing.insert(0, dotted(image))
    return missing


def _has(schema: Any, path: ColumnPath) -> bool:
    kind: Any = schema.field(path[0]).type if path[0] in schema.names else None
    for name in path[1:]:
        at = kind.get_field_index(name) if kind is not None and _is_struct(kind) else -1
        kind = kind.field(at).type if at >= 0 else None
    return kind is not None


def dotted(path: ColumnPath) -> str:
    """Return how Arrow is asked for a column, and messages call it; of several the same."""
    return ".".join(path)


def values_at(table: Any, path: ColumnPath) -> Any:
    """Return the values of a column of a ``pyarrow.Table`` or ``RecordBatch``, null where it is."""
    values = table.column(path[0])
    for name in path[1:]:
        values = values.flatten()[values.type.get_field_index(name)]
    return values
