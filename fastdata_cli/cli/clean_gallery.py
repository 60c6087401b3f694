"""What ``clean --gallery FILE`` does: looks on at a run, and writes its page."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from fastdata_cli.cli.output import require_page_place
from fastdata_cli.cli.page.write import write_page
from fastdata_cli.keys import printable, to_bytes
from fastdata_cli.operations.clean.gallery import GalleryCollector
from fastdata_cli.operations.clean.gallery_thumbnail import Thumbnail
from fastdata_cli.operations.clean.report import CleanReport
from fastdata_cli.operations.clean.run import thresholds
from fastdata_cli.operations.events import Listener
from fastdata_cli.quality.judge import Judge
from fastdata_cli.quality.verdict import Reason, Score, Verdict
from fastdata_cli.quality.view import View


class GalleryPage:
    """An ``Observer`` that writes a page of the run when it is over; a failed run leaves none.

    Args:
        path: of the page.
        judge: of the run.
        listener: hears where the page is.

    Raises:
        UsageError: the page could not be written there.
    """

    def __init__(self, path: Path, judge: Judge, listener: Listener) -> None:
        require_page_place(path)
        self._path = path
        self._listener = listener
        self._collector = GalleryCollector(
            thresholds(judge),
            judge.score_names,
            duplicates=judge.options.duplicates is not None,
            folder=path.absolute().parent,
        )

    def draw(
        self,
        index: int,
        open_view: Callable[[], View],
        scores: Mapping[str, Score],
        reasons: tuple[Reason, ...],
    ) -> Thumbnail | None:
        """Return a thumbnail of an image that may be shown."""
        return self._collector.draw(index, open_view, scores, reasons)

    def see(self, verdict: Verdict, drawn: Thumbnail | None) -> None:
        """Take note of a verdict."""
        self._collector.see(verdict, drawn)

    def finish(self, report: CleanReport) -> None:
        """Write the page."""
        from fastdata_cli.cli.page.gallery import render_gallery

        self._collector.finish(report)
        page = render_gallery(report, self._collector.gallery, command_line(sys.argv[1:]))
        write_page(page, self._path)
        self._listener.notice(f"page → {printable(str(self._path))}")

    def close(self) -> None:
        """Let go of what was kept."""
        self._collector.close()


def command_line(arguments: Sequence[str]) -> str:
    """Return a line of printable characters that bash takes for these arguments of fastdata."""
    return " ".join(["fastdata", *map(_quoted, arguments)])


def _quoted(word: str) -> str:
    if printable(word) == word:
        return shlex.quote(word)
    return f"$'{''.join(map(_escaped, to_bytes(word)))}'"


def _escaped(byte: int) -> str:
    plain = 0x20 <= byte < 0x7F and byte not in b"\\'"
    return chr(byte) if plain else f"\\x{byte:02x}"
