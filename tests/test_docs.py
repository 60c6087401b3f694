"""The documents are true: their Python runs, their commands parse, their links resolve."""

from __future__ import annotations

import json
import re
import shlex
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from fastdata_cli.cli.main import VERBS, build_app
from fastdata_cli.imaging.policy import NOTES, REASONS

ROOT = Path(__file__).resolve().parents[1]
README, FORMATS, POLICY = (
    ROOT / name for name in ("README.md", "docs/formats.md", "docs/image-policy.md")
)
DOCUMENTS = sorted({README, ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")})

_FENCE = re.compile(r"^```(?P<info>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_CODE_SPAN = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)


def _relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@dataclass(frozen=True)
class Block:
    """A fenced block of a document."""

    path: Path
    line: int
    """Of its first line of text, from 1."""
    info: str
    text: str


def blocks(path: Path) -> list[Block]:
    text = path.read_text()
    return [
        Block(path, text.count("\n", 0, found.start()) + 2, found["info"], found["text"])
        for found in _FENCE.finditer(text)
    ]


def section(path: Path, heading: str) -> str:
    """Return what stands below a heading, up to the next of its level."""
    _, found, rest = path.read_text().partition(f"\n## {heading}\n")
    assert found, f"{path.name} has no section {heading}"
    return rest.partition("\n## ")[0]


ALL_BLOCKS = [block for path in DOCUMENTS for block in blocks(path)]
RUNNABLE = [block for block in ALL_BLOCKS if block.info == "python runnable"]


# -- (a) Python ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the commands of "The examples" have run."""
    folder = tmp_path_factory.mktemp("examples")
    for name in ("images", "bad"):
        (folder / name).symlink_to(ROOT / "sample_data" / name)
    application = build_app("convert")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for _, words in commands(section(FORMATS, "The examples")):
            result = CliRunner().invoke(application, [*words, "--quiet"])
            assert result.exit_code == 0, f"{words}: {result.output}"
    return folder


# webdataset leaves its files to the garbage collector.
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("path", sorted({block.path for block in RUNNABLE}), ids=_relative)
def test_python_runs(path: Path, examples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(examples)
    for block in blocks(path):
        if block in RUNNABLE:
            # Tracebacks name the line of the document.
            text = "\n" * (block.line - 1) + block.text
            exec(compile(text, str(path), "exec"), {"__name__": "__main__"})


def test_each_format_has_python_that_runs(formats: list[dict[str, Any]]) -> None:
    assert README in {block.path for block in RUNNABLE}
    for record in formats:
        assert "```python runnable\n" in section(FORMATS, record["name"])


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_table_of_the_readme_opens_every_format(
    examples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import h5py
    import lmdb
    import webdataset
    import zarr

    monkeypatch.chdir(examples)
    rows = re.findall(r"^\| `out\.[^|]+\|.*\| `([^|]+)` \|$", README.read_text(), re.MULTILINE)
    names = {"h5py": h5py, "lmdb": lmdb, "webdataset": webdataset, "zarr": zarr, "np": np}
    shape = {"N": 60, "H": 64, "W": 64, "i": 5}
    found = {text.partition(".")[0]: eval(text, {**names, **shape}) for text in rows}
    assert set(found) == {"zarr", "np", "h5py", "lmdb", "webdataset"}
    assert np.array_equal(found["zarr"], found["np"])
    assert np.array_equal(found["zarr"], found["h5py"])
    files = [sample["jpg"] for sample in found["webdataset"] if "jpg" in sample]
    assert files[5] == found["lmdb"] == (examples / "images/scenes/city-6.jpg").read_bytes()


# -- (b) commands ----------------------------------------------------------------------------------


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield every ``fastdata`` command line of a text: as it stands, and the words behind it."""
    lines = [line[2:] for block in _FENCE.finditer(text) for line in block["text"].splitlines()]
    lines += _CODE_SPAN.findall(_FENCE.sub("", text))
    for line in lines:
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|;&<>")
        lexer.whitespace_split = True
        if "fastdata " not in line:
            continue
        words = list(lexer)
        while "fastdata" in words:
            words = words[words.index("fastdata") + 1 :]
            end = next((at for at, word in enumerate(words) if set(word) <= set("|;&<>")), None)
            yield line, words[:end]


@pytest.mark.parametrize("path", DOCUMENTS, ids=_relative)
def test_commands_parse(path: Path) -> None:
    verbs = typer.main.get_command(build_app()).commands  # type: ignore[attr-defined]
    assert set(verbs) == set(VERBS)
    for line, (verb, *words) in commands(path.read_text()):
        if verb.startswith("-"):
            continue
        assert verb in verbs, f"{path.name}: there is no such verb: {line}"
        command = verbs[verb]
        parser = command.make_parser(command.context_class(command, info_name=verb))
        try:
            parser.parse_args(words)
        except Exception as problem:  # noqa: BLE001 - of the parser that typer carries with it
            pytest.fail(f"{path.name}: {line}: {problem}")


def test_the_readme_shows_commands() -> None:
    shown = {verb for _, (verb, *_) in commands(README.read_text())}
    assert {"convert", "inspect", "formats"} <= shown


# -- (c) links -------------------------------------------------------------------------------------


def anchors(path: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a document."""
    headings = _HEADING.findall(_FENCE.sub("", path.read_text()))
    return {_slug(re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)) for heading in headings}


def _slug(heading: str) -> str:
    kept = (c for c in heading.lower() if c in " -_" or unicodedata.category(c)[0] in "LN")
    return "".join(kept).replace(" ", "-")


@pytest.mark.parametrize("path", DOCUMENTS, ids=_relative)
def test_links_resolve(path: Path) -> None:
    text = _CODE_SPAN.sub("", _FENCE.sub("", path.read_text()))
    for target in _LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = path.parent / name if name else path
        assert file.exists(), f"{path.name}: {target}"
        assert not anchor or anchor in anchors(file), f"{path.name}: {target}"


def test_every_decision_is_listed() -> None:
    folder = ROOT / "docs/adr"
    index = (folder / "README.md").read_text()
    for path in sorted(folder.glob("0*.md")):
        number, _, title = path.read_text().partition("\n")[0].removeprefix("# ").partition(" ")
        assert path.name.startswith(f"{number}-")
        assert f"| [{number}]({path.name}) | {title} |" in index


# -- (d) the image policy --------------------------------------------------------------------------


@pytest.mark.parametrize(("heading", "words"), [("Reasons", REASONS), ("Notes", NOTES)])
def test_the_image_policy_has_every_word(heading: str, words: dict[str, str]) -> None:
    text = section(POLICY, heading)
    assert [word for word in words if f"`{word}`" not in text] == []


# -- (e) formats and their options -----------------------------------------------------------------


@pytest.fixture(scope="module")
def formats() -> list[dict[str, Any]]:
    result = CliRunner().invoke(build_app("formats"), ["formats", "--json"])
    records: list[dict[str, Any]] = json.loads(result.stdout)
    return records


def test_every_format_has_a_section_with_its_options(formats: list[dict[str, Any]]) -> None:
    for record in formats:
        text = section(FORMATS, record["name"])
        shown = dict(re.findall(r"^\| `(--[a-z-]+)` \|([^|]*)\|", text, re.MULTILINE))
        options = [*record["write_options"], *record["read_options"]]
        assert set(shown) == {"--" + option["name"].replace("_", "-") for option in options}
        for option in options:
            values = shown["--" + option["name"].replace("_", "-")]
            assert _CODE_SPAN.findall(values) == (option["choices"] or _CODE_SPAN.findall(values))
