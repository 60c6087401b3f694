"""Owns what is asked of keys before a tree is written: that they can be names of files there."""

from __future__ import annotations

from collections.abc import Sequence

from fastdata_cli.contract import Target
from fastdata_cli.errors import UsageError
from fastdata_cli.formats.tree.names import MOST_NAME_BYTES, MOST_PATH_BYTES, default_name
from fastdata_cli.keys import to_text
from fastdata_cli.options import Options
from fastdata_cli.sample import Payload
from fastdata_cli.storage.name_limits import name_limits


def check_names(target: Target, _: Options, keys: Sequence[str]) -> None:
    """Refuse names that the file system of the destination does not take.

    Raises:
        UsageError: there is one.
    """
    allowed = name_limits(target.path)
    if allowed.name >= MOST_NAME_BYTES and allowed.path >= MOST_PATH_BYTES:
        return  # a tree has none that are longer
    pixels = target.manifest.schema.payload is Payload.PIXELS
    kind = "png" if pixels else target.manifest.options.get("reencoded")
    for key in keys:
        name = default_name(key, kind)
        if max(map(len, name.split(b"/"))) > allowed.name or len(name) > allowed.path:
            raise UsageError(
                f"{to_text(key)}: too long a name for a file below {target.path}, where it has at "
                f"most {allowed.name} bytes, and its path {allowed.path}",
                hint="choose a folder higher up or on another file system, or another format",
            )
