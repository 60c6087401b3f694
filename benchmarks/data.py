"""Owns what the sides read: the photographs, and every container, made once by our own convert."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fastdata_cli.errors import StorageError

if TYPE_CHECKING:
    from fastdata_cli.contract import Reader

SIDE = 224
"""Height and width of images in a batch."""
BATCH = 64

_SUFFIXES = {"zarr": ".zarr", "lmdb": ".lmdb", "webdataset": ".tar", "raw": ".raw", "hdf5": ".h5"}


@dataclass(frozen=True, kw_only=True)
class Data:
    """Where everything lies. JSON-able, so that each side's process gets the same."""

    photos: str
    """A tree of JPEG files, a folder a class."""
    large: str
    """A tree of photographs of about twelve megapixels."""
    work: str
    """A folder for the containers made from ``photos``; what is there is used again."""
    decoded: int
    """So many of the photographs are enough where each is decoded: that is slow in itself."""
    many: int
    """Samples of the sets that are large by number: a million."""
    threads: int
    """For references: as many as there are usable cores."""

    @property
    def few(self) -> Data:
        """The same with fewer photographs."""
        folder = Path(self.work) / f"first-{self.decoded}"
        if self.decoded >= len(files_below(self.photos)):
            return self
        with self.making():
            _link_part(Path(self.photos), folder / "photos", self.decoded)
        return replace(self, photos=str(folder / "photos"), work=str(folder))

    @property
    def of_large(self) -> Data:
        """The large photographs in place of the others."""
        return replace(self, photos=self.large, work=str(Path(self.work) / "large"))

    def encoded(self, name: str, *flags: str) -> Path:
        """Return a dataset of the files' bytes in the format of that name."""
        if name == "tree" and not flags:
            return Path(self.photos)
        return self._converted(name, self.photos, "--payload", "encoded", *flags)

    def pixels(self, name: str, *flags: str) -> Path:
        """Return a dataset of 224×224 pixels in the format of that name."""
        if name == "raw" and not flags:
            return self._converted(name, self.photos, "--payload", "pixels", "--size", str(SIDE))
        return self._converted(name, str(self.pixels("raw")), "--payload", "pixels", *flags)

    def scratch(self, name: str) -> Path:
        """Return a path for what a run writes, in a folder of its own."""
        return Path(self.work) / "scratch" / name / name

    @contextlib.contextmanager
    def making(self) -> Iterator[None]:
        """Let one process at a time make something in this folder; the others then find it."""
        Path(self.work).mkdir(parents=True, exist_ok=True)
        with open(Path(self.work) / ".lock", "wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _converted(self, name: str, source: str, *flags: str) -> Path:
        # The name says how it was made, for what is there is used again.
        words = [Path(source).stem, *(flag.removeprefix("--") for flag in flags)]
        path = Path(self.work) / f"{'-'.join(words)}{_SUFFIXES.get(name, '')}"
        with self.making():
            if not path.exists():
                run_convert([source, str(path), "--to", name, *flags])
        return path


def convert_command(words: Sequence[str]) -> list[str]:
    """Return the command ``fastdata convert`` with these arguments."""
    program = "from fastdata_cli.cli.main import main; main()"
    return [sys.executable, "-c", program, "convert", *words, "--quiet"]


def run_convert(words: Sequence[str]) -> None:
    """Run ``fastdata convert`` with these arguments in a process of its own.

    Raises:
        StorageError: it failed; says what it said.
    """
    command = convert_command(words)
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise StorageError(f"converting to {Path(words[1]).name} failed{_said(ended.stderr)}")


def _said(stderr: str) -> str:
    """Return the line of a command's errors that names the fault."""
    lines = [line for line in stderr.splitlines() if line and not line.startswith("hint:")]
    return f": {lines[-1].removeprefix('error: ')}" if lines else ""


def files_below(folder: str | Path) -> list[Path]:
    """Return the files of a tree, in code-point order."""
    return sorted(path for path in Path(folder).rglob("*") if path.is_file())


def files_of(reader: Reader) -> tuple[Path, ...]:
    """Return the files that a reader's bytes lie in."""
    return tuple(path for path in reader.files() if path.is_file())


def name_for(facts: Sequence[object]) -> str:
    """Return a short name that stands for these facts."""
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:10]


def _link_part(photos: Path, folder: Path, count: int) -> None:
    """Make a tree of links to evenly spread files of another tree."""
    if folder.exists():
        return
    files = files_below(photos)
    partial = folder.with_name("partial")
    for file in files[:: len(files) // count][:count]:
        target = partial / file.relative_to(photos)
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            target.hardlink_to(file)
    partial.rename(folder)
