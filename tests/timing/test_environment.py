"""The environment: what it says of this machine, of made-up ones, and what it leaves out."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from fastdata_cli.timing import cgroup, environment, gpus
from fastdata_cli.timing.disks import Disk, DiskCounters, disk_counters, disk_of
from fastdata_cli.timing.environment import Environment, differences, storage_of, usable_cores
from fastdata_cli.timing.mounts import Mount

UNIFIED = "30 25 0:26 / {point} rw - cgroup2 cgroup rw\n"
SEPARATE = (
    "33 31 0:30 / {point}/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 / {point}/memory rw - cgroup cgroup rw,memory\n"
)


@pytest.fixture
def groups(tmp_path: Path) -> Callable[..., Path]:
    """Make a /proc/self and a tree of control groups that holds ``files``."""

    def make(mounts: str, groups: str, files: dict[str, str]) -> Path:
        proc, point = tmp_path / "self", tmp_path / "cgroup"
        proc.mkdir()
        (proc / "mountinfo").write_text("22 27 0:21 / /proc rw\n" + mounts.format(point=point))
        (proc / "cgroup").write_text(groups)
        for name, text in files.items():
            (point / name).parent.mkdir(parents=True, exist_ok=True)
            (point / name).write_text(text)
        return proc

    return make


def test_this_machine(tmp_path: Path) -> None:
    found = environment.environment([tmp_path, tmp_path / "not" / "there yet"])
    assert found.cpu_model
    assert 1 <= found.cores_usable <= found.cores_allowed <= found.cores_present
    assert found.memory_bytes >= found.memory_available_bytes > 0
    assert found.kernel.startswith(f"Linux {platform.release()}")
    assert found.libraries["numpy"] == np.__version__
    assert found.storage[0].path == str(tmp_path)
    assert found.storage[0].filesystem == found.storage[1].filesystem != "unknown"
    assert differences(found, found) == []


def test_it_names_no_host(tmp_path: Path) -> None:
    text = json.dumps(asdict(environment.environment([tmp_path])))
    assert f'"{platform.node()}"' not in text


def test_it_imports_no_library() -> None:
    script = (
        "import sys; from fastdata_cli.timing.environment import environment\n"
        "assert 'numpy' in environment([]).libraries\n"
        "print({'torch', 'zarr', 'h5py', 'lmdb', 'cv2', 'webdataset'} & set(sys.modules))"
    )
    words = [sys.executable, "-c", script]
    said = subprocess.run(words, capture_output=True, text=True, check=True)
    assert said.stdout == "set()\n"


@pytest.mark.parametrize(
    ("kind", "network"),
    [
        ("nfs4", True), ("cifs", True), ("9p", True), ("virtiofs", True), ("fuse.sshfs", True),
        ("fuse", True), ("ext4", False), ("fuseblk", False), ("overlay", False), ("tmpfs", False),
    ],
)  # fmt: skip
def test_file_systems_over_a_network(
    monkeypatch: pytest.MonkeyPatch, kind: str, network: bool
) -> None:
    options = ("rw", "relatime", "vers=4.2", "addr=10.1.2.3", "username=alice", "rsize=1048576")
    mount = Mount("/mnt", kind, "server:/export", options, "0:99")
    monkeypatch.setattr(environment, "mount_of", lambda path: mount)
    found = storage_of(Path("/mnt/set.zarr"))
    assert (found.filesystem, found.network, found.device) == (kind, network, None)
    assert found.mount_options == ("rw", "relatime", "vers=4.2", "rsize=1048576")


def test_paths_that_are_no_text_are_shown_escaped() -> None:
    assert storage_of(Path(os.fsdecode(b"/tmp/\xff\n"))).path == "/tmp/%FF%0A"


def sys_block(root: Path) -> Path:
    """Make a /sys with a disk of one partition and a volume on it."""
    disk = root / "devices/pci/block/nvme0n1"
    volume = root / "devices/virtual/block/dm-0"
    for folder in (disk / "queue", disk / "device", disk / "nvme0n1p2", volume / "queue"):
        folder.mkdir(parents=True)
    (disk / "queue/rotational").write_text("0\n")
    (disk / "queue/read_ahead_kb").write_text("128\n")
    (disk / "device/model").write_text("Fast Disk 2TB   \n")
    (disk / "nvme0n1p2/partition").write_text("2\n")
    (volume / "slaves").mkdir()
    (volume / "slaves/nvme0n1p2").symlink_to(disk / "nvme0n1p2")
    (root / "dev/block").mkdir(parents=True)
    (root / "dev/block/259:2").symlink_to(disk / "nvme0n1p2")
    (root / "dev/block/253:0").symlink_to(volume)
    return root


def test_a_partition_stands_for_its_disk(tmp_path: Path) -> None:
    mount = Mount("/", "ext4", "/dev/nvme0n1p2", (), "259:2")
    assert disk_of(mount, sys=sys_block(tmp_path)) == Disk(
        name="nvme0n1", model="Fast Disk 2TB", rotational=False, read_ahead_bytes=128 << 10
    )


def test_a_volume_has_the_model_of_what_is_below(tmp_path: Path) -> None:
    found = disk_of(Mount("/", "xfs", "/dev/dm-0", (), "253:0"), sys=sys_block(tmp_path))
    assert found == Disk(name="dm-0", model="Fast Disk 2TB", rotational=None, read_ahead_bytes=None)


@pytest.mark.parametrize("source", ["tmpfs", "/dev/none", "/dev/null", "server:/export"])
def test_what_lies_on_no_disk(tmp_path: Path, source: str) -> None:
    assert disk_of(Mount("/", "any", source, (), "0:26"), sys=sys_block(tmp_path)) is None


def test_disk_counters(tmp_path: Path) -> None:
    path = tmp_path / "diskstats"
    path.write_text(
        "   7       0 loop0 0 0\n"
        " 254       0 vda 1000 5 2048 900 10 0 80 30 2 1500 3000 0 0 0 0 0 0\n"
        " 254       1 vda1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1\n"
    )
    assert disk_counters({"vda", "gone"}, diskstats=path) == {
        "vda": DiskCounters(reads=1000, read_bytes=1 << 20, busy_s=1.5, queued_s=3.0)
    }
    assert disk_counters({"vda"}, diskstats=tmp_path / "no such file") == {}


@pytest.mark.parametrize(
    ("mounts", "group", "files", "quota", "limit"),
    [
        (UNIFIED, "0::/a/b\n", {"a/b/cpu.max": "150000 100000"}, 1.5, None),
        (
            UNIFIED,
            "0::/a/b\n",
            {"a/b/cpu.max": "max 100000", "a/cpu.max": "200000 100000"},
            2.0,
            None,
        ),
        (UNIFIED, "0::/\n", {"cpu.max": "50000 100000", "memory.max": "1048576\n"}, 0.5, 1 << 20),
        (UNIFIED, "0::/a\n", {"a/memory.max": "max\n", "memory.max": "nonsense"}, None, None),
        (UNIFIED, "0::/host/name\n", {"cpu.max": "400000 100000"}, 4.0, None),
        (
            SEPARATE,
            "4:memory:/job\n1:cpu,cpuacct:/job\n0::/\n",
            {
                "cpu/job/cpu.cfs_quota_us": "300000\n",
                "cpu/job/cpu.cfs_period_us": "100000\n",
                "cpu/cpu.cfs_quota_us": "-1\n",
                "cpu/cpu.cfs_period_us": "100000\n",
                "memory/job/memory.limit_in_bytes": "2097152\n",
                "memory/memory.limit_in_bytes": "9223372036854771712\n",
            },
            3.0,
            2 << 20,
        ),
        ("", "", {}, None, None),
        (UNIFIED, "", {"cpu.max": "1 1"}, None, None),
    ],
)
def test_limits_of_control_groups(
    groups: Callable[..., Path],
    mounts: str,
    group: str,
    files: dict[str, str],
    quota: float | None,
    limit: int | None,
) -> None:
    proc = groups(mounts, group, files)
    assert cgroup.processor_quota(proc) == quota
    assert cgroup.memory_limit(proc) == limit


def test_a_group_named_as_the_host_sees_it(groups: Callable[..., Path]) -> None:
    proc = groups(
        "30 25 0:26 /docker/12ab {point} rw - cgroup2 cgroup rw\n",
        "0::/docker/12ab/job\n",
        {"job/cpu.max": "200000 100000"},
    )
    assert cgroup.processor_quota(proc) == 2


def test_without_proc_there_is_no_limit(tmp_path: Path) -> None:
    assert cgroup.processor_quota(tmp_path) is None
    assert cgroup.memory_limit(tmp_path) is None


@pytest.mark.parametrize(("quota", "cores"), [(None, 64), (1.5, 1), (0.5, 1), (4.0, 4), (99.0, 64)])
def test_usable_cores_respect_the_quota(
    monkeypatch: pytest.MonkeyPatch, quota: float | None, cores: int
) -> None:
    monkeypatch.setattr(cgroup, "processor_quota", lambda: quota)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)))
    assert usable_cores() == cores


@pytest.fixture
def here(tmp_path: Path) -> Environment:
    return environment.environment([tmp_path])


def test_differences_are_told_in_words(here: Environment) -> None:
    storage = replace(here.storage[0], filesystem="nfs4", network=True, model="Disk X")
    other = replace(
        here,
        cpu_model="Another 9000",
        memory_available_bytes=1,
        gpus=("H200", "H200"),
        libraries={**here.libraries, "numpy": "1.0"},
        storage=(replace(storage, path="/elsewhere/set.zarr"), storage),
    )
    assert differences(replace(here, gpus=()), other) == [
        f"processor: {here.cpu_model} → Another 9000",
        "GPUs: none → H200, H200",
        f"numpy: {np.__version__} → 1.0",
        f"/elsewhere/set.zarr: filesystem: {here.storage[0].filesystem} → nfs4",
        "/elsewhere/set.zarr: network: no → yes",
        f"/elsewhere/set.zarr: model: {here.storage[0].model or 'none'} → Disk X",
    ]


class FakeNvmlError(Exception):
    pass


def fake_nvml(*, driver: bool = True, tells: bool = True) -> SimpleNamespace:
    """Return a module like pynvml: with a driver or not; of GPUs that tell their load or not."""

    def init() -> None:
        if not driver:
            raise FakeNvmlError("driver not loaded")

    def rates(gpu: int) -> SimpleNamespace:
        if not tells:
            raise FakeNvmlError("not supported")
        return SimpleNamespace(gpu=50 + gpu, memory=10)

    return SimpleNamespace(
        NVMLError=FakeNvmlError,
        nvmlInit=init,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetName=lambda gpu: f"GPU {gpu}",
        nvmlDeviceGetUtilizationRates=rates,
        nvmlDeviceGetMemoryInfo=lambda gpu: SimpleNamespace(used=1000 * gpu),
    )


def test_gpus_are_named_and_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml())
    assert environment.environment([]).gpus == ("GPU 0", "GPU 1")
    with gpus.Gpus() as session:
        assert session.read() == [gpus.GpuReading(0.5, 0), gpus.GpuReading(0.51, 1000)]
    assert session.read() == []


@pytest.mark.parametrize("module", [None, fake_nvml(driver=False)])
def test_no_library_or_no_driver_is_no_gpu(monkeypatch: pytest.MonkeyPatch, module: object) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", module)
    assert environment.environment([]).gpus == ()


def test_a_gpu_that_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml(tells=False))
    with gpus.Gpus() as session:
        assert session.read()[1] == gpus.GpuReading(None, 1000)
