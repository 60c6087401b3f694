"""The check on what a file's name says it is."""

from __future__ import annotations

from fastdata_cli.image_suffixes import KIND_OF_SUFFIX
from fastdata_cli.quality.check import Check, Needs
from fastdata_cli.quality.verdict import Score
from fastdata_cli.quality.view import View


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
        _, dot, suffix = view.key.rpartition(".")
        said = KIND_OF_SUFFIX.get(suffix.lower()) if dot else None
        if said is None or view.header is None or view.header.kind == said:
            return None
        return view.header.kind

    def fails(self, score: Score, threshold: Score) -> bool:
        """Return whether name and content disagree."""
        return score is not None
