"""Owns ``tf.train.Example``: its messages, made at run time, and where a value lies in one.

The messages need no TensorFlow and no generated code: three kinds of lists, and a map of names to
them. Protobuf hands out copies of values; an image is to be read from where it lies in the file,
and not to be touched while a file is scanned. So the way to it is walked here, two levels of
lengths deep, and all other values are left to protobuf.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

_SCHEMA = """
name: "example.proto" package: "tensorflow" syntax: "proto3"
message_type {
  name: "BytesList"
  field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_BYTES }
}
message_type {
  name: "FloatList"
  field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_FLOAT }
}
message_type {
  name: "Int64List"
  field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_INT64 }
}
message_type {
  name: "Feature"
  oneof_decl { name: "kind" }
  field {
    name: "bytes_list" number: 1 label: LABEL_OPTIONAL oneof_index: 0
    type: TYPE_MESSAGE type_name: ".tensorflow.BytesList"
  }
  field {
    name: "float_list" number: 2 label: LABEL_OPTIONAL oneof_index: 0
    type: TYPE_MESSAGE type_name: ".tensorflow.FloatList"
  }
  field {
    name: "int64_list" number: 3 label: LABEL_OPTIONAL oneof_index: 0
    type: TYPE_MESSAGE type_name: ".tensorflow.Int64List"
  }
}
message_type {
  name: "Features"
  field {
    name: "feature" number: 1 label: LABEL_REPEATED
    type: TYPE_MESSAGE type_name: ".tensorflow.Features.FeatureEntry"
  }
  nested_type {
    name: "FeatureEntry" options { map_entry: true }
    field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
    field {
      name: "value" number: 2 label: LABEL_OPTIONAL
      type: TYPE_MESSAGE type_name: ".tensorflow.Feature"
    }
  }
}
message_type {
  name: "Example"
  field {
    name: "features" number: 1 label: LABEL_OPTIONAL
    type: TYPE_MESSAGE type_name: ".tensorflow.Features"
  }
}
"""

_FIELDS, _VALUE = 1, 1  # Example.features, Features.feature, …List.value: all number 1
_KEY, _FEATURE = 1, 2
_BYTES_LIST = 1
_VARINT, _I64, _LEN, _I32 = 0, 1, 2, 5
_FIXED = {_I64: 8, _I32: 4}
_MOST_VARINT_BYTES = 10


class Place(NamedTuple):
    """A range of bytes."""

    begin: int
    end: int


class Messages(NamedTuple):
    """The classes of the messages."""

    example: Any
    feature: Any


@cache
def messages() -> Messages:
    """Return the classes, from a pool of their own: TensorFlow may be loaded too."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

    file = text_format.Parse(_SCHEMA, descriptor_pb2.FileDescriptorProto())
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    example, feature = (
        message_factory.GetMessageClass(pool.FindMessageTypeByName(f"tensorflow.{name}"))
        for name in ("Example", "Feature")
    )
    return Messages(example, feature)


def example_bytes(features: Mapping[str, bytes | int]) -> bytes:
    """Return an Example with one value a feature, the same bytes for equal features."""
    example = messages().example()
    for name, value in features.items():
        feature = example.features.feature[name]
        values = feature.bytes_list if isinstance(value, bytes) else feature.int64_list
        values.value.append(value)
    return bytes(example.SerializeToString(deterministic=True))


def values_of(data: memoryview, place: Place) -> Sequence[Any]:
    """Return the values of one feature: bytes, ints or floats.

    Raises:
        ValueError: there is no Feature at the place.
    """
    from google.protobuf.message import DecodeError

    try:
        feature = messages().feature.FromString(bytes(data[place.begin : place.end]))
    except DecodeError as problem:
        raise ValueError("a feature cannot be read") from problem
    kind = feature.WhichOneof("kind")
    return () if kind is None else list(getattr(feature, kind).value)


def features_in(data: memoryview, record: Place) -> dict[str, Place]:
    """Return where the features of an Example lie, by name; of equal names the last.

    Args:
        data: a whole file, or more than the record.

    Raises:
        ValueError: the record is no such message.
    """
    found = {}
    for features in _fields(data, record, _FIELDS):
        for entry in _fields(data, features, _FIELDS):
            nothing = Place(entry.end, entry.end)
            by_number = dict(_all_fields(data, entry))  # the last of each counts
            name = by_number.get(_KEY, nothing)
            text = str(data[name.begin : name.end], "utf-8")
            found[text] = by_number.get(_FEATURE, nothing)
    return found


def bytes_value(data: memoryview, feature: Place) -> Place | None:
    """Return where the one value of a feature lies; None if it has none, several or no bytes.

    Raises:
        ValueError: there is no Feature at the place.
    """
    values = [
        value
        for listed in _fields(data, feature, _BYTES_LIST)
        for value in _fields(data, listed, _VALUE)
    ]
    return values[0] if len(values) == 1 else None


def _fields(data: memoryview, message: Place, wanted: int) -> list[Place]:
    """Return the contents of one field of a message, each time that it stands there."""
    return [place for number, place in _all_fields(data, message) if number == wanted]


def _all_fields(data: memoryview, message: Place) -> list[tuple[int, Place]]:
    """Return number and content of the fields of a message that have a length; all are checked."""
    found = []
    at, end = message
    while at < end:
        tag, at = _varint(data, at, end)
        kind = tag & 7
        if kind == _LEN:
            size, at = _varint(data, at, end)
            found.append((tag >> 3, Place(at, at + size)))
            at += size
        elif kind == _VARINT:
            _, at = _varint(data, at, end)
        elif kind in _FIXED:
            at += _FIXED[kind]
        else:
            raise ValueError("not a protobuf message")
    if at != end:
        raise ValueError("a field reaches beyond its message")
    return found


def _varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    """Return a number, and where it ends."""
    if at < end and data[at] < 0x80:  # nearly all of them
        return data[at], at + 1
    value = shift = 0
    for position in range(at, min(end, at + _MOST_VARINT_BYTES)):
        byte = data[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position + 1
        shift += 7
    raise ValueError("a number does not end")
