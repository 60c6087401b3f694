"""Fuzzes one target in this process, by coverage; or repeats one input: ``TARGET WORK [INPUT]``.

What Python raises is noted, once a place in the code, and the run goes on. A crash of a library, a
hang or too much memory ends the process, and libFuzzer leaves the input in the folder of findings.
"""

from __future__ import annotations

import hashlib
import random
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import atheris

from tests.fuzz.damage import json_damaged

if TYPE_CHECKING:
    from tests.fuzz.target import Target

LONGEST_SECONDS = 10
MOST_MEGABYTES = 2048

_HEAD = 2  # of an input, as in target.py, which is imported later
_SHORT = 16
_BY_MEANING = 0.3
_MEMORY = Path("/dev/shm")


def findings_folder(work: Path, name: str) -> Path:
    """Return where the findings about a target go."""
    return work / name / "findings"


class _Findings:
    """Keeps the shortest input for each place in the code that raised."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._known = {file.name: file.stat().st_size for file in folder.iterdir()}

    def note(self, problem: Exception, data: bytes) -> None:
        frames = traceback.extract_tb(problem.__traceback__)
        places = [f"{frame.filename}:{frame.name}" for frame in frames[-3:]]
        name = hashlib.sha256(repr((type(problem), places)).encode()).hexdigest()[:_SHORT]
        name = f"{type(problem).__name__}-{name}"
        if self._known.get(name, sys.maxsize) > len(data):
            self._known[name] = len(data)
            (self._folder / name).write_bytes(data)
            text = "".join(traceback.format_exception(problem))
            (self._folder / f"{name}.txt").write_text(text, errors="backslashreplace")


def main(name: str, work: Path, rest: list[str]) -> None:
    """Make the target, and repeat an input or fuzz."""
    warnings.simplefilter("ignore")
    memory = _MEMORY if _MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=memory) as folder:
        # Modules are imported when they are first needed: the seeds need nearly all of them.
        with atheris.instrument_imports(include=["fastdata_cli", "PIL"]):
            from tests.fuzz.target import Target

            target = Target(name, Path(folder))
            seeds = list(target.seeds())
            for data in [] if rest and not rest[0].startswith("-") else seeds:
                target.run(data)
        if rest and not rest[0].startswith("-"):
            target.run(Path(rest[0]).read_bytes())
        else:
            _fuzz(target, seeds, work, rest)


def _fuzz(target: Target, seeds: list[bytes], work: Path, arguments: list[str]) -> None:
    corpus, found = work / target.name / "corpus", findings_folder(work, target.name)
    corpus.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(seeds):
        (corpus / f"seed-{number}").write_bytes(data)
    findings = _Findings(found)

    def once(data: bytes) -> None:
        try:
            target.run(data)
        except Exception as problem:  # noqa: BLE001 - whatever it is, it is a finding
            findings.note(problem, data)

    flags = [
        f"-timeout={LONGEST_SECONDS}",
        f"-rss_limit_mb={MOST_MEGABYTES}",
        f"-artifact_prefix={found}/",
        f"-max_len={max(map(len, seeds)) + 1024}",
        "-len_control=0",
        "-print_final_stats=1",
    ]
    command = [sys.argv[0], *flags, *arguments, str(corpus)]
    atheris.Setup(command, once, custom_mutator=_mutated)
    atheris.Fuzz()


def _mutated(data: bytes, max_size: int, seed: int) -> bytes:
    """Mutate as libFuzzer does, or JSON by what it says."""
    draw = random.Random(seed)
    content = json_damaged(data[_HEAD:], draw) if draw.random() < _BY_MEANING else None
    if content is None:
        return bytes(atheris.Mutate(data, max_size))
    return data[:_HEAD].ljust(_HEAD, b"\0") + content[: max_size - _HEAD]


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
