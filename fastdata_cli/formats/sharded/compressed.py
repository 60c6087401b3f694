"""Owns telling compressed shards by their first bytes, and refusing them with the way out."""

from __future__ import annotations

from pathlib import Path

from fastdata_cli.errors import UnsupportedError

_NAMES = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
}
_UNPACKERS = {"gzip": "gunzip", "bzip2": "bunzip2", "xz": "unxz", "zstd": "unzstd"}


def is_compressed(head: bytes) -> bool:
    """Tell whether a file that begins so was compressed as a whole."""
    return head.startswith(tuple(_NAMES))


def refuse_compressed(path: Path, head: bytes) -> None:
    """Raise if a file that begins so was compressed as a whole.

    Raises:
        UnsupportedError: it was; the hint has the program that unpacks it.
    """
    for magic, name in _NAMES.items():
        if head.startswith(magic):
            raise UnsupportedError(
                f"{path}: {name}-compressed, not supported",
                hint=f"unpack it first: {_UNPACKERS[name]} {path.name}",
                path=str(path),
            )
