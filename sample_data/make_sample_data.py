"""Paint the sample set: sixty sound images in three classes, and one file for each fault."""
# Each picture's randomness is seeded with its own name: adding one leaves the others as they are.

import argparse
import io
import math
import zlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter, ImageFont

Colour = tuple[int, ...]

FINE = 3  # shapes and scenes are painted this many times larger, then reduced to smooth the edges
SIZES = ((320, 240), (240, 320), (288, 192), (256, 256), (200, 300), (320, 200), (240, 160))
PALETTES = (
    "264653 2a9d8f e9c46a f4a261 e76f51",
    "22223b 4a4e69 9a8c98 c9ada7 f2e9e4",
    "003049 d62828 f77f00 fcbf49 eae2b7",
    "2b2d42 3a86a8 8ecae6 ffb703 fb8500",
    "1b4332 40916c 95d5b2 f1faee e07a5f",
    "3d1e6d 8a4fff d99ae5 ffd6e0 ff5d8f",
    "132a13 4f772d 90a955 ecf39e f2c078",
)
HOURS = (  # the sky's top and foot, the sun or moon, the farthest land and the nearest
    "4a90c2 d9eef5 fff3b0 9cc5a1 2d6a4f",
    "3b2c5a f79d65 ffe8a3 a8577e 2a1a3d",
    "0b1533 3d5a80 f4f1de 33507a 0a1128",
    "7fb7be f9dcc4 fff8e7 c08497 5a3d55",
    "1f6f8b fbe3a4 fffbe0 e0a458 8c4a2f",
)
CAMERAS = (("Lantern", "L-20"), ("Kestrel Optics", "K7 Mark II"), ("Northlight", "Pocket 3"))
KINDS = {"tiles-2": "png", "facets-4": "png", "letters-3": "png", "sea-2": "webp"}  # others: jpg
ORIENTED = {"hills-4": 6, "city-3": 8}
STORED = {1: 0, 3: 180, 6: 90, 8: 270}  # how far each orientation turns what it stores
GREY = "marble-2"


def blend(tones: list[Colour], level: NDArray[np.float64]) -> NDArray[np.float64]:
    """Colour a field of 0..1 along a row of tones."""
    row, at = np.array(tones, np.float64), np.linspace(0, 1, len(tones))
    return np.stack([np.interp(level, at, row[:, c]) for c in range(3)], axis=-1)


def mix(tones: list[Colour], share: float) -> Colour:
    """Find one colour along a row of tones."""
    return tuple(round(value) for value in blend(tones, np.array(share)).tolist())


def disc(pen: ImageDraw.ImageDraw, x: float, y: float, r: float, fill: Colour) -> None:
    """Draw a filled circle."""
    pen.ellipse((x - r, y - r, x + r, y + r), fill=fill)


@dataclass
class Sheet:
    """What a painter is given: a size, five tones, its own randomness, and its number from 0."""

    width: int
    height: int
    tones: list[Colour]
    rng: np.random.RandomState
    number: int

    def blank(self, colour: Colour) -> tuple[Image.Image, ImageDraw.ImageDraw]:
        """Lay out an enlarged sheet, and a pen whose translucent colours mix."""
        image = Image.new("RGB", (self.width * FINE, self.height * FINE), colour)
        return image, ImageDraw.Draw(image, "RGBA")


def texture(s: Sheet, kind: str) -> Image.Image:
    """Print a pattern in the sheet's tones, stirred by four octaves of smooth noise."""
    noise = np.zeros((s.height, s.width))
    for weight in (1, 2, 4, 8):
        side = (2 + s.number // 2) * weight + 2
        knots = Image.fromarray(s.rng.random_sample((side, side)).astype(np.float32))
        noise += np.asarray(knots.resize((s.width, s.height))) / weight
    noise = (noise - noise.min()) / np.ptp(noise)
    y, x = np.mgrid[0 : s.height, 0 : s.width].astype(np.float64)
    turn, cell = s.rng.uniform(0.2, 1.3), 18.0 + 5 * s.number
    u, v = x * math.cos(turn) + y * math.sin(turn), y * math.cos(turn) - x * math.sin(turn)
    across, along = np.sin(np.pi * u / cell), np.sin(np.pi * v / cell)
    seeds = s.rng.random_sample((25 + 15 * s.number, 2)) * (s.width, s.height)
    near = np.sort([np.hypot(x - a, y - b) for a, b in seeds], axis=0)
    level = {
        "marble": 0.5 + 0.5 * np.sin(1.5 * u / cell + 9 * noise),
        "checks": 0.25 + 0.5 * np.clip(0.5 + 4 * across * along, 0, 1) + 0.5 * (noise - 0.5),
        "weave": np.where(across * along > 0, 0.45 * abs(across), 0.5 + 0.5 * abs(along)),
        "cells": np.clip((near[1] - near[0]) / 4, 0, 1) * (1 - near[0] / near[0].max()),
        "terraces": np.floor(noise * 9) / 8 - 0.2 * ((noise * 9) % 1 < 0.12),
    }[kind]
    return Image.fromarray(blend(s.tones, level).clip(0, 255).astype(np.uint8))


def discs(s: Sheet) -> Image.Image:
    """Strew translucent discs, the large ones first."""
    image, pen = s.blank(s.tones[0])
    for k in range(24):
        x, y = s.rng.uniform(0, 1, 2) * image.size
        radius = image.height * 0.3 * 0.92**k
        disc(pen, x, y, radius, (*s.tones[1 + k % 4], 215))
        disc(pen, x, y, radius * 0.5, (*s.tones[k * 3 % 5], 140))
    return image


def tiles(s: Sheet) -> Image.Image:
    """Pave with quarter discs."""
    image, _ = s.blank(s.tones[-1])
    side = image.width // (3 + s.number)
    for x, y in np.ndindex(image.width // side + 1, image.height // side + 1):
        back, front, dot = s.rng.permutation(5)[:3]
        tile = Image.new("RGB", (side, side), s.tones[back])
        a, b = (s.rng.randint(0, 2, 2) * side).tolist()
        disc(ImageDraw.Draw(tile), a, b, side - 1, s.tones[front])
        disc(ImageDraw.Draw(tile), a, b, side * 0.45, s.tones[dot])
        image.paste(tile, (x * side, y * side))
    return image


def facets(s: Sheet) -> Image.Image:
    """Fold a sheet into triangles that brighten from one side to the other."""
    image, pen = s.blank(s.tones[0])
    cols, rows = 5 + 2 * s.number, 4 + s.number
    spots = np.mgrid[-1 : cols + 2, -1 : rows + 2].transpose(1, 2, 0)
    spots = (spots + s.rng.uniform(-0.33, 0.33, spots.shape)) / (cols, rows)
    for i, j in np.ndindex(cols + 2, rows + 2):
        for middle in (spots[i, j + 1], spots[i + 1, j]):
            corners = np.stack([spots[i, j], middle, spots[i + 1, j + 1]])
            a, b = corners.mean(axis=0)
            share = (a, b, (a + b) / 2, (a + 1 - b) / 2, 1 - b)[s.number]
            fill = mix(s.tones, share + s.rng.uniform(-0.2, 0.2))
            pen.polygon((corners * image.size).tolist(), fill, s.tones[-1], 2)
    return image


def letters(s: Sheet) -> Image.Image:
    """Set a word in rows over its own large initial."""
    image, pen = s.blank(s.tones[0])
    word = ("Quartz", "Ember", "Fjord", "Maple", "Saffron")[s.number]
    x, y = image.width / 2, image.height / 2
    pen.text((x, y), word[0], s.tones[1], ImageFont.load_default(image.height * 1.1), "mm")
    small = ImageFont.load_default(min(image.width * 0.19, image.height * 0.17))
    for k in range(4):
        spot = (x * (0.76 + 0.16 * k), y * (0.31 + 0.46 * k))
        pen.text(spot, word, s.tones[4 - k % 3], small, "mm")
    return image


def sky(s: Sheet) -> tuple[Image.Image, ImageDraw.ImageDraw, float]:
    """Paint the sky with stars or clouds and the sun or moon; also tell where that stands."""
    image, pen = s.blank(s.tones[1])
    width, height = image.size
    for y in range(height):
        pen.line((0, y, width, y), fill=mix(s.tones[:2], y / height * 1.4))
    night = sum(s.tones[0]) < 100
    for x, y in s.rng.random_sample((70 * night, 2)) * (width, height * 0.6):
        disc(pen, x, y, s.rng.uniform(1, 3.5), (255, 255, 235, 210))
    sun, top, r = s.rng.uniform(0.2, 0.8) * width, s.rng.uniform(0.2, 0.4) * height, width * 0.08
    for ring, opacity in ((3.2, 34), (2.4, 34), (1.7, 34), (1.0, 255)):
        disc(pen, sun, top, r * ring, (*s.tones[2], opacity))
    for x, y in s.rng.random_sample((4 - 4 * night, 2)) * (width, height * 0.35):
        for k in range(-2, 3):
            box = (x + r * (k - 1), y - r * 0.2 * (3 - abs(k)), x + r * (k + 1), y + r * 0.3)
            pen.rounded_rectangle(box, r * 0.25, (255, 255, 255, 60))
    return image, pen, sun


def hills(s: Sheet) -> Image.Image:
    """Stack hills under the sky, with pines on them, the nearer the darker and larger."""
    image, pen, _ = sky(s)
    for share in np.linspace(0, 1, 3 + s.number % 3):
        fill, x = mix(s.tones[3:], share), np.linspace(0, 1, 100)
        a, b, c = s.rng.uniform(0, 6.3, 3)
        y = 0.05 * np.sin(x * 5 + a) + 0.025 * np.sin(x * 12 + b) + 0.006 * np.sin(x * 31 + c)
        line = np.stack([x, y + 0.55 + 0.36 * share], -1) * image.size
        pen.polygon([*line.tolist(), image.size, (0, image.height)], fill=fill)
        for x, y in s.rng.permutation(line)[: s.rng.randint(2, 26)]:
            h = image.height * s.rng.uniform(0.06, 0.1) * (1 + share)
            for lift in (0.0, 0.25, 0.5):
                foot, half = y + 9 - h * lift, h * (0.3 - lift / 4)
                pen.polygon([x - half, foot, x, foot - h * 0.5, x + half, foot], fill=fill)
    return image


def sea(s: Sheet) -> Image.Image:
    """Let the sun glitter on open water, and a boat cross it."""
    image, pen, sun = sky(s)
    width, height = image.size
    for row in range(int(height * 0.6), height):
        water = mix([s.tones[k] for k in (1, 0, 4)], row / height * 2 - 1)
        pen.line((0, row, width, row), fill=water)
    for depth in s.rng.uniform(0, 1, 150):
        x, y = s.rng.normal(sun, width * (0.03 + 0.12 * depth)), height * (0.61 + 0.39 * depth)
        half, thick = width * (0.01 + 0.03 * depth), 3 + 3 * depth
        pen.rounded_rectangle((x - half, y, x + half, y + thick), 2, (*s.tones[2], 150))
    x = width * (0.12 + 0.76 * ((sun / width + s.rng.uniform(0.3, 0.6)) % 1))
    y, h = height * 0.74, height * 0.22
    pen.polygon([x, y - h, x, y - 8, x + h * 0.45, y - 8], fill=(255, 252, 240))
    pen.polygon([x - 8, y - h * 0.9, x - 8, y - 8, x - h * 0.3, y - 8], fill=s.tones[3])
    pen.chord((x - h * 0.4, y - h * 0.17, x + h * 0.5, y + h * 0.17), 0, 180, fill=s.tones[4])
    return image


def city(s: Sheet) -> Image.Image:
    """Raise three rows of houses with lit windows."""
    image, pen, _ = sky(s)
    pane = image.width // 70
    for row in range(3):
        x = -pane * row
        while x < image.width:
            wide = pane * 2 * int(s.rng.randint(3, 7))
            top = image.height * (0.42 + 0.16 * row + s.rng.uniform(0, 0.2))
            pen.rectangle((x, top, x + wide - 2, image.height), fill=mix(s.tones[3:], row / 2))
            for i, j in np.ndindex(wide // pane // 2 - 1, int((image.height - top) / pane / 3)):
                a, b = x + pane * (1.5 + 2 * i), top + pane * (1.5 + 3 * j)
                lit = (90 + 80 * row) * int(s.rng.randint(2))
                pen.rectangle((a, b, a + pane, b + pane * 1.6), fill=(*s.tones[2], lit))
            x += wide
    return image


PAINTERS = {f.__name__: f for f in (discs, tiles, facets, letters, hills, sea, city)}
CLASSES = {
    "shapes": ("discs", "tiles", "facets", "letters"),
    "textures": ("marble", "checks", "weave", "cells", "terraces"),
    "scenes": ("hills", "sea", "city"),
}


def paint(name: str) -> Image.Image:
    """Paint the picture of that name, such as tiles-3; all but shapes get grain, as film has."""
    kind, number = name.split("-")[0], int(name.split("-")[1]) - 1
    rng = np.random.RandomState(zlib.crc32(name.encode()))
    size = SIZES[rng.randint(len(SIZES))]
    rows = HOURS if kind in CLASSES["scenes"] else PALETTES
    code = rows[(number + len(kind)) % len(rows)]
    sheet = Sheet(*size, [tuple(bytes.fromhex(word)) for word in code.split()], rng, number)
    image = PAINTERS[kind](sheet) if kind in PAINTERS else texture(sheet, kind)
    grain = 0 if kind in CLASSES["shapes"] else 3.5
    noise = grain * rng.standard_normal((size[1], size[0], 1))
    pixels = noise + np.asarray(image.resize(size, Image.Resampling.LANCZOS))
    final = Image.fromarray(pixels.clip(0, 255).round().astype(np.uint8))
    return final.convert("L" if name == GREY else "RGB")


def encode(image: Image.Image, kind: str, number: int, orientation: int = 1) -> bytes:
    """Write a picture as a camera would: turned as its EXIF says, with a maker and a date."""
    exif, file = Image.Exif(), io.BytesIO()
    exif[0x010F], exif[0x0110] = CAMERAS[number % len(CAMERAS)]
    exif[0x0112] = orientation
    taken = datetime(2022, 3, 5, 9, 12) + timedelta(days=11 * number, minutes=37 * number)
    exif.get_ifd(0x8769)[0x9003] = f"{taken:%Y:%m:%d %H:%M:%S}"  # DateTimeOriginal
    stored, coder = image.rotate(STORED[orientation], expand=True), kind.replace("jpg", "jpeg")
    stored.save(file, coder, quality=85 + number % 8, optimize=True, exif=exif)
    return file.getvalue()


def faults(sound: dict[str, bytes]) -> dict[str, bytes]:
    """Make one file for each fault; only the blurred one and the duplicates copy a sound image."""
    whole, plain = encode(paint("sea-8"), "jpg", 66), io.BytesIO()
    paint("discs-8").save(plain, "jpeg", quality=90)
    long = encode(paint("hills-9"), "jpg", 67)
    return {
        "bad/black.jpg": encode(Image.new("RGB", (240, 160), "black"), "jpg", 60),
        "bad/white.jpg": encode(Image.new("RGB", (240, 160), "white"), "jpg", 61),
        "bad/blurred.jpg": encode(paint("city-1").filter(ImageFilter.GaussianBlur(7)), "jpg", 62),
        "bad/duplicate.jpg": sound["images/shapes/tiles-3.jpg"],
        "bad/near-duplicate.jpg": encode(paint("cells-3"), "jpg", 64),
        "bad/rotated.jpg": encode(paint("city-8"), "jpg", 65, orientation=3),
        "bad/tail-zeroed.jpg": whole[: len(whole) // 2].ljust(len(whole), b"\0"),
        "bad/truncated.jpg": long[: len(long) * 6 // 10],
        "bad/wrong-extension.jpg": encode(paint("tiles-8"), "png", 68),
        "bad/no-exif.jpg": plain.getvalue(),
        "bad/not-an-image.jpg": b"<!doctype html><title>404</title><p>No picture here.</p>\n",
        "bad/empty.jpg": b"",
    }


def main() -> None:
    """Write images/CLASS/NAME and bad/NAME into a folder, this script's own by default."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", nargs="?", type=Path, default=Path(__file__).parent)
    out, sound = parser.parse_args().out, {}
    for number in range(60):
        folder, kinds = list(CLASSES.items())[number // 20]
        name = f"{kinds[number % 20 % len(kinds)]}-{number % 20 // len(kinds) + 1}"
        kind, turned = KINDS.get(name, "jpg"), ORIENTED.get(name, 1)
        sound[f"images/{folder}/{name}.{kind}"] = encode(paint(name), kind, number, turned)
    for path, data in (sound | faults(sound)).items():
        (out / path).parent.mkdir(parents=True, exist_ok=True)
        (out / path).write_bytes(data)


if __name__ == "__main__":
    main()
