"""The check on what a file's name says it is."""

from __future__ import annotations

from collections.abc import Mapping

from fastdata_cli.quality.check import Check, Needs
from fastdata_cli.quality.verdict import Score
from fastdata_cli.quality.view import View

_EXTENSIONS: Mapping[str, str] = {
    f".{extension}": kind
    for kind, extensions in {
        "jpeg": "jpg jpeg jpe jfif pjpeg pjp mpo",
        "png": "png apng",
        "gif": "gif",
        "bmp": "bmp dib",
        "tiff": "tif tiff",
        "webp": "webp",
        "avif": "avif",
        "pnm": "pbm pgm ppm pnm",
        # Nothing is decoded from these, so that whatever comes from one is something else.
        "heif": "heic heif hif",
        "jp2": "jp2 j2k jpf",
        "jxl": "jxl",
    }.items()
    for extension in extensions.split()
}


class FormatMismatch(Check):
    """Finds files whose extension stands for another format than they hold."""

    name = "format-mismatch"
    score = "format_mismatch"
    reason = "format-mismatch"
    formula = "the format of the content, where the extension stands for another one"
    source = "the first bytes that each format prescribes; extensions as registered with IANA"
    needs = Needs.HEADER

    def measure(self, view: View) -> str | None:
        """Return the format of the content; None where the extension agrees or says nothing."""
        said = _EXTENSIONS.get(view.key[view.key.rfind(".") :].lower())
        if said is None or view.header is None or view.header.kind == said:
            return None
        return view.header.kind

    def fails(self, score: Score, threshold: Score) -> bool:
        """Return whether name and content disagree."""
        return score is not None
