"""Owns answering what a file is, and how large, from its header alone.

Importing this module loads no decoder.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace

from fastdata_cli.errors import BadSampleError
from fastdata_cli.imaging.headers import avif, gif, jpeg, plain, png, tiff, webp
from fastdata_cli.imaging.headers.header import Draft, Header
from fastdata_cli.imaging.policy import STRICT_NOTES, ImagePolicy
from fastdata_cli.imaging.sniff import DECODED, PICTURES, SNIFF_BYTES, sniff
from fastdata_cli.imaging.source import HEAD_BYTES, FileSource, MemorySource, Source

__all__ = ["HEAD_BYTES", "Header", "probe", "probe_file", "sniff"]

_READERS: Mapping[str, Callable[[Source], Draft]] = {
    "jpeg": jpeg.read,
    "png": png.read,
    "gif": gif.read,
    "bmp": plain.read_bmp,
    "tiff": tiff.read,
    "webp": webp.read,
    "avif": avif.read,
    "pnm": plain.read_pnm,
}
_DEFAULT = ImagePolicy()


def probe(data: bytes | memoryview, policy: ImagePolicy = _DEFAULT) -> Header:
    """Read the header of a picture, without decoding.

    Args:
        data: the whole file. A first part of ``HEAD_BYTES`` gives the size of most files, but
            orientation may stand at the end of a PNG, WebP or TIFF file: use ``probe_file``.
        policy: limits and switches.

    Returns:
        The header; its ``size`` is (height, width) in pixels as shown.

    Errors:
        BadSampleError: empty, not-an-image (the detail says what it is), unsupported-format,
            unsupported-depth, too-large, truncated or corrupt.
    """
    source = MemorySource(data if isinstance(data, bytes) else bytes(data))
    return settle(draft_of(source, policy), policy)


def probe_file(path: bytes | str, policy: ImagePolicy = _DEFAULT) -> Header:
    """Read the header of a picture file: its first 64 KiB, and more only where needed.

    Args:
        path: the file; bytes for names that are not UTF-8.
        policy: limits and switches.

    Returns:
        As ``probe``.

    Errors:
        BadSampleError: as ``probe``.
        OSError: the file cannot be opened or read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return settle(draft_of(FileSource(descriptor), policy), policy)
    finally:
        os.close(descriptor)


def draft_of(source: Source, policy: ImagePolicy) -> Draft:
    """Recognise and read a header, and refuse sizes that no picture may have.

    Errors:
        BadSampleError: as ``probe``.
    """
    kind = sniff(source.read(0, SNIFF_BYTES))
    if kind == "zeros":  # or something that only begins with them
        kind = sniff(source.read(0, HEAD_BYTES))
    if kind == "empty":
        raise BadSampleError(reason="empty")
    if kind not in DECODED:
        reason = "unsupported-format" if kind in PICTURES else "not-an-image"
        raise BadSampleError(reason=reason, detail=kind)
    draft = _READERS[kind](source)
    shape = f"{draft.width}x{draft.height}"
    if not draft.width or not draft.height:
        raise BadSampleError(reason="corrupt", detail=f"{kind}: size {shape}")
    if draft.width * draft.height > policy.max_pixels:
        raise BadSampleError(
            reason="too-large", detail=f"{shape}, more than {policy.max_pixels} pixels"
        )
    return draft


def settle(draft: Draft, policy: ImagePolicy) -> Header:
    """The finished header, after the policy's switches.

    Errors:
        BadSampleError: corrupt, when ``strict`` and a note is one that it rejects.
    """
    header = draft.finish()
    refuse_strictly(header.notes, policy)
    if not policy.orient and header.orientation != 1:
        return replace(header, orientation=1)
    return header


def refuse_strictly(notes: tuple[str, ...], policy: ImagePolicy) -> None:
    """Reject what only ``strict`` rejects.

    Errors:
        BadSampleError: corrupt.
    """
    found = sorted(STRICT_NOTES.intersection(notes)) if policy.strict else ()
    if found:
        raise BadSampleError(reason="corrupt", detail=f"{', '.join(found)} (--strict)")
