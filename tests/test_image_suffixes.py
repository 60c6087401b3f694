"""Suffixes of images: one table for listings, shards and the check on names."""

from __future__ import annotations

from fastdata_cli.formats.webdataset.names import ENCODED_FIELDS
from fastdata_cli.image_suffixes import KIND_OF_SUFFIX, SUFFIX_OF_KIND
from fastdata_cli.imaging.sniff import DECODED, PICTURES
from fastdata_cli.storage.listing_names import IMAGE_SUFFIXES


def test_kinds_are_those_that_content_has() -> None:
    assert set(KIND_OF_SUFFIX.values()) == set(SUFFIX_OF_KIND)
    assert set(SUFFIX_OF_KIND) <= DECODED | PICTURES
    assert set(SUFFIX_OF_KIND) >= DECODED, "each kind that is decoded has a suffix"
    assert all(KIND_OF_SUFFIX[suffix] == kind for kind, suffix in SUFFIX_OF_KIND.items())


def test_everybody_takes_the_same_names_for_images() -> None:
    assert {suffix.decode() for suffix in IMAGE_SUFFIXES} == {f".{each}" for each in ENCODED_FIELDS}


def test_names_in_shards_stay_what_they_were() -> None:
    """They are part of the format: another suffix would be another name of the same sample."""
    usual = {"jpeg": "jpg", "png": "png", "tiff": "tiff", "pnm": "pnm", "heif": "heic"}
    assert {kind: SUFFIX_OF_KIND[kind] for kind in usual} == usual
