"""Which names in a folder stand for images, and which for what systems and tools leave behind."""

from __future__ import annotations

from fastdata_cli.image_suffixes import KIND_OF_SUFFIX

IMAGE_SUFFIXES = frozenset(b"." + suffix.encode() for suffix in KIND_OF_SUFFIX)
"""Suffixes of files that are taken for images, in lower case; what they are, content decides."""

_JUNK = frozenset(
    (
        b".DS_Store",
        b"Thumbs.db",
        b"desktop.ini",
        b"__MACOSX",
        b"@eaDir",
        b"$RECYCLE.BIN",
        b"System Volume Information",
        b"lost+found",
    )
)


def is_image_name(name: bytes) -> bool:
    """Tell whether the suffix, in any case, is that of an image file."""
    return name[name.rfind(b".") :].lower() in IMAGE_SUFFIXES


def is_unwanted(name: bytes) -> bool:
    """Tell whether a file or folder is never part of a set: hidden, or left by some system."""
    return _is_hidden(name) or _is_junk(name)


def why_ignored(name: bytes) -> str:
    """Return the note under which a name that is no image's is counted."""
    if _is_junk(name):
        return "junk"
    return "hidden" if _is_hidden(name) else "other-name"


def _is_hidden(name: bytes) -> bool:
    # Two dots hide nothing on purpose: they come from titles such as "..twice..jpg".
    return name.startswith(b".") and not name.startswith(b"..")


def _is_junk(name: bytes) -> bool:
    return name in _JUNK or name.startswith(b"._") or name.endswith(b".fastdata")
