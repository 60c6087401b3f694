"""Residency is what the kernel says, cold is proven or not said, and eviction says what stays."""

from __future__ import annotations

import json
import math
import mmap
import os
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from fastdata_cli.timing import census, mounts, page_cache
from fastdata_cli.timing.cache import Residency, blind_spots, evict, residency, touch
from fastdata_cli.timing.mounts import Mount, mount_of

SIZE = 4 << 20
needs_fincore = pytest.mark.skipif(
    shutil.which("fincore") is None, reason="the program fincore (util-linux) is not installed"
)


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Three files on the disk of the temporary folder, 9 MiB in all."""
    if mount_of(tmp_path).in_memory or mount_of(tmp_path).caches_apart:
        pytest.skip("the temporary folder is on no file system whose pages can be evicted")
    sizes = (SIZE, SIZE, 1 << 20)
    paths = [tmp_path / f"{index}.bin" for index in range(len(sizes))]
    for path, size in zip(paths, sizes, strict=True):
        path.write_bytes(os.urandom(size))
    return paths


def fincore(paths: list[Path]) -> int:
    words = ["fincore", "--bytes", "--noheadings", "--output", "RES", *map(str, paths)]
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    return sum(int(line) for line in lines)


def test_what_was_just_written_is_warm_and_evicted_is_cold(files: list[Path]) -> None:
    assert residency(files).state == "warm"
    gone = evict(files)
    assert (gone.state, gone.resident_bytes, gone.notes) == ("cold", 0, ())
    assert gone.total_bytes == sum(path.stat().st_size for path in files)
    assert residency(files).state == "cold"


def test_reading_makes_it_warm_again(files: list[Path]) -> None:
    evict(files)
    warm = touch(files)
    assert (warm.state, warm.fraction) == ("warm", 1.0)


@needs_fincore
def test_fincore_says_the_same(files: list[Path]) -> None:
    assert touch(files).resident_bytes == fincore(files)
    assert evict(files).resident_bytes == fincore(files) == 0
    touch(files[:1])
    assert residency(files).resident_bytes == fincore(files) == SIZE
    assert residency(files).state == "mixed"


def test_both_system_calls_agree(files: list[Path]) -> None:
    evict(files)
    touch(files[:1])
    for path, pages in ((files[0], SIZE // mmap.PAGESIZE), (files[1], 0)):
        with path.open("rb") as file:
            assert page_cache.mincore(file.fileno(), SIZE) == pages
            assert page_cache.cachestat(file.fileno()) in (pages, None)  # None before Linux 6.5


def test_mincore_serves_where_cachestat_is_missing(
    files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_cache, "cachestat", lambda _descriptor: None)
    monkeypatch.setattr(page_cache, "_WINDOW", 1 << 20)
    assert evict(files) == Residency(total_bytes=9 << 20, resident_bytes=0, method="mincore")
    assert touch(files).resident_bytes == 9 << 20


def test_what_the_kernel_hides_is_unknown_and_never_cold(
    files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_cache, "cachestat", lambda _descriptor: None)
    monkeypatch.setattr(page_cache, "_may_know", lambda _descriptor: False)
    found = evict(files)
    assert (found.state, found.method, found.unmeasured) == ("unknown", "none", 9 << 20)
    assert "only its owner" in found.notes[0]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_the_file_of_another_user_is_never_misjudged(files: list[Path]) -> None:
    evict(files)
    files[0].chmod(0o644)
    with files[0].open("rb") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # pytest may have threads
        child = os.fork()
        if child == 0:
            os.setgid(65534)
            os.setuid(65534)
            found = page_cache.cached_bytes(file.fileno(), stacked=False)
            # mincore would call it all resident; before Linux 6.14, cachestat told everyone.
            os._exit(0 if found in (None, (0, "cachestat")) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_sandbox_that_calls_everything_resident_is_not_believed(
    files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    page_cache._mincore_pretends.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(page_cache, "_pages_in_window", lambda *_: 1)
        with files[0].open("rb") as file:
            assert page_cache.mincore(file.fileno(), SIZE) is None
    page_cache._mincore_pretends.cache_clear()


def test_mapped_pages_stay_and_the_note_says_what_to_close(files: list[Path]) -> None:
    with files[0].open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        assert sum(mapped[:: mmap.PAGESIZE]) >= 0
        stayed = evict(files)
        assert stayed.resident_bytes >= mmap.PAGESIZE
        assert stayed.notes == (
            f"{files[0]} stayed in the page cache: mapped by this process, close its readers first",
        )
    assert evict(files).state == "cold"


def test_pages_mapped_by_another_process_name_it(files: list[Path]) -> None:
    code = (
        "import mmap, sys; f = open(sys.argv[1], 'rb');"
        "m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ); sum(m[::4096]); print(flush=True);"
        "sys.stdin.read()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code, str(files[0])], **pipes) as other:  # type: ignore[call-overload]
        other.stdout.readline()
        notes = evict(files).notes
        other.stdin.close()
    assert notes == (f"{files[0]} stayed in the page cache: mapped by process {other.pid}",)


def test_memory_file_systems_stay_warm() -> None:
    folder = Path("/dev/shm")
    if not (folder.is_dir() and os.access(folder, os.W_OK) and mount_of(folder).in_memory):
        pytest.skip("there is no writable tmpfs at /dev/shm")
    path = folder / f"fastdata-test-{os.getpid()}"
    try:
        path.write_bytes(b"x" * SIZE)
        found = evict([path])
        assert (found.state, found.resident_bytes) == ("warm", SIZE)
        assert found.notes == (
            f"{path} stayed in the page cache: its file system has no other place",
        )
        assert "lives in memory" in blind_spots([path])[0]
    finally:
        path.unlink()


def test_on_an_overlay_pages_are_seen_and_evicted(tmp_path: Path) -> None:
    # cachestat reports 0 for every file of an overlay, however warm: a container's usual root.
    code = (
        "import json, sys; from dataclasses import asdict; from pathlib import Path;"
        "from fastdata_cli.timing.cache import *; f = [Path(sys.argv[1], 'merged/x')];"
        "print(json.dumps([asdict(touch(f)), asdict(evict(f))]))"
    )
    for name in ("lower", "upper", "work", "merged"):
        (tmp_path / name).mkdir()
    (tmp_path / "lower/x").write_bytes(os.urandom(SIZE))
    evict([tmp_path / "lower/x"])  # dirty pages of a lower layer cannot be synced from above
    script = (
        "mount -t overlay none -o lowerdir=lower,upperdir=upper,workdir=work merged || exit 9\n"
        f'exec {sys.executable} -c "$0" "$PWD"'
    )
    words = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, code]
    if shutil.which("unshare") is None:
        pytest.skip("the program unshare (util-linux) is not installed")
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    if done.returncode in (1, 9, 32):
        pytest.skip(f"no overlay can be mounted here: {done.stderr.strip()}")
    warm, cold = json.loads(done.stdout)
    assert (warm["state"], warm["method"], cold["state"]) == ("warm", "mincore", "cold")


def test_a_set_larger_than_memory_cannot_be_warm(files: list[Path]) -> None:
    evict(files)
    found = touch(files, memory=SIZE)
    assert found.state == "cold"
    assert "cannot be warm" in found.notes[0]


def test_room_is_bounded_by_memory_and_control_group(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 0 < page_cache.room() < 1 << 50
    monkeypatch.setattr(page_cache, "memory_limit", lambda: 12345)
    assert page_cache.room() == 12345


def test_what_cannot_be_opened_is_counted_against_every_claim(
    files: list[Path], tmp_path: Path
) -> None:
    evict(files)
    os.mkfifo(tmp_path / "pipe")
    missing = [tmp_path / "gone", tmp_path / "pipe", tmp_path]
    found = residency([*files, *missing])
    assert (found.state, found.total_bytes) == ("cold", 9 << 20)
    assert f"{tmp_path / 'gone'} not measured: no such file or directory" in found.notes
    assert any("2 files" in note and "no regular file" in note for note in found.notes)
    touched = touch([*files, tmp_path / "gone"])
    assert "could not be read to the end" in touched.notes[0]
    assert touched.state == "warm"


@pytest.mark.parametrize("act", [residency, evict, touch])
def test_nothing_at_all_is_unknown(tmp_path: Path, act: Callable[[list[Path]], Residency]) -> None:
    (tmp_path / "empty").write_bytes(b"")
    for paths in ([], [tmp_path / "empty"]):
        found = act(paths)
        assert (found.state, found.total_bytes, found.resident_bytes) == ("unknown", 0, 0)


def test_when_time_is_over_the_rest_is_estimated(
    tmp_path: Path, files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = []
    for index in range(600):
        paths.append(tmp_path / f"small{index}")
        paths[-1].write_bytes(b"x" * 4096)
    evict(paths)
    ticks = iter(range(10**6))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(ticks)))
    found = residency(paths, seconds=400)
    assert found.estimate
    assert 0 < found.margin < 0.01
    assert (found.total_bytes, found.resident_bytes, found.state) == (600 * 4096, 0, "cold")
    assert found.notes == ("estimated from 400 of 600 files: the time was over",)
    touch(paths[:300])
    half = residency(paths, seconds=400)
    assert half.state == "mixed"
    assert abs(half.fraction - 0.5) < half.margin
    assert 0.05 < half.margin < 0.1
    evict(paths)
    few = residency(paths, seconds=50)
    assert few.state == "unknown"  # fifty cold files prove nothing of six hundred
    none = residency(paths, seconds=-1)
    assert (none.state, none.unmeasured, none.estimate) == ("unknown", 600 * 4096, False)


def test_few_large_files_among_many_small_widen_the_margin() -> None:
    counted = census.Census(lambda *_: None)
    for size in (10**9, *[1] * 5000):
        counted._add(size)
    assert counted.estimate([], 5001).margin > 1


@pytest.mark.parametrize(
    ("resident", "unmeasured", "margin", "state"),
    [
        (0, 0, 0.0, "cold"),
        (10, 0, 0.0, "cold"),
        (11, 0, 0.0, "mixed"),
        (949, 0, 0.0, "mixed"),
        (950, 0, 0.0, "warm"),
        (0, 10, 0.0, "cold"),
        (0, 11, 0.0, "unknown"),
        (950, 50, 0.0, "warm"),
        (900, 100, 0.0, "unknown"),
        (500, 100, 0.0, "mixed"),
        (0, 0, 0.02, "unknown"),
        (970, 0, 0.03, "unknown"),
    ],
)
def test_the_word_follows_from_what_is_shown(
    resident: int, unmeasured: int, margin: float, state: str
) -> None:
    found = Residency(
        total_bytes=1000,
        resident_bytes=resident,
        unmeasured=unmeasured,
        margin=margin,
        method="mincore",
    )
    assert found.state == state
    assert json.loads(json.dumps(asdict(found)))["state"] == state
    assert math.isclose(found.fraction, resident / 1000)


@pytest.fixture
def mounted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str, str], Path]:
    """Pretend that a folder is a mount of some kind, from some source."""

    def pretend(kind: str, source: str) -> Path:
        point = tmp_path / "a b"
        point.mkdir(exist_ok=True)
        text = (
            "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
            f"2 1 0:5 / {str(point).replace(' ', chr(92) + '040')} rw,nosuid shared:1 - "
            f"{kind} {source} ro\n"
        )
        table = tmp_path / "mountinfo"
        table.write_text(text)
        monkeypatch.setattr(mounts, "_MOUNTINFO", table)
        return point

    return pretend


@pytest.mark.parametrize(
    ("kind", "source", "words"),
    [
        ("nfs4", "server:/data", "served from server:/data"),
        ("fuse.s3fs", "s3fs", "never called cold"),
        ("zfs", "pool/data", "never called cold"),
        ("ext4", "/dev/loop3", "never called cold"),
        ("tmpfs", "tmpfs", "lives in memory"),
        ("overlay", "overlay", "layers below"),
        ("xfs", "/dev/nvme0n1", "caches of the drive"),
    ],
)
def test_blind_spots_are_said(
    mounted: Callable[[str, str], Path], kind: str, source: str, words: str
) -> None:
    point = mounted(kind, source)
    (spot,) = blind_spots([point, point / "deeper"])
    assert f"{point} ({kind})" in spot
    assert words in spot


def test_the_longest_mount_point_wins_and_names_are_unescaped(
    mounted: Callable[[str, str], Path],
) -> None:
    point = mounted("xfs", "/dev/sdb")
    assert mount_of(point) == Mount(str(point), "xfs", "/dev/sdb", ("rw", "nosuid", "ro"), "0:5")
    assert mount_of(point.with_name("a bc")).point == "/"


def test_no_proc_no_claim(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(mounts, "_MOUNTINFO", tmp_path / "none")
    assert mount_of(tmp_path).kind == "unknown"
    assert "(unknown)" in blind_spots([tmp_path])[0]


def test_caches_beside_the_page_cache_forbid_the_word_cold(
    files: list[Path], mounted: Callable[[str, str], Path]
) -> None:
    inside = mounted("zfs", "pool") / "x"
    shutil.copy(files[0], inside)
    assert touch([inside]).state == "warm"
    found = evict([inside])
    assert (found.state, found.unmeasured) == ("unknown", SIZE)
    assert "zfs caches beside the page cache" in found.notes[0]
