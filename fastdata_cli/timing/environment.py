"""Where a measurement ran: processors, memory, storage, software; never who or which host."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from fastdata_cli import keys
from fastdata_cli._version import __version__
from fastdata_cli.timing import cgroup
from fastdata_cli.timing.disks import disk_of
from fastdata_cli.timing.gpus import Gpus
from fastdata_cli.timing.mounts import mount_of

_LIBRARIES = (
    "crc32c", "h5py", "hdf5plugin", "lmdb", "numcodecs", "numpy", "opencv-python-headless",
    "pillow", "ray", "simplejpeg", "torch", "webdataset", "zarr",
)  # fmt: skip

# Who serves it, as whom, and the layers of a container: nobody's business, and no cause of speed.
_UNTOLD_OPTIONS = {
    "addr", "clientaddr", "credentials", "domain", "lowerdir", "mon_addr", "mountaddr", "name",
    "pass", "password", "prefixpath", "secret", "secretfile", "source", "unc", "upperdir", "user",
    "username", "workdir",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Storage:
    """What one path lies on."""

    path: str
    """As given, in text form."""
    mount_point: str
    filesystem: str
    """``ext4``, ``nfs4``, ``fuse.sshfs`` …; ``unknown`` where the system does not tell."""
    mount_options: tuple[str, ...]
    """Without those that name a server, a user or a secret."""
    network: bool
    """A server, a host or a daemon answers the reads: this machine sees only part of the work."""
    device: str | None
    """The disk, as in ``/sys/block``; None for a file system without one."""
    model: str | None
    rotational: bool | None
    """As the kernel believes; virtual disks often claim to rotate."""
    read_ahead_bytes: int | None


@dataclass(frozen=True, kw_only=True)
class Environment:
    """What two measurements must share before their numbers may be compared."""

    cpu_model: str
    cores_present: int
    cores_allowed: int
    """By the affinity of this process."""
    cores_quota: float | None
    """By its control groups; None without a limit."""
    cores_usable: int
    memory_bytes: int
    memory_available_bytes: int
    """When the measurement began."""
    memory_limit_bytes: int | None
    """By the control groups; None without a limit."""
    storage: tuple[Storage, ...]
    gpus: tuple[str, ...]
    kernel: str
    python: str
    fastdata: str
    libraries: Mapping[str, str]
    """Version by distribution; those that are not installed are left out."""


def usable_cores() -> int:
    """Return how many cores this process may use: its affinity, and the quota of its cgroup."""
    cores, quota = len(os.sched_getaffinity(0)), cgroup.processor_quota()
    return cores if quota is None else max(1, min(cores, int(quota)))


def environment(paths: Sequence[Path]) -> Environment:
    """Describe this machine, and what each of ``paths`` lies on."""
    memory = _memory()
    limit = cgroup.memory_limit()
    with Gpus() as gpus:
        gpu_names = gpus.names()
    return Environment(
        cpu_model=_cpu_model(),
        cores_present=os.cpu_count() or 1,
        cores_allowed=len(os.sched_getaffinity(0)),
        cores_quota=cgroup.processor_quota(),
        cores_usable=usable_cores(),
        memory_bytes=memory.get("MemTotal", 0),
        memory_available_bytes=memory.get("MemAvailable", 0),
        # Version 1 writes "no limit" as a number larger than any memory.
        memory_limit_bytes=limit if limit and limit < memory.get("MemTotal", 0) else None,
        storage=tuple(storage_of(path) for path in paths),
        gpus=gpu_names,
        kernel=f"{platform.system()} {platform.release()} {platform.machine()}",
        python=f"{platform.python_implementation()} {platform.python_version()}",
        fastdata=__version__,
        libraries=_versions(_LIBRARIES),
    )


def storage_of(path: Path) -> Storage:
    """Describe what ``path`` lies on, or will lie on if it is not there yet."""
    mount = mount_of(path)
    disk = disk_of(mount)
    daemon = mount.kind == "fuse" or mount.kind.startswith("fuse.")
    return Storage(
        path=keys.to_text(str(path)),
        mount_point=keys.to_text(mount.point),
        filesystem=mount.kind,
        mount_options=tuple(
            keys.to_text(option)
            for option in mount.options
            if option.partition("=")[0] not in _UNTOLD_OPTIONS
        ),
        network=mount.remote or daemon,
        device=disk.name if disk else None,
        model=disk.model if disk else None,
        rotational=disk.rotational if disk else None,
        read_ahead_bytes=disk.read_ahead_bytes if disk else None,
    )


def differences(a: Environment, b: Environment) -> list[str]:
    """Say, a line each, what differs from ``a`` to ``b`` and may explain different numbers.

    How much memory happened to be free is not compared, and storage is compared by position:
    the same dataset may have moved.
    """
    found = [
        _difference(name, getattr(a, field), getattr(b, field)) for field, name in _COMPARED.items()
    ]
    libraries = sorted({*a.libraries, *b.libraries})
    found += [_difference(name, a.libraries.get(name), b.libraries.get(name)) for name in libraries]
    for before, after in zip(a.storage, b.storage, strict=False):
        found += [
            _difference(f"{after.path}: {_words(field.name)}", *pair)
            for field in fields(Storage)
            if field.name not in ("path", "mount_point")
            for pair in [(getattr(before, field.name), getattr(after, field.name))]
        ]
    return [line for line in found if line]


_COMPARED = {
    "cpu_model": "processor",
    "cores_present": "cores present",
    "cores_usable": "cores usable",
    "cores_quota": "processor quota",
    "memory_bytes": "memory",
    "memory_limit_bytes": "memory limit",
    "gpus": "GPUs",
    "kernel": "kernel",
    "python": "Python",
    "fastdata": "fastdata",
}


def _difference(name: str, before: object, after: object) -> str:
    return "" if before == after else f"{name}: {_shown(before)} → {_shown(after)}"


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)


def _words(name: str) -> str:
    return name.replace("_", " ")


def _versions(names: Iterable[str]) -> dict[str, str]:
    """Return the versions of installed distributions, importing none of them."""
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _cpu_model() -> str:
    facts = _colon_separated(Path("/proc/cpuinfo"))
    named = [facts[name] for name in ("model name", "Model", "cpu model", "cpu") if name in facts]
    parts = [facts[name] for name in ("CPU implementer", "CPU part") if name in facts]
    return (named or [" ".join([platform.machine(), *parts])])[0]


def _memory() -> dict[str, int]:
    """Return the bytes of each line of ``/proc/meminfo``."""
    facts = _colon_separated(Path("/proc/meminfo"))
    return {
        name: int(text.split()[0]) << 10 for name, text in facts.items() if text.endswith(" kB")
    }


def _colon_separated(path: Path) -> dict[str, str]:
    """Return the values of ``name: value`` lines; of several of one name, the last."""
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return {}
    pairs = (line.partition(":") for line in lines)
    return {name.strip(): value.strip() for name, colon, value in pairs if colon}
