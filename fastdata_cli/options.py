"""Options as frozen dataclasses: one definition feeds flags, Python API and manifest."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from typing import Any, Self

from fastdata_cli.errors import UsageError

# What a number may be given as, and how messages call it.
_NUMBERS: Mapping[type, tuple[Any, str]] = {
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class OptionSpec:
    """What a flag needs to know of one option."""

    name: str
    kind: type
    """Type of the value: ``int`` for ``int | None``."""
    default: Any
    text: str
    """A short phrase for ``--help``."""
    choices: tuple[str, ...] = ()
    """The words it may be; empty for any."""
    minimum: float | None = None
    """The least number it may be."""
    unit: str | None = None
    """``bytes`` lets people write ``1GB``."""
    short: str | None = None
    """A one-letter flag beside the long one."""
    value: str | None = None
    """What ``--help`` calls the value, such as ``FILE``."""


def option(
    default: Any,
    text: str,
    *,
    choices: tuple[str, ...] = (),
    minimum: float | None = None,
    unit: str | None = None,
    short: str | None = None,
    value: str | None = None,
) -> Any:
    """Declare one option: a dataclass field that carries the facts of its OptionSpec."""
    facts = {
        "text": text,
        "choices": choices,
        "minimum": minimum,
        "unit": unit,
        "short": short,
        "value": value,
    }
    return dataclasses.field(default=default, metadata=facts)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Base of every option set. Subclasses declare fields with ``option``."""

    def __post_init__(self) -> None:
        for spec in self.specs():
            _check(spec, getattr(self, spec.name))

    @classmethod
    def specs(cls) -> tuple[OptionSpec, ...]:
        """Return the options of this set, in the order of their declaration."""
        hints = typing.get_type_hints(cls)
        return tuple(
            OptionSpec(
                name=field.name,
                kind=_plain(hints[field.name]),
                default=field.default,
                **field.metadata,
            )
            for field in dataclasses.fields(cls)
        )

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any], *, owner: str) -> Self:
        """Build the set from plain values; ``owner`` names it in messages ("format lmdb").

        Raises:
            UsageError: a name that is no option of this set, or a value that cannot be.
        """
        known = {field.name for field in dataclasses.fields(cls)}
        for name in values:
            if name not in known:
                raise UsageError(
                    f"{flag(name)} is not an option of {owner}",
                    hint="its options: " + (", ".join(sorted(map(flag, known))) or "none"),
                    option=name,
                )
        return cls(**values)

    def to_mapping(self) -> dict[str, Any]:
        """Return the values as JSON-able plain data."""
        return dataclasses.asdict(self)

    def words(self) -> list[str]:
        """Return the flags that say the same on a command line; defaults are left out."""
        return flag_words(
            {
                spec.name: value
                for spec in self.specs()
                if (value := getattr(self, spec.name)) != spec.default
            }
        )


def flag(name: str) -> str:
    """Return the command-line spelling of an option."""
    return "--" + name.replace("_", "-")


def flag_words(values: Mapping[str, Any]) -> list[str]:
    """Return options that were set as words of a command line, one for a flag that is just on."""
    words = []
    for name, value in values.items():
        words += [flag(name)] if value is True else [flag(name), str(value)]
    return words


def _plain(hint: Any) -> type:
    if isinstance(hint, types.UnionType):
        hint = next(arm for arm in typing.get_args(hint) if arm is not types.NoneType)
    return typing.cast(type, hint)


def _check(spec: OptionSpec, value: Any) -> None:
    if value is None:
        return
    if spec.choices and value not in spec.choices:
        raise UsageError(
            f"{flag(spec.name)} does not know {value!r}", hint="one of: " + ", ".join(spec.choices)
        )
    if spec.kind in _NUMBERS:
        _check_number(spec, value)
    if spec.minimum is not None and value < spec.minimum:
        raise UsageError(f"{flag(spec.name)} must be at least {spec.minimum}, not {value}")


def _check_number(spec: OptionSpec, value: Any) -> None:
    accepted, words = _NUMBERS[spec.kind]
    if not isinstance(value, accepted) or isinstance(value, bool) or not math.isfinite(value):
        raise UsageError(f"{flag(spec.name)} must be {words}, not {value!r}")
