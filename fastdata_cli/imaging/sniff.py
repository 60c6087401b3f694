"""Owns the names of content types and how the first bytes of a file tell them."""

from __future__ import annotations

SNIFF_BYTES = 512

_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\xff\xd8\xff", "jpeg"),
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"GIF87a", "gif"),
    (b"GIF89a", "gif"),
    (b"II*\x00", "tiff"),
    (b"MM\x00*", "tiff"),
    (b"II+\x00\x08\x00", "tiff"),
    (b"MM\x00+\x00\x08", "tiff"),
    (b"BM", "bmp"),
    (b"\x00\x00\x01\x00", "ico"),
    (b"\x00\x00\x02\x00", "cur"),
    (b"8BPS", "psd"),
    (b"qoif", "qoi"),
    (b"DDS ", "dds"),
    (b"icns", "icns"),
    (b"v/1\x01", "exr"),
    (b"#?RADIANCE", "hdr"),
    (b"\x00\x00\x00\x0cjP  \r\n\x87\n", "jp2"),
    (b"\xff\x4f\xff\x51", "jp2"),
    (b"\x00\x00\x00\x0cJXL \r\n\x87\n", "jxl"),
    (b"\xff\x0a", "jxl"),
    (b"\x8aMNG\r\n\x1a\n", "mng"),
    (b"\x00\x05\x16\x07", "appledouble"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "ole"),
    (b"\x1f\x8b", "gzip"),
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
    (b"7z\xbc\xaf\x27\x1c", "7z"),
    (b"Rar!\x1a\x07", "rar"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\x89HDF\r\n\x1a\n", "hdf5"),
    (b"\x93NUMPY", "npy"),
    (b"%PDF", "pdf"),
    (b"%!PS", "postscript"),
    (b"\x1a\x45\xdf\xa3", "matroska"),
)

#: Kinds that are decoded.
DECODED = frozenset({"jpeg", "png", "gif", "bmp", "tiff", "webp", "avif", "pnm"})

#: Kinds that are pictures, and are not decoded.
PICTURES = frozenset(
    (
        "heif",
        "isobmff",
        "ico",
        "cur",
        "psd",
        "qoi",
        "dds",
        "icns",
        "exr",
        "hdr",
        "jp2",
        "jxl",
        "mng",
    )
)

_HTML = (b"<!doctype html", b"<html", b"<head", b"<body")
_HEIF = frozenset((b"heic", b"heix", b"hevc", b"heim", b"heis", b"mif1", b"msf1"))


def sniff(data: bytes | memoryview) -> str:
    """Content type of a file from its first bytes, whatever its name says.

    Args:
        data: the file's bytes, or the first 512 of them.

    Returns:
        A word such as ``jpeg``, ``html`` or ``zeros``; ``empty`` without any bytes, ``unknown``
        when nothing fits.
    """
    head = bytes(data[:SNIFF_BYTES])
    if not head:
        return "empty"
    for magic, name in _MAGIC:
        if head.startswith(magic):
            return name
    return _container(head) or _text(head) or _rest(head, data)


def _container(head: bytes) -> str:
    if head[:4] == b"RIFF":
        return "webp" if head[8:12] == b"WEBP" else "riff"
    if head[4:8] == b"ftyp":
        return _brand(head)
    if head[:1] == b"P" and head[1:2] in tuple(b"%c" % c for c in b"1234567fF"):
        return "pnm" if head[2:3] in (b" ", b"\t", b"\r", b"\n", b"#") else ""
    if head[257:262] == b"ustar":
        return "tar"
    # A start-of-image marker and nothing else: a JPEG that was cut at once.
    return "jpeg" if head == b"\xff\xd8" else ""


def _brand(head: bytes) -> str:
    major = head[8:12]
    if major in (b"avif", b"avis"):
        return "avif"
    length = int.from_bytes(head[:4], "big")
    others = {head[i : i + 4] for i in range(16, min(length, len(head)), 4)}
    if major in (b"mif1", b"msf1") and b"avif" in others:
        return "avif"
    return "heif" if major in _HEIF else "isobmff"


def _text(head: bytes) -> str:
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if text.startswith(_HTML):
        return "html"
    if text.startswith((b"<?xml", b"<svg", b"<!--")):
        if b"<svg" in text:
            return "svg"
        return "html" if b"<html" in text else "xml"
    if text.startswith((b"{", b"[")):
        return "json"
    return ""


def _rest(head: bytes, data: bytes | memoryview) -> str:
    if not head.strip(b"\0"):
        return "unknown" if any(bytes(data[: 1 << 16])) else "zeros"
    if head.isascii() and not any(c < 9 or 13 < c < 32 for c in head):
        return "text"
    return "unknown"
