"""Device measurements: by the real fio, by fakes that misbehave as fio can, and without any."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from fastdata_cli.timing import device_target, fio
from fastdata_cli.timing.cache import evict, residency, touch
from fastdata_cli.timing.device_fallback import TOOL
from fastdata_cli.timing.fio import (
    DeviceDoubt,
    DeviceError,
    DeviceResult,
    FioJob,
    FioProgram,
    device_jobs,
    find_fio,
    measure_device,
    run_fallback,
    run_fio,
)
from fastdata_cli.timing.fio_parse import read_report

MIB = 1 << 20
RANDOM = FioJob(name="random", rw="randread", block_bytes=16384, depth=4, runtime_s=0.2)
SEQUENTIAL = FioJob(name="sequential", rw="read", block_bytes=MIB, runtime_s=0.2, engine="psync")
needs_fio = pytest.mark.skipif(find_fio() is None, reason="the program fio is not installed")

REPORT: dict[str, Any] = {
    "fio version": "fio-3.33",
    "jobs": [
        {
            "error": 0,
            "read": {
                "bw_bytes": 2_000_000,
                "iops": 500.5,
                "runtime": 200,
                "lat_ns": {
                    "mean": 1500.0,
                    "percentile": {"50.000000": 1000, "95.000000": 2000, "99.000000": 3000},
                },
            },
        }
    ],
}


@pytest.fixture(autouse=True)
def small_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small files count as enough, and keep scratch files small."""
    monkeypatch.setattr(device_target, "_MEANINGFUL_BYTES", 4 * MIB)
    monkeypatch.setattr(device_target, "_SCRATCH_BYTES", 8 * MIB)


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Files with names that fio would cut or split, some of them too small."""
    sizes = {"a:b#c;d ": 3 * MIB, "new\nline": 2 * MIB, "tiny": 5000, "empty": 0}
    for name, size in sizes.items():
        (tmp_path / name).write_bytes(os.urandom(size))
    return [tmp_path / name for name in sizes]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Put a shell script called fio first on PATH; it answers --version, and runs the body else."""

    def make(body: str, version: str = "fio-3.33") -> None:
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        (folder / "fio").write_text(
            f'#!/bin/sh\nif [ "$1" = --version ]; then echo "{version}"; exit 0; fi\n{body}\n'
        )
        (folder / "fio").chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    return make


def kinds(result: DeviceResult) -> list[DeviceDoubt]:
    return [warning.kind for warning in result.warnings if warning.kind != DeviceDoubt.IN_MEMORY]


def check(result: DeviceResult, job: FioJob) -> None:
    assert (result.name, result.rw, result.block_bytes) == (job.name, job.rw, job.block_bytes)
    assert result.bandwidth > 0
    assert result.bandwidth == pytest.approx(result.iops * job.block_bytes, rel=0.1)
    times = result.latency
    assert 0 < (times.p50 or 0) <= (times.p95 or 0) <= (times.p99 or 0) < 10
    assert 0.15 < result.seconds < 5
    assert json.loads(json.dumps(asdict(result)))["tool"] == result.tool


@needs_fio
@pytest.mark.parametrize("job", [RANDOM, SEQUENTIAL, replace(RANDOM, engine="psync")])
def test_fio_reads_the_files_of_the_dataset(files: list[Path], job: FioJob) -> None:
    program = find_fio()
    assert program is not None
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}
    result = run_fio(files, job)
    check(result, job)
    assert result.tool == f"fio {program.version}"
    assert (result.engine, result.depth, result.file_count) == (job.engine, job.depth, 2)
    assert not result.scratch
    assert result.direct == (DeviceDoubt.BUFFERED not in kinds(result))
    assert result.command.startswith("fio --readonly ")
    assert before == {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


@needs_fio
@pytest.mark.parametrize("job", [RANDOM, SEQUENTIAL])
def test_a_direct_run_leaves_the_page_cache_as_it_was(files: list[Path], job: FioJob) -> None:
    if not run_fio(files, job).direct:
        pytest.skip("the temporary folder does not take O_DIRECT")
    for prepare in (touch, evict):
        before = prepare(files)
        run_fio(files, job)
        run_fallback(files, job)
        assert residency(files).resident_bytes == before.resident_bytes


@pytest.mark.parametrize("job", [RANDOM, SEQUENTIAL, replace(SEQUENTIAL, depth=3)])
def test_the_fallback_says_what_it_is(files: list[Path], job: FioJob) -> None:
    result = run_fallback(files, job)
    check(result, job)
    assert (result.tool, result.engine, result.depth) == (TOOL, "preadv", job.depth)
    assert (result.file_count, result.scratch, result.command) == (2, False, "")


@pytest.mark.parametrize("run", [pytest.param(run_fio, marks=needs_fio), run_fallback])
@pytest.mark.parametrize("job", [RANDOM, replace(SEQUENTIAL, depth=8, engine="libaio")])
def test_refused_direct_reads_fall_back_and_say_so(
    files: list[Path],
    run: Callable[..., DeviceResult],
    job: FioJob,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(device_target, "takes_direct", lambda _descriptor: False)
    touch(files)
    result = run(files, job)
    assert not result.direct
    assert DeviceDoubt.BUFFERED in kinds(result)
    assert result.bandwidth > 0
    if run is run_fio:
        assert result.engine == "psync"
        assert "--invalidate=1" in result.command
        assert "--time_based" not in result.command
        assert result.depth == (4 if job is RANDOM else 1)


@needs_fio
def test_an_unknown_engine_is_replaced_and_said(files: list[Path]) -> None:
    result = run_fio(files, replace(RANDOM, engine="nosuch"))
    assert (result.engine, result.depth) == ("psync", 4)
    (text,) = [warning.text for warning in result.warnings if warning.kind == DeviceDoubt.ENGINE]
    assert "nosuch" in text


@pytest.mark.parametrize("run", [pytest.param(run_fio, marks=needs_fio), run_fallback])
def test_small_files_are_replaced_by_a_scratch_file_that_goes(
    tmp_path: Path, run: Callable[..., DeviceResult]
) -> None:
    paths = [tmp_path / f"{index}.jpg" for index in range(20)]
    for path in paths:
        path.write_bytes(os.urandom(20_000))
    before = sorted(tmp_path.iterdir()), tmp_path.stat().st_mtime_ns
    result = run(paths, SEQUENTIAL)
    check(result, SEQUENTIAL)
    assert result.scratch
    assert DeviceDoubt.SCRATCH in kinds(result)
    assert sorted(tmp_path.iterdir()) == before[0]


@pytest.mark.parametrize("error", [KeyboardInterrupt, DeviceError, MemoryError])
def test_the_scratch_file_goes_with_every_exception(
    tmp_path: Path, error: type[BaseException]
) -> None:
    path = tmp_path / "small"
    path.write_bytes(b"x" * 5000)
    free = len(os.listdir("/proc/self/fd"))

    def fail_while_it_is_there() -> None:
        with device_target.DeviceTargets([path]) as targets:
            assert targets.for_job(SEQUENTIAL).scratch
            assert targets.for_job(RANDOM).scratch
            raise error("now")

    with pytest.raises(error):
        fail_while_it_is_there()
    assert os.listdir(tmp_path) == ["small"]
    assert len(os.listdir("/proc/self/fd")) == free


def test_no_scratch_file_without_the_right_or_the_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [tmp_path / str(index) for index in range(3)]
    for path in paths:
        path.write_bytes(os.urandom(20_000))
    monkeypatch.setattr(device_target, "_SCRATCH_BYTES", 1 << 60)
    result = run_fallback(paths, replace(SEQUENTIAL, name="small"))
    assert (result.block_bytes, result.scratch, result.file_count) == (16384, False, 3)
    assert DeviceDoubt.SMALL in kinds(result)
    assert "0.1 MB in 3 files" in result.warnings[0].text
    assert "and no scratch file can be made in " in result.warnings[0].text
    with pytest.raises(DeviceError, match="no readable file has 4096 bytes") as caught:
        run_fallback([tmp_path / "none"], SEQUENTIAL)
    assert caught.value.hint
    with pytest.raises(DeviceError):
        run_fallback([], SEQUENTIAL)


@pytest.mark.parametrize(
    ("sizes", "block"), [([90_000, 5_000, 5_000, 5_000], 81_920), ([20_000, 9_000], 16_384)]
)
def test_requests_are_as_long_as_the_file_that_holds_most(
    tmp_path: Path, sizes: list[int], block: int
) -> None:
    paths = [tmp_path / str(at) for at in range(len(sizes))]
    for path, size in zip(paths, sizes, strict=True):
        path.write_bytes(os.urandom(size))
    with device_target.DeviceTargets(paths, scratch=False) as targets:
        target = targets.for_job(replace(SEQUENTIAL, block_bytes=81_920))
    assert target.block_bytes == block
    assert " in 1 file could be read" in target.warnings[0].text


def test_a_folder_given_takes_the_scratch_file(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    with device_target.DeviceTargets([], tmp_path / "elsewhere") as targets:
        assert str(tmp_path / "elsewhere") in targets.for_job(RANDOM).names[0]


def test_jobs_read_what_the_dataset_reads() -> None:
    for sample, block in ((0, 4096), (1, 4096), (110_000, 110_592), (10**9, 4 * MIB)):
        jobs = device_jobs(sample, runtime_s=1.5)
        assert [(job.rw, job.depth) for job in jobs] == [
            ("read", 1),
            ("read", 16),
            ("randread", 1),
            ("randread", 32),
        ]
        assert [job.block_bytes for job in jobs] == [MIB, MIB, block, block]
        assert {job.runtime_s for job in jobs} == {1.5}
        assert len({job.name for job in jobs}) == 4


def test_all_jobs_share_one_scratch_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    write = device_target.DeviceTargets._write_scratch

    def counted(targets: device_target.DeviceTargets) -> int:
        made.append(1)
        return write(targets)

    monkeypatch.setattr(device_target.DeviceTargets, "_write_scratch", counted)
    (tmp_path / "x").write_bytes(b"x" * 5000)
    results = list(
        measure_device([tmp_path / "x"], device_jobs(30_000, runtime_s=0.15), program=None)
    )
    assert [result.scratch for result in results] == [True] * 4
    assert made == [1]
    for result in results:
        (text,) = [w.text for w in result.warnings if w.kind == DeviceDoubt.NO_FIO]
        assert text == f"fio is not installed; {fio.INSTALL_HINT}"


def test_without_fio_there_is_a_hint(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert find_fio() is None
    with pytest.raises(DeviceError, match="not installed") as caught:
        run_fio(files, RANDOM)
    assert "apt install fio" in caught.value.hint


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("fio-3.33", "3.33"),
        ("fio-3.36-12-gdeadbee-dirty", "3.36-12-gdeadbee-dirty"),
        ("warning: old kernel\nfio-3.1", "3.1"),
        ("fio version 2.0.8", "2.0.8"),
        ("Fusion tool 7", None),
        ("", None),
    ],
)
def test_versions_as_they_come(fake: Callable[..., None], said: str, version: str | None) -> None:
    fake("exit 0", version=said)
    program = find_fio()
    assert (program and program.version) == version


def printing(report: object, before: str = "", after: str = "", code: int = 0) -> str:
    text = report if isinstance(report, str) else json.dumps(report, indent=1)
    return f"cat <<'EOF'\n{before}{text}{after}\nEOF\nexit {code}"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        ("note: both iodepth >= 1 and synchronous I/O engine are selected\n", ""),
        ('fio: option {x} is {"odd": 1} {\n', "\nRun status group 0 {all jobs}:"),
        ('{"jobs": 7} {"other": []}', "{"),
    ],
)
def test_noise_around_the_report(
    fake: Callable[..., None], files: list[Path], before: str, after: str
) -> None:
    fake(printing(REPORT, before, after))
    result = run_fio(files, RANDOM)
    assert (result.bandwidth, result.iops, result.seconds) == (2e6, 500.5, 0.2)
    assert (result.latency.mean, result.latency.p50) == pytest.approx((1.5e-6, 1e-6))


def changed(**read: object) -> dict[str, Any]:
    job = REPORT["jobs"][0]
    return {**REPORT, "jobs": [{**job, "read": {**job["read"], **read}}]}


@pytest.mark.parametrize(
    ("report", "words"),
    [
        ("", "printed no report"),
        ("Segmentation fault", "printed no report: Segmentation fault"),
        (json.dumps(REPORT)[:200], "printed no report"),
        ("{}", "printed no report"),
        ({"jobs": []}, "reported no reads"),
        ({"jobs": ["x", 3, None]}, "reported no reads"),
        ({"jobs": [{"error": 0}]}, "reported no reads"),
        ({"jobs": [{"error": 5, "read": {}}]}, r"failed \(exit 5\)"),
        (changed(iops=None), "reported no read.iops"),
        (changed(bw_bytes="fast", runtime=True), "reported no read.bw_bytes, read.runtime"),
        (changed(iops=0, bw_bytes=0), "read nothing"),
    ],
)
def test_what_is_no_result_is_an_error_in_one_line(
    fake: Callable[..., None], files: list[Path], report: object, words: str
) -> None:
    fake(printing(report))
    with pytest.raises(DeviceError, match=words) as caught:
        run_fio(files, RANDOM)
    assert "\n" not in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # noqa: S301


def test_a_report_with_a_failing_exit_is_no_result(
    fake: Callable[..., None], files: list[Path]
) -> None:
    fake(printing(REPORT, code=1))
    with pytest.raises(DeviceError, match=r"failed \(exit 1\)"):
        run_fio(files, RANDOM)


def test_its_own_words_name_the_file(fake: Callable[..., None], files: list[Path]) -> None:
    fake(
        'for word; do case "$word" in --filename=*) name=${word#--filename=};; esac; done\n'
        'echo "fio: pid=7, err=5/func=read(${name%%:*}), error=Input/output error" >&2; exit 1'
    )
    with pytest.raises(DeviceError, match="Input/output error") as caught:
        run_fio(files, RANDOM)
    assert str(files[0]) in str(caught.value)
    assert caught.value.facts["code"] == 1


def test_older_and_odd_reports_are_understood() -> None:
    old = {
        "jobs": [
            {
                "error": 0,
                "read": {
                    "bw": 2000,
                    "iops": 500,
                    "runtime": 1000,
                    "clat": {"mean": 10.0, "percentile": {"50.000000": 8, "99.000000": 20}},
                },
            }
        ]
    }
    report = read_report(json.dumps(old).encode(), b"", 0)
    assert report.bandwidth == 2000 * 1024
    assert report.latency.p50 == pytest.approx(8e-6)
    assert report.latency.p95 is None
    odd = json.dumps(changed(bw_dev=1)).replace('"bw_dev": 1', '"bw_dev": -nan')
    name = b'{"fio version": "3", "name": "tab\there \xff",'
    assert read_report(odd.encode().replace(b"{", name, 1), b"", 0).iops == 500.5
    assert read_report(json.dumps(changed(lat_ns=None)).encode(), b"", 0).latency.p50 is None


@pytest.mark.parametrize("body", ["sleep 60", "sleep 60 & sleep 60", "setsid sleep 60 & exit 0"])
def test_what_hangs_is_stopped(
    fake: Callable[..., None], files: list[Path], body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fio, "_GRACE_S", 0.3)
    fake(body.replace("sleep 60", "sleep 6.125"))
    begin = time.monotonic()
    with pytest.raises(DeviceError, match="did not end within"):
        run_fio(files, RANDOM)
    assert time.monotonic() - begin < 3


def test_a_fio_that_fails_is_replaced_by_the_fallback(
    fake: Callable[..., None], files: list[Path]
) -> None:
    fake("echo 'fio: cannot do it' >&2; exit 1")
    (result,) = measure_device(files, [RANDOM], program=find_fio())
    assert result.tool == TOOL
    assert "cannot do it" in result.warnings[-1].text
    gone = FioProgram("/nonexistent/fio", "3.33")
    (result,) = measure_device(files, [RANDOM], program=gone)
    assert "cannot be run" in result.warnings[-1].text


def test_a_short_run_is_doubted(fake: Callable[..., None], files: list[Path]) -> None:
    fake(printing(changed(runtime=20)))
    assert kinds(run_fio(files, RANDOM))[-1] == DeviceDoubt.SHORT


def test_an_interrupt_ends_fio_and_leaves_nothing(
    fake: Callable[..., None], tmp_path: Path
) -> None:
    fake(f"echo $$ > {tmp_path}/pid; exec sleep 60")
    (tmp_path / "data").mkdir()
    (tmp_path / "data/x").write_bytes(b"x" * 5000)
    code = (
        "import sys; from pathlib import Path; from fastdata_cli.timing.fio import *;"
        "run_fio([Path(sys.argv[1])], FioJob(name='x', rw='read', block_bytes=1 << 20))"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "data/x")]
    with subprocess.Popen(words, stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 30
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert os.listdir(tmp_path / "data") == ["x"]  # the scratch file has no name
        time.sleep(0.3)  # it runs, and Popen has yet to return
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=10)
    assert b"KeyboardInterrupt" in stderr
    assert os.listdir(tmp_path / "data") == ["x"]
    fio_pid = int((tmp_path / "pid").read_text())
    assert (
        not Path(f"/proc/{fio_pid}/cmdline").exists()
        or b"sleep" not in Path(f"/proc/{fio_pid}/cmdline").read_bytes()
    )
