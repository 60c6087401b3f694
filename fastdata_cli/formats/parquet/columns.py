"""Owns which columns of a Parquet file hold images, labels and keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastdata_cli.errors import UnsupportedError, UsageError
from fastdata_cli.formats.foreign import KEY_NAMES, LABEL_NAMES
from fastdata_cli.json_text import parse
from fastdata_cli.keys import mended

_BYTES, _PATH = "bytes", "path"


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a dataset; dots lead into structs."""

    image: str
    """The bytes of the image files."""
    key: str | None = None
    label: str | None = None
    others: tuple[str, ...] = ()
    """Carried as metadata."""
    ignored: tuple[str, ...] = ()
    """Of bytes, which JSON cannot hold."""
    class_names: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def image_name(self) -> str:
        """The column that the image is in."""
        return self.image.partition(".")[0]


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
    key = f"{image}.{_PATH}" if has_path else _text_column(schema)
    label, remarks = _label(schema, features)
    rest = [name for name in schema.names if name not in (image, label, key)]
    others = [name for name in rest if not _has_bytes(schema.field(name).type)]
    names = features.get(label or "", {}).get("names", ())
    return Columns(
        image=f"{image}.{_BYTES}" if in_struct else image,
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


def _text_column(schema: Any) -> str | None:
    """Return the column of the keys: the first of a usual name that holds text."""
    import pyarrow.types

    names = (name for name in KEY_NAMES if name in schema.names)
    return next((n for n in names if pyarrow.types.is_string(schema.field(n).type)), None)


def _may_be_image(kind: Any) -> bool:
    if _is_struct(kind):
        at = kind.get_field_index(_BYTES)
        return at >= 0 and _is_bytes(kind.field(at).type)
    return _is_bytes(kind)


def _has_bytes(kind: Any) -> bool:
    """Tell whether values of a type are bytes, or hold some."""
    children = [kind.field(at).type for at in range(kind.num_fields)]
    return _is_bytes(kind) or any(map(_has_bytes, children))


def _is_struct(kind: Any) -> bool:
    import pyarrow.types

    return bool(pyarrow.types.is_struct(kind))


def _is_bytes(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_binary(kind) or types.is_large_binary(kind))


def _is_whole(kind: Any) -> bool:
    import pyarrow.types

    return bool(pyarrow.types.is_integer(kind))


def missing_columns(columns: Columns, names: Sequence[str]) -> list[str]:
    """Return which of the columns that are read a file does not have."""
    wanted = (columns.image, columns.key, columns.label, *columns.others)
    return [name for name in wanted if name and name.partition(".")[0] not in names]
