"""Decides, before any work, what a conversion will write: payload, size, schema, fingerprint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import xxhash

from fastdata_cli._version import __version__
from fastdata_cli.contract import Format, Reader
from fastdata_cli.errors import NothingUsableError, UnsupportedError, UsageError
from fastdata_cli.imaging.encode import JPEG_MOST_SIDE
from fastdata_cli.manifest import Manifest
from fastdata_cli.operations.clean.selection import given, what_decides
from fastdata_cli.operations.events import Listener
from fastdata_cli.operations.growth import Growth
from fastdata_cli.operations.settings import DEFAULT_SIZE, ConvertOptions
from fastdata_cli.operations.shown_sizes import common_size
from fastdata_cli.operations.source import Source, remark_on_labels
from fastdata_cli.operations.transform import mid_grey, reencodes
from fastdata_cli.options import Options
from fastdata_cli.quality.options import CleanOptions, parse_clean
from fastdata_cli.sample import Payload, Schema

_IMAGE_NAMES = "images are recognised by their file names (.jpg .png .webp …) below the folder"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that shapes the output, settled."""

    source: Source
    path: Path
    format: Format
    options: ConvertOptions
    """With the size that was decided."""
    write_options: Options
    schema: Schema
    total: int
    """How many source samples will be looked at."""
    clean: CleanOptions | None = None
    """What the checks leave out; None where nobody asked for checks."""
    growth: Growth | None = None
    """The dataset that is added to; None where a new one is made."""

    @property
    def reencoded(self) -> str | None:
        """Type of the image files that this run makes itself; None for pixels and kept files."""
        if self.schema.payload is Payload.PIXELS:
            return None
        made_from_pixels = self.source.reader.schema.payload is Payload.PIXELS
        if made_from_pixels and self.options.quality is None and self.options.max_side is None:
            return "png"
        return "jpeg" if made_from_pixels or reencodes(self.options) else None

    @property
    def settled(self) -> Mapping[str, Any]:
        """What the output's bytes depend on, by name, JSON-able."""
        settled: dict[str, Any] = {
            "source": self.source.fingerprint,
            "format": self.format.name,
            "convert": self.options.to_mapping(),
            "write": self.write_options.to_mapping(),
            "tool": __version__,
        }
        if self.clean is not None:
            settled["clean"] = what_decides(self.clean)
        if self.growth is not None:
            settled["standing"] = self.growth.identity
        return settled

    @property
    def fingerprint(self) -> str:
        """Of what is settled: only an equal run may be continued."""
        text = json.dumps(self.settled, sort_keys=True, ensure_ascii=True)
        return str(xxhash.xxh3_128_hexdigest(text.encode()))

    def trial(self, path: Path, source: Source) -> Plan:
        """Return the plan of a trial with some samples, which leaves nothing behind but ``path``.

        Args:
            source: of these samples.
        """
        return replace(
            self,
            path=path,
            source=replace(source, rejects=()),
            total=len(source.reader),
            clean=None if self.clean is None else replace(self.clean, save_index=None),
            growth=None,
        )

    def manifest(self, counts: Mapping[str, Any] | None = None) -> Manifest:
        """Return the manifest of the dataset, with what is known so far."""
        options = {**self.options.to_mapping(), **self.write_options.to_mapping()}
        options["reencoded"] = self.reencoded
        options["clean"] = None if self.clean is None else given(self.clean)
        manifest = Manifest(
            format=self.format.name,
            schema=self.schema,
            source={
                "path": self.source.name,
                "format": self.source.format,
                "fingerprint": self.source.fingerprint,
            },
            options={name: value for name, value in options.items() if value is not None},
            counts=counts or {},
            tool=f"fastdata-cli {__version__}",
        )
        return manifest if self.growth is None else self.growth.grown(manifest)


def make_plan(
    source: Source,
    path: Path,
    row: Format,
    options: ConvertOptions,
    write_options: Options,
    listener: Listener,
    *,
    clean: CleanOptions | None = None,
) -> Plan:
    """Settle what will be written; says on ``listener`` what the user did not decide.

    Args:
        clean: the checks, where they are not in ``options.clean``.

    Raises:
        UsageError: options that contradict each other or the payload.
        UnsupportedError: images that the destination cannot hold.
        NothingUsableError: the source is empty, or not one header can be read.
    """
    if len(source.reader) == 0:
        raise NothingUsableError(
            f"{source.name}: no images here{_why_empty(source)}",
            hint=_IMAGE_NAMES if source.format == "tree" else "",
        )
    if options.clean is not None:
        clean = parse_clean(options.clean)
    payload = _payload(options, row, source.reader.schema)
    _check_options(options, payload)
    if payload is Payload.ENCODED and source.reader.schema.payload is Payload.ENCODED:
        _check_side(options)
    if options.payload is None and payload is not row.payloads[0] and reencodes(options):
        listener.notice("JPEG files are stored, not pixels, as --max-side and --quality ask for")
    lacking = remark_on_labels(source)
    if lacking:
        listener.notice(lacking)
    settled, schema = _schema(source.reader, options, payload, listener)
    if options.on_bad == "fill" and mid_grey(schema) is None:
        raise UsageError(f"--on-bad fill: {schema.dtype} pixels have no mid-grey to fill with")
    total = min(len(source.reader), options.limit or len(source.reader))
    return Plan(
        source=source,
        path=path,
        format=row,
        options=settled,
        write_options=write_options,
        schema=schema,
        total=total,
        clean=clean,
    )


def _why_empty(source: Source) -> str:
    ignored = sum(source.notes.values())
    bad = len(source.rejects)
    reasons = [f"{bad} unusable"] if bad else []
    reasons += [f"{ignored} ignored"] if ignored else []
    return f" ({', '.join(reasons)})" if reasons else ""


def _payload(options: ConvertOptions, row: Format, source: Schema) -> Payload:
    if options.payload is not None:
        payload = Payload(options.payload)
    elif options.max_side is not None or options.quality is not None:
        payload = Payload.ENCODED
    elif source.payload is Payload.PIXELS:
        payload = Payload.PIXELS
    else:
        payload = row.payloads[0]
    if payload not in row.payloads:
        raise UnsupportedError(f"format {row.name} does not store {payload}")
    return payload


def _check_options(options: ConvertOptions, payload: Payload) -> None:
    options.policy()
    options.tolerates(0, 0)
    if options.settled_size is not None and options.max_side is not None:
        raise UsageError("--size and --max-side contradict each other", hint="give one of them")
    if options.quality is not None and options.quality > 100:
        raise UsageError(f"--quality is at most 100, not {options.quality}")
    if payload is Payload.PIXELS:
        for name in ("max_side", "quality"):
            if getattr(options, name) is not None:
                raise UsageError(
                    f"--{name.replace('_', '-')} makes JPEG files, and the payload is pixels",
                    hint="add --payload encoded, or give --size instead",
                )
    elif options.on_bad == "fill":
        raise UsageError("--on-bad fill needs the pixel payload: there is no grey file to store")


def _check_side(options: ConvertOptions) -> None:
    if max(options.settled_size or (0,)) > JPEG_MOST_SIDE:
        raise UsageError(
            f"--size {options.size}: a JPEG has at most {JPEG_MOST_SIDE:,} pixels a side",
            hint="give a smaller size, or add --payload pixels",
        )


def _schema(
    reader: Reader, options: ConvertOptions, payload: Payload, listener: Listener
) -> tuple[ConvertOptions, Schema]:
    names = reader.schema.class_names
    if payload is Payload.ENCODED:
        if reader.schema.payload is Payload.PIXELS:
            _check_encodable(reader)
        return options, Schema(payload=payload, class_names=names)
    if reader.schema.payload is Payload.PIXELS:
        return options, _pixels_kept(reader, options)
    size = options.settled_size
    if size is None:
        size = common_size(reader, options)
        if size is None:
            size = DEFAULT_SIZE
            settled = f"{size[0]}x{size[1]}"
            options = replace(options, size=settled)
            listener.notice(
                f"images have different sizes: storing all as {settled} pixels, {options.fit} and "
                f"{options.interpolation} (choose with --size, --fit, --interpolation, "
                "or keep the files with --payload encoded)"
            )
    return options, Schema(payload=payload, image_shape=(*size, 3), class_names=names)


def _pixels_kept(reader: Reader, options: ConvertOptions) -> Schema:
    source = reader.schema
    assert source.image_shape is not None
    shape, size = source.image_shape, options.settled_size
    if len(shape) != 3 or shape[2] not in (1, 2, 3, 4):
        raise UnsupportedError(
            f"{reader.path}: images of shape {list(shape)} are not height, width, channels",
            hint="say in which order its axes are with --layout, such as NCHW",
        )
    if size is not None and size != shape[:2]:
        _check_encodable(reader)
        shape = (*size, 3)
    return Schema(
        payload=Payload.PIXELS,
        image_shape=shape,
        dtype=source.dtype,
        class_names=source.class_names,
    )


def _check_encodable(reader: Reader) -> None:
    source = reader.schema
    if source.dtype != "uint8" or source.image_shape is None or source.image_shape[-1] != 3:
        raise UnsupportedError(
            f"{reader.path}: {source.dtype}{list(source.image_shape or ())} pixels cannot be"
            " resized or encoded",
            hint="that needs uint8 H,W,3; keep them as they are in zarr, raw, hdf5 or lmdb",
        )
