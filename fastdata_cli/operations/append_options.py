"""The options of an append: those of the dataset. A flag that says otherwise is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from fastdata_cli.contract import Format
from fastdata_cli.errors import DamagedDatasetError, UnsupportedError, UsageError
from fastdata_cli.manifest import Manifest
from fastdata_cli.operations.clean.selection import given as asked_for
from fastdata_cli.operations.settings import ConvertOptions, parse_size
from fastdata_cli.options import Options, flag
from fastdata_cli.quality.options import CleanOptions, parse_clean
from fastdata_cli.sample import Payload

# They are about a run, not about what is stored.
_OF_THE_RUN = ("on_bad", "max_bad", "limit")


def agreed_options(manifest: Manifest, given: Mapping[str, Any]) -> ConvertOptions:
    """Return the options with which a dataset goes on.

    Args:
        manifest: of the dataset.
        given: what the caller asks for, by the names of ConvertOptions.

    Raises:
        UsageError: that contradicts the dataset; names both values.
    """
    stored = _stored(manifest)
    for name, value in given.items():
        if name not in _OF_THE_RUN:
            _require_equal(name, value, stored.get(name, _default(ConvertOptions, name)))
    run = {name: given.get(name, stored.get(name)) for name in ("on_bad", "max_bad")}
    values = {name: value for name, value in {**stored, **run}.items() if value is not None}
    values["limit"] = given.get("limit")
    return ConvertOptions(**{**values, "clean": None})


def agreed_write_options(manifest: Manifest, row: Format, given: Mapping[str, Any]) -> Options:
    """Return the options of the format with which a dataset goes on. Raises as above."""
    known = {field.name for field in fields(row.write_options)}
    stored = {name: value for name, value in manifest.options.items() if name in known}
    wanted = row.write_options.from_mapping(given, owner=f"format {row.name}")
    for name in given:
        default = _default(row.write_options, name)
        _require_equal(name, getattr(wanted, name), stored.get(name, default))
    return row.write_options.from_mapping(stored, owner=f"format {row.name}")


def agreed_checks(manifest: Manifest) -> CleanOptions | None:
    """Return the checks with which a dataset was cleaned, if it was.

    Raises:
        UnsupportedError: they were for duplicates, and what is there has left no fingerprints.
        UsageError: this version of fastdata does not know them.
        DamagedDatasetError: they are not as they are written down.
    """
    stored = manifest.options.get("clean")
    if not stored:
        return None
    if not isinstance(stored, Mapping):
        raise DamagedDatasetError("the manifest has no options of clean where they should be")
    checks = CleanOptions.from_mapping(stored, owner="clean in this version of fastdata")
    if checks.duplicates is not None:
        raise UnsupportedError(
            "the dataset was made without duplicates, and the fingerprints of what it holds were "
            "not kept: nothing can be added to it",
            hint="convert the whole source again, with --overwrite",
        )
    return checks


def _stored(manifest: Manifest) -> dict[str, Any]:
    """Return the options of the dataset by the names of ConvertOptions, as they are settled."""
    known = {field.name for field in fields(ConvertOptions)}
    stored = {name: value for name, value in manifest.options.items() if name in known}
    stored["payload"] = manifest.schema.payload.value
    shape = manifest.schema.image_shape
    if manifest.schema.payload is Payload.PIXELS and shape is not None:
        stored["size"] = f"{shape[0]}x{shape[1]}"
    return stored


def _require_equal(name: str, given: Any, stored: Any) -> None:
    if _comparable(name, given) == _comparable(name, stored):
        return
    has = "none" if stored in (None, {}) else _shown(stored)
    raise UsageError(
        f"{flag(name)} {_shown(given)} contradicts the dataset, which was made with {has}",
        hint=f"leave {flag(name)} out: an append goes on with the options of the dataset",
        expected=stored,
        found=given,
    )


def _comparable(name: str, value: Any) -> Any:
    if name == "size" and isinstance(value, str):
        return parse_size(value)
    if name == "clean":
        return asked_for(parse_clean(value)) if isinstance(value, str) else dict(value or {})
    return value


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{name.replace('_', '-')}={each}" for name, each in value.items())
    return str(value)


def _default(owner: type[Options], name: str) -> Any:
    return next(spec.default for spec in owner.specs() if spec.name == name)
