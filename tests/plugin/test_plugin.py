"""A plug-in that is really installed: found, used by every verb, and held to the same promises."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fastdata_cli import registry
from fastdata_cli.sample import Payload
from fastdata_cli.testing import FormatConformance, encoded_samples, pixel_samples, write_dataset
from tests.plugin import fastdata_npys

HERE = Path(__file__).parent

# What a plug-in's module may do wrong, by the name of its distribution.
BROKEN = {
    "raises": 'raise RuntimeError("no such luck")',
    "absent": "import a_library_that_is_not_there",
    "exits": "raise SystemExit(3)",
    "no-row": "pass",
    "no-format": 'FORMAT = "a word"',
    "takes-raw": "from dataclasses import replace\nfrom fastdata_npys import FORMAT\n"
    'FORMAT = replace(FORMAT, name="raw")',
    "twin": "from dataclasses import replace\nimport fastdata_npys\n"
    'FORMAT = replace(fastdata_npys.FORMAT, summary="another")',
}


FAILS_TO_TELL = """
from dataclasses import replace
FORMAT = replace(FORMAT, recognises=lambda path: 1 / 0)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip has installed the plug-in of this directory, and nothing else."""
    folder = tmp_path_factory.mktemp("plugin")
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "fastdata_npys.py"):
        shutil.copy(HERE / name, source)
    offline = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", "--quiet", *offline]
    subprocess.run([*command, "--target", str(folder / "site"), str(source)], check=True)
    return folder / "site"


@pytest.fixture
def broken_site(site: Path, tmp_path: Path) -> Path:
    """The same, with plug-ins beside it that fail in every way."""
    folder = tmp_path / "site"
    shutil.copytree(site, folder)
    for name, code in BROKEN.items():
        module = f"plugin_{name.replace('-', '_')}"
        (folder / f"{module}.py").write_text(code)
        facts = folder / f"{module}-1.dist-info"
        facts.mkdir()
        (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1\n")
        point = f"[fastdata.formats]\nz-{name} = {module}:FORMAT\n"
        (facts / "entry_points.txt").write_text(point)
    return folder


def run(site: Path, code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process that sees the plug-ins of ``site``."""
    words = [sys.executable, "-c", code, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(site)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


def fastdata(site: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command line in such a process."""
    return run(site, "from fastdata_cli.cli.main import main; main()", *arguments)


def test_without_the_plugin_there_is_no_such_format() -> None:
    assert "npys" not in registry.names()


def test_it_is_listed_with_its_options(site: Path) -> None:
    rows = {row["name"]: row for row in json.loads(fastdata(site, "formats", "--json").stdout)}
    assert [*registry.BUILT_IN, "npys"] == list(rows)
    assert rows["npys"]["suffixes"] == [".npys"]
    assert rows["npys"]["payloads"] == ["pixels"]
    (shard_samples,) = rows["npys"]["write_options"]
    assert shard_samples["name"] == "shard_samples"


def test_datasets_are_converted_to_it_and_from_it(site: Path, tmp_path: Path) -> None:
    samples = pixel_samples(20)
    source = write_dataset(registry.get("raw"), tmp_path / "in.raw", samples, Payload.PIXELS)
    made, back = tmp_path / "made.npys", tmp_path / "back.raw"
    fastdata(site, "convert", source, made, "--shard-samples", 8)
    assert sorted(np.load(path).shape[0] for path in made.glob("*.npy")) == [4, 8, 8]
    fastdata(site, "convert", made, back)
    assert (back / "data.raw").read_bytes() == (source / "data.raw").read_bytes()
    assert (back / "keys.txt").read_bytes() == (source / "keys.txt").read_bytes()
    record = json.loads(fastdata(site, "inspect", made, "--json").stdout)
    assert (record["format"], record["layout"]["files"]) == ("npys", 3)


def test_it_is_told_from_a_folder_of_images(site: Path, tmp_path: Path) -> None:
    """A tree is any folder; a plug-in is asked before."""
    made = write_dataset(fastdata_npys.FORMAT, tmp_path / "set", pixel_samples(5), Payload.PIXELS)
    code = "import sys; from fastdata_cli import registry\n"
    code += "reader = registry.open_reader(sys.argv[1]); print(type(reader).__name__, len(reader))"
    assert run(site, code, made).stdout == "NpysReader 5\n"


def test_plugins_that_fail_are_left_out_with_a_warning(broken_site: Path, tmp_path: Path) -> None:
    code = "from fastdata_cli import registry; print(*registry.names())\n"
    code += "print(registry.get('raw').summary == registry.get('npys').summary)"
    done = run(broken_site, code)
    assert done.stdout.split() == [*registry.BUILT_IN, "npys", "False"]
    warned = [line for line in done.stderr.splitlines() if "format plug-in" in line]
    for name in BROKEN:
        (line,) = (line for line in warned if f"'z-{name}'" in line)
        assert f"from plugin_{name.replace('-', '_')}) is left out: " in line
    for reason in (
        "RuntimeError: no such luck",
        "SystemExit: 3",
        "ModuleNotFoundError: No module named 'a_library_that_is_not_there'",
        "it is a str, not a Format",
        "another format is called 'raw' already",
        "another format is called 'npys' already",
    ):
        assert reason in done.stderr
    samples = write_dataset(
        registry.get("raw"), tmp_path / "in.raw", pixel_samples(5), Payload.PIXELS
    )
    fastdata(broken_site, "convert", samples, tmp_path / "made.npys")


def test_a_plugin_that_fails_over_a_path_hurts_nobody(site: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(site, tmp_path / "site")
    module = folder / "fastdata_npys.py"
    module.write_text(module.read_text() + FAILS_TO_TELL)
    images = tmp_path / "images"
    images.mkdir()
    (images / "a.png").write_bytes(encoded_samples()[0].image.tobytes())
    code = "import sys; from pathlib import Path; from fastdata_cli import registry\n"
    code += "for path in sys.argv[1:] * 2: print(registry.recognise(Path(path)).name)"
    done = run(folder, code, images)
    assert done.stdout.split() == ["tree", "tree"]
    assert done.stderr.count("format 'npys' cannot tell") == 1
    assert f"{images}: ZeroDivisionError: division by zero" in done.stderr
    fastdata(folder, "convert", images, tmp_path / "made.raw", "--size", "8")
    fastdata(folder, "convert", images, tmp_path / "made.npys", "--size", "8")


@pytest.fixture(scope="class")
def installed(site: Path) -> Iterator[None]:
    """The plug-in, installed in this process too."""
    sys.path.append(str(site))
    registry.refresh()
    yield
    sys.path.remove(str(site))
    registry.refresh()


@pytest.mark.usefixtures("installed")
class TestNpys(FormatConformance):
    format = fastdata_npys.FORMAT


def test_the_registry_sees_it_after_a_refresh_only(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.refresh()
    assert "npys" not in registry.names()
    monkeypatch.syspath_prepend(str(site))
    assert "npys" not in registry.names(), "what was found is kept"
    registry.refresh()
    assert registry.get("npys").summary == fastdata_npys.FORMAT.summary
    assert registry.for_destination(Path("out.npys")).name == "npys"
    monkeypatch.undo()
    registry.refresh()
    assert "npys" not in registry.names()
