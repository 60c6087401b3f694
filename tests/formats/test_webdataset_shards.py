"""Sets of shards: patterns, folders, publishing, overwriting, interruptions; damage to our tars."""

import os
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest

from fastdata_cli import registry
from fastdata_cli.contract import Reader, Writer
from fastdata_cli.errors import (
    DamagedDatasetError,
    DestinationExistsError,
    SourceNotFoundError,
    UnsupportedError,
)
from fastdata_cli.formats.sharded.find import expand_braces, gaps
from fastdata_cli.formats.sharded.writer import ShardWriteOptions
from fastdata_cli.formats.webdataset import FORMAT
from fastdata_cli.sample import Payload, Sample
from fastdata_cli.storage import durable, mapping
from fastdata_cli.testing import encoded_samples, pixel_samples, synthetic, write_dataset

OPTIONS = ShardWriteOptions(shard_samples=9)
PATTERN = "train-%03d.tar"
PAYLOAD = Payload.ENCODED
INDEX = "train-%03d.tar.fastdata.json"
STAGING = ".train-%03d.tar.fastdata-partial"


def write_set(folder: Path, samples: list[Sample], *, overwrite: bool = False) -> Path:
    folder.mkdir(exist_ok=True)
    return write_dataset(
        FORMAT,
        folder / PATTERN,
        samples,
        Payload.ENCODED,
        OPTIONS,
        part_samples=7,
        overwrite=overwrite,
    )


def open_writer(path: Path, samples: list[Sample], *, overwrite: bool = False) -> Writer:
    manifest = synthetic.manifest_for(samples, Payload.ENCODED, FORMAT.name)
    return synthetic.open_writer(FORMAT, path, manifest, OPTIONS, overwrite=overwrite)


def keys(reader: Reader) -> list[str]:
    assert list(reader.keys()) == [reader.read(index).key for index in range(len(reader))]
    return list(reader.keys())


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def content(folder: Path) -> dict[str, bytes]:
    return {entry.name: entry.read_bytes() for entry in folder.iterdir()}


@pytest.fixture
def samples() -> list[Sample]:
    return encoded_samples()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "set"


def test_shards_are_full_and_none_is_empty(folder: Path, samples: list[Sample]) -> None:
    write_set(folder, samples)
    assert names(folder) == [INDEX, *(f"train-00{shard}.tar" for shard in range(5))]
    sizes = [len(registry.open_reader(path)) for path in sorted(folder.glob("*.tar"))]
    assert sizes == [9, 9, 9, 9, 5]


def test_shard_size(folder: Path, samples: list[Sample]) -> None:
    folder.mkdir()
    options = ShardWriteOptions(shard_size=20_000)
    path = write_dataset(FORMAT, folder / PATTERN, samples, Payload.ENCODED, options)
    readers = [registry.open_reader(shard) for shard in sorted(folder.glob("*.tar"))]
    assert len(readers) > 3
    for shard in sorted(folder.glob("*.tar")):
        with tarfile.open(shard) as tar:
            assert tar.getmember("__fastdata__/keys.npy").offset <= 20_000
    assert sum(map(len, readers)) == len(samples)
    assert keys(registry.open_reader(path)) == [sample.key for sample in samples]


def test_every_way_to_name_a_set(folder: Path, samples: list[Sample]) -> None:
    pattern = write_set(folder, samples)
    wanted = [sample.key for sample in samples]
    for path in (pattern, folder, folder / "train-{000..004}.tar"):
        assert registry.recognise(path).name == "webdataset"
        reader = registry.open_reader(path)
        assert keys(reader) == wanted
        assert list(reader.verify()) == []
        assert reader.describe()["shards"] == 5
    assert (
        keys(registry.open_reader(folder / "train-{003,001}.tar")) == wanted[27:36] + wanted[9:18]
    )
    assert keys(registry.open_reader(folder / "train-002.tar")) == wanted[18:27]
    files = {path.name for path in registry.open_reader(pattern).files()}
    assert files == set(names(folder))


def test_a_set_without_its_index(folder: Path, samples: list[Sample]) -> None:
    pattern = write_set(folder, samples)
    (folder / INDEX).unlink()
    assert keys(registry.open_reader(pattern)) == [sample.key for sample in samples]
    (folder / "train-004.tar").unlink()
    reader = registry.open_reader(pattern)
    assert len(reader) == 36
    assert reader.notes == {"missing-shard": 1}
    assert reader.describe()["notes"] == ["1 shards of the set are missing"]


def test_different_shards_are_not_joined(tmp_path: Path) -> None:
    for payload in Payload:
        path = tmp_path / f"{payload}.tar"
        write_dataset(FORMAT, path, synthetic.samples_for(payload), payload)
    with pytest.raises(UnsupportedError, match="different kinds"):
        registry.open_reader(tmp_path)


# -- publishing


def test_overwrite_removes_surplus_shards(folder: Path, samples: list[Sample]) -> None:
    pattern = write_set(folder, samples)
    write_set(folder, samples[:12], overwrite=True)
    assert names(folder) == [INDEX, "train-000.tar", "train-001.tar"]
    assert keys(registry.open_reader(pattern)) == [sample.key for sample in samples[:12]]


def test_shards_of_others_are_never_replaced(folder: Path, samples: list[Sample]) -> None:
    folder.mkdir()
    stranger = folder / "train-007.tar"
    with tarfile.open(stranger, "w"):
        pass
    before = stranger.read_bytes()
    for overwrite in (False, True):
        with pytest.raises(DestinationExistsError, match=r"train-007\.tar"):
            write_set(folder, samples, overwrite=overwrite)
        assert content(folder) == {stranger.name: before}


def test_a_shard_of_others_that_appears_is_not_removed(folder: Path, samples: list[Sample]) -> None:
    pattern = write_set(folder, samples)
    before = content(folder)
    writer = open_writer(pattern, samples[:9], overwrite=True)
    writer.begin("x")
    for part, batch in synthetic.parts_of(samples[:9], synthetic.limits(writer, 7), PAYLOAD):
        writer.write_part(part, batch)
    stranger = folder / "train-007.tar"
    stranger.write_bytes(b"of somebody else")
    manifest = synthetic.manifest_for(samples[:9], PAYLOAD, FORMAT.name)
    with pytest.raises(DestinationExistsError, match=r"train-007\.tar is no whole shard"):
        writer.publish(manifest)
    assert stranger.read_bytes() == b"of somebody else"
    assert {name: (folder / name).read_bytes() for name in before} == before
    stranger.unlink()
    writer.publish(manifest)
    assert names(folder) == [INDEX, "train-000.tar"]


@pytest.mark.parametrize("done", range(6))
@pytest.mark.parametrize("overwrite", [False, True])
def test_killed_while_publishing(
    folder: Path,
    tmp_path: Path,
    samples: list[Sample],
    monkeypatch: pytest.MonkeyPatch,
    done: int,
    overwrite: bool,
) -> None:
    write_set(tmp_path / "wanted", samples)
    pattern = write_set(folder, samples[::-1]) if overwrite else folder / PATTERN
    folder.mkdir(exist_ok=True)
    calls = 0

    def rename(staged: Path, final: Path) -> bool:
        nonlocal calls
        calls += 1
        if calls > done:
            raise KeyboardInterrupt
        os.rename(staged, final)
        return True

    with monkeypatch.context() as patch:
        patch.setattr(durable, "rename_new", rename)
        with pytest.raises(KeyboardInterrupt):
            write_set(folder, samples, overwrite=overwrite)
    with pytest.raises(DamagedDatasetError if done else SourceNotFoundError):
        registry.open_reader(pattern)
    if done:
        with pytest.raises(DamagedDatasetError, match="incomplete"):
            registry.open_reader(folder)
    durable.remove(folder / STAGING / "lock")  # the killed process held it
    write_set(folder, samples, overwrite=overwrite)
    assert content(folder) == content(tmp_path / "wanted")


def test_killed_after_publishing(folder: Path, tmp_path: Path, samples: list[Sample]) -> None:
    first = open_writer(write_set(folder, samples[:1]), samples, overwrite=True)
    first.begin("synthetic")
    for part, batch in synthetic.parts_of(samples, synthetic.limits(first, 7), Payload.ENCODED):
        first.write_part(part, batch)
    first.abort(keep=True)
    shutil.copytree(folder / STAGING, tmp_path / "kept")
    pattern = write_set(folder, samples, overwrite=True)
    before = content(folder)
    shutil.copytree(tmp_path / "kept", folder / STAGING)
    for shard in (folder / STAGING / "data").iterdir():
        shard.unlink()
    assert len(registry.open_reader(pattern)) == len(samples)
    write_set(folder, samples, overwrite=True)
    assert content(folder) == before


def test_publish_again_after_a_failure(folder: Path, samples: list[Sample]) -> None:
    folder.mkdir()
    writer = open_writer(folder / PATTERN, samples)
    writer.begin("x")
    for part, batch in synthetic.parts_of(samples, synthetic.limits(writer, 7), Payload.ENCODED):
        writer.write_part(part, batch)
    (folder / "train-001.tar").write_bytes(b"in the way")
    manifest = synthetic.manifest_for(samples, Payload.ENCODED, FORMAT.name)
    with pytest.raises(DestinationExistsError):
        writer.publish(manifest)
    writer.abort(keep=True)
    (folder / "train-001.tar").unlink()
    again = open_writer(folder / PATTERN, samples)
    assert len(again.begin("x")) == 6
    again.publish(manifest)
    assert keys(registry.open_reader(folder / PATTERN)) == [sample.key for sample in samples]


def test_staging_that_lost_bytes_is_begun_afresh(folder: Path, samples: list[Sample]) -> None:
    folder.mkdir()
    writer = open_writer(folder / PATTERN, samples)
    writer.begin("x")
    for part, batch in synthetic.parts_of(samples, synthetic.limits(writer, 7), Payload.ENCODED):
        writer.write_part(part, batch)
    writer.abort(keep=True)
    os.truncate(folder / STAGING / "data" / "train-001.tar", 100)
    again = open_writer(folder / PATTERN, samples)
    assert again.begin("x") == []
    again.abort(keep=False)


# -- damage to what we wrote


@pytest.fixture
def tar(tmp_path: Path, samples: list[Sample]) -> Path:
    return write_dataset(FORMAT, tmp_path / "one.tar", samples, Payload.ENCODED)


def offset(tar: Path, name: str) -> int:
    with tarfile.open(tar) as made:
        return made.getmember(name).offset_data


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("member", "shift", "index"),
    [("cat/a.png", 50, 2), ("cat/a.cls", 0, 2), ("cat/a.json", 9, 2), ("cat/a.json", -300, -1)],
)
def test_flipped_bytes_are_found(tar: Path, member: str, shift: int, index: int) -> None:
    flip(tar, offset(tar, member) + shift)
    findings = list(registry.open_reader(tar).verify())
    assert [(found.index, found.kind) for found in findings] == [(index, "corrupt")]


@pytest.mark.parametrize("name", ["keys.npy", "labels.npy", "manifest.json", "footer.json"])
def test_damaged_index_is_named(tar: Path, name: str) -> None:
    flip(tar, offset(tar, f"__fastdata__/{name}") + 3)
    with pytest.raises(DamagedDatasetError, match=f"one.tar: __fastdata__/{name}"):
        registry.open_reader(tar).read(0)


def test_cut_tar_gives_what_is_whole_and_says_so(tar: Path, samples: list[Sample]) -> None:
    os.truncate(tar, offset(tar, "dog/00025.png") + 20)
    reader = registry.open_reader(tar)
    assert len(reader) == 25
    assert [each.reason for each in reader.rejects] == ["damaged-container"]
    for index in range(25):
        assert np.array_equal(reader.read(index).image, samples[index].image)


def test_tar_cut_after_it_was_opened(tar: Path) -> None:
    reader = registry.open_reader(tar)
    os.truncate(tar, offset(tar, "dog/00025.png") + 20)
    with pytest.raises(DamagedDatasetError, match="not what was opened"):
        reader.read(0)


def test_tar_with_more_behind_it(tar: Path, samples: list[Sample]) -> None:
    tar.write_bytes(tar.read_bytes() * 2)
    reader = registry.open_reader(tar)
    assert reader.manifest is None
    assert len(reader) == 0
    assert {each.reason for each in reader.rejects} == {"duplicate-key"}
    assert reader.notes["stale-index"] == 20


def test_missing_and_changed_shards_are_named(folder: Path, samples: list[Sample]) -> None:
    pattern = write_set(folder, samples)
    shard = folder / "train-001.tar"
    whole = shard.read_bytes()
    for damage, message in (
        (None, "is missing"),
        (whole[:-512], "bytes, and"),
        (whole[:-1500] + b"#" + whole[-1499:], "footer"),
    ):
        shard.unlink()
        if damage is not None:
            shard.write_bytes(damage)
        else:
            with pytest.raises(DamagedDatasetError, match=message):
                registry.open_reader(folder)
        with pytest.raises(DamagedDatasetError, match=rf"train-001\.tar.*{message}"):
            registry.open_reader(pattern).read(0)
        shard.write_bytes(whole)


def test_exchanged_shards_are_found(folder: Path, tmp_path: Path) -> None:
    first = [Sample(f"{n}.png", np.frombuffer(synthetic.png(3, 3, 1), np.uint8)) for n in range(20)]
    other = [Sample(f"{n}.png", np.frombuffer(synthetic.png(3, 3, 2), np.uint8)) for n in range(20)]
    pattern, stranger = write_set(folder, first), write_set(tmp_path / "other", other)
    shard = "train-001.tar"
    data = (stranger.parent / shard).read_bytes()
    assert len(data) == (folder / shard).stat().st_size
    (folder / shard).write_bytes(data)
    with pytest.raises(DamagedDatasetError, match=r"train-001\.tar.*index"):
        registry.open_reader(pattern).read(0)


def test_broken_set_index(folder: Path, samples: list[Sample]) -> None:
    pattern = write_set(folder, samples)
    for text in ("{", "[]", '{"fastdata_shards": 9}', '{"fastdata_shards": 1, "shards": [1]}'):
        (folder / INDEX).write_text(text)
        with pytest.raises(DamagedDatasetError, match=r"fastdata\.json"):
            registry.open_reader(pattern)


# -- files of others


def plain_tar(path: Path, count: int, start: int = 0) -> None:
    path.parent.mkdir(exist_ok=True, parents=True)
    picture = path.parent / "picture.png"
    picture.write_bytes(synthetic.png(4, 4, 0))
    with tarfile.open(path, "w") as made:
        for index in range(start, start + count):
            made.add(picture, f"{index}.png")
    picture.unlink()


def test_folder_of_tars(tmp_path: Path) -> None:
    for name in ("a/00000.tar", "a/00002.tar", "b/00000.tar"):
        plain_tar(tmp_path / name, 3)
    (tmp_path / "a" / "00000_stats.json").write_text("{}")
    (tmp_path / ".hidden").write_text("x")
    reader = registry.open_reader(tmp_path)
    assert len(set(keys(reader))) == 9
    assert keys(reader)[:4] == ["a/00000/0.png", "a/00000/1.png", "a/00000/2.png", "a/00002/0.png"]
    assert reader.notes == {"missing-shard": 1}
    assert reader.describe()["notes"] == ["missing: a/00001.tar"]
    (tmp_path / "b" / "picture.jpg").write_text("x")
    assert not FORMAT.recognises(tmp_path)


def test_keys_that_differ_stay_as_they_are(tmp_path: Path) -> None:
    for shard in range(3):
        plain_tar(tmp_path / f"{shard}.tar", 3, 3 * shard)
    for path in (tmp_path, tmp_path / "%d.tar", tmp_path / "{0..2}.tar"):
        assert keys(registry.open_reader(path)) == [f"{index}.png" for index in range(9)]


def test_one_damaged_tar_among_several(tmp_path: Path) -> None:
    for shard in range(3):
        plain_tar(tmp_path / f"{shard}.tar", 3, 3 * shard)
    (tmp_path / "1.tar").write_bytes(b"")
    reader = registry.open_reader(tmp_path)
    assert len(keys(reader)) == 6
    assert [(each.key, each.reason) for each in reader.rejects] == [("1.tar", "damaged-container")]


def test_nothing_there(tmp_path: Path) -> None:
    plain_tar(tmp_path / "0.tar", 1)
    for name in ("x-%d.tar", "{5..9}.tar", "%d-%d.tar", "x.tar", "x\0.tar"):
        assert not FORMAT.recognises(tmp_path / name)
    with pytest.raises(SourceNotFoundError, match=r"2 of 3 shards .*1\.tar"):
        registry.open_reader(tmp_path / "{0..2}.tar")
    with pytest.raises(SourceNotFoundError):
        registry.open_reader(tmp_path / "x-%d.tar")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a-{0..2}", ["a-0", "a-1", "a-2"]),
        ("{08..10}", ["08", "09", "10"]),
        ("{0..10}", [str(number) for number in range(11)]),
        ("{a,b}/{0..1}", ["a/0", "a/1", "b/0", "b/1"]),
        ("{a}-{0,1}", ["{a}-0", "{a}-1"]),
        ("plain", ["plain"]),
    ],
)
def test_braces(text: str, wanted: list[str]) -> None:
    assert list(expand_braces(text)) == wanted


def test_gaps() -> None:
    assert gaps(["a-1.tar", "a-2.tar"]) == ([], 0)
    assert gaps(["a-08.tar", "a-12.tar"]) == (["missing: a-09.tar and 2 after it"], 3)
    assert gaps(["2019.tar", "20240101.tar", "notes.tar"]) == ([], 0)


def test_many_shards_are_not_all_mapped_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapping, "MOST_MAPS", 5)
    samples = pixel_samples()
    options = ShardWriteOptions(shard_samples=1)
    path = write_dataset(FORMAT, tmp_path / "s-%d.tar", samples, Payload.PIXELS, options)
    reader = registry.open_reader(path)
    before = len(os.listdir("/proc/self/fd"))
    batch = reader.read_many(list(range(41)))
    assert np.array_equal(batch.images, [sample.image for sample in samples])
    del batch
    assert len(os.listdir("/proc/self/fd")) == before
    assert Path("/proc/self/maps").read_text().count(str(tmp_path)) <= 5
