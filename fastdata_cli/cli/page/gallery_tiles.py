"""The pictures of a gallery as its page shows them: data URIs, short names, words."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from fastdata_cli.cli.clean_stats import without_noise
from fastdata_cli.keys import printable, to_text
from fastdata_cli.operations.clean.gallery import Picture, PictureGroup
from fastdata_cli.operations.clean.limits import is_number
from fastdata_cli.quality.verdict import Reason, Score

_DIVIDERS = re.compile(r"(?<=[/_.-])")
_LONGEST_NAME = 60
_LONGEST_PATH = 240
_LONGEST_DETAIL = 120


@dataclass(frozen=True, slots=True)
class Tile:
    """One image."""

    name: Markup
    """The last part of its key, shortened, and where it may be broken."""
    path: str
    """The whole key, unless it is very long."""
    folder: Markup
    alt: str
    """What a screen reader says in place of the picture."""
    whole: str
    """``data:`` URI of the image; empty where there is none."""
    instead: str
    """What stands in its place then."""
    detail: str
    """The same of its middle, where blur is judged."""
    small: bool
    """Whether the image has fewer pixels than its place on the page."""
    lines: tuple[str, ...]
    """What is said about it, the most important first."""


@dataclass(frozen=True, slots=True)
class GroupTiles:
    """A group of duplicates."""

    title: str
    tiles: tuple[Tile, ...]


def reason_tile(picture: Picture, reason: str) -> Tile:
    """Return the tile of an image that was held back, among those of one reason."""
    own = [each for each in picture.reasons if each.name == reason]
    others = [each.name for each in picture.reasons if each.name != reason]
    lines = [reason_text(each) for each in own]
    if others:
        lines.append(f"also {', '.join(others)}")
    return _tile(picture, lines, instead=printable(reason))


def score_tile(picture: Picture, score: str) -> Tile:
    """Return the tile of an image beside a threshold."""
    value = (picture.scores or {}).get(score)
    return _tile(picture, [f"{score} {value_text(value)}"])


def group_tiles(group: PictureGroup) -> GroupTiles:
    """Return the tiles of a group, the image that stays first."""
    first = _tile(group.first, ["the first: it stays"])
    members = [_tile(each, [_distance_text(each)]) for each in group.members]
    title = f"{group.reason} · {group.count + 1:,} images"
    if group.count > len(members):
        title += f", showing {len(members) + 1}"
    return GroupTiles(title, (first, *members))


def _distance_text(picture: Picture) -> str:
    if picture.distance is None:
        return "the same"
    return f"distance {picture.distance} bit{'' if picture.distance == 1 else 's'}"


def reason_text(reason: Reason) -> str:
    """Return ``variance 3.1``, or what the decoder said, if anything."""
    if reason.score and reason.value is not None and not isinstance(reason.value, bool):
        return f"{reason.score} {value_text(reason.value)}"
    return _clip(to_text(reason.detail), _LONGEST_DETAIL)


def value_text(value: Score) -> str:
    """Return the value of a score with four digits, enough to see on which side it is."""
    if not is_number(value):
        return _clip(printable(str(value)), _LONGEST_DETAIL)
    return f"{value:.0f}" if abs(value) >= 1000 else f"{without_noise(value):.4g}"


def _tile(picture: Picture, lines: Sequence[str], *, instead: str = "no picture") -> Tile:
    text = to_text(picture.key)
    folder, _, name = text.rpartition("/")
    thumbnail = picture.thumbnail
    first, *others = lines
    size = "" if thumbnail is None else f"{thumbnail.size[1]:,}×{thumbnail.size[0]:,}"
    about = " · ".join(filter(None, (first, size)))
    return Tile(
        name=_breakable(_clip(name or text, _LONGEST_NAME)),
        path=_clip(text, _LONGEST_PATH),
        folder=_breakable(_clip(folder, _LONGEST_NAME)),
        alt=f"thumbnail of {_clip(name or text, _LONGEST_NAME)}",
        instead=instead,
        whole=_data_uri(thumbnail.whole) if thumbnail is not None else "",
        detail=_data_uri(thumbnail.detail) if thumbnail is not None else "",
        small=thumbnail is not None and max(thumbnail.size) < 64,
        lines=tuple(filter(None, (about, *others))),
    )


def _data_uri(jpeg: bytes) -> str:
    return f"data:image/jpeg;base64,{base64.b64encode(jpeg).decode('ascii')}" if jpeg else ""


def _breakable(text: str) -> Markup:
    """Return text that may go on in another line after what divides a name."""
    parts = _DIVIDERS.split(text)
    return Markup("<wbr>").join(parts)


def _clip(text: str, most: int) -> str:
    """Keep the beginning and the end of a long text."""
    if len(text) <= most:
        return text
    head = most // 3
    return f"{text[:head]}…{text[head + 1 - most :]}"
