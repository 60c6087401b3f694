"""Options as frozen dataclasses: one definition feeds flags, Python API and manifest."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any, Self

from fastdata_cli.errors import UsageError


def option(
    default: Any, text: str, *, choices: tuple[str, ...] | None = None, minimum: int | None = None
) -> Any:
    """Declare one option: a dataclass field that carries its help, choices and lower bound."""
    facts = {"help": text, "choices": choices, "minimum": minimum}
    return dataclasses.field(default=default, metadata=facts)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Base of every option set. Subclasses declare fields with ``option``."""

    def __post_init__(self) -> None:
        for spec in dataclasses.fields(self):
            _check(spec, getattr(self, spec.name))

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any], *, owner: str) -> Self:
        """Build the set from plain values; ``owner`` names it in messages ("format lmdb").

        Raises:
            UsageError: a name that is no option of this set, or a value that cannot be.
        """
        known = {spec.name for spec in dataclasses.fields(cls)}
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


def flag(name: str) -> str:
    """Return the command-line spelling of an option."""
    return "--" + name.replace("_", "-")


def value_type(owner: type[Options], name: str) -> type:
    """Return the plain type of an option's value: ``int`` for ``int | None``."""
    hint = typing.get_type_hints(owner)[name]
    if isinstance(hint, types.UnionType):
        hint = next(arm for arm in typing.get_args(hint) if arm is not types.NoneType)
    return typing.cast(type, hint)


def _check(spec: dataclasses.Field[Any], value: Any) -> None:
    choices, minimum = spec.metadata.get("choices"), spec.metadata.get("minimum")
    if value is None:
        return
    if choices and value not in choices:
        raise UsageError(
            f"{flag(spec.name)} does not know {value!r}", hint="one of: " + ", ".join(choices)
        )
    if minimum is not None and value < minimum:
        raise UsageError(f"{flag(spec.name)} must be at least {minimum}, not {value}")
