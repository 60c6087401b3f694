"""Owns pictures: recognising, checking, decoding, resizing and encoding them by one policy.

    policy    what a run may vary; the words for rejections and notes
    sniff     content type from the first bytes
    probe     size, mode, orientation from the header (no decoder is loaded)
    check     structural soundness without decoding
    decode    bytes to upright RGB pixels
    resize    crop, pad or stretch to a size
    encode    pixels to JPEG and PNG
    headers   one reader for each container, behind probe and check
    pillow    decoding of everything but JPEG, behind decode

This package re-exports values that load no decoder; import functions from their own modules,
whose names some of them share.
"""

from fastdata_cli.imaging.policy import NOTES, REASONS, ImagePolicy
from fastdata_cli.imaging.probe import HEAD_BYTES, Header

__all__ = ["HEAD_BYTES", "NOTES", "REASONS", "Header", "ImagePolicy"]
