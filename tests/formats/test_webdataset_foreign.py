"""Tars that others made: flavours, grouping, labels, metadata, damage."""

import gzip
import io
import json
import random
import tarfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastdata_cli import registry
from fastdata_cli.contract import Reader
from fastdata_cli.errors import DamagedDatasetError, UnsupportedError
from fastdata_cli.formats.webdataset import FORMAT
from fastdata_cli.formats.webdataset.reader import WebDatasetReadOptions
from fastdata_cli.sample import Payload, Sample
from fastdata_cli.testing.synthetic import png

Member = tuple[str, bytes]
Entry = Member | tarfile.TarInfo
PICTURES = [png(4, 4, seed) for seed in range(6)]


def tar_bytes(members: Sequence[Entry], form: int = tarfile.USTAR_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as tar:
        for each in members:
            if isinstance(each, tarfile.TarInfo):
                tar.addfile(each)
                continue
            info = tarfile.TarInfo(each[0])
            info.size = len(each[1])
            tar.addfile(info, io.BytesIO(each[1]))
    return out.getvalue()


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def numbered(count: int, start: int = 0) -> list[Member]:
    """A picture and a label for each number."""
    return [
        member
        for index in range(start, start + count)
        for member in (
            (f"{index:03d}.png", PICTURES[index % 6]),
            (f"{index:03d}.cls", b"%d" % (index % 3)),
        )
    ]


def opened(path: Path, data: bytes, **options: str) -> Reader:
    path.write_bytes(data)
    if options:
        return FORMAT.open_reader(path, WebDatasetReadOptions(**options))
    return registry.open_reader(path)


def read(reader: Reader) -> list[Sample]:
    found = list(reader.scan())
    samples = [entry for entry in found if isinstance(entry, Sample)]
    assert len(samples) == len(found) == len(reader)
    return samples


def keys(reader: Reader) -> list[str]:
    assert list(reader.keys()) == [sample.key for sample in read(reader)]
    return list(reader.keys())


@pytest.fixture
def tar(tmp_path: Path) -> Path:
    return tmp_path / "shard.tar"


def test_written_by_the_webdataset_library(tar: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import webdataset

        with webdataset.TarWriter(str(tar)) as writer:
            for index, picture in enumerate(PICTURES):
                meta = {"n": index}
                writer.write({"__key__": f"s{index}", "png": picture, "cls": index, "json": meta})
    for index, sample in enumerate(read(registry.open_reader(tar))):
        assert sample.image.tobytes() == PICTURES[index]
        assert (sample.key, sample.label) == (f"s{index}.png", index)
        assert sample.metadata == {"n": index}


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_flavours_and_long_names(tar: Path, form: int) -> None:
    names = [f"{'d' * 60}/{'e' * 60}/{'c' * 20}{index}.png" for index in range(3)]
    if form != tarfile.USTAR_FORMAT:
        names += ["ü" * 90 + ".png", "k" * 150 + ".png"]
    reader = opened(tar, tar_bytes([(name, PICTURES[0]) for name in names], form))
    assert keys(reader) == names


def test_v7_headers(tar: Path) -> None:
    data = bytearray(tar_bytes(numbered(2)))
    for at in range(0, len(data) - 1024, 1024):
        if not any(data[at : at + 512]):
            break
        data[at + 257 : at + 265] = bytes(8)
        data[at + 148 : at + 156] = b" " * 8
        data[at + 148 : at + 155] = b"%06o\0" % sum(data[at : at + 512])
    reader = opened(tar, bytes(data))
    assert keys(reader) == ["000.png", "001.png"]
    assert reader.describe()["tar"] == "v7"


def test_what_a_mac_adds_is_ignored(tar: Path) -> None:
    members: list[Entry] = [
        special("./", tarfile.DIRTYPE),
        special("./cat", tarfile.DIRTYPE),
        ("./cat/._1.png", b"\0\5\26\7"),
        ("./cat/1.png", PICTURES[0]),
        ("./.DS_Store", b"Bud1"),
        ("__MACOSX/cat/1.png", b"x"),
        ("__meta__/1.png", b"x"),
        ("README", b"x"),
        ("./cat/2.png", PICTURES[1]),
    ]
    reader = opened(tar, tar_bytes(members))
    assert keys(reader) == ["cat/1.png", "cat/2.png"]
    assert reader.notes == {"system-file": 3, "reserved-name": 1, "no-extension": 1}


def test_links(tar: Path) -> None:
    members: list[Entry] = [
        ("blob", PICTURES[0]),
        special("a.png", tarfile.LNKTYPE, "./blob"),
        special("b.png", tarfile.LNKTYPE, "a.png"),
        special("c.png", tarfile.LNKTYPE, "nowhere.png"),
        special("d.png", tarfile.SYMTYPE, "a.png"),
    ]
    reader = opened(tar, tar_bytes(members))
    assert [(each.key, each.image.tobytes()) for each in read(reader)] == [
        ("a.png", PICTURES[0]),
        ("b.png", PICTURES[0]),
    ]
    assert [(each.key, each.reason) for each in reader.rejects] == [("c.png", "missing")]
    assert reader.notes == {"no-extension": 1, "link-or-device": 1}


def test_links_lead_to_the_last_member_before_them(tar: Path) -> None:
    members: list[Entry] = [
        ("blob", PICTURES[0]),
        ("blob", PICTURES[1]),
        special("a.png", tarfile.LNKTYPE, "blob"),
        special("b.png", tarfile.LNKTYPE, "later"),
        ("later", PICTURES[2]),
        ("blob", PICTURES[3]),
        special("c.png", tarfile.LNKTYPE, "later"),
        special("d.png", tarfile.LNKTYPE, "blob"),
        special("blob", tarfile.SYMTYPE, "later"),
        special("e.png", tarfile.LNKTYPE, "blob"),
    ]
    reader = opened(tar, tar_bytes(members))
    found = [(each.key, PICTURES.index(each.image.tobytes())) for each in read(reader)]
    assert found == [("a.png", 1), ("c.png", 2), ("d.png", 3)]
    assert [(each.key, each.reason) for each in reader.rejects] == [
        ("b.png", "missing"),
        ("e.png", "missing"),
    ]


def test_sparse_members_are_refused(tar: Path) -> None:
    info = tarfile.TarInfo("a.png")
    info.size = 512
    info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.name": "real.png"}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as made:
        made.addfile(info, io.BytesIO(bytes(512)))
        info = tarfile.TarInfo("b.png")
        info.size = len(PICTURES[0])
        made.addfile(info, io.BytesIO(PICTURES[0]))
    reader = opened(tar, out.getvalue())
    assert keys(reader) == ["b.png"]
    assert [(each.key, each.reason) for each in reader.rejects] == [
        ("real.png", "unsupported-format")
    ]


def test_labels_in_many_shapes(tar: Path) -> None:
    fields: list[tuple[str, bytes, int, dict[str, Any] | None]] = [
        ("cls", b"3\n", 3, None),
        ("cls", b"\xef\xbb\xbf4", 4, None),
        ("json", b'{"label": 5, "box": [1, 2]}', -1, {"label": 5, "box": [1, 2]}),
        ("txt", "Käse".encode(), -1, {"txt": "Käse"}),
        ("cls", b"x", -1, {"cls": "x"}),
        ("cls", b"9" * 40, -1, {"cls": "9" * 40}),
        ("json", b"[1]", -1, {"json": [1]}),
        ("json", b"{broken", -1, {"json": "{broken"}),
    ]
    members = []
    for index, (field, content, _, _) in enumerate(fields):
        members += [(f"{index}.png", PICTURES[0]), (f"{index}.{field}", content)]
    reader = opened(tar, tar_bytes(members))
    assert [(each.label, each.metadata) for each in read(reader)] == [
        (label, metadata) for _, _, label, metadata in fields
    ]
    assert reader.notes == {"label-not-a-number": 2, "unlabelled": 4}
    odd = [found.index for found in reader.verify() if "no whole number" in found.detail]
    broken = [found.index for found in reader.verify() if "no JSON" in found.detail]
    assert (odd, broken) == ([4, 5], [7])
    assert any("the first is 4.png" in note for note in reader.describe()["notes"])


def test_texts_do_not_overwrite_metadata(tar: Path) -> None:
    members = [("0.png", PICTURES[0]), ("0.json", b'{"txt": 1, ".txt": 2}'), ("0.txt", b"3")]
    (sample,) = read(opened(tar, tar_bytes(members)))
    assert sorted((sample.metadata or {}).values(), key=str) == [1, 2, "3"]


def test_parts_missing(tar: Path) -> None:
    members = numbered(4)
    del members[7], members[2]  # the label of 3, the picture of 1
    reader = opened(tar, tar_bytes(members))
    assert keys(reader) == ["000.png", "002.png", "003.png"]
    assert reader.labels().tolist() == [0, 2, -1]
    (reject,) = reader.rejects
    assert (reject.key, reject.reason) == ("001", "missing-image")
    assert "shard.tar" in reject.detail
    details = {(found.key, found.kind) for found in reader.verify()}
    assert details == {("001", "missing-image"), ("003.png", "missing")}


def test_several_pictures(tar: Path) -> None:
    members = [
        ("0.left.png", PICTURES[0]),
        ("0.right.PNG", PICTURES[1]),
        ("0.cls", b"7"),
        ("1.left.png", PICTURES[2]),
    ]
    reader = opened(tar, tar_bytes(members))
    assert keys(reader) == ["0.left.png", "0.right.PNG", "1.left.png"]
    assert reader.labels().tolist() == [7, 7, -1]
    chosen = opened(tar, tar_bytes(members), field="right.png")
    assert keys(chosen) == ["0.right.PNG"]
    assert [(each.key, each.reason) for each in chosen.rejects] == [("1", "missing-image")]
    assert chosen.notes == {"field-left.png": 1}


@pytest.mark.parametrize("apart", [False, True])
def test_same_member_twice(tar: Path, apart: bool) -> None:
    members = numbered(3)
    members.insert(len(members) if apart else 3, ("001.png", PICTURES[5]))
    reader = opened(tar, tar_bytes(members))
    assert keys(reader) == ["000.png", "002.png"]
    (reject,) = reader.rejects
    assert (reject.key, reject.reason) == ("001.png", "duplicate-key")
    assert reject.detail == "shard.tar: key 001, field png stands there twice"


def test_members_of_a_sample_may_lie_apart(tar: Path) -> None:
    members = sorted(numbered(5), key=lambda member: member[0][-3:])
    reader = opened(tar, tar_bytes(members))
    assert keys(reader) == [f"00{index}.png" for index in range(5)]
    assert reader.labels().tolist() == [0, 1, 2, 0, 1]


def test_other_fields_are_counted(tar: Path) -> None:
    members = [("0.png", PICTURES[0]), ("0.pth", b"x"), ("0.seg.npy", b"x")]
    assert opened(tar, tar_bytes(members)).notes == {"field-pth": 1, "field-seg.npy": 1}


def test_arrays_are_mapped(tar: Path) -> None:
    arrays = [np.full((4, 3, 3), index, np.uint16) for index in range(3)]
    members = []
    for index, array in enumerate([*arrays, np.zeros((9, 9, 3), np.uint16), np.array([object()])]):
        out = io.BytesIO()
        np.save(out, array)
        members.append((f"{index}.npy", out.getvalue()))
    members += [("5.npy", b"\x93NUMPY\1\0"), ("6.npy", b"no array"), ("7.npy", members[0][1][:-1])]
    reader = opened(tar, tar_bytes(members))
    assert reader.schema.payload is Payload.PIXELS
    assert (reader.schema.image_shape, reader.schema.dtype) == ((4, 3, 3), "uint16")
    assert np.array_equal(reader.read_many([2, 0]).images, [arrays[2], arrays[0]])
    assert [each.reason for each in reader.rejects] == [
        "size-mismatch",
        *["unsupported-format"] * 3,
        "truncated",
    ]


def test_names_in_other_encodings(tar: Path) -> None:
    out = io.BytesIO()
    with tarfile.open(
        fileobj=out, mode="w", format=tarfile.USTAR_FORMAT, encoding="latin-1"
    ) as made:
        for name in ("café.png", "cafè.png", "line\nbreak.png"):
            info = tarfile.TarInfo(name)
            info.size = len(PICTURES[0])
            made.addfile(info, io.BytesIO(PICTURES[0]))
    reader = opened(tar, out.getvalue())
    assert keys(reader) == ["caf\udce9.png", "caf\udce8.png", "line\nbreak.png"]
    json.dumps(dict(reader.describe()))


def test_concatenated_tars_are_read_to_the_end(tar: Path) -> None:
    reader = opened(tar, tar_bytes(numbered(3)) + tar_bytes(numbered(2, start=3)))
    assert keys(reader) == [f"00{index}.png" for index in range(5)]


@pytest.mark.parametrize(
    "data", [bytes(10240), bytes(1024), tar_bytes([special("a", tarfile.DIRTYPE)])]
)
def test_tars_of_nothing(tar: Path, data: bytes) -> None:
    reader = opened(tar, data)
    assert (len(reader), read(reader), list(reader.verify())) == (0, [], [])
    assert len(reader.read_many([])) == 0


@pytest.mark.parametrize("data", [b"", b"text\n" * 300, b"\xff" * 2048, bytes(100)])
def test_no_tar_at_all(tar: Path, data: bytes) -> None:
    with pytest.raises(DamagedDatasetError, match=r"shard\.tar"):
        opened(tar, data)
    with pytest.raises(DamagedDatasetError, match=r"shard\.tar"):
        FORMAT.open_reader(tar, FORMAT.read_options())


@pytest.mark.parametrize("name", ["shard.tar", "shard.tar.gz", "shard.tgz"])
def test_compressed_tars_are_named_as_such(tmp_path: Path, name: str) -> None:
    packed = gzip.compress(tar_bytes(numbered(2)))
    for data in (packed, packed[: len(packed) // 2]):
        with pytest.raises(UnsupportedError, match="gzip-compressed") as caught:
            opened(tmp_path / name, data)
        assert "gunzip" in caught.value.hint


# -- damage


def test_cut_inside_a_picture(tar: Path) -> None:
    whole = tar_bytes(numbered(4))
    with tarfile.open(fileobj=io.BytesIO(whole)) as made:
        last = made.getmember("003.png")
    cut = last.offset_data + 40
    reader = opened(tar, whole[:cut])
    assert keys(reader) == ["000.png", "001.png", "002.png"]
    (reject,) = reader.rejects
    assert (reject.key, reject.reason) == ("003.png", "damaged-container")
    assert reject.detail.startswith(f"shard.tar, byte {cut}: truncated")
    assert [found.kind for found in reader.verify()] == ["damaged-container"]


def test_cut_between_members(tar: Path) -> None:
    whole = tar_bytes(numbered(4))
    with tarfile.open(fileobj=io.BytesIO(whole)) as made:
        cut = made.getmember("003.png").offset
    reader = opened(tar, whole[:cut])
    assert len(reader) == 3
    (reject,) = reader.rejects
    assert reject.reason == "damaged-container"
    assert "without an end-of-archive mark" in reject.detail


def test_cut_label_takes_its_sample_along(tar: Path) -> None:
    whole = tar_bytes(numbered(2))
    with tarfile.open(fileobj=io.BytesIO(whole)) as made:
        cut = made.getmember("001.cls").offset_data
    reader = opened(tar, whole[:cut])
    assert keys(reader) == ["000.png"]
    assert [each.key for each in reader.rejects] == ["001.cls"]


def test_damaged_header(tar: Path) -> None:
    data = bytearray(tar_bytes(numbered(5)))
    with tarfile.open(fileobj=io.BytesIO(bytes(data))) as made:
        at = made.getmember("002.png").offset
    data[at + 148 : at + 154] = b"000000"
    reader = opened(tar, bytes(data))
    assert keys(reader) == ["000.png", "001.png"]
    assert [(each.key, each.reason, each.detail) for each in reader.rejects] == [
        ("002.png", "damaged-container", f"shard.tar, byte {at}: corrupt header")
    ]


def test_zeros_of_an_unfinished_download(tar: Path) -> None:
    whole = tar_bytes(numbered(4))
    with tarfile.open(fileobj=io.BytesIO(whole)) as made:
        cut = made.getmember("002.png").offset
    reader = opened(tar, whole[:cut] + bytes(9 << 20))
    assert len(reader) == 2
    assert "only zeros from here on" in reader.rejects[0].detail


def test_any_flipped_byte_in_headers_is_survived(tar: Path) -> None:
    whole = tar_bytes([("a" * 120 + ".png", PICTURES[0]), *numbered(1)], tarfile.PAX_FORMAT)
    chance = random.Random(3)
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 3)):
            data[chance.randrange(len(data) // 512) * 512 + chance.randrange(512)] ^= (
                1 << chance.randrange(8)
            )
        try:
            reader = opened(tar, bytes(data))
        except DamagedDatasetError:
            continue
        read(reader)
        list(reader.verify())


def test_any_cut_is_survived(tar: Path) -> None:
    whole = tar_bytes(numbered(3), tarfile.GNU_FORMAT)
    ends = len(whole.rstrip(b"\0"))
    for size in range(0, ends, 101):
        try:
            reader = opened(tar, whole[:size])
        except DamagedDatasetError:
            continue
        assert len(reader) == len(read(reader)) < 3 or size > ends - 512
        assert [each.reason for each in reader.rejects] == ["damaged-container"]
