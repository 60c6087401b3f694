"""The command as a process: start-up, streams, interruption."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fastdata_cli import __version__, open_reader
from tests.conftest import make_tree

HEAVY = ("numpy", "cv2", "torch", "zarr", "h5py", "lmdb", "webdataset", "PIL", "xxhash", "yaml")


def fastdata(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fastdata_cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, **options)  # type: ignore[call-overload,no-any-return]


def test_version() -> None:
    assert fastdata("--version").stdout.strip() == f"fastdata-cli {__version__}"


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nsys.argv = ['fastdata', '--help']\n"
        "from fastdata_cli.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        f"print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.strip() == "[]"
    assert "convert" in done.stdout


@pytest.mark.parametrize("verb", ["convert", "inspect", "formats"])
def test_verbs_do_not_load_torch(verb: str) -> None:
    code = (
        f"import sys\nsys.argv = ['fastdata', '{verb}', '--help']\n"
        "from fastdata_cli.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print('torch' in sys.modules or 'zarr' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.strip() == "False"


def test_unknown_verb_and_no_arguments() -> None:
    assert fastdata("frobnicate").returncode == 2
    assert "convert" in fastdata().stdout


@pytest.mark.parametrize("name", ["o", "o.lmdb", "o.raw", "o.zarr", "o.h5", "o.tar", "ö-%02d.tar"])
def test_names_survive_and_print_under_any_locale(tmp_path: Path, name: str) -> None:
    source = make_tree(tmp_path / "images", 3)
    (source / "Ä").mkdir()
    (source / "class0" / "0000.jpg").rename(source / "Ä" / "雪.jpg")
    with open(os.fsencode(source) + b"/\xc3\x84/\xff.jpg", "wb"):
        pass
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
    environment |= {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    options = ["--size", 8] if name != "o" else ["--to", "tree"]
    done = fastdata("convert", source, tmp_path / name, *options, env=environment)
    assert done.returncode == 0, done.stderr
    assert "%FF.jpg" in done.stderr
    assert list(open_reader(tmp_path / name).keys())[-1] == "Ä/雪.jpg"
    assert "\\u96ea.jpg" in fastdata("inspect", tmp_path / name, env=environment).stdout


def test_interrupted_while_loading() -> None:
    code = (
        "import sys, os, signal\nsys.argv = ['fastdata', 'formats']\n"
        "from fastdata_cli.cli import main\n"
        "main.build_app = lambda verb: os.kill(os.getpid(), signal.SIGINT)\nmain.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_interrupted_and_continued(tmp_path: Path) -> None:
    source = make_tree(tmp_path / "images", 1500, (250, 250))
    out = tmp_path / "out.zarr"
    command = ["convert", str(source), str(out), "--chunk", "50", "--jobs", "1"]
    run = subprocess.Popen(
        [sys.executable, "-m", "fastdata_cli", *command],
        stderr=subprocess.PIPE,
        text=True,
        # As a shell script starts a job in the background.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    journal = tmp_path / ".out.zarr.fastdata-partial" / "journal.jsonl"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if journal.exists() and len(journal.read_text().splitlines()) > 1:
            break
        time.sleep(0.01)
    run.send_signal(signal.SIGINT)
    _, errors = run.communicate(timeout=30)
    assert run.returncode == 130, errors
    assert "Traceback" not in errors
    assert ".out.zarr.fastdata-partial" in errors.replace("\n", "")
    assert not out.exists()
    done = fastdata(*command)
    assert done.returncode == 0, done.stderr
    assert "continuing" in done.stderr
    assert len(open_reader(out)) == 1500
    whole = tmp_path / "whole.zarr"
    assert fastdata("convert", source, whole, "--chunk", "50").returncode == 0
    assert [list(open_reader(p).verify()) for p in (out, whole)] == [[], []]
    files = [sorted(f.relative_to(p) for f in p.rglob("*") if f.is_file()) for p in (out, whole)]
    assert files[0] == files[1]
    assert all((out / f).read_bytes() == (whole / f).read_bytes() for f in files[0])


def test_an_unforeseen_error_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = make_tree(tmp_path / "images", 1)
    code = (
        "import sys\nsys.argv = ['fastdata', 'inspect', sys.argv[1]]\n"
        "import fastdata_cli.registry as registry\n"
        "registry.require = lambda row: 1 / 0\n"
        "from fastdata_cli.cli.main import main\nmain()"
    )
    command = [sys.executable, "-c", code, str(source)]
    monkeypatch.delenv("FASTDATA_DEBUG", raising=False)
    quiet = subprocess.run(command, capture_output=True, text=True)
    assert quiet.returncode == 1
    assert "Traceback" not in quiet.stderr
    assert "internal error: ZeroDivisionError" in quiet.stderr
    monkeypatch.setenv("FASTDATA_DEBUG", "1")
    loud = subprocess.run(command, capture_output=True, text=True)
    assert "Traceback" in loud.stderr
