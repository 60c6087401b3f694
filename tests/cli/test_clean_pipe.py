"""``fastdata clean`` between other processes: pipes, signals, locales, kills."""

from __future__ import annotations

import json
import os
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from fastdata_cli import open_reader
from tests.cli.test_clean import folder, names, tree_of
from tests.conftest import jpeg

__all__ = ["folder"]

FASTDATA = (sys.executable, "-m", "fastdata_cli")


def command(
    *words: str, stdin: bytes = b"", env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*FASTDATA, "clean", *words], input=stdin, capture_output=True, env=env, timeout=120
    )


def test_the_pipeline_of_the_readme(folder: Path) -> None:
    fastdata = shlex.join(FASTDATA)
    line = (
        f"find images -type f | {fastdata} clean --variance-min 10 | "
        f"{fastdata} convert - out.zarr --quiet"
    )
    done = subprocess.run(["bash", "-o", "pipefail", "-c", line], capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    reader = open_reader(folder.parent / "out.zarr")
    assert len(reader) == 10
    assert names(list(reader.keys())).isdisjoint({"black.png", "cut.jpg"})


def test_names_pass_byte_for_byte(folder: Path) -> None:
    data = jpeg(20, 20, 1)
    odd = [b"a b.jpg", b"'q\"uote.jpg", b"\xff\xfe.jpg", "ü.jpg".encode(), b"-n.jpg", b"%41.jpg"]
    broken = [b"new\nline.jpg", b"cr\r", b"2\n.jpg"]
    for name in (*odd, *broken):
        with open(b"images/" + name, "wb") as file:
            file.write(data)
    given = [b"images/" + name for name in (*odd, *broken, b"../images//" + odd[0])]
    done = command("-0", stdin=b"".join(path + b"\0" for path in given))
    assert done.stdout == b"".join(path + b"\0" for path in given)
    by_line = [path for path in given if b"\n" not in path]
    done = command(stdin=b"".join(path + b"\n" for path in by_line))
    assert done.stdout == b"".join(path + b"\n" for path in by_line)
    done = command(stdin=b"images/a b.jpg\r\nimages/none.jpg\r\n")
    assert done.stdout == b"images/a b.jpg\r\n"
    done = command("images")
    assert b"2 names hold newlines: -0" in done.stderr


def test_a_plain_ascii_environment(folder: Path) -> None:
    name = b"images/\xff\xc3\xbc.jpg"
    with open(name, "wb") as file:
        file.write(jpeg(20, 20, 1)[:300])
    env = {"PATH": os.environ["PATH"], "LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
    env |= {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    if "PYTHONPATH" in os.environ:
        env["PYTHONPATH"] = os.environ["PYTHONPATH"]
    done = command("images", "--invert", "--fail-on-found", env=env)
    assert done.returncode == 3
    assert name in done.stdout.splitlines()
    assert b"Traceback" not in done.stderr
    done = command("images", "--jsonl", env=env)
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert "images/%FFü.jpg" in {record["key"] for record in records}


def test_the_first_path_comes_out_before_the_last_goes_in(folder: Path) -> None:
    process = subprocess.Popen(
        [*FASTDATA, "clean", "-q"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    for path in ("images/class0/0000.jpg", "images/class1/0001.jpg"):
        process.stdin.write(path.encode() + b"\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], 60)
        assert ready, "held back"
        assert process.stdout.readline().decode() == path + "\n"
    process.stdin.close()
    assert process.wait(60) == 0
    process.stdout.close()


def test_closing_the_pipe_early_is_quiet(folder: Path) -> None:
    fastdata = shlex.join(FASTDATA)
    line = f"(find images -name '0*.jpg'; sleep 100) | {fastdata} clean -q | head -1"
    begin = time.monotonic()
    done = subprocess.Popen(
        ["bash", "-c", line], stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    assert done.stdout is not None
    assert done.stderr is not None
    assert done.stdout.readline().startswith(b"images/")
    os.killpg(done.pid, signal.SIGTERM)  # only sleep is left of it
    assert done.stderr.read() == b""
    done.wait(60)
    assert time.monotonic() - begin < 90
    done.stdout.close()
    done.stderr.close()


def test_an_interruption_is_one_line(folder: Path) -> None:
    process = subprocess.Popen(
        [*FASTDATA, "clean"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"images/class0/0000.jpg\n")
    process.stdin.flush()
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == b"interrupted\n"


@pytest.mark.parametrize("across", [False, True], ids=["rename", "copy"])
def test_a_kill_while_files_move_loses_none(folder: Path, across: bool) -> None:
    """Killed at several moments; whatever was moved by then comes back."""
    elsewhere = Path("/dev/shm") if across else folder.parent
    if across and not os.access(elsewhere, os.W_OK):
        pytest.skip("needs a second file system")
    for index in range(60):
        (folder / f"cut{index:02d}.jpg").write_bytes(jpeg(40, 48, index)[:500])
    before = tree_of(folder)
    bad = elsewhere / f"fastdata-test-{os.getpid()}"
    moved = 0
    for wanted in (1, 30):
        process = subprocess.Popen(
            [*FASTDATA, "clean", "images", "-q", "--invert", "--quarantine", str(bad)],
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        for _ in range(wanted):
            process.stdout.readline()
        process.kill()
        process.wait()
        process.stdout.close()
        moved += len(before) > len(tree_of(folder))
        done = command("--restore", str(bad), "-q")
        assert done.returncode == 0, done.stderr
        assert tree_of(folder) == before
        assert not bad.exists()
    assert moved == 2


def test_an_empty_list_is_said() -> None:
    assert b"stdin: no images here" in command().stderr
