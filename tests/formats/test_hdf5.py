"""The HDF5 format."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from fastdata_cli import registry
from fastdata_cli.contract import Capability
from fastdata_cli.errors import (
    BadSampleError,
    BusyError,
    DamagedDatasetError,
    FastdataError,
    MissingDependencyError,
    NotADatasetError,
    StaleStagingError,
    UnsupportedError,
    UsageError,
)
from fastdata_cli.formats.hdf5 import FORMAT
from fastdata_cli.formats.hdf5 import open as hdf5_open
from fastdata_cli.formats.hdf5.filters import Hdf5WriteOptions
from fastdata_cli.formats.hdf5.reader import Hdf5ReadOptions
from fastdata_cli.formats.hdf5.writer import DATA_CHUNK
from fastdata_cli.manifest import Manifest
from fastdata_cli.sample import Payload, Sample, Schema
from fastdata_cli.testing import FormatConformance, pixel_samples, synthetic, write_dataset
from fastdata_cli.testing.conformance import content
from fastdata_cli.testing.reader_conformance import digests

Make = Callable[[h5py.File], object]


class TestPlain(FormatConformance):
    format = FORMAT


class TestCompressedChunks(FormatConformance):
    format = FORMAT
    write_options = Hdf5WriteOptions(chunk=8, codec="zstd", shuffle="bit", level=1)
    part_samples = 8


class TestPartsAcrossChunks(FormatConformance):
    format = FORMAT
    write_options = Hdf5WriteOptions(chunk=3, codec="gzip", shuffle="byte")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A dataset of pixels."""
    return write_dataset(FORMAT, tmp_path / "set.h5", pixel_samples(), Payload.PIXELS)


def change(path: Path, how: Callable[[bytearray], object]) -> Path:
    data = bytearray(path.read_bytes())
    how(data)
    path.write_bytes(data)
    return path


def foreign(folder: Path, make: Make, **options: Any) -> Path:
    with h5py.File(folder / "foreign.h5", "w", **options) as file:
        make(file)
    return folder / "foreign.h5"


def images(count: int = 6, *shape: int, dtype: str = "uint8") -> np.ndarray[Any, Any]:
    shape = shape or (7, 5, 3)
    return np.random.default_rng(3).integers(0, 256, (count, *shape)).astype(dtype)


class TestWithH5pyAlone:
    """Others read what we write, without us."""

    def test_pixels(self, path: Path) -> None:
        samples = pixel_samples()
        with h5py.File(path) as file:
            assert file["images"].chunks == (1024, 6, 5, 3)
            assert file["images"].maxshape == (None, 6, 5, 3)
            assert np.array_equal(file["images"], [sample.image for sample in samples])
            assert file["labels"][:].tolist() == [sample.label for sample in samples]
            assert list(file["labels"].attrs["class_names"]) == list(synthetic.CLASS_NAMES)
            assert file["keys"].asstr()[0] == samples[0].key
            assert file["keys"].asstr()[11] == "cat/not-utf8-%FF%FE.jpg"
            assert file["metadata"].asstr()[0] == ""
            assert all(column.maxshape[0] is None for column in file.values() if column.shape)

    def test_encoded(self, tmp_path: Path) -> None:
        samples = synthetic.encoded_samples()
        path = write_dataset(
            FORMAT, tmp_path / "set.h5", samples, Payload.ENCODED, Hdf5WriteOptions(chunk=10)
        )
        with h5py.File(path) as file:
            data, begins, lengths = (file[name][:] for name in ("data", "begin", "length"))
            assert file["data"].maxshape == (None,)
        for sample, begin, length in zip(samples, begins, lengths, strict=True):
            assert np.array_equal(data[begin : begin + length], sample.image)
        assert begins[::10].tolist() == [DATA_CHUNK * part for part in range(5)]
        assert not data[begins[9] + lengths[9] : begins[10]].any()
        reader = registry.open_reader(path)
        for index, size in ((0, 8), (40, 8), (3, 10_000)):
            assert np.array_equal(reader.head(index, size), samples[index].image[:size])

    @pytest.mark.parametrize(
        ("codec", "shuffle", "level"),
        [
            ("none", "byte", None),
            ("none", "bit", None),
            ("gzip", "byte", 0),
            ("lzf", None, None),
            ("lz4", "byte", None),
            ("lz4", "bit", None),
            ("zstd", None, 7),
            ("zstd", "bit", 7),
        ],
    )
    def test_every_filter(
        self, tmp_path: Path, codec: str, shuffle: str | None, level: int | None
    ) -> None:
        samples = pixel_samples()
        options = Hdf5WriteOptions(codec=codec, shuffle=shuffle, level=level, chunk=4)
        path = write_dataset(FORMAT, tmp_path / "set.h5", samples, Payload.PIXELS, options)
        with h5py.File(path) as file:
            assert file["images"].chunks[0] == 4
            assert np.array_equal(file["images"], [sample.image for sample in samples])
        found = registry.open_reader(path).describe()
        wanted = {"codec": codec, "shuffle": shuffle or "none", "chunk": 4}
        assert {name: found[name] for name in wanted} == wanted
        assert level is None or found["level"] == level

    def test_it_can_be_appended_to(self, path: Path) -> None:
        with h5py.File(path, "r+") as file:
            file["images"].resize(50, axis=0)
            file["images"][41:] = 7
        with h5py.File(path) as file:
            assert file["images"][49].max() == 7

    def test_twenty_thousand_classes(self, tmp_path: Path) -> None:
        names = tuple(f"class {number} Ä" for number in range(20_000))
        schema = Schema(payload=Payload.PIXELS, image_shape=(6, 5, 3), class_names=names)
        manifest = Manifest(format="hdf5", schema=schema)
        writer = synthetic.open_writer(FORMAT, tmp_path / "set.h5", manifest)
        writer.begin("x")
        for part, batch in synthetic.parts_of(pixel_samples(3), writer.limits, Payload.PIXELS):
            writer.write_part(part, batch)
        writer.publish(manifest)
        with h5py.File(tmp_path / "set.h5") as file:
            assert tuple(file["labels"].attrs["class_names"]) == names
        assert registry.open_reader(tmp_path / "set.h5").schema.class_names == names


class TestOptions:
    """What is asked is done, or refused before anything is written."""

    @pytest.mark.parametrize(
        ("values", "words"),
        [
            ({"level": 3}, "--level has no meaning"),
            ({"codec": "lz4", "level": 3}, "--level has no meaning"),
            ({"codec": "gzip", "level": 10}, "0 to 9"),
            ({"codec": "zstd", "level": 0}, "1 to 22"),
            ({"codec": "gzip", "shuffle": "bit"}, "--shuffle bit does not go"),
            ({"chunk": 0}, "at least 1"),
            ({"shard_samples": 10}, "--shard-samples is not an option"),
        ],
    )
    def test_refused(self, values: dict[str, Any], words: str) -> None:
        with pytest.raises(UsageError, match=words):
            Hdf5WriteOptions.from_mapping(values, owner="format hdf5")

    def test_chunk_beyond_what_hdf5_holds(self, tmp_path: Path) -> None:
        schema = Schema(payload=Payload.PIXELS, image_shape=(1024, 1024, 4))
        manifest = Manifest(format="hdf5", schema=schema)
        with pytest.raises(UsageError, match="HDF5 takes 4,294,967,295") as caught:
            synthetic.open_writer(
                FORMAT, tmp_path / "set.h5", manifest, Hdf5WriteOptions(chunk=1024)
            )
        assert "--chunk 1023" in caught.value.hint
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize(
        ("options", "shape", "chunk"),
        [
            ({}, (28, 28, 1), 128),
            ({}, (64, 64, 3), 8),
            ({}, (224, 224, 3), 1),
            ({"chunk": 3}, (28, 28, 1), 3),
            ({"codec": "lzf"}, (28, 28, 1), 1),
            ({"shuffle": "byte"}, (28, 28, 1), 1),
        ],
    )
    def test_small_images_share_a_chunk(
        self, tmp_path: Path, options: dict[str, Any], shape: tuple[int, ...], chunk: int
    ) -> None:
        samples = [Sample(f"{index}.jpg", image) for index, image in enumerate(images(20, *shape))]
        chosen = Hdf5WriteOptions(**options)
        path = write_dataset(FORMAT, tmp_path / "a.h5", samples, Payload.PIXELS, chosen)
        with h5py.File(path) as file:
            assert file["images"].chunks == (chunk, *shape)
        reader = registry.open_reader(path)
        assert Capability.RANDOM_ACCESS in reader.capabilities
        assert np.array_equal(reader.read_many([19, 0, 7]).images, images(20, *shape)[[19, 0, 7]])

    def test_parts_are_whole_chunks(self, tmp_path: Path) -> None:
        manifest = synthetic.manifest_for(pixel_samples(1), Payload.PIXELS, "hdf5")
        for chunk, samples in ((None, 1024), (100, 1000), (5000, 5000)):
            options = Hdf5WriteOptions(chunk=chunk)
            writer = synthetic.open_writer(FORMAT, tmp_path / "set.h5", manifest, options)
            assert writer.limits.samples == samples

    def test_hdf5plugin_is_missing(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        options = Hdf5WriteOptions(codec="lz4")
        compressed = path.with_name("lz4.h5")
        write_dataset(FORMAT, compressed, pixel_samples(), Payload.PIXELS, options)
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        monkeypatch.setattr("h5py.h5z.filter_avail", lambda number: False)
        manifest = synthetic.manifest_for(pixel_samples(1), Payload.PIXELS, "hdf5")
        for call in (
            lambda: synthetic.open_writer(FORMAT, path, manifest, options),
            lambda: FORMAT.open_reader(compressed, Hdf5ReadOptions()),
        ):
            with pytest.raises(MissingDependencyError, match="lz4") as caught:
                call()
            assert caught.value.hint == "pip install 'fastdata-cli[hdf5]'"

    def test_a_filter_that_nobody_has(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        compressed = path.with_name("gzip.h5")
        options = Hdf5WriteOptions(codec="gzip")
        write_dataset(FORMAT, compressed, pixel_samples(), Payload.PIXELS, options)
        monkeypatch.setattr("h5py.h5z.filter_avail", lambda number: False)
        with pytest.raises(UnsupportedError, match=r"gzip \(HDF5 filter 1\)"):
            registry.open_reader(compressed)

    def test_long_texts(self, tmp_path: Path) -> None:
        images = pixel_samples(3)
        samples = [
            Sample(f"{number}.jpg", sample.image, metadata={"text": "ü" * 2000})
            for number, sample in enumerate(images)
        ]
        path = write_dataset(FORMAT, tmp_path / "set.h5", samples, Payload.PIXELS)
        assert registry.open_reader(path).read(2).metadata == {"text": "ü" * 2000}


_FILL_UP = """
import resource, sys
from pathlib import Path
from fastdata_cli.errors import StorageError
from fastdata_cli.formats.hdf5 import FORMAT
from fastdata_cli.manifest import Manifest
from fastdata_cli.sample import Payload
from fastdata_cli.testing import pixel_samples, write_dataset
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    write_dataset(FORMAT, Path(sys.argv[1]), pixel_samples(60, (64, 64, 3)), Payload.PIXELS,
                  part_samples=7)
except StorageError as problem:
    print(problem)
"""


class TestInterruptions:
    """A run may end at any point, and goes on from its last part."""

    @pytest.mark.parametrize("room", [100, 300_000, 742_000])
    def test_no_room(self, tmp_path: Path, room: int) -> None:
        """While creating, in a part, and at the end: one message, and HDF5 closes in peace."""
        path = tmp_path / "set.h5"
        command = [sys.executable, "-c", _FILL_UP, str(path), str(room)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert "file too large" in done.stdout
        assert str(tmp_path) in done.stdout
        assert not path.exists()

    @pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
    @pytest.mark.parametrize("payload", list(Payload))
    def test_killed_at_any_write(self, tmp_path: Path, payload: Payload) -> None:
        """Whichever write is cut in the middle, the same bytes come out in the end."""
        samples = synthetic.samples_for(payload, 20)

        def write(name: str) -> Path:
            return write_dataset(FORMAT, tmp_path / name, samples, payload, part_samples=5)

        whole, survived = content(write("whole.h5")), 0
        for calls in range(1, 1000, 5):
            died = in_child(lambda: write("set.h5"), calls)
            assert content(write("set.h5") if died else tmp_path / "set.h5") == whole
            (tmp_path / "set.h5").unlink()
            survived += not died
            if survived:
                break
        assert calls > 20
        assert survived

    def test_damaged_staging_is_refused(self, tmp_path: Path) -> None:
        samples = pixel_samples()
        manifest = synthetic.manifest_for(samples, Payload.PIXELS, "hdf5")
        writer = synthetic.open_writer(FORMAT, tmp_path / "set.h5", manifest)
        writer.begin("x")
        for part, batch in synthetic.parts_of(samples, writer.limits, Payload.PIXELS):
            writer.write_part(part, batch)
        writer.abort(keep=True)
        staged = tmp_path / ".set.h5.fastdata-partial/data/set.h5"
        whole = staged.read_bytes()
        staged.write_bytes(b"\0" * len(whole))
        again = synthetic.open_writer(FORMAT, tmp_path / "set.h5", manifest)
        with pytest.raises(StaleStagingError, match="cannot be continued"):
            again.begin("x")
        staged.write_bytes(whole[:-1])
        again = synthetic.open_writer(FORMAT, tmp_path / "set.h5", manifest)
        assert again.begin("x") == [], "what is too short has lost something: it starts afresh"
        again.abort(keep=False)


def in_child(work: Callable[[], object], calls: int) -> bool:
    """Run ``work`` in a child that dies in the middle of its ``calls``-th change to a file."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] != 0
    left = calls
    pwrite = os.pwrite

    def dying(change: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            nonlocal left
            left -= 1
            if left > 0:
                return change(*args)
            if change is pwrite:
                pwrite(args[0], args[1][: len(args[1]) // 2], args[2])
            os._exit(9)

        return call

    try:
        for name in ("pwrite", "ftruncate", "replace"):
            setattr(os, name, dying(getattr(os, name)))
        work()
        os._exit(0)
    finally:
        os._exit(1)


class TestDamage:
    """Each ends in one clear error or a named finding."""

    @pytest.mark.parametrize("keep", [12, 100, 5000, -1])
    def test_cut_short(self, path: Path, keep: int) -> None:
        size = path.stat().st_size
        change(path, lambda data: data.__delitem__(slice(keep, None)))
        with pytest.raises(DamagedDatasetError) as caught:
            registry.open_reader(path)
        assert str(path) in str(caught.value)
        if keep != 12:  # less than a superblock: HDF5 cannot know
            assert f"{path.stat().st_size} bytes, and {size} are expected" in str(caught.value)

    def test_another_file_with_our_suffix(self, tmp_path: Path) -> None:
        path = tmp_path / "set.h5"
        path.write_text("no HDF5 at all")
        with pytest.raises(DamagedDatasetError, match="its content is not"):
            registry.open_reader(path)

    @pytest.mark.parametrize("codec", ["none", "zstd"])
    def test_flipped_byte(self, tmp_path: Path, codec: str) -> None:
        samples = pixel_samples()
        options = Hdf5WriteOptions(codec=codec, chunk=1)
        path = write_dataset(FORMAT, tmp_path / "set.h5", samples, Payload.PIXELS, options)
        with h5py.File(path) as file:
            at = file["images"].id.get_chunk_info(5).byte_offset
        change(path, lambda data: data.__setitem__(at + 2, data[at + 2] ^ 1))
        findings = list(registry.open_reader(path).verify())
        assert [(found.index, found.kind) for found in findings] == [(5, "corrupt")]

    def test_flipped_label(self, path: Path) -> None:
        with h5py.File(path) as file:
            at = file["labels"].id.get_chunk_info(0).byte_offset
        change(path, lambda data: data.__setitem__(at, data[at] ^ 1))
        with pytest.raises(DamagedDatasetError, match="cannot read it"):
            registry.open_reader(path).labels()

    @pytest.mark.parametrize("name", ["images", "labels", "keys", "checksums", "fastdata"])
    def test_missing_dataset(self, path: Path, name: str) -> None:
        with h5py.File(path, "r+") as file:
            del file[name]
        with pytest.raises(DamagedDatasetError, match=rf"/{name}.* is missing"):
            registry.open_reader(path)

    @pytest.mark.parametrize("name", ["images", "labels"])
    def test_wrong_number_of_rows(self, path: Path, name: str) -> None:
        with h5py.File(path, "r+") as file:
            file[name].resize(40, axis=0)
        with pytest.raises(DamagedDatasetError, match=r"40\b.*41\b"):
            registry.open_reader(path)

    def test_ranges_outside_the_data(self, tmp_path: Path) -> None:
        samples = synthetic.encoded_samples(5)
        path = write_dataset(FORMAT, tmp_path / "set.h5", samples, Payload.ENCODED)
        with h5py.File(path, "r+") as file:
            file["length"][4] = 1 << 62
        with pytest.raises(DamagedDatasetError, match="reach outside"):
            registry.open_reader(path).read(0)

    @pytest.mark.parametrize("further", [{}, {"compression": "gzip"}])
    def test_a_chunk_that_was_never_written(self, tmp_path: Path, further: dict[str, Any]) -> None:
        """It would read as fill values: a black picture."""

        def make(file: h5py.File) -> None:
            array = file.create_dataset(
                "images", (6, 7, 5, 3), "uint8", chunks=(1, 2, 5, 3), **further
            )
            array[:3] = array[4:] = 9
            array[3, :2] = 9

        reader = registry.open_reader(foreign(tmp_path, make))
        assert [(found.index, found.kind) for found in reader.verify()] == [(3, "missing")]
        with pytest.raises(BadSampleError, match=r"00000003: missing: chunk 3 of /images"):
            reader.read(3)
        assert reader.read(4).image.max() == 9


class TestOtherProcesses:
    """Locks, and places where there are none."""

    def test_open_for_writing_elsewhere(self, path: Path) -> None:
        hold = "import h5py, sys; file = h5py.File(sys.argv[1], 'r+'); print(flush=True); input()"
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen([sys.executable, "-c", hold, str(path)], **pipes) as writer:
            assert writer.stdout
            writer.stdout.readline()
            with pytest.raises(BusyError, match="another process has it open for writing"):
                registry.open_reader(path)
            writer.communicate(b"\n")
        assert len(registry.open_reader(path)) == 41

    def test_marked_as_open(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        refused = OSError("Unable to open file (file is already open for write (may use h5clear))")
        monkeypatch.setattr("h5py.File", raising(refused))
        with pytest.raises(BusyError, match="marked as open") as caught:
            registry.open_reader(path)
        assert "h5clear -s" in caught.value.hint

    def test_file_system_without_locks(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        refused = OSError("Unable to open file (unable to lock file, errno = 37, error = 'x')")
        monkeypatch.setattr("h5py.File", raising(refused, unless="locking"))
        reader = registry.open_reader(path)
        assert reader.read(40).label == pixel_samples()[40].label

    @pytest.mark.parametrize("problem", [PermissionError(13, "no"), FileNotFoundError(2, "no")])
    def test_unreadable(
        self, path: Path, problem: OSError, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("h5py.File", raising(problem))
        with pytest.raises(FastdataError, match=r"no permission|nothing here"):
            hdf5_open.open_file(path)


def raising(problem: OSError, unless: str = "never") -> Callable[..., h5py.File]:
    plain = h5py.File

    def opened(*args: Any, **options: Any) -> h5py.File:
        if unless in options:
            return plain(*args, **options)
        raise problem

    return opened


class TestForeign:
    """What others wrote is described as it is."""

    @pytest.mark.parametrize(
        "further",
        [
            {},
            {"chunks": (1, 7, 5, 3)},
            {"chunks": (4, 7, 5, 3)},
            {"chunks": (2, 3, 2, 3), "compression": "gzip"},
            {"chunks": (4, 7, 5, 3), "compression": "lzf", "shuffle": True},
        ],
    )
    @pytest.mark.parametrize("dtype", ["uint8", "<u2", ">u2"])
    def test_storage(self, tmp_path: Path, dtype: str, further: dict[str, Any]) -> None:
        stored = images(dtype=dtype)
        path = foreign(tmp_path, lambda file: file.create_dataset("x", data=stored, **further))
        reader = registry.open_reader(path)
        assert reader.schema.dtype == np.dtype(dtype).name
        order = [5, 0, 0, 3, 2, 1]
        batch = reader.read_many(order)
        assert np.array_equal(batch.images, stored[order])
        assert batch.keys[:2] == ["00000005", "00000000"]
        assert reader.labels().tolist() == [-1] * 6
        assert list(reader.verify()) == []
        assert [index for span in reader.spans(2) for index in span] == list(range(6))

    @pytest.mark.parametrize("further", [{}, {"chunks": (1, 7, 5, 3)}])
    def test_user_block(self, tmp_path: Path, further: dict[str, Any]) -> None:
        stored = images()
        path = foreign(
            tmp_path,
            lambda file: file.create_dataset("x", data=stored, **further),
            userblock_size=1024,
        )
        assert np.array_equal(registry.open_reader(path).read(4).image, stored[4])

    def test_neighbours_are_found_in_the_same_group(self, tmp_path: Path) -> None:
        def make(file: h5py.File) -> None:
            file["labels"] = np.arange(100)
            file["deep/er/pictures"] = images()
            file["deep/er/targets"] = np.arange(6, dtype=np.uint8)
            file["deep/er/targets"].attrs["class_names"] = list("abcdef")
            file["deep/er/keys"] = ["100%41.jpg", "b", "c", "d", "e", "é"]

        reader = registry.open_reader(foreign(tmp_path, make))
        assert reader.describe()["array"] == "/deep/er/pictures"
        assert reader.labels().tolist() == list(range(6))
        assert reader.schema.class_names == tuple("abcdef")
        assert [reader.read(0).key, reader.read(5).key] == ["100%41.jpg", "é"]
        assert digests(reader)

    def test_several_arrays(self, tmp_path: Path) -> None:
        def make(file: h5py.File) -> None:
            file["train/images"], file["test/images"] = images(6), images(4)
            file["train/labels"] = np.arange(6)

        path = foreign(tmp_path, make)
        with pytest.raises(UsageError, match=r"test/images uint8\[4, 7, 5, 3\], train/images"):
            registry.open_reader(path)
        for array in ("train/images", "/train/images"):
            assert len(FORMAT.open_reader(path, Hdf5ReadOptions(array=array))) == 6

    @pytest.mark.parametrize("array", ["nothing", "train", "train/labels"])
    def test_array_that_holds_no_images(self, tmp_path: Path, array: str) -> None:
        def make(file: h5py.File) -> None:
            file["train/images"], file["train/labels"] = images(), np.arange(6)

        with pytest.raises(UsageError, match=f"--array {array}"):
            FORMAT.open_reader(foreign(tmp_path, make), Hdf5ReadOptions(array=array))

    def test_array_of_our_own(self, path: Path) -> None:
        own = FORMAT.open_reader(path, Hdf5ReadOptions(array="images"))
        assert digests(own) == digests(registry.open_reader(path))

    def test_labels_of_another_length(self, tmp_path: Path) -> None:
        def make(file: h5py.File) -> None:
            file["images"], file["labels"] = images(4), np.arange(3)

        with pytest.raises(DamagedDatasetError, match="4 images, 3 labels"):
            registry.open_reader(foreign(tmp_path, make))

    def test_what_is_named_like_labels_and_is_none_is_told(self, tmp_path: Path) -> None:
        def make(file: h5py.File) -> None:
            file["images"], file["labels"] = images(), np.eye(6)

        reader = registry.open_reader(foreign(tmp_path, make))
        assert reader.labels().tolist() == [-1] * 6
        assert "/labels holds float64[6, 6]" in reader.describe()["notes"][0]

    @pytest.mark.parametrize(
        ("stored", "shape"),
        [
            (images(6, 7, 5, 3, dtype="float32") / np.float32(255), (7, 5, 3)),
            (images(6, 28, 28), (28, 28, 1)),
        ],
    )
    def test_told_as_it_is(
        self, tmp_path: Path, stored: np.ndarray[Any, Any], shape: tuple[int, ...]
    ) -> None:
        reader = registry.open_reader(foreign(tmp_path, lambda file: file.update({"x": stored})))
        assert (reader.schema.image_shape, reader.schema.dtype) == (shape, stored.dtype.name)
        assert np.array_equal(reader.read(2).image, stored[2].reshape(shape))

    def test_ragged_bytes_are_encoded_images(self, tmp_path: Path) -> None:
        samples = synthetic.encoded_samples(5)

        def make(file: h5py.File) -> None:
            array = file.create_dataset("jpegs", (5,), h5py.vlen_dtype(np.uint8))
            for index, sample in enumerate(samples):
                array[index] = sample.image
            file["label"] = np.arange(5)

        reader = registry.open_reader(foreign(tmp_path, make))
        assert reader.schema.payload is Payload.ENCODED
        batch = reader.read_many([3, 1, 3], np.empty(9999, np.uint8))
        for position, index in enumerate((3, 1, 3)):
            assert np.array_equal(batch.image(position), samples[index].image)
        assert reader.labels().tolist() == [0, 1, 2, 3, 4]

    def test_no_images_inside(self, tmp_path: Path) -> None:
        def make(file: h5py.File) -> None:
            file["picture"] = np.zeros((40, 30, 3), np.float32)
            file["table"] = np.zeros((100, 5))
            file["reference"] = np.array([file["table"].ref], h5py.ref_dtype)

        with pytest.raises(NotADatasetError, match="no array of images"):
            registry.open_reader(foreign(tmp_path, make))


@pytest.mark.parametrize("chunks", [None, (8,)])
def test_names_of_single_images_that_are_not_utf_8(
    tmp_path: Path, chunks: tuple[int, ...] | None
) -> None:
    pictures = [np.frombuffer(synthetic.png(3, 4, seed), np.uint8) for seed in range(2)]
    with h5py.File(tmp_path / "set.h5", "w") as file:
        for name, picture in zip((b"caf\xe9.png", "é%41.png"), pictures, strict=True):
            file.create_dataset(name, data=picture, chunks=chunks)
    reader = registry.open_reader(tmp_path / "set.h5")
    found = {sample.key: sample.image for sample in map(reader.read, range(2))}
    assert found.keys() == {"caf\udce9.png", "é%41.png"}
    assert np.array_equal(found["caf\udce9.png"], pictures[0])
