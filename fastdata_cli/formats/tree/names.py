"""Under which file name a key is stored below the folder of a tree: no name leads out of it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import xxhash

from fastdata_cli.keys import to_bytes
from fastdata_cli.sample import Payload
from fastdata_cli.storage.listing_names import is_image_name

_COMPONENT_BYTES = 255
# Half of what Linux takes for a whole path: the rest is for the folder that the tree lies in.
_PATH_BYTES = 2048
# Removing a tree recurses, in the standard library and in other tools.
_DEPTH = 256
_STAND_INS = {b"": b"%2F", b".": b"%2E", b"..": b"%2E%2E"}


def file_names(key: str, payload: Payload, position: int) -> Iterator[bytes]:
    """Yield names for a sample, the best first; a writer takes the first that is free.

    Args:
        key: the sample's key.
        payload: encoded images keep the key; pixels are PNG and named so.
        position: the sample's in the dataset; no other sample has it.
    """
    plain = _safe(to_bytes(key))
    yield _as_png(plain) if payload is Payload.PIXELS else plain
    if payload is Payload.PIXELS:
        plain = _safe(plain + b".png")
        yield plain
    stem, suffix = _split(plain)
    for again in count():
        name = stem + b"~%d" % position + b"~" * again + suffix
        yield _safe(name)
        # A component of the key may be the file of another key: without folders it needs none.
        yield _safe(name.replace(b"/", b"%2F"))


def default_name(key: str, payload: Payload) -> bytes:
    """Return the name that a key has when nothing else has taken it."""
    return next(file_names(key, payload, 0))


def _as_png(name: bytes) -> bytes:
    stem, suffix = _split(name)
    return _safe(stem + b".png" if is_image_name(suffix) else name + b".png")


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
    if len(short) > _PATH_BYTES or len(parts) > _DEPTH:
        return _shortened(short.replace(b"/", b"%2F"), name)
    return short


def _shortened(part: bytes, identity: bytes) -> bytes:
    """Cut a component to size; a digest of ``identity`` keeps it apart from others like it."""
    if len(part) <= _COMPONENT_BYTES:
        return part
    stem, suffix = _split(part)
    if len(suffix) > 16:
        stem, suffix = part, b""
    tail = b"~" + xxhash.xxh3_64_hexdigest(identity).encode() + suffix
    # Not within a character: some file systems take only UTF-8.
    return stem[: _COMPONENT_BYTES - len(tail)].decode("utf-8", "ignore").encode() + tail
