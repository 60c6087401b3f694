"""Encoded images decoded into batches: each format, a smaller store, large photographs."""

from __future__ import annotations

from benchmarks import references
from benchmarks.ours import decoding_loader, decoding_torch_loader, encoded
from benchmarks.peers import ffcv, grain, lance, litdata, plain
from benchmarks.row import Row, Table

FORMATS = ("tree", "webdataset", "lmdb", "zarr", "raw", "hdf5")

_DECODING = (
    "83 % of the processor time is spent in libjpeg-turbo and in OpenCV's resize (`perf`), as "
    "by the reference; the rest is shared by reading, checking and handing over. As long as the "
    "same library decodes, a few percent are all that there is to win."
)

_ENTROPY = (
    "Decoded at an eighth of its size such a file takes 23.4 ms of processor time, by OpenCV alone "
    "23.5 ms, and whole 45.7 ms: what is left is to undo the entropy coding of 2.7 MB, which no "
    "scale saves. Files with less detail gain more."
)

LOADER = Table(
    name="encoded",
    title="Encoded images → shuffled batches",
    text="JPEG bytes from each container to uint8 batches of 64×224×224×3, by FastLoader.",
    rows=tuple(
        Row(
            name=f"encoded/{name}",
            what=f"{name}, FastLoader",
            ready=decoding_loader(encoded(name)),
            reference=references.DECODE,
            target=1.05,
            aim=1.10,
            why=_DECODING,
        )
        for name in FORMATS
    ),
    peers=(ffcv.ENCODED, grain.ENCODED, lance.ENCODED, litdata.ENCODED, *plain.ENCODED),
)

TORCH = Table(
    name="encoded-torch",
    title="Encoded images → shuffled batches, torch's DataLoader with 2 workers",
    text="The same through torch's own loader over FastDataset.",
    rows=tuple(
        Row(
            name=f"encoded-torch/{name}",
            what=f"{name}, DataLoader",
            ready=decoding_torch_loader(encoded(name)),
            reference=references.DECODE,
            target=0.95,
        )
        for name in FORMATS
    ),
)

SMALLER = Table(
    name="max-side",
    title="Images re-encoded with `--max-side 256` → shuffled batches",
    text="What a smaller store brings: the reference decodes the full photographs.",
    rows=(
        Row(
            name="max-side/lmdb",
            what="lmdb, `--max-side 256`, FastLoader",
            ready=decoding_loader(encoded("lmdb", "--max-side", "256")),
            reference=ffcv.SMALLER,
            target=1.0,
            stand_in=(references.DECODE, 4.5),
        ),
    ),
)

LARGE = Table(
    name="large",
    title="Photographs of 12 megapixels → shuffled batches of 224×224",
    text="Large photographs, decoded at a reduced scale.",
    rows=(
        Row(
            name="large/lmdb",
            what="lmdb, FastLoader",
            ready=decoding_loader(lambda data: data.of_large.encoded("lmdb")),
            reference=references.DECODE_LARGE,
            target=4.0,
            why=_ENTROPY,
        ),
    ),
)
