"""The LMDB format."""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import random
import resource
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import pytest

from fastdata_cli import registry
from fastdata_cli.errors import (
    DamagedDatasetError,
    FastdataError,
    StorageError,
    UnsupportedError,
)
from fastdata_cli.formats.lmdb import FORMAT
from fastdata_cli.formats.lmdb import foreign as lmdb_foreign
from fastdata_cli.formats.lmdb import records as lmdb_records
from fastdata_cli.formats.lmdb.file import DataFile
from fastdata_cli.formats.lmdb.writer import LmdbWriter
from fastdata_cli.sample import Payload, Sample
from fastdata_cli.testing import (
    FormatConformance,
    encoded_samples,
    pixel_samples,
    synthetic,
    write_dataset,
)
from fastdata_cli.testing.reader_conformance import digests

FILE_FORMATS = (0, 1) if int(lmdb.__version__.split(".")[0]) >= 3 else (0,)
IMAGES = [synthetic.png(4, 5, seed) for seed in range(12)]


class TestLmdb(FormatConformance):
    format = FORMAT
    same_bytes = False


@pytest.fixture
def encoded(tmp_path: Path) -> Path:
    """Small images of our own, enough for a tree of several pages."""
    return write_dataset(FORMAT, tmp_path / "set.lmdb", encoded_samples(300), Payload.ENCODED)


def plain(path: Path, records: Mapping[bytes, bytes], **options: Any) -> Path:
    """Write records with the plain library."""
    with (
        lmdb.open(str(path), map_size=64 << 20, **options) as environment,
        environment.begin(write=True) as transaction,
    ):
        for key, value in records.items():
            transaction.put(key, value)
    return path


@contextlib.contextmanager
def opened(path: Path, *, write: bool = False) -> Iterator[Any]:
    """Open with the plain library, for one transaction."""
    with (
        lmdb.open(str(path), map_size=64 << 20, readonly=not write, lock=False) as environment,
        environment.begin(write=write) as transaction,
    ):
        yield transaction


# -- what we write, read by others


def test_the_library_alone_reads_encoded_images(encoded: Path) -> None:
    samples = encoded_samples(300)
    with opened(encoded) as transaction:
        for index, sample in enumerate(samples):
            assert transaction.get(b"%010d" % index) == sample.image.tobytes()
        labels = _column(transaction, "labels")
        keys, offsets = _column(transaction, "keys"), _column(transaction, "key_offsets")
    assert labels.tolist() == [sample.label for sample in samples]
    assert keys[offsets[0] : offsets[1]].tobytes().decode() == samples[0].key


def test_the_library_alone_reads_pixels(tmp_path: Path) -> None:
    samples = pixel_samples()
    path = write_dataset(FORMAT, tmp_path / "set.lmdb", samples, Payload.PIXELS)
    with opened(path) as transaction:
        manifest = json.loads(transaction.get(b"__fastdata__/manifest"))
        schema = manifest["schema"]
        image = np.frombuffer(transaction.get(b"0000000007"), schema["dtype"])
        assert np.array_equal(image.reshape(schema["image_shape"]), samples[7].image)
        assert transaction.stat()["entries"] == manifest["layout"]["entries"]


def test_columns_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lmdb_records, "PIECE_BYTES", 64)
    samples = pixel_samples()
    path = write_dataset(FORMAT, tmp_path / "set.lmdb", samples, Payload.PIXELS)
    with opened(path) as transaction:
        pieces = [_column(transaction, "labels", piece) for piece in range(6)]
    assert [len(piece) for piece in pieces] == [8, 8, 8, 8, 8, 1]
    reader = registry.open_reader(path)
    assert np.array_equal(reader.labels(), np.concatenate(pieces))
    assert list(reader.keys()) == [sample.key for sample in samples]


def test_one_compact_file_without_lock(encoded: Path) -> None:
    assert [entry.name for entry in encoded.iterdir()] == ["data.mdb"]
    with lmdb.open(str(encoded), readonly=True, lock=False) as environment:
        used = (environment.info()["last_pgno"] + 1) * environment.stat()["psize"]
    assert (encoded / "data.mdb").stat().st_size == used


# -- writing


def test_the_map_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LmdbWriter, "_map_size", 1 << 16)
    samples = pixel_samples(60, (64, 64, 3))
    path = write_dataset(FORMAT, tmp_path / "set.lmdb", samples, Payload.PIXELS)
    assert (path / "data.mdb").stat().st_size > 10 << 16
    assert np.array_equal(registry.open_reader(path).read(59).image, samples[59].image)


def test_records_beyond_the_last_receipt_are_dropped(tmp_path: Path) -> None:
    samples = encoded_samples(600)
    manifest = synthetic.manifest_for(samples, Payload.ENCODED, "lmdb")
    path = tmp_path / "set.lmdb"
    first = synthetic.open_writer(FORMAT, path, manifest)
    first.begin("synthetic")
    parts = list(synthetic.parts_of(samples, synthetic.limits(first, 200), Payload.ENCODED))
    first.write_part(*parts[0])
    first.write_part(*parts[1])
    first.abort(keep=True)
    journal = next(tmp_path.glob(".*/journal.jsonl"))
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(lines[:-1]))  # committed, and killed before the receipt

    second = synthetic.open_writer(FORMAT, path, manifest)
    assert len(second.begin("synthetic")) == 1
    staged = next(tmp_path.glob(".*/data/set.lmdb/data.mdb"))
    assert DataFile(staged).meta.tree.entries == 200
    for part, batch in parts[1:]:
        second.write_part(part, batch)
    second.publish(manifest)
    reader = registry.open_reader(path)
    assert digests(reader) == digests(
        registry.open_reader(
            write_dataset(FORMAT, tmp_path / "at-once.lmdb", samples, Payload.ENCODED)
        )
    )
    assert list(reader.verify()) == []


@pytest.fixture
def limited_file_size() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("limited_file_size")
@pytest.mark.parametrize("part_samples", [1, 1000])
def test_no_room(tmp_path: Path, part_samples: int) -> None:
    samples = pixel_samples(40, (128, 128, 3))
    with pytest.raises(StorageError, match=r"set\.lmdb.*file too large"):
        write_dataset(
            FORMAT,
            tmp_path / "set.lmdb",
            samples,
            Payload.PIXELS,
            part_samples=part_samples,
        )
    assert not (tmp_path / "set.lmdb").exists()


# -- reading what others made


def test_integer_keys_are_in_numeric_order(tmp_path: Path) -> None:
    path = plain(tmp_path / "a.lmdb", {b"%d" % number: IMAGES[number] for number in range(12)})
    reader = registry.open_reader(path)
    assert list(reader.keys()) == [str(number) for number in range(12)]
    assert [sample.image.tobytes() for sample in samples_of(reader.scan())] == IMAGES
    assert reader.labels().tolist() == [-1] * 12
    assert reader.manifest is None


def test_other_keys_stay_in_order_of_bytes(tmp_path: Path) -> None:
    keys = [b"b/10.png", b"b/9.png", b"a\xff", b"\xc3\xa9", b"a\nb"]
    path = plain(tmp_path / "a.lmdb", dict(zip(keys, IMAGES, strict=False)))
    reader = registry.open_reader(path)
    assert list(reader.keys()) == ["a\nb", "a\udcff", "b/10.png", "b/9.png", "é"]
    assert reader.read(1).image.tobytes() == IMAGES[2]
    assert reader.head(1, 8).tobytes() == IMAGES[2][:8]


@pytest.mark.parametrize("looked_at", [20_000, 3])
def test_records_that_are_no_images_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looked_at: int
) -> None:
    monkeypatch.setattr(lmdb_foreign, "_LOOKED_AT", looked_at)
    records = {b"image-%09d" % number: IMAGES[number] for number in range(5)}
    records |= {b"label-%09d" % number: b"word" for number in range(5)}
    path = plain(tmp_path / "a.lmdb", {**records, b"num-samples": b"5"})
    reader = registry.open_reader(path)
    assert len(reader) == 5
    assert reader.notes == {"ignored-record": 1}
    assert reader.describe()["ignored_records"] == 1
    assert reader.read(4).metadata == {"label": "word"}
    assert list(reader.verify()) == []


def test_an_unsound_image_of_others_is_found(tmp_path: Path) -> None:
    records = {b"0": IMAGES[0], b"1": IMAGES[1][:-20], b"2": b"no image, and long enough to be one"}
    reader = registry.open_reader(plain(tmp_path / "a.lmdb", records))
    assert [(found.key, found.kind) for found in reader.verify()] == [("1", "truncated")]
    assert reader.notes == {"ignored-record": 1}


@pytest.mark.parametrize("file_format", FILE_FORMATS)
def test_single_file_of_either_format(tmp_path: Path, file_format: int) -> None:
    version = {"lib_version": file_format} if len(FILE_FORMATS) > 1 else {}
    path = plain(tmp_path / "one.mdb", {b"a": IMAGES[0]}, subdir=False, **version)
    assert registry.recognise(path) is FORMAT
    reader = registry.open_reader(path)
    assert reader.read(0).image.tobytes() == IMAGES[0]
    assert reader.describe()["file_format"] == ("0.9", "1.0")[file_format]


REFUSED = {
    "pickled": ({b"0": pickle.dumps(IMAGES[0])}, "pickled: loading them would run code"),
    "caffe": ({b"0": b"\x08\x03\x10\x80\x02\x18\x80\x02\x22" + bytes(100)}, "Datum"),
    "text": ({b"num-samples": b"5"}, r"no value is an image \(1 text\)"),
    "empty": ({}, "it is empty"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_values_that_are_not_read(tmp_path: Path, case: str) -> None:
    records, message = REFUSED[case]
    path = plain(tmp_path / "a.lmdb", records)
    with pytest.raises(UnsupportedError, match=message):
        registry.open_reader(path)


def test_named_databases_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.lmdb"
    with lmdb.open(str(path), max_dbs=2) as environment:
        database = environment.open_db(b"images")
        with environment.begin(write=True, db=database) as transaction:
            transaction.put(b"0", IMAGES[0])
    with pytest.raises(UnsupportedError, match="named databases"):
        registry.open_reader(path)


def test_several_values_of_a_key_are_not_read(tmp_path: Path) -> None:
    path = plain(tmp_path / "a.lmdb", {b"0": IMAGES[0]})
    data = bytearray((path / "data.mdb").read_bytes())
    for meta_page in (0, resource.getpagesize()):
        data[meta_page + 92] |= 4  # the flags of the main database, which Python cannot set
    (path / "data.mdb").write_bytes(data)
    with pytest.raises(UnsupportedError, match="several values"):
        registry.open_reader(path)


def test_a_change_under_an_open_reader_is_named(tmp_path: Path) -> None:
    path = plain(tmp_path / "a.lmdb", {b"0": IMAGES[0]})
    reader = registry.open_reader(path)
    plain(path, {b"1": IMAGES[1]})
    with pytest.raises(DamagedDatasetError, match="has changed"):
        reader.read(0)


def test_nothing_is_written_while_reading(tmp_path: Path) -> None:
    path = plain(tmp_path / "a.lmdb", {b"0": IMAGES[0]}, lock=False)
    before = state(path)
    path.chmod(0o555)
    reader = registry.open_reader(path)
    assert list(reader.verify()) == []
    reader.close()
    path.chmod(0o755)
    assert state(path) == before


def test_open_many_times_in_one_process(encoded: Path) -> None:
    first, second = registry.open_reader(encoded), registry.open_reader(encoded)
    with lmdb.open(str(encoded), readonly=True, lock=False):
        before = digests(first)
        assert digests(second) == before
        first.close()
        assert digests(second) == before


@pytest.mark.parametrize("file_format", FILE_FORMATS)
def test_every_value_of_a_large_tree_is_found(tmp_path: Path, file_format: int) -> None:
    choose = random.Random(3)
    sizes = [0, 1, 900, 2030, 2040, 2050, 4080, 4081, 9000]
    records = {
        choose.randbytes(choose.randrange(1, 300)): choose.randbytes(choose.choice(sizes))
        for _ in range(2000)
    }
    version = {"lib_version": file_format} if len(FILE_FORMATS) > 1 else {}
    path = plain(tmp_path / "a.lmdb", records, **version)
    with opened(path, write=True) as transaction:
        for key in choose.sample(sorted(records), 700):
            transaction.delete(key)
            del records[key]
    file = DataFile(path / "data.mdb")
    assert file.meta.tree.depth > 2
    found = {
        leaf.key(at): file.read(leaf.value(at)) for leaf in file.leaves() for at in range(len(leaf))
    }
    assert found == records
    assert list(found) == sorted(records)
    assert all(file.get(key) == value for key, value in records.items())
    assert file.get(b"absent") is None


# -- damage


@pytest.mark.parametrize("keep", [0, 1, 40, 4096, 4200, 8192, -4096, -1])
def test_a_cut_file_is_named(encoded: Path, keep: int) -> None:
    data = encoded / "data.mdb"
    data.write_bytes(data.read_bytes()[:keep])
    with pytest.raises(DamagedDatasetError, match=r"data\.mdb: .*(bytes|empty|no meta page)"):
        registry.open_reader(encoded)


def test_cut_names_both_sizes(encoded: Path) -> None:
    data = encoded / "data.mdb"
    size = data.stat().st_size
    data.write_bytes(data.read_bytes()[:-5000])
    with pytest.raises(DamagedDatasetError) as caught:
        registry.open_reader(encoded)
    assert caught.value.facts["expected"] == size
    assert caught.value.facts["found"] == size - 5000


def _random_bytes(path: Path) -> None:
    (path / "data.mdb").write_bytes(random.Random(1).randbytes(40_000))


def _only_lock(path: Path) -> None:
    (path / "lock.mdb").write_bytes(bytes(8192))


def _folder(path: Path) -> None:
    (path / "data.mdb").mkdir()


@pytest.mark.parametrize("fill", [_random_bytes, _only_lock, _folder])
@pytest.mark.parametrize("name", ["plain", "named.lmdb"])
def test_what_is_no_lmdb(tmp_path: Path, name: str, fill: Callable[[Path], None]) -> None:
    path = tmp_path / name
    path.mkdir()
    fill(path)
    before = state(path)
    with pytest.raises(DamagedDatasetError, match=r"data\.mdb"):
        registry.open_reader(path)
    assert state(path) == before


@pytest.mark.parametrize("file", [True, False])
def test_only_the_name_says_lmdb(tmp_path: Path, file: bool) -> None:
    path = tmp_path / "a.lmdb"
    path.write_bytes(b"") if file else path.mkdir()
    with pytest.raises(DamagedDatasetError, match=r"a\.lmdb"):
        registry.open_reader(path)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (b"__fastdata__/manifest", "manifest is missing"),
        (b"0000000005", "records, and .* are expected"),
    ],
)
def test_a_missing_record_is_named(encoded: Path, key: bytes, message: str) -> None:
    with opened(encoded, write=True) as transaction:
        transaction.delete(key)
    with pytest.raises(DamagedDatasetError, match=message):
        registry.open_reader(encoded)


def test_a_changed_image_is_found(encoded: Path) -> None:
    with opened(encoded, write=True) as transaction:
        transaction.put(b"0000000005", bytes(90))
        transaction.put(b"0000000007", bytes(1 << 20))
    reader = registry.open_reader(encoded)
    found = [(finding.index, finding.kind) for finding in reader.verify()]
    assert found == [(5, "corrupt"), (7, "corrupt")]


@pytest.mark.parametrize("payload", Payload)
def test_no_damage_passes_unseen(tmp_path: Path, payload: Payload) -> None:
    """Whatever byte is changed: the same samples, or an error, or a finding."""
    samples = synthetic.samples_for(payload, 300)
    path = write_dataset(FORMAT, tmp_path / "set.lmdb", samples, payload, part_samples=100)
    before, data = digests(registry.open_reader(path)), path / "data.mdb"
    whole, choose = data.read_bytes(), random.Random(5)
    for _ in range(150):
        changed = bytearray(whole)
        at = choose.randrange(len(whole))
        if choose.random() < 0.5:  # where pages have their headers and offsets
            at -= at % 4096 - choose.randrange(100)
        changed[at] ^= 1 << choose.randrange(8)
        data.write_bytes(changed)
        try:
            reader = registry.open_reader(path)
            unharmed = bool(list(reader.verify())) or digests(reader) == before
        except FastdataError:
            continue
        assert unharmed, f"byte {at}"


def samples_of(scanned: Iterator[Any]) -> list[Sample]:
    found = list(scanned)
    assert all(isinstance(each, Sample) for each in found)
    return found


def state(folder: Path) -> dict[str, tuple[int, int]]:
    return {
        entry.name: (entry.stat().st_size, entry.stat().st_mtime_ns) for entry in folder.iterdir()
    }


def _column(transaction: Any, name: str, piece: int = 0) -> Any:
    record = transaction.get(f"__fastdata__/{name}/{piece:04d}.npy".encode())
    return np.load(io.BytesIO(record))
