"""The flags of clean that are neither checks nor about the source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastdata_cli.cli.output import require_place
from fastdata_cli.errors import UsageError
from fastdata_cli.options import Options, flag, option


@dataclass(frozen=True, kw_only=True)
class OutputOptions(Options):
    """What becomes of the verdicts."""

    invert: bool = option(False, "print the images that are held back instead")
    jsonl: bool = option(False, "print one JSON object for each image instead (docs/clean-json.md)")
    json: bool = option(False, "print one JSON object for the whole run instead")
    report: str | None = option(
        None, "write every verdict and score to FILE.jsonl or FILE.csv", value="FILE"
    )
    stats: bool = option(False, "measure everything, and show how the scores are spread")
    gallery: str | None = option(
        None, "measure everything, and write a page to look at: FILE.html", value="FILE.html"
    )
    cache: str | None = option(
        None, "keep scores in FILE: the next run reads no file twice", value="FILE"
    )
    quarantine: str | None = option(
        None, "move files that are held back into this folder", value="DIR"
    )
    fail_on_found: bool = option(False, "exit 3 if an image is held back")

    def check(self) -> None:
        """Raise UsageError where flags contradict each other, or a file cannot be written."""
        if self.jsonl and self.json:
            raise UsageError("--jsonl and --json exclude each other")
        if self.invert and (self.jsonl or self.json):
            raise UsageError("--invert is for lists of names: JSON tells all images apart")
        for place in filter(None, (self.report, self.cache)):
            require_place(Path(place))


@dataclass(frozen=True, kw_only=True)
class OtherOptions(Options):
    """What clean does instead of judging images."""

    list_checks: bool = option(False, "list the checks, with formulas and sources (--json)")
    restore: str | None = option(
        None, "put back what --quarantine moved into this folder", value="DIR"
    )


_WITH_DATASET = ("root", "labels", "classes", "to", "overwrite")
_WITHOUT_DATASET = ("invert", "jsonl", "json", "report", "stats", "gallery", "cache", "quarantine")


def refuse_strays(values: dict[str, Any], writing: Sequence[str], *, dataset: bool) -> None:
    """Raise UsageError for flags that say nothing, with or without -o.

    Args:
        values: of all flags.
        writing: flags of the formats that are written.
        dataset: whether there is -o.
    """
    strays = _WITHOUT_DATASET if dataset else (*_WITH_DATASET, *writing)
    for name in strays:
        if values.get(name) not in (None, False):
            where = "does not go with -o" if dataset else "needs -o OUT"
            raise UsageError(
                f"{flag(name)} {where}",
                hint="OUT.rejects.jsonl lists what is left out, with reasons" if dataset else "",
            )
