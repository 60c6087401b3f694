"""What every format owes that is written too, whoever wrote it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from fastdata_cli import registry
from fastdata_cli.contract import Capability, Format, Reader, Target, Writer
from fastdata_cli.errors import (
    BusyError,
    DestinationExistsError,
    StaleStagingError,
)
from fastdata_cli.options import Options
from fastdata_cli.sample import Batch, Payload, Sample
from fastdata_cli.storage import durable
from fastdata_cli.storage.gather import SWITCH
from fastdata_cli.testing import synthetic
from fastdata_cli.testing.reader_conformance import ReaderConformance, assert_same, digests


class FormatConformance(ReaderConformance):
    """Subclass it, set ``format``, and pytest runs the suite on it.

    Class attributes a subclass may set:
        format: the descriptor under test.
        write_options: options of its writer; small parts exercise more.
        part_samples: how many samples a part gets; None where the options decide.
        same_bytes: equal runs give equal bytes (else only equal samples).
    """

    format: ClassVar[Format]
    write_options: ClassVar[Options | None] = None
    part_samples: ClassVar[int | None] = 7
    same_bytes: ClassVar[bool] = True

    @pytest.fixture(params=list(Payload), ids=[payload.value for payload in Payload])
    def payload(self, request: pytest.FixtureRequest) -> Payload:
        """Each payload that the format stores."""
        payload: Payload = request.param
        if payload not in self.format.payloads:
            pytest.skip(f"format {self.format.name} does not store {payload}")
        return payload

    @pytest.fixture
    def samples(self, payload: Payload) -> list[Sample]:
        """What was written."""
        return synthetic.samples_for(payload)

    @pytest.fixture
    def path(self, tmp_path: Path, samples: list[Sample], payload: Payload) -> Path:
        """A dataset that holds ``samples``."""
        return self.write(tmp_path / "first", samples, payload)

    @pytest.fixture(params=["gathered", "by the library"])
    def reader(
        self, path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
    ) -> Reader:
        """An open reader of it; where the format can LOCATE, also one that its library reads."""
        if request.param != "gathered":
            if Capability.LOCATE not in self.format.capabilities:
                pytest.skip(f"format {self.format.name} has one way of reading")
            monkeypatch.setenv(SWITCH, "off")
        return registry.open_reader(path)

    def destination(self, folder: Path) -> Path:
        """Return where a dataset of this format may be written in ``folder``."""
        folder.mkdir(exist_ok=True)
        suffix = self.format.suffixes[0] if self.format.suffixes else ""
        return folder / f"set{suffix}"

    def write(
        self, folder: Path, samples: list[Sample], payload: Payload, *, overwrite: bool = False
    ) -> Path:
        """Write ``samples`` into ``folder`` and return the dataset's path."""
        return synthetic.write_dataset(
            self.format,
            self.destination(folder),
            samples,
            payload,
            self.write_options,
            part_samples=self.part_samples,
            overwrite=overwrite,
        )

    def open_writer(self, path: Path, samples: list[Sample], payload: Payload) -> Writer:
        """Open a writer at ``path``."""
        manifest = synthetic.manifest_for(samples, payload, self.format.name)
        return synthetic.open_writer(self.format, path, manifest, self.write_options)

    # -- what is read is what was written

    def test_manifest(self, reader: Reader, payload: Payload) -> None:
        """The dataset knows what made it, and can say what it is."""
        assert reader.manifest is not None
        assert reader.manifest.format == self.format.name
        assert reader.schema.payload is payload
        assert reader.schema.class_names == synthetic.CLASS_NAMES

    def test_unlabelled_and_single(self, tmp_path: Path, payload: Payload) -> None:
        """One sample without label and metadata is a dataset."""
        only = synthetic.samples_for(payload, 1)[0]
        plain = Sample("only.jpg", only.image)
        reader = registry.open_reader(self.write(tmp_path / "one", [plain], payload))
        assert len(reader) == 1
        assert_same(reader.read(0), plain)

    # -- writing

    def test_nothing_visible_before_publish(
        self, tmp_path: Path, samples: list[Sample], payload: Payload
    ) -> None:
        """Until publish there is one hidden staging place; after abort there is nothing."""
        folder = tmp_path / "staged"
        path = self.destination(folder)
        writer = self.open_writer(path, samples, payload)
        writer.begin("x")
        self.write_parts(writer, samples, payload)
        assert not path.exists()
        assert [entry.name for entry in folder.iterdir()] == [f".{path.name}.fastdata-partial"]
        writer.abort(keep=False)
        assert list(folder.iterdir()) == []

    def test_interrupted_run_continues(
        self, tmp_path: Path, path: Path, samples: list[Sample], payload: Payload
    ) -> None:
        """A second writer goes on from the finished parts, and the result is the same."""
        again = self.destination(tmp_path / "again")
        first = self.open_writer(again, samples, payload)
        first.begin("synthetic")
        self.write_parts(first, samples, payload, stop=3)
        first.abort(keep=True)
        second = self.open_writer(again, samples, payload)
        done = second.begin("synthetic")
        second.abort(keep=True)
        assert len(done) in (0, 3)
        assert [receipt.part.index for receipt in done] == list(range(len(done)))
        self.write(tmp_path / "again", samples, payload)
        assert digests(registry.open_reader(again)) == digests(registry.open_reader(path))
        if self.same_bytes:
            assert content(again) == content(path)

    def test_equal_runs(
        self, tmp_path: Path, path: Path, samples: list[Sample], payload: Payload
    ) -> None:
        """The same samples give the same bytes, where the format promises it."""
        again = self.write(tmp_path / "again", samples, payload)
        if self.same_bytes:
            assert content(again) == content(path)
        assert digests(registry.open_reader(again)) == digests(registry.open_reader(path))

    def test_writing_a_part_twice_changes_nothing(
        self, tmp_path: Path, path: Path, samples: list[Sample], payload: Payload
    ) -> None:
        """The last part, written again, is the same part."""
        again = self.destination(tmp_path / "again")
        writer = self.open_writer(again, samples, payload)
        writer.begin("x")
        part, batch = self.write_parts(writer, samples, payload)[-1]
        writer.write_part(part, batch)
        writer.publish(synthetic.manifest_for(samples, payload, self.format.name))
        assert digests(registry.open_reader(again)) == digests(registry.open_reader(path))

    def test_parallel_write(
        self, tmp_path: Path, path: Path, samples: list[Sample], payload: Payload
    ) -> None:
        """With PARALLEL_WRITE, parts may come in any order and from several threads."""
        if Capability.PARALLEL_WRITE not in self.format.capabilities:
            pytest.skip("parts are written in order")
        again = self.destination(tmp_path / "again")
        writer = self.open_writer(again, samples, payload)
        writer.begin("x")
        parts = list(
            synthetic.parts_of(samples, synthetic.limits(writer, self.part_samples), payload)
        )
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda pair: writer.write_part(*pair), reversed(parts)))
        writer.publish(synthetic.manifest_for(samples, payload, self.format.name))
        assert digests(registry.open_reader(again)) == digests(registry.open_reader(path))

    def test_added_to(
        self, tmp_path: Path, path: Path, samples: list[Sample], payload: Payload
    ) -> None:
        """With APPEND, a writer adds to what stands there, which stays until it is larger."""
        if Capability.APPEND not in self.format.capabilities:
            pytest.skip("nothing is added to a dataset")
        half = len(samples) // 2
        grown = self.write(tmp_path / "grown", samples[:half], payload)
        before = registry.open_reader(grown)
        standing, held = before.manifest, digests(before)
        manifest = synthetic.manifest_for(samples, payload, self.format.name)
        target = Target(path=grown, manifest=manifest, standing=standing)
        assert self.format.open_writer is not None
        writer = self.format.open_writer(target, self.write_options or self.format.write_options())
        (first,) = [receipt.part for receipt in writer.begin("x")]
        assert (first.index, first.start, first.samples, first.source_stop) == (0, 0, half, 0)
        limits = synthetic.limits(writer, self.part_samples)
        for part, batch in synthetic.parts_of(samples[half:], limits, payload):
            writer.write_part(replace(part, index=part.index + 1, start=part.start + half), batch)
        assert digests(registry.open_reader(grown)) == held
        writer.publish(manifest)
        assert digests(registry.open_reader(grown)) == digests(registry.open_reader(path))
        assert not list(registry.open_reader(grown).verify())

    def test_another_run_is_not_mixed_in(
        self, tmp_path: Path, samples: list[Sample], payload: Payload
    ) -> None:
        """A different fingerprint is refused, and so is a second live writer."""
        path = self.destination(tmp_path / "busy")
        first = self.open_writer(path, samples, payload)
        first.begin("one")
        with pytest.raises(BusyError):
            self.open_writer(path, samples, payload).begin("one")
        self.write_parts(first, samples, payload, stop=1)
        first.abort(keep=True)
        if not path.parent.joinpath(f".{path.name}.fastdata-partial").exists():
            return  # this format cannot continue, and leaves nothing
        other = self.open_writer(path, samples, payload)
        with pytest.raises(StaleStagingError):
            other.begin("two")

    def test_existing_destination(
        self, tmp_path: Path, path: Path, samples: list[Sample], payload: Payload
    ) -> None:
        """What stands there is kept without overwrite, and replaced whole with it."""
        before = digests(registry.open_reader(path))
        fewer = samples[:9]
        with pytest.raises(DestinationExistsError):
            self.write(tmp_path / "first", fewer, payload)
        assert digests(registry.open_reader(path)) == before
        for entry in path.parent.glob(".*.fastdata-partial"):
            durable.remove(entry)
        self.write(tmp_path / "first", fewer, payload, overwrite=True)
        assert digests(registry.open_reader(path)) == before[:9]

    def write_parts(
        self, writer: Writer, samples: list[Sample], payload: Payload, stop: int | None = None
    ) -> list[tuple[Any, Batch]]:
        """Write the first ``stop`` parts, in order."""
        limits = synthetic.limits(writer, self.part_samples)
        parts = list(synthetic.parts_of(samples, limits, payload))[:stop]
        assert len(parts) > 2 or stop, "the suite wants several parts: set part_samples or options"
        for part, batch in parts:
            writer.write_part(part, batch)
        return parts

    # -- recognition, checks, flags

    def test_recognised_by_content(self, path: Path, tmp_path: Path) -> None:
        """The content says what it is; nothing else is claimed."""
        assert registry.recognise(path).name == self.format.name
        stranger = tmp_path / "notes.txt"
        stranger.write_text("no dataset\n" * 100)
        assert not self.format.recognises(stranger)
        assert not self.format.recognises(tmp_path / "nothing-here")

    def test_compare_tells_images_that_are_not_what_was_written(self, reader: Reader) -> None:
        """Images just read are compared with their checksums, whatever their order."""
        wanted = [5, 40, 0, 40]
        images = [image.copy() for image in reader.read_each(wanted)]
        images[2].reshape(-1)[0] ^= 1
        (found,) = reader.compare(wanted, images)
        assert (found.index, found.key, found.kind) == (0, reader.keys()[0], "corrupt")

    def test_capabilities(self, reader: Reader) -> None:
        """An instance may have fewer flags than its format, never more."""
        assert reader.capabilities & ~self.format.capabilities == Capability(0)


def content(path: Path) -> dict[str, bytes]:
    """Return every file of a dataset by its relative name."""
    if path.is_file():
        return {"": path.read_bytes()}
    files = sorted(entry for entry in path.rglob("*") if entry.is_file())
    return {str(entry.relative_to(path)): entry.read_bytes() for entry in files}
