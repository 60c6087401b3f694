"""Sample keys: the path of a sample below its root, kept through every container and back.

In memory a key is a Python string as ``os.fsdecode`` makes it in a UTF-8 locale, so that any file
name is a key, and the same key under every locale. Containers store its *text form*, which is
printable UTF-8 on one line: control characters, line separators, marks that reorder a line, and
bytes that are not UTF-8 become ``%XX``, and so does a percent sign that would read as such an
escape. Ordinary names are their own text form. A container with further taboos (the dot in a tar
member's stem, say) passes them as ``also`` and reads them back the same way.
"""

from __future__ import annotations

import re

_ESCAPED = re.compile(rb"%([0-9A-Fa-f]{2})")
# Control characters, line separators, marks that reorder a line, and bytes that are not UTF-8.
_INVISIBLE = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_HALF = re.compile("[\ud800-\udc7f\udd00-\udfff]")
_FORMULA = ("=", "+", "-", "@")
_UNSAFE = re.compile(_INVISIBLE.pattern + "|%(?=[0-9A-Fa-f]{2})")


def to_text(key: str, *, also: re.Pattern[str] | None = None) -> str:
    """Return the text form of ``key``; characters matching ``also`` are escaped as well."""
    if also is None and key.isprintable() and "%" not in key:
        return key
    if also is None:
        return _UNSAFE.sub(_escape, key)
    # In one pass, so that neither rule meets the escapes of the other.
    return re.sub(f"{_UNSAFE.pattern}|{also.pattern}", _escape, key, flags=also.flags)


def from_text(text: str) -> str:
    """Return the key whose text form (with any ``also``) is ``text``."""
    if "%" not in text:
        return text
    return from_bytes(_ESCAPED.sub(lambda found: bytes([int(found[1], 16)]), to_bytes(text)))


def printable(text: str) -> str:
    """Return any text, a path say, with what a terminal would obey or refuse as ``%XX``."""
    return text if text.isprintable() else _INVISIBLE.sub(_shown, text)


def inert(text: str) -> str:
    """Return a text form that no spreadsheet takes for a formula; ``from_text`` undoes it.

    A first character that would begin one becomes ``%XX`` (OWASP, *CSV Injection*; tabs and line
    ends, which it names too, are no part of text forms).
    """
    return f"%{ord(text[0]):02X}{text[1:]}" if text.startswith(_FORMULA) else text


def mended(text: str) -> str:
    """Return text with U+FFFD for halves of characters, which JSON may hold and no key."""
    return _HALF.sub("\ufffd", text)


def to_bytes(key: str) -> bytes:
    """Return the bytes of a key as they stand in a file name, whatever the locale."""
    return key.encode("utf-8", "surrogateescape")


def from_bytes(name: bytes) -> str:
    """Return the key of the bytes of a file name."""
    return name.decode("utf-8", "surrogateescape")


def _shown(match: re.Match[str]) -> str:
    try:
        return _escape(match)
    except UnicodeEncodeError:  # half a character, which is no key; JSON may hold one
        return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "surrogatepass"))


def _escape(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "surrogateescape"))
