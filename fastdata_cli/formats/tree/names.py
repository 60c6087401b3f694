"""Under which file name a key is stored below the folder of a tree: no name leads out of it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import xxhash

from fastdata_cli.keys import to_bytes
from fastdata_cli.storage.listing_names import is_image_name

MOST_NAME_BYTES = 255
"""Of a file or folder in a tree."""
MOST_PATH_BYTES = 2048
"""Half of what Linux takes for a whole path: the rest is for the folder that the tree lies in."""
# Removing a tree recurses, in the standard library and in other tools.
_DEPTH = 256
_SUFFIXES = {"png": (b".png",), "jpeg": (b".jpg", b".jpeg", b".jpe", b".jfif")}
_STAND_INS = {b"": b"%2F", b".": b"%2E", b"..": b"%2E%2E"}


def file_names(key: str, kind: str | None, position: int) -> Iterator[bytes]:
    """Yield names for a sample, the best first; a writer takes the first that is free.

    Args:
        key: the sample's key.
        kind: ``png`` or ``jpeg`` for files that fastdata made, which are named so; None for files
            that are kept as they are, which keep the key.
        position: the sample's in the dataset; no other sample has it.
    """
    plain = _safe(to_bytes(key))
    if kind is None:
        yield plain
    else:
        suffixes = _SUFFIXES[kind]
        yield plain if plain.lower().endswith(suffixes) else _renamed(plain, suffixes[0])
        plain = _safe(plain + suffixes[0])
        yield plain
    stem, suffix = _split(plain)
    for again in count():
        name = stem + b"~%d" % position + b"~" * again + suffix
        yield _safe(name)
        # A component of the key may be the file of another key: without folders it needs none.
        yield _safe(name.replace(b"/", b"%2F"))


def default_name(key: str, kind: str | None) -> bytes:
    """Return the name that a key has when nothing else has taken it."""
    return next(file_names(key, kind, 0))


def _renamed(name: bytes, suffix: bytes) -> bytes:
    stem, old = _split(name)
    return _safe((stem if is_image_name(old) else name) + suffix)


def _split(name: bytes) -> tuple[bytes, bytes]:
    """Split the suffix off the last component; a leading dot begins none."""
    folder, slash, last = name.rpartition(b"/")
    at = last.rfind(b".")
    if at <= 0:
        return name, b""
    return folder + slash + last[:at], last[at:]


def _safe(name: bytes) -> bytes:
    """Return a relative path without special components, each short enough for a file system."""
    parts = [_STAND_INS.get(part, part) for part in name.replace(b"\0", b"%00").split(b"/")]
    short = b"/".join(_shortened(part, part) for part in parts)
    if len(short) > MOST_PATH_BYTES or len(parts) > _DEPTH:
        return _shortened(short.replace(b"/", b"%2F"), name)
    return short


def _shortened(part: bytes, identity: bytes) -> bytes:
    """Cut a component to size; a digest of ``identity`` keeps it apart from others like it."""
    if len(part) <= MOST_NAME_BYTES:
        return part
    stem, suffix = _split(part)
    if len(suffix) > 16:
        stem, suffix = part, b""
    tail = b"~" + xxhash.xxh3_64_hexdigest(identity).encode() + suffix
    # Not within a character: some file systems take only UTF-8.
    return stem[: MOST_NAME_BYTES - len(tail)].decode("utf-8", "ignore").encode() + tail
