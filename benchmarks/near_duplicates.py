"""Measures near duplicates: what is found among photographs, and how an index grows.

    python -m benchmarks.near_duplicates found PHOTOS
    python -m benchmarks.near_duplicates index 1000000 --distance 8

The first makes copies of every photograph of a folder as they occur (re-encoded, resized, cropped)
and other pictures that are no copies, and prints which pairs count as duplicates. The second
inserts random hashes one by one, a tenth of them copies with flipped bits, each searched first.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from fastdata_cli.imaging.decode import decode
from fastdata_cli.quality.duplicates import DuplicateFinder
from fastdata_cli.quality.fingerprints import LOOK_BYTES, Fingerprint, agree, near

Image = NDArray[np.uint8]
DISTANCES = (0, 2, 4, 6, 8, 10, 12, 16)


def jpeg(image: Image, quality: int) -> Image:
    """Encode and decode again."""
    data = cv2.imencode(".jpg", image[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])[1]
    return np.asarray(cv2.imdecode(data, cv2.IMREAD_COLOR), np.uint8)[:, :, ::-1]


def resize(image: Image, factor: float) -> Image:
    """Resize by a factor, by areas."""
    size = cv2.resize(image, None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA)
    return np.asarray(size, np.uint8)


def crop(image: Image, share: float, *, corner: bool) -> Image:
    """Cut a share of height and width off, around the centre or all at two sides; as JPEG."""
    rows, columns = (round(side * share) for side in image.shape[:2])
    top, left = (0, 0) if corner else (rows // 2, columns // 2)
    height, width = image.shape[0] - rows, image.shape[1] - columns
    return jpeg(image[top : top + height, left : left + width], 90)


COPIES: dict[str, Callable[[Image], Image]] = {
    "JPEG quality 95": lambda image: jpeg(image, 95),
    "JPEG quality 75": lambda image: jpeg(image, 75),
    "JPEG quality 40": lambda image: jpeg(image, 40),
    "resized to 0.7": lambda image: resize(image, 0.7),
    "resized to half": lambda image: resize(image, 0.5),
    "half, then quality 40": lambda image: jpeg(resize(image, 0.5), 40),
    "2 % cropped, centre": lambda image: crop(image, 0.02, corner=False),
    "5 % cropped, centre": lambda image: crop(image, 0.05, corner=False),
    "2 % cropped, corner": lambda image: crop(image, 0.02, corner=True),
    "5 % cropped, corner": lambda image: crop(image, 0.05, corner=True),
}


def page(seed: int) -> Image:
    """Draw a page of text that fills its lines, all pages laid out alike."""
    random = np.random.default_rng(seed)
    image = np.full((600, 460, 3), 250, np.uint8)
    for line in range(50, 560, 18):
        column = 40
        while column < 400:
            word = "".join(map(chr, random.integers(97, 123, int(random.integers(2, 9)))))
            cv2.putText(image, word, (column, line), 0, 0.45, (20, 20, 20), 1, cv2.LINE_AA)
            column += 9 * len(word) + 8
    return image


def quarters(image: Image) -> Iterator[Image]:
    """Cut into four."""
    height, width = (side // 2 for side in image.shape[:2])
    for top in (0, height):
        for left in (0, width):
            yield image[top : top + height, left : left + width]


def looks(prints: list[Fingerprint]) -> Image:
    """Return uint8[N, L]."""
    joined = b"".join(bytes.fromhex(each.look) for each in prints)
    return np.frombuffer(joined, np.uint8).reshape(-1, LOOK_BYTES["near"])


def values(prints: list[Fingerprint]) -> NDArray[np.uint64]:
    """Return uint64[N]."""
    return np.array([each.value for each in prints], np.uint64)


def distances_of_copies(
    originals: list[Fingerprint], copies: list[Fingerprint]
) -> NDArray[np.uint8]:
    """Return the distance of each copy; 64 where the looks do not agree."""
    bits = np.bitwise_count(values(originals) ^ values(copies))
    pairs = zip(looks(originals), looks(copies), strict=True)
    alike = [bool(agree("near", mine, other[None])[0]) for mine, other in pairs]
    return np.where(alike, bits, 64)


def false_pairs(prints: list[Fingerprint], group: int = 1) -> tuple[list[int], list[int], int]:
    """Count pairs within each distance: by hash alone, and with agreeing looks; and all pairs.

    Pairs within ``group`` neighbours come from one photograph and do not count.
    """
    all_values, all_looks = values(prints), looks(prints)
    alone, both, pairs = np.zeros(65, int), np.zeros(65, int), 0
    for number in range(len(prints)):
        begin = (number // group + 1) * group
        bits = np.bitwise_count(all_values[begin:] ^ all_values[number])
        alone += np.bincount(bits, minlength=65)
        close = np.flatnonzero(bits <= max(DISTANCES))
        alike = agree("near", all_looks[number], all_looks[begin:][close])
        both += np.bincount(bits[close[alike]], minlength=65)
        pairs += len(bits)
    totals = [[int(counts[: limit + 1].sum()) for limit in DISTANCES] for counts in (alone, both)]
    return totals[0], totals[1], pairs


def precision(originals: list[Fingerprint], copies: list[list[Fingerprint]]) -> list[str]:
    """Return the share of right answers among all, for each distance, of all copies in a row."""
    shares = []
    for limit in DISTANCES:
        right = wrong = 0
        with DuplicateFinder("near", limit) as finder:
            for each in (originals, *copies):
                for number, fingerprint in enumerate(each):
                    match = finder.find(str(number), fingerprint)
                    if match is not None:
                        right += match.first == str(number)
                        wrong += match.first != str(number)
        shares.append(f"{right / max(right + wrong, 1):.4f}")
    return shares


def measure_found(folder: Path) -> None:
    """Print recall for each kind of copy, precision, and false pairs."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    photographs = [decode(path.read_bytes()).pixels for path in paths]
    print(f"{len(photographs)} photographs")
    originals = [near(image) for image in photographs]
    row("distance", list(map(str, DISTANCES)))
    every = []
    for name, change in COPIES.items():
        copies = [near(change(image)) for image in photographs]
        every.append(copies)
        bits = distances_of_copies(originals, copies)
        row(name, [f"{(bits <= limit).mean():.3f}" for limit in DISTANCES])
    row("precision", precision(originals, every))
    tiles = [near(tile) for image in photographs for tile in quarters(image)]
    pages = [near(page(seed)) for seed in range(500)]
    for name, prints, group in (
        ("photographs", originals, 1),
        ("quarters of them", tiles, 4),
        ("pages", pages, 1),
    ):
        alone, both, pairs = false_pairs(prints, group)
        print(f"{name}: {pairs:,} pairs of different pictures, of which duplicates")
        row("  by the hash alone", list(map(str, alone)))
        row("  tone and shape agreeing", list(map(str, both)))


def row(name: str, cells: list[str]) -> None:
    """Print one line of a table."""
    print(f"{name:26}", *(f"{cell:>7}" for cell in cells), flush=True)


def memory() -> str:
    """Return what the process holds now, and the most it held, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    facts = {line.split(":")[0]: line.split() for line in lines}
    names = {"RssAnon": "own", "RssFile": "mapped", "VmHWM": "most"}
    return ", ".join(f"{word} {int(facts[name][1]) / 1000:.0f}" for name, word in names.items())


def measure_index(count: int, kind: str, distance: int | None) -> None:
    """Insert hashes one by one, and print time and memory as the index grows."""
    random = np.random.default_rng(0)
    length = LOOK_BYTES[kind]
    recent = random.integers(0, 2**64, 100_000, np.uint64)
    look = (bytes([1]) + random.bytes(length - 1)).hex()
    found = 0
    began, worked, last = time.perf_counter(), time.process_time(), time.perf_counter()
    with DuplicateFinder(kind, distance) as finder:
        for number in range(count):
            value = int(random.integers(0, 2**64, dtype=np.uint64))
            place = number % len(recent)
            if number % 10 == 9 and number > len(recent):  # a copy of an earlier one
                value = int(recent[place - 1])
                for position in random.integers(0, 64, finder.distance):
                    value ^= 1 << int(position)
            recent[place] = value
            key = f"images/class{number % 1000:03}/photograph-{number:09}.jpg"
            found += finder.find(key, Fingerprint(kind, value, look)) is not None
            if (number + 1) % (count // 10) == 0:
                now = time.perf_counter()
                print(
                    f"{number + 1:>11,} in {now - began:7.1f} s",
                    f"({time.process_time() - worked:.1f} s of processor),",
                    f"lately {(now - last) / (count // 10) * 1e6:.0f} µs each,",
                    f"{found:,} duplicates, MB: {memory()}",
                    flush=True,
                )
                last = now


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("found").add_argument("photos", type=Path)
    index = verbs.add_parser("index")
    index.add_argument("count", type=int)
    index.add_argument("--kind", default="near")
    index.add_argument("--distance", type=int)
    arguments = parser.parse_args()
    if arguments.verb == "found":
        measure_found(arguments.photos)
    else:
        measure_index(arguments.count, arguments.kind, arguments.distance)


if __name__ == "__main__":
    main()
