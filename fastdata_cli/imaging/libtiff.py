"""Owns keeping libtiff quiet: Pillow leaves its error messages going to C's stderr."""

from __future__ import annotations

import contextlib
import ctypes
import re

_MAPS = "/proc/self/maps"
_LIBRARY = re.compile(r"(/\S*libtiff[^/\s]*\.so\S*)$", re.MULTILINE)


def silence() -> None:
    """Switch off messages of every libtiff that is loaded as a library of its own.

    Does nothing where there is none, or where the system does not list what is loaded.
    """
    with contextlib.suppress(OSError, AttributeError):
        with open(_MAPS, encoding="utf-8", errors="surrogateescape") as maps:
            found = set(_LIBRARY.findall(maps.read()))
        for path in found:
            library = ctypes.CDLL(path)
            for name in ("TIFFSetErrorHandler", "TIFFSetWarningHandler"):
                handler = getattr(library, name)
                handler.argtypes, handler.restype = (ctypes.c_void_p,), ctypes.c_void_p
                handler(None)
