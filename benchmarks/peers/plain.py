"""What people run today, with libraries that our own environment has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.conversions import writing
from benchmarks.data import BATCH, SIDE, Data, files_below, files_of
from benchmarks.loops import drained, first, threaded
from benchmarks.ours import Place, pixels
from benchmarks.row import MakeReady, Ready, Side
from fastdata_cli.imaging.resize import opencv
from fastdata_cli.loading.samplers import Positions
from fastdata_cli.registry import open_reader

ZARR = pixels("zarr", "--chunk", "1", "--codec", "none")
HDF5 = pixels("hdf5", "--codec", "none")

# Of a slow reader a part of the set tells as much.
_FEW = 512


def by_sample(place: Place, open_array: Callable[[str], Any], most: int | None = None) -> MakeReady:
    """Return one thread that reads sample by sample into a buffer of its own."""

    def ready(data: Data) -> Ready:
        path = place(data)
        reader, array = open_reader(path), open_array(str(path))

        def fill(batch: Positions, out: NDArray[np.uint8]) -> None:
            for position, index in enumerate(batch):
                out[position] = array[index]

        count = len(reader) if most is None else min(most, len(reader))
        return Ready(run=threaded(count, 1, fill), files=files_of(reader))

    return ready


def _zarr(path: str) -> Any:
    import zarr

    return zarr.open_array(path + "/images", mode="r")


def _h5py(path: str) -> Any:
    import h5py

    return h5py.File(path, "r")["images"]


class _Lmdb:
    """Values of an LMDB environment as arrays, zero-copy inside one transaction."""

    def __init__(self, path: str) -> None:
        import lmdb

        environment = lmdb.open(path, readonly=True, lock=False, readahead=False)
        self._transaction: Any = environment.begin(buffers=True)

    def __getitem__(self, index: int) -> NDArray[np.uint8]:
        value = self._transaction.get(b"%010d" % index)
        return np.frombuffer(value, np.uint8).reshape(SIDE, SIDE, 3)


PIXELS = (
    Side(
        name="py-lmdb",
        what="py-lmdb, buffers=True, one transaction, sample by sample",
        ready=by_sample(pixels("lmdb"), _Lmdb),
    ),
    Side(name="h5py", what="h5py, sample by sample", ready=by_sample(HDF5, _h5py)),
    Side(
        name="zarr-python",
        what="zarr-python, uncompressed, chunk 1, sample by sample",
        ready=by_sample(ZARR, _zarr, _FEW),
    ),
)

ZARR_CHUNK_1000 = Side(
    name="zarr-python-chunk-1000",
    what="zarr-python, lz4, chunk 1000, sample by sample",
    ready=by_sample(pixels("zarr", "--chunk", "1000", "--codec", "lz4"), _zarr, 2),
)


def _pillow(data: Data) -> Ready:
    import torch
    from PIL import Image
    from torch.utils.data import DataLoader, Dataset

    files = files_below(data.few.photos)

    class Photos(Dataset[Any]):
        def __len__(self) -> int:
            return len(files)

        def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
            with Image.open(files[index]) as image:
                small = image.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR)
            return torch.from_numpy(np.array(small)), 0

    loader = DataLoader(Photos(), BATCH, shuffle=True, num_workers=2, persistent_workers=True)
    return Ready(run=drained(lambda: loader, first), files=files)


def _webdataset(data: Data) -> Ready:
    import webdataset
    from torch.utils.data import DataLoader

    cv2 = opencv()
    path = data.few.encoded("webdataset")
    count = len(open_reader(path))

    def decoded(content: bytes) -> Any:
        image = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR)
        return cv2.resize(image, (SIDE, SIDE), interpolation=cv2.INTER_LINEAR)

    # One tar cannot be shared out to workers by shards: each takes every second sample.
    stages = webdataset.DataPipeline(
        webdataset.SimpleShardList([str(path)]),
        webdataset.tarfile_to_samples(),
        webdataset.split_by_worker,
        webdataset.shuffle(256),
        webdataset.to_tuple("jpg", "__key__"),
        webdataset.map_tuple(decoded),
    )
    loader = DataLoader(stages, BATCH, num_workers=2, persistent_workers=True)
    run = drained(lambda: loader, first)
    assert run().samples == count
    return Ready(run=run, files=[path])


ENCODED = (
    Side(
        name="dataloader-pillow",
        what="torch DataLoader, 2 workers, Pillow (what most people run)",
        ready=_pillow,
    ),
    Side(
        name="webdataset-library",
        what="webdataset, DataLoader with 2 workers, cv2; shuffled within 256",
        ready=_webdataset,
    ),
)


def _tarfile(data: Data) -> Ready:
    import tarfile

    target = data.scratch("python.tar")

    def run() -> None:
        with tarfile.open(target, "w") as archive:
            archive.add(data.photos, arcname=".")

    return writing(data, target, run)


def _lmdb(data: Data) -> Ready:
    import lmdb

    target = data.scratch("python.lmdb")
    files = files_below(data.photos)

    def run() -> None:
        size = 2 * sum(file.stat().st_size for file in files) + (64 << 20)
        with lmdb.open(str(target), map_size=size, sync=False) as environment:
            with environment.begin(write=True) as transaction:
                for at, file in enumerate(files):
                    transaction.put(b"%010d" % at, file.read_bytes(), append=True)
            environment.sync(True)

    return writing(data, target, run)


def _shard_writer(data: Data) -> Ready:
    import webdataset

    target = data.scratch("webdataset.tar")
    files = files_below(data.photos)

    def run() -> None:
        with webdataset.TarWriter(str(target)) as writer:
            for file in files:
                writer.write({"__key__": file.stem, "jpg": file.read_bytes()})

    return writing(data, target, run)


CONVERT = (
    Side(name="tarfile", what="Python's tarfile", ready=_tarfile),
    Side(name="webdataset-writer", what="webdataset's TarWriter", ready=_shard_writer),
    Side(name="lmdb-one-transaction", what="py-lmdb, one transaction, then sync", ready=_lmdb),
)
