"""The ceiling that the device sets, by the real ``fio`` where it is, else by a fallback.

fio only ever reads: it gets ``--readonly`` and open descriptors in place of names, as it cuts names
at ``#``, ``;`` and blanks, splits them at ``:`` and takes 4096 characters of them at most.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fastdata_cli.timing.device import (
    DeviceDoubt,
    DeviceError,
    DeviceResult,
    DeviceWarning,
    FioJob,
    Latency,
    device_jobs,
    too_short,
)
from fastdata_cli.timing.device_fallback import measure_by_threads
from fastdata_cli.timing.device_target import DeviceTargets, Target, path_of
from fastdata_cli.timing.fio_parse import PERCENTILES, read_report

__all__ = [
    "INSTALL_HINT",
    "DeviceDoubt",
    "DeviceError",
    "DeviceResult",
    "DeviceWarning",
    "FioJob",
    "FioProgram",
    "Latency",
    "device_jobs",
    "find_fio",
    "measure_device",
    "run_fallback",
    "run_fio",
]

INSTALL_HINT = "install fio: apt install fio, dnf install fio, or conda install -c conda-forge fio"

_VERSION_LIMIT_S = 10.0
# What fio may need beyond its runtime: to start, to open its files, to report.
_GRACE_S = 10.0
_SYNC = "psync"


@dataclass(frozen=True, slots=True)
class FioProgram:
    """An installed fio: its path, and its version such as ``3.33``."""

    path: str
    version: str


def find_fio() -> FioProgram | None:
    """Return the fio on PATH, or None if there is none, or what is called so is another program."""
    path = shutil.which("fio")
    if path is None:
        return None
    try:
        done = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_VERSION_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = done.stdout.decode(errors="replace")
    found = re.search(r"^fio(?:-| version )(\d[\w.+-]*)", said, re.MULTILINE)
    return FioProgram(path, found[1]) if found else None


def run_fio(
    files: Iterable[Path],
    job: FioJob,
    *,
    program: FioProgram | None = None,
    folder: Path | None = None,
) -> DeviceResult:
    """Run one job by fio, reading the largest of some files, or a scratch file beside them.

    Args:
        files: the dataset's files.
        job: what to measure.
        program: the fio to run; by default the one on PATH.
        folder: where a scratch file may be made; by default beside the largest of the files.

    Raises:
        DeviceError: there is no fio, nothing that it could read, it failed, or it did not end.
    """
    program = program or find_fio()
    if program is None:
        raise DeviceError("fio is not installed", hint=INSTALL_HINT)
    with DeviceTargets(files, folder) as targets:
        return _measure_by_fio(program, job, targets.for_job(job))


def run_fallback(files: Iterable[Path], job: FioJob, *, folder: Path | None = None) -> DeviceResult:
    """Run one job without fio, by threads of this process.

    Args, Raises: as ``run_fio``.
    """
    with DeviceTargets(files, folder) as targets:
        return measure_by_threads(job, targets.for_job(job))


def measure_device(
    files: Iterable[Path],
    jobs: Sequence[FioJob],
    *,
    program: FioProgram | None,
    folder: Path | None = None,
    scratch: bool = True,
) -> Iterator[DeviceResult]:
    """Run jobs one after the other and yield each result when it is there.

    Args:
        files: the dataset's files.
        jobs: such as ``device_jobs`` gives.
        program: what ``find_fio`` found; without one, and where fio fails, the fallback measures,
            and a warning of the result says so.
        folder: where a scratch file may be made; by default beside the largest of the files.
        scratch: whether one is made at all.

    Raises:
        DeviceError: there is nothing that could be read.
    """
    with DeviceTargets(files, folder, scratch=scratch) as targets:
        for job in jobs:
            yield _measure(program, job, targets.for_job(job))


def _measure(program: FioProgram | None, job: FioJob, target: Target) -> DeviceResult:
    text = f"fio is not installed; {INSTALL_HINT}"
    if program is not None:
        try:
            return _measure_by_fio(program, job, target)
        except DeviceError as problem:
            text = f"{problem}: measured without it"
    result = measure_by_threads(job, target)
    warning = DeviceWarning(kind=DeviceDoubt.NO_FIO, text=text)
    return replace(result, warnings=(*result.warnings, warning))


def _measure_by_fio(program: FioProgram, job: FioJob, target: Target) -> DeviceResult:
    job = replace(job, block_bytes=target.block_bytes, direct=job.direct and target.direct)
    if not job.direct:
        job = _synchronous(job)
    try:
        return _run(program, job, target)
    except DeviceError as problem:
        if job.engine == _SYNC or problem.facts.get("overran"):
            raise
        text = f"engine {job.engine} refused ({problem}): {_SYNC} ran instead"
        result = _run(program, _synchronous(job), target)
        warning = DeviceWarning(kind=DeviceDoubt.ENGINE, text=text)
        return replace(result, warnings=(*result.warnings, warning))


def _synchronous(job: FioJob) -> FioJob:
    """Return the job with one thread for each read on its way.

    Several threads would read the same blocks in order, and all but the first find them cached.
    """
    return replace(job, engine=_SYNC, depth=job.depth if job.rw == "randread" else 1)


def _run(program: FioProgram, job: FioJob, target: Target) -> DeviceResult:
    options = _options(job, sum(target.sizes))
    names = ":".join(path_of(descriptor) for descriptor in target.descriptors)
    stdout, stderr, code = _output(
        [program.path, *options, f"--filename={names}"],
        target.descriptors,
        job.runtime_s + _GRACE_S,
    )
    report = read_report(stdout, _with_names(stderr, target), code)
    return DeviceResult(
        name=job.name,
        rw=job.rw,
        block_bytes=job.block_bytes,
        depth=job.depth,
        direct=job.direct,
        engine=job.engine,
        bandwidth=report.bandwidth,
        iops=report.iops,
        latency=report.latency,
        seconds=report.seconds,
        tool=f"fio {program.version}",
        file_count=len(target.descriptors),
        scratch=target.scratch,
        command=shlex.join(["fio", *options]),
        warnings=(*target.warnings, *too_short(job, report.seconds)),
    )


def _with_names(text: bytes, target: Target) -> bytes:
    """Put the names of files in place of the descriptors that fio knows."""
    names = dict(zip(target.descriptors, target.names, strict=True))

    def name(found: re.Match[bytes]) -> bytes:
        return os.fsencode(names.get(int(found[1]), os.fsdecode(found[0])))

    return re.sub(rb"/proc/self/fd/(\d+)", name, text)


def _options(job: FioJob, total_bytes: int) -> list[str]:
    options = [
        "--readonly",
        "--output-format=json",
        "--eta=never",
        "--name=fastdata",
        f"--rw={job.rw}",
        f"--bs={job.block_bytes}",
        f"--ioengine={job.engine}",
        f"--runtime={round(job.runtime_s * 1000)}ms",
        "--randrepeat=0",
        "--lat_percentiles=1",
        "--clat_percentiles=0",
        f"--percentile_list={PERCENTILES}",
    ]
    threaded = job.engine == _SYNC and job.depth > 1
    if threaded:
        options += [f"--numjobs={job.depth}", "--thread", "--group_reporting"]
    else:
        options.append(f"--iodepth={job.depth}")
    if job.direct:
        # What is cached stays cached: the page cache is not read, and is not ours to empty here.
        return [*options, "--direct=1", "--time_based", "--norandommap", "--invalidate=0"]
    # Nothing is read twice, or memory would answer: one pass, and threads share a quarter of it.
    share = max(total_bytes // (4 * job.depth), job.block_bytes)
    return [*options, "--direct=0", "--invalidate=1", *([f"--io_size={share}"] if threaded else [])]


def _output(
    arguments: Sequence[str], descriptors: tuple[int, ...], limit_s: float
) -> tuple[bytes, bytes, int]:
    """Run fio and return its stdout, stderr and exit status; nothing of it outlives this call."""
    try:
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=descriptors,
            env={**os.environ, "LC_ALL": "C"},
            start_new_session=True,  # so that the workers it forks can be ended with it
        )
    except OSError as problem:
        raise DeviceError(f"{arguments[0]} cannot be run: {problem.strerror}") from problem
    with process:
        try:
            stdout, stderr = process.communicate(timeout=limit_s)
        except BaseException as problem:  # an interrupt as well: fio is in a session of its own
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(problem, subprocess.TimeoutExpired):
                text = f"fio did not end within {limit_s:.0f} s and was stopped"
                raise DeviceError(text, overran=True) from problem
            raise
    return stdout, stderr, process.returncode
