"""From JSON values to frozen dataclasses, by their annotations; what does not fit is named."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")


def decode(kind: type[T], value: Any, *, where: str = "") -> T:
    """Return ``value`` as an instance of the dataclass ``kind``; fields it lacks are ignored.

    Understands dataclasses, ``tuple[X, ...]``, ``Mapping[str, X]``, ``X | None``, enumerations,
    ``str``, ``bool``, ``int``, ``float`` and ``Any``, in each other.

    Args:
        where: the name of the value in errors, such as ``cases[3]``.

    Raises:
        ValueError: a field is missing, or its value is of another kind.
    """
    return cast(T, _decode(kind, value, where))


def _decode(kind: Any, value: Any, where: str) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin in (types.UnionType, Union):
        return _optional(arguments, value, where)
    if origin is tuple:
        items = _of(list, value, where)
        return tuple(
            _decode(arguments[0], item, f"{where}[{index}]") for index, item in enumerate(items)
        )
    if origin is Mapping:
        entries = _of(dict, value, where)
        return {
            name: _decode(arguments[1], item, f"{where}.{name}") for name, item in entries.items()
        }
    if is_dataclass(kind):
        return _instance(kind, _of(dict, value, where), where)
    return _scalar(kind, value, where)


def _optional(kinds: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and types.NoneType in kinds:
        return None
    (kind,) = (kind for kind in kinds if kind is not types.NoneType)
    return _decode(kind, value, where)


def _instance(kind: Any, value: Mapping[str, Any], where: str) -> Any:
    hints, found = get_type_hints(kind), {}
    for each in fields(kind):
        name = f"{where}.{each.name}".lstrip(".")
        if each.name in value:
            found[each.name] = _decode(hints[each.name], value[each.name], name)
        elif each.default is MISSING and each.default_factory is MISSING:
            raise ValueError(f"{name} is missing")
    return kind(**found)


def _scalar(kind: Any, value: Any, where: str) -> Any:
    if kind is float:
        # A whole number is a float in JSON; true is not, though Python says so.
        return float(_of((int, float), value, where))
    if issubclass(kind, Enum):
        try:
            return kind(value)
        except ValueError:
            raise ValueError(f"{where} is {value!r}, which is unknown") from None
    return _of(kind, value, where)


def _of(kind: Any, value: Any, where: str) -> Any:
    fits = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    if not fits:
        names = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
        raise ValueError(f"{where or 'it'} is not {names.get(kind, 'a number')}")
    return value
