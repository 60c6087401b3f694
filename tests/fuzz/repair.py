"""Makes damaged bytes agree with their checksums again, so that a mutation reaches what is behind.

Each function takes the bytes of a file and returns them with every checksum that it can find set
right; what makes no sense to it stays as it is.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Mapping

import crc32c

from fastdata_cli.formats.tfrecord.framing import footer, header, masked_crc

_BLOCK = 512
_SUM = slice(148, 156)


def tar(data: bytes) -> bytes:
    """Set right the sum of every block that has the magic of a header."""
    out = bytearray(data)
    for begin in range(0, len(out) - _BLOCK + 1, _BLOCK):
        block = out[begin : begin + _BLOCK]
        if block[257:262] == b"ustar":
            block[_SUM] = b" " * 8
            block[_SUM] = b"%06o\0 " % sum(block)
            out[begin : begin + _BLOCK] = block
    return bytes(out)


def tfrecord(data: bytes) -> bytes:
    """Set right the checksums of lengths and data, as far as lengths lead."""
    out, at = b"", 0
    while len(data) - at >= 16:
        (size,) = struct.unpack_from("<Q", data, at)
        size = min(size, len(data) - at - 16)
        content = data[at + 12 : at + 12 + size]
        out += header(size) + content + footer(masked_crc(content))
        at += 16 + size
    return out + data[at:]


def shard(data: bytes) -> bytes:
    """Set right the checksum of the index at the end of a Zarr shard of two chunks."""
    index = 36
    if len(data) < index:
        return data
    body = data[:-4]
    return body + crc32c.crc32c(body[4 - index :]).to_bytes(4, "little")


def png(data: bytes) -> bytes:
    """Set right the checksum of every chunk, as far as lengths lead."""
    out, at = bytearray(data), 8
    while len(out) - at >= 12:
        (size,) = struct.unpack_from(">I", out, at)
        end = at + 8 + size
        if end + 4 > len(out):
            break
        struct.pack_into(">I", out, end, zlib.crc32(out[at + 4 : end]))
        at = end + 4
    return bytes(out)


REPAIRS: Mapping[str, Callable[[bytes], bytes]] = {
    "webdataset": tar,
    "tfrecord": tfrecord,
    "zarr-shards": shard,
    "pictures": png,
}
"""By target; they are applied to the files whose content they are about, and to no others."""


def applies(target: str, data: bytes) -> bool:
    """Tell whether the repair of a target is about a file with this sound content."""
    starts = {"pictures": b"\x89PNG"}
    if target == "zarr-shards":
        return not data.lstrip().startswith((b"{", b"["))
    return target in REPAIRS and data.startswith(starts.get(target, b""))
