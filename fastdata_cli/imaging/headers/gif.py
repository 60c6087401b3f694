"""Owns reading GIF files: the canvas and whether more than one frame follows."""

from __future__ import annotations

import re

from fastdata_cli.imaging.headers.header import Draft, corrupt, truncated
from fastdata_cli.imaging.source import Source

_INTRODUCER = re.compile(rb"[!,;]")
# More was not seen between blocks; a file of nothing else would be searched to its end.
_STRAY_BYTES = 64 << 10


def read(source: Source) -> Draft:
    """Read the canvas, and walk to a second frame to note it.

    Errors:
        BadSampleError: truncated or corrupt.
    """
    head = source.read(0, 13)
    if len(head) < 13:
        raise truncated("gif", "ends inside the header")
    draft = Draft("gif", mode="P")
    draft.width = int.from_bytes(head[6:8], "little")
    draft.height = int.from_bytes(head[8:10], "little")
    at, frame = _next_frame(source, 13 + _table(head[10]))
    if frame is None:
        raise truncated("gif", "ends before the first frame")
    # A first frame that reaches beyond the canvas enlarges it, as viewers do.
    left, top, width, height = (int.from_bytes(frame[i : i + 2], "little") for i in range(0, 8, 2))
    draft.width = max(draft.width, left + width)
    draft.height = max(draft.height, top + height)
    end = _skip_blocks(source, at + 1)
    if end is not None and _next_frame(source, end)[1] is not None:
        draft.note("multi-frame")
    return draft


def _table(flags: int) -> int:
    """Bytes of a colour table."""
    return 3 * (2 << (flags & 7)) if flags & 0x80 else 0


def _next_frame(source: Source, at: int) -> tuple[int, bytes | None]:
    """Offset of the next frame's coded data, and the frame's descriptor; None without one."""
    while True:
        head = source.read(at, 10)
        if head[:1] == b"!":
            end = _skip_blocks(source, at + 2)
            if end is None:
                return at, None
            at = end
        elif head[:1] == b"," and len(head) == 10:
            return at + 10 + _table(head[9]), head[1:]
        elif head[:1] in (b"", b";", b","):
            return at, None
        else:
            at = _behind_stray_bytes(source, at)


def _behind_stray_bytes(source: Source, at: int) -> int:
    """Offset of what may be the next block: decoders skip what stands between two."""
    found = _INTRODUCER.search(source.read(at, _STRAY_BYTES))
    if found is None and at + _STRAY_BYTES < source.size:
        raise corrupt("gif", f"{_STRAY_BYTES >> 10} KiB between two blocks")
    return source.size if found is None else at + found.start()


def _skip_blocks(source: Source, at: int) -> int | None:
    """Offset behind a run of data blocks, None where the file ends inside it."""
    while True:
        length = source.read(at, 1)
        if not length:
            return None
        at += 1 + length[0]
        if length == b"\0":
            return at


def verify(source: Source) -> None:
    """Check that the first frame's data is there to its end.

    Errors:
        BadSampleError: truncated or corrupt.
    """
    flags = source.read(10, 1)[0]
    at, frame = _next_frame(source, 13 + _table(flags))
    if frame is None:
        raise corrupt("gif", "no frame")
    if _skip_blocks(source, at + 1) is None:
        raise truncated("gif", "ends inside the first frame")
