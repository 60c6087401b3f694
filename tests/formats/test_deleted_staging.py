"""A staging place that was deleted in part: a run starts afresh, and what stands is not touched."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from fastdata_cli import registry
from fastdata_cli.contract import Receipt, Target, Writer
from fastdata_cli.formats.sharded.writer import ShardWriteOptions
from fastdata_cli.formats.zarr.options import ZarrWriteOptions
from fastdata_cli.options import Options
from fastdata_cli.sample import Payload, Sample
from fastdata_cli.storage import durable
from fastdata_cli.storage.staging import Staging, staging_root
from fastdata_cli.testing import synthetic
from fastdata_cli.testing.conformance import content
from fastdata_cli.testing.reader_conformance import digests

SETS = ["part-%03d.tar", "part-%03d.tfrecord"]
GROWING = ["out.tar", "out.lmdb", "part-%03d.tar"]
NAMES = ["out.raw", "out.zarr", "out.h5", "out", "out.tar", "out.tfrecord", "out.lmdb", *SETS]
PAYLOADS = pytest.mark.parametrize("payload", list(Payload), ids=lambda payload: payload.value)
_PART = 4


def options_for(path: Path, payload: Payload) -> Options | None:
    if path.name in SETS:
        return ShardWriteOptions(shard_samples=_PART)
    if path.suffix == ".zarr" and payload is Payload.PIXELS:
        return ZarrWriteOptions(chunk=2)
    return None


def open_writer(
    path: Path,
    samples: Sequence[Sample],
    payload: Payload,
    *,
    grows: bool = False,
    overwrite: bool = False,
) -> Writer:
    row = registry.for_destination(path, None if path.suffix else "tree")
    manifest = synthetic.manifest_for(samples, payload, row.name)
    standing = registry.open_reader(path).manifest if grows else None
    assert row.open_writer is not None
    wanted = Target(path=path, manifest=manifest, standing=standing, overwrite=overwrite)
    return row.open_writer(wanted, options_for(path, payload) or row.write_options())


def write_rest(
    writer: Writer, samples: Sequence[Sample], payload: Payload, done: Sequence[Receipt]
) -> None:
    for part, batch in synthetic.parts_of(samples, synthetic.limits(writer, _PART), payload):
        if part.index >= len(done):
            writer.write_part(part, batch)


def write(path: Path, samples: Sequence[Sample], payload: Payload, **target: bool) -> Path:
    path.parent.mkdir(exist_ok=True)
    writer = open_writer(path, samples, payload, **target)
    write_rest(writer, samples, payload, writer.begin("same"))
    writer.publish(synthetic.manifest_for(samples, payload, writer_format(path)))
    return path


def writer_format(path: Path) -> str:
    return registry.for_destination(path, None if path.suffix else "tree").name


def interrupt(path: Path, samples: Sequence[Sample], payload: Payload, **target: bool) -> None:
    """Leave the staging place of a run that wrote all parts and did not publish them."""
    writer = open_writer(path, samples, payload, **target)
    write_rest(writer, samples, payload, writer.begin("same"))
    writer.abort(keep=True)


def visible(folder: Path) -> dict[str, dict[str, bytes]]:
    return {each.name: content(each) for each in folder.iterdir() if each.name[0] != "."}


def delete_first(data: Path) -> None:
    min(each for each in data.rglob("*") if each.is_file()).unlink()


def delete_last(data: Path) -> None:
    max(each for each in data.rglob("*") if each.is_file()).unlink()


def delete_all(data: Path) -> None:
    shutil.rmtree(data)
    data.mkdir()


DELETE = pytest.mark.parametrize("delete", [delete_first, delete_last, delete_all])


@PAYLOADS
@pytest.mark.parametrize("name", NAMES)
def test_a_run_whose_parts_were_deleted_starts_afresh(
    tmp_path: Path, name: str, payload: Payload
) -> None:
    samples = synthetic.samples_for(payload, 3 * _PART)
    whole = digests(registry.open_reader(write(tmp_path / "whole" / name, samples, payload)))
    for delete in (delete_first, delete_last, delete_all):
        path = tmp_path / delete.__name__ / name
        path.parent.mkdir()
        interrupt(path, samples, payload)
        delete(staging_root(path) / "data")
        writer = open_writer(path, samples, payload)
        assert writer.begin("same") == []
        writer.abort(keep=False)
        assert list(path.parent.iterdir()) == []
        reader = registry.open_reader(write(path, samples, payload))
        assert digests(reader) == whole
        assert list(reader.verify()) == []


@PAYLOADS
@pytest.mark.parametrize("name", NAMES)
def test_a_run_whose_parts_are_there_continues(tmp_path: Path, name: str, payload: Payload) -> None:
    samples = synthetic.samples_for(payload, 3 * _PART)
    interrupt(tmp_path / name, samples, payload)
    writer = open_writer(tmp_path / name, samples, payload)
    assert len(writer.begin("same")) == 3
    writer.publish(synthetic.manifest_for(samples, payload, writer_format(tmp_path / name)))
    assert len(registry.open_reader(tmp_path / name)) == 3 * _PART


@DELETE
@pytest.mark.parametrize("name", [name for name in NAMES if name != "out"])
def test_what_is_to_be_replaced_is_not_taken_for_a_part(
    tmp_path: Path, name: str, delete: Callable[[Path], None]
) -> None:
    old, new = synthetic.encoded_samples(4 * _PART), synthetic.encoded_samples(5 * _PART)[_PART:]
    path = write(tmp_path / name, old, Payload.ENCODED)
    before = visible(tmp_path)
    interrupt(path, new, Payload.ENCODED, overwrite=True)
    delete(staging_root(path) / "data")
    writer = open_writer(path, new, Payload.ENCODED, overwrite=True)
    assert writer.begin("same") == []
    assert visible(tmp_path) == before
    writer.abort(keep=False)
    assert visible(tmp_path) == before
    reader = registry.open_reader(write(path, new, Payload.ENCODED, overwrite=True))
    assert [sample.key for sample in new] == list(reader.keys())
    assert list(reader.verify()) == []


@DELETE
@pytest.mark.parametrize("name", GROWING)
def test_what_is_added_to_is_not_taken_for_a_part(
    tmp_path: Path, name: str, delete: Callable[[Path], None]
) -> None:
    samples = synthetic.encoded_samples(3 * _PART)
    path = write(tmp_path / name, samples[:_PART], Payload.ENCODED)
    before = visible(tmp_path)
    interrupt(path, samples, Payload.ENCODED, grows=True)
    delete(staging_root(path) / "data")
    writer = open_writer(path, samples, Payload.ENCODED, grows=True)
    assert [receipt.part.samples for receipt in writer.begin("same")] == [_PART]
    assert visible(tmp_path) == before
    writer.abort(keep=False)
    assert visible(tmp_path) == before


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("name", SETS)
def test_shards_that_are_published_already_come_back(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch, overwrite: bool
) -> None:
    """And are not given up: what they were to replace is gone."""
    if overwrite:
        write(tmp_path / name, synthetic.encoded_samples(_PART), Payload.ENCODED)
    samples = synthetic.encoded_samples(3 * _PART)
    path, rename, done = tmp_path / name, durable.rename_new, iter(range(2))

    def failing(source: Path, target: Path) -> bool:
        if next(done, None) is None:
            raise KeyboardInterrupt
        return rename(source, target)

    writer = open_writer(path, samples, Payload.ENCODED, overwrite=overwrite)
    write_rest(writer, samples, Payload.ENCODED, writer.begin("same"))
    manifest = synthetic.manifest_for(samples, Payload.ENCODED, writer_format(path))
    monkeypatch.setattr(durable, "rename_new", failing)
    with pytest.raises(KeyboardInterrupt):
        writer.publish(manifest)
    monkeypatch.undo()
    writer.abort(keep=True)
    assert len(visible(tmp_path)) == 2
    for _ in range(2):
        again = open_writer(path, samples, Payload.ENCODED, overwrite=overwrite)
        assert len(again.begin("same")) == 3
        assert visible(tmp_path) == {}
        again.abort(keep=False)
    again = open_writer(path, samples, Payload.ENCODED, overwrite=overwrite)
    again.begin("same")
    again.publish(manifest)
    assert list(registry.open_reader(path).keys()) == [sample.key for sample in samples]


@pytest.mark.parametrize("name", NAMES)
def test_a_receipt_never_outlives_its_data(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever an abort is killed, a next run finds no receipt of what is gone."""
    samples = synthetic.encoded_samples(2 * _PART)
    interrupt(tmp_path / name, samples, Payload.ENCODED)
    remove, journals = durable.remove, []

    def removing(path: Path) -> None:
        journals.append((staging_root(tmp_path / name) / "journal.jsonl").exists())
        remove(path)

    monkeypatch.setattr(durable, "remove", removing)
    Staging(tmp_path / name).clear()
    assert len(journals) > 2
    assert not any(journals)
    assert not staging_root(tmp_path / name).exists()


@pytest.mark.parametrize("name", NAMES)
def test_an_interruption_while_a_run_is_taken_up_keeps_it(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = synthetic.encoded_samples(2 * _PART)
    interrupt(tmp_path / name, samples, Payload.ENCODED)
    writer = open_writer(tmp_path / name, samples, Payload.ENCODED)

    def pressed(receipts: Sequence[Receipt]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(writer, "_resume", pressed)
    with pytest.raises(KeyboardInterrupt):
        writer.begin("same")
    writer.abort(keep=False)  # as whoever has got no receipts does
    again = open_writer(tmp_path / name, samples, Payload.ENCODED)
    assert len(again.begin("same")) == 2
    again.abort(keep=False)
