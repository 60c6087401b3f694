"""Owns what stands beside the image of a sample of ours: its label and its JSON member.

The JSON member is one object: ``key`` (the key's text form), ``class_name`` where the label has
one, and the sample's metadata. A name in the metadata that is one of these two, underscores in
front of it not counted, is stored with one more underscore in front: taking it off again restores
the metadata exactly.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from fastdata_cli.sample import UNLABELLED

LABEL_FIELD = "cls"
METADATA_FIELD = "json"

# Made once: json.dumps makes an encoder for every call.
_to_json = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode
_OUR_NAMES = re.compile(r"_*(?:key|class_name)")
_MAY_CLASH = re.compile(r'"_*(?:key|class_name)"')


def label_content(label: int) -> bytes | None:
    """Return the label as decimal text; None for a sample without."""
    return None if label == UNLABELLED else b"%d" % label


def metadata_content(
    key_text: str, label: int, class_names: Sequence[str], metadata: str | None
) -> bytes:
    """Return the JSON member of a sample.

    Args:
        key_text: the text form of its key.
        metadata: a JSON object as text.
    """
    ours = {"key": key_text}
    if 0 <= label < len(class_names):
        ours["class_name"] = class_names[label]
    text = _to_json(ours)
    if not metadata or metadata == "{}":
        return text.encode()
    if _MAY_CLASH.search(metadata):
        metadata = _to_json(_set_apart(json.loads(metadata)))
    return f"{text[:-1]},{metadata[1:]}".encode()


def _set_apart(metadata: dict[str, Any]) -> dict[str, Any]:
    return {
        f"_{name}" if _OUR_NAMES.fullmatch(name) else name: value
        for name, value in metadata.items()
    }
