"""The registry: which format is meant, and what is said when none is."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from fastdata_cli import registry
from fastdata_cli.contract import Format
from fastdata_cli.errors import (
    EXIT_USAGE,
    DamagedDatasetError,
    MissingDependencyError,
    NotADatasetError,
    SourceNotFoundError,
    UnknownFormatError,
    UnsupportedError,
)
from fastdata_cli.options import Options
from fastdata_cli.sample import Payload
from fastdata_cli.testing import pixel_samples, write_dataset

Install = Callable[..., None]

# Plug-ins of these tests, by the name under which an entry point finds them in this module.
GREEDY = dataclasses.replace(
    registry.get("raw"), name="greedy", suffixes=(".greedy",), recognises=lambda path: True
)
READ_ONLY = dataclasses.replace(
    registry.get("raw"), name="read-only", suffixes=(".ro",), open_writer=None
)
NEEDY = dataclasses.replace(
    registry.get("raw"), name="needy", suffixes=(".needy",), requires=("json", "no_such_lib.part")
)
NEEDY_EXTRA = dataclasses.replace(NEEDY, name="needy-extra", install_extra="needy")
NOT_A_FORMAT = object()
SHADOW = dataclasses.replace(registry.get("raw"), summary="not the built-in one")


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Put plug-ins of this module into the registry."""

    def put(*rows: str) -> None:
        group = registry.ENTRY_POINT_GROUP
        points = EntryPoints(EntryPoint(row.lower(), f"{__name__}:{row}", group) for row in rows)
        monkeypatch.setattr(registry, "entry_points", lambda **wanted: points.select(**wanted))
        registry.refresh()

    yield put
    monkeypatch.undo()
    registry.refresh()


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """A raw dataset under a name that says something else."""
    return write_dataset(registry.get("raw"), tmp_path / "set.h5", pixel_samples(3), Payload.PIXELS)


# -- rows


@pytest.mark.parametrize("name", registry.names())
def test_rows_are_complete(name: str) -> None:
    row = registry.get(name)
    assert row.name == name
    assert row.summary
    assert "\n" not in row.summary
    assert row.payloads
    assert len(set(row.payloads)) == len(row.payloads)
    assert all(suffix.startswith(".") and suffix.islower() for suffix in row.suffixes)
    assert issubclass(row.read_options, Options)
    assert issubclass(row.write_options, Options)


@pytest.mark.parametrize("name", registry.names())
@pytest.mark.timeout(20)
def test_nothing_odd_is_recognised_raises_or_hangs(name: str, tmp_path: Path) -> None:
    fifo, loop = tmp_path / "fifo.h5", tmp_path / "loop.raw"
    os.mkfifo(fifo)
    loop.symlink_to(loop)
    odd = [tmp_path / "nothing", Path("/dev/null"), Path("/dev/full"), tmp_path / ("x" * 300)]
    for path in (*odd, fifo, loop, Path(__file__), Path(__file__) / "below"):
        assert registry.get(name).recognises(path) is False


def test_no_suffix_means_two_formats() -> None:
    suffixes = [suffix for row in registry.all_formats() for suffix in row.suffixes]
    for suffix in suffixes:
        assert [each for each in suffixes if each.endswith(suffix)] == [suffix]


def test_ours_come_first() -> None:
    assert registry.names()[: len(registry.BUILT_IN)] == tuple(registry.BUILT_IN)
    assert [row.name for row in registry.all_formats()] == list(registry.names())


def test_asking_for_names_loads_no_format() -> None:
    code = (
        "import sys\nfrom fastdata_cli import registry\nregistry.names()\n"
        "print([name for name in sys.modules if name.startswith('fastdata_cli.formats')])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "[]\n"


def test_an_unknown_name_lists_the_known() -> None:
    with pytest.raises(UnknownFormatError, match="no format is called 'zip'") as e:
        registry.get("zip")
    assert e.value.hint == "formats: " + ", ".join(registry.names())
    assert e.value.exit_code == EXIT_USAGE


# -- destinations


@pytest.mark.parametrize(
    ("path", "to", "name"),
    [
        ("out.raw", None, "raw"),
        ("folder.h5/OUT.RAW", None, "raw"),
        ("train.v2.h5", None, "hdf5"),
        ("out.hdf5", None, "hdf5"),
        ("out.h5", "raw", "raw"),
        ("no-suffix", "raw", "raw"),
    ],
)
def test_suffix_or_to_decides(path: str, to: str | None, name: str) -> None:
    assert registry.for_destination(Path(path), to).name == name


@pytest.mark.parametrize("path", ["out", "out.zip", "raw", "out.raw/inner", ""])
def test_an_unknown_suffix_says_what_would_do(path: str) -> None:
    with pytest.raises(UnknownFormatError, match="stands for no format") as e:
        registry.for_destination(Path(path))
    assert ".raw" in e.value.hint
    assert "--to tree" in e.value.hint
    assert e.value.exit_code == EXIT_USAGE


def test_an_unknown_to_is_not_made_good_by_the_suffix() -> None:
    with pytest.raises(UnknownFormatError, match="no format is called 'zip'"):
        registry.for_destination(Path("out.raw"), "zip")


def test_a_format_without_a_writer_is_no_destination(install: Install) -> None:
    install("READ_ONLY")
    for path, to in (("out.ro", None), ("out.raw", "read-only")):
        with pytest.raises(UnsupportedError, match="read-only can be read but not written"):
            registry.for_destination(Path(path), to)


# -- sources


def test_content_decides_whatever_the_name(raw: Path) -> None:
    assert registry.recognise(raw).name == "raw"
    reader = registry.open_reader(str(raw))
    assert (len(reader), reader.path) == (3, raw)


def test_plugins_are_asked_after_ours(install: Install, raw: Path, tmp_path: Path) -> None:
    install("GREEDY")
    assert registry.recognise(raw).name == "raw"
    (tmp_path / "notes.txt").write_text("for nobody else")
    assert registry.recognise(tmp_path / "notes.txt").name == "greedy"


def test_a_folder_is_a_tree_only_if_nothing_else(install: Install, tmp_path: Path) -> None:
    assert registry.recognise(tmp_path).name == "tree"
    install("GREEDY")
    assert registry.recognise(tmp_path).name == "greedy"
    assert registry.names()[-1] == "greedy", "asked before the tree, listed after it"


def test_nothing_there(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("nothing", "nothing.raw", "nothing/inner", "file/inner", "x" * 300):
        with pytest.raises(SourceNotFoundError, match="there is nothing here") as e:
            registry.open_reader(tmp_path / name)
        assert e.value.facts == {"path": str(tmp_path / name)}


def test_a_file_that_is_nothing(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    for content in (b"", b"no dataset\n", bytes(4096)):
        path.write_bytes(content)
        with pytest.raises(NotADatasetError, match=r"notes\.txt: no format recognises") as e:
            registry.open_reader(path)
        assert "raw" in e.value.hint


def test_a_link_to_nowhere_is_there(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(NotADatasetError):
        registry.open_reader(tmp_path / "link")


@pytest.mark.parametrize(("name", "meant"), [("cut.h5", "hdf5"), ("cut.raw", "raw")])
def test_a_name_that_the_content_belies_is_damage(tmp_path: Path, name: str, meant: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"no dataset\n")
    with pytest.raises(DamagedDatasetError, match=f"named like {meant}, but its content is not"):
        registry.open_reader(path)


# -- what would be waited for for ever


@pytest.mark.parametrize("name", ["keys.txt", "labels.npy", "checksums.npy"])
def test_a_pipe_in_a_dataset_is_damage_and_is_not_opened(raw: Path, name: str) -> None:
    (raw / name).unlink()
    os.mkfifo(raw / name)
    with pytest.raises(DamagedDatasetError, match=rf"{name}: a pipe stands where a file should"):
        registry.open_reader(raw)


def test_a_link_to_a_device_is_no_piece_of_a_dataset(raw: Path) -> None:
    (raw / "keys.txt").unlink()
    (raw / "keys.txt").symlink_to("/dev/zero")
    with pytest.raises(DamagedDatasetError, match=r"keys\.txt: a device stands"):
        registry.open_reader(raw)


def test_a_pipe_deep_in_a_dataset_is_found(tmp_path: Path) -> None:
    row = registry.get("zarr")
    path = write_dataset(row, tmp_path / "a.zarr", pixel_samples(3), Payload.PIXELS)
    chunk = next(file for file in path.rglob("*") if file.is_file() and file.suffix != ".json")
    chunk.unlink()
    os.mkfifo(chunk)
    with pytest.raises(DamagedDatasetError, match="a pipe stands where"):
        registry.open_reader(path)


def test_a_pipe_instead_of_a_dataset(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "shard.tar")
    with pytest.raises(NotADatasetError, match="this is a pipe, not a file or a folder"):
        registry.open_reader(tmp_path / "shard.tar")


def test_pipes_among_images_are_ignored_but_not_in_the_sidecar(tmp_path: Path) -> None:
    row = registry.get("tree")
    path = write_dataset(row, tmp_path / "t", pixel_samples(3), Payload.PIXELS)
    os.mkfifo(path / "pipe")
    assert len(registry.open_reader(path)) == 3
    keys = tmp_path / "t.fastdata" / "keys.npy"
    keys.unlink()
    os.mkfifo(keys)
    with pytest.raises(DamagedDatasetError, match=r"keys\.npy: a pipe stands"):
        registry.open_reader(path)


# -- dependencies and plug-ins


@pytest.mark.parametrize(
    ("row", "hint"),
    [
        (NEEDY, "pip install no_such_lib.part"),
        (NEEDY_EXTRA, "pip install 'fastdata-cli[needy]'"),
    ],
)
def test_a_missing_library_comes_with_the_command(row: Format, hint: str) -> None:
    with pytest.raises(MissingDependencyError, match=f"{row.name} needs .*no_such_lib") as e:
        registry.require(row)
    assert e.value.hint == hint


def test_a_missing_library_hurts_only_who_asks_for_its_format(install: Install, raw: Path) -> None:
    install("NEEDY")
    assert "needy" in registry.names()
    assert len(registry.open_reader(raw)) == 3
    with pytest.raises(MissingDependencyError):
        registry.for_destination(Path("out.needy"))


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("NOT_A_FORMAT", "it is a object, not a Format"),
        ("SHADOW", "another format is called 'raw' already"),
        ("NO_SUCH_NAME", "AttributeError: .*NO_SUCH_NAME"),
    ],
)
def test_a_bad_plugin_is_left_out_with_a_warning(install: Install, row: str, why: str) -> None:
    install(row, "READ_ONLY")
    with pytest.warns(UserWarning, match=f"plug-in '{row.lower()}' .* is left out: {why}"):
        names = registry.names()
    assert names == (*registry.BUILT_IN, "read-only")
    assert registry.get("raw").summary != "not the built-in one"
    assert registry.names() == names, "said once"


def test_what_was_found_is_kept_until_a_refresh(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("READ_ONLY")
    assert registry.names()[-1] == "read-only"
    monkeypatch.setattr(registry, "entry_points", lambda **wanted: EntryPoints())
    assert registry.names()[-1] == "read-only"
    registry.refresh()
    assert registry.names() == tuple(registry.BUILT_IN)
