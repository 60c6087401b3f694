"""How tests look at a page: as a screen reader does, and in a real browser."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path

import pytest

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH")

VOID = {"meta", "link", "br", "img", "wbr"}


class Outline(HTMLParser):
    """What a screen reader goes by: headings, pictures, regions; and whether tags are closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.levels: list[int] = []
        self.images: list[dict[str, str | None]] = []
        """Drawings: ``svg`` of the role ``img``."""
        self.pictures: list[dict[str, str | None]] = []
        """``img``."""
        self.titles: dict[str, str] = {}
        self.ids: list[str] = []
        self.fetched: list[str] = []
        self.scripts: list[dict[str, str | None]] = []
        self.tables = 0
        self._open: list[str] = []
        self._told: str | None = None
        self.feed(page)
        assert self._open == [], self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag not in VOID:
            self._open.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.levels.append(int(tag[1]))
        if tag == "svg" and found.get("role") == "img":
            self.images.append(found)
        if tag == "img":
            self.pictures.append(found)
        if tag == "script":
            self.scripts.append(found)
        self.tables += tag == "table"
        if found.get("id"):
            self.ids.append(str(found["id"]))
        self._told = str(found.get("id")) if tag in ("title", "desc") else None
        self.fetched += [str(found[name]) for name in ("src", "href", "srcset") if found.get(name)]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if found := dict(attrs).get("src"):
            self.fetched.append(found)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag
        self._told = None

    def handle_data(self, data: str) -> None:
        if self._told:
            self.titles[self._told] = data

    def check(self) -> None:
        """Fail unless headings are in order, ids are unique, and every drawing is told."""
        assert self.levels[0] == 1
        assert self.levels.count(1) == 1
        assert all(
            after <= before + 1 for before, after in zip(self.levels, self.levels[1:], strict=False)
        )
        assert len(self.ids) == len(set(self.ids))
        for image in self.images:
            for name in str(image["aria-labelledby"]).split():
                assert self.titles[name].strip(), name


def chromium(
    arguments: Sequence[str], page: Path, folder: Path
) -> subprocess.CompletedProcess[str]:
    """Open a page in a browser that reaches no network; its profile goes below ``folder``."""
    command = [
        str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
        "--no-first-run", "--disable-background-networking", "--disable-component-update",
        "--disable-sync", "--disable-dev-shm-usage", "--host-resolver-rules=MAP * ~NOTFOUND",
        f"--user-data-dir={folder / 'profile'}",
        *arguments, page.as_uri(),
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)


def visit(page: str, folder: Path) -> str:
    """Return the document that a browser makes of a page; it must complain of nothing, nor ask."""
    file, log = folder / "page.html", folder / "net.json"
    file.write_text(page, encoding="utf-8")
    done = chromium(
        ["--dump-dom", "--enable-logging=stderr", "--v=0", f"--log-net-log={log}"], file, folder
    )
    assert "CONSOLE" not in done.stderr
    hosts = set(re.findall(r'"url":"(?:https?|wss?)://([^/"]+)', log.read_text()))
    # What the browser asks for itself, whatever page it shows.
    assert {host for host in hosts if not re.search(r"google(apis)?\.com$", host)} == set()
    return done.stdout


def measure_in_frame(page: str, width: int, folder: Path, script: str) -> list[int]:
    """Return what a script's expressions are in a page that is shown ``width`` pixels wide.

    Args:
        script: JavaScript in which ``root`` is the document's element; a list of whole numbers.
    """
    outer = folder / "outer.html"
    # A frame has the width that it is given; the window of a browser may have a least one.
    outer.write_text(
        f'<iframe style="border:0;width:{width}px;height:800px" '
        f'srcdoc="{html.escape(page)}"></iframe>'
        "<script>onload = () => { const root = frames[0].document.documentElement;"
        f"document.title = ({script}).join(' ') }}</script>",
        encoding="utf-8",
    )
    done = chromium(["--dump-dom"], outer, folder)
    return [int(word) for word in re.findall("<title>(.*?)</title>", done.stdout)[0].split()]
