"""Owns the virtual environments of the peers: one each, sharing what ours has installed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from fastdata_cli.errors import MissingDependencyError

ENVIRONMENTS = Path(__file__).resolve().parents[2] / "build" / "bench-peers"

REQUIREMENTS = {
    "ffcv": ("ffcv==1.0.2",),
    "grain": ("grain>=0.2", "array_record>=0.5"),
    "lance": ("pylance>=0.20",),
    "litdata": ("litdata>=0.2",),
    "tensorstore": ("tensorstore>=0.1.60",),
}
"""What pip installs for each. FFCV is compiled: it needs g++, pkg-config and the development files
of OpenCV and libjpeg-turbo (Debian: libopencv-dev, libturbojpeg0-dev)."""

# What ours has must stay as it is: pip would replace a CPU build of torch by gigabytes of CUDA.
_KEPT = ("torch", "numpy")
_LIMIT_S = 600
_OUTCOME = "outcome.json"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How an installation went; kept in the environment."""

    version: str | None
    """Of the peer; None where it is not there."""
    problem: str | None
    """What went wrong."""


def python_for(peer: str | None) -> Path:
    """Return the interpreter that has a peer; our own where none is asked for.

    Raises:
        MissingDependencyError: the peer is not installed; says why.
    """
    if peer is None:
        return Path(sys.executable)
    outcome = _outcome(peer)
    if outcome is None:
        raise MissingDependencyError(f"{peer} was not installed", hint="make bench tries to")
    if outcome.problem:
        raise MissingDependencyError(f"{peer} could not be installed: {outcome.problem}")
    return ENVIRONMENTS / peer / "bin" / "python"


def versions(peers: Iterable[str]) -> dict[str, str]:
    """Return the version of each of these peers that is installed."""
    found = {peer: _outcome(peer) for peer in peers}
    return {peer: each.version for peer, each in found.items() if each and each.version}


def install_missing(peers: Iterable[str]) -> None:
    """Install the peers that were not tried before; says how each went.

    A peer that cannot be installed is noted, and tried again once its environment is removed.
    """
    for peer in peers:
        if _outcome(peer) is not None:
            continue
        folder = ENVIRONMENTS / peer
        print(f"installing {peer} into {folder}", file=sys.stderr, flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        outcome = _install(folder, REQUIREMENTS[peer])
        (folder / _OUTCOME).write_text(json.dumps(asdict(outcome)))
        if outcome.problem:
            print(f"{peer}: {outcome.problem}", file=sys.stderr, flush=True)


def _outcome(peer: str) -> Outcome | None:
    """Return how the installation of a peer went; None where it was not tried."""
    path = ENVIRONMENTS / peer / _OUTCOME
    return Outcome(**json.loads(path.read_text())) if path.exists() else None


def _install(folder: Path, requirements: tuple[str, ...]) -> Outcome:
    # Without ensurepip: pip is among what ours shares.
    made = _run([sys.executable, "-m", "venv", "--without-pip", str(folder)])
    if made.returncode:
        return Outcome(version=None, problem=_cause(made.stderr))
    places = {"base": str(folder), "platbase": str(folder)}
    packages = Path(sysconfig.get_path("purelib", vars=places))
    ours = sysconfig.get_path("purelib")
    # Not a plain path: the .pth files there, of editable installations, are to be followed.
    (packages / "_fastdata.pth").write_text(f"import site; site.addsitedir({ours!r})\n")
    python = str(folder / "bin" / "python")
    kept = [f"{name}=={version(name)}" for name in _KEPT]
    try:
        ended = _run(
            [python, "-m", "pip", "install", "--quiet", "--retries", "1", *requirements, *kept]
        )
    except subprocess.TimeoutExpired:
        return Outcome(version=None, problem=f"pip was not done after {_LIMIT_S} s")
    if ended.returncode:
        return Outcome(version=None, problem=_cause(ended.stderr))
    first = re.split("[=><]", requirements[0])[0]
    program = f"from importlib.metadata import version; print(version({first!r}))"
    return Outcome(version=_run([python, "-c", program]).stdout.strip(), problem=None)


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)


def _cause(stderr: str) -> str:
    # pip ends with words of its own; the error of a failed build stands further up.
    lines = [line.strip() for line in stderr.splitlines() if "Error" in line or "ERROR" in line]
    return (lines or ["without a word"])[0]
