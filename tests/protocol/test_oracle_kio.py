"""Every message in every version against kio, whose classes are generated from Kafka's own definitions."""

from __future__ import annotations

import dataclasses
import datetime
import io
import types
import uuid
from typing import Any

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer
from kio.serial.errors import OutOfBoundValue

from protocol.codec.codec import decode_prefix, encode, spec
from protocol.codec.primitives import Fixed
from protocol.codec.schema import Array, FieldSpec, Struct, layout_of
from tests.protocol.kafka_names import kafka_name
from tests.protocol.message_strategies import (
    FEW,
    MORE,
    PAIRS,
    VERSIONS_OF_MESSAGES,
    messages,
    of_groups,
    of_others,
)

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MILLISECOND = datetime.timedelta(milliseconds=1)
# kio makes dates and durations of these and drops the unit from the name.
TIMES = {"timedelta_i32", "timedelta_i64", "datetime_i64"}

# Messages and versions that kio does not have. It has all of them; a new one belongs here with its reason.
NOT_IN_KIO: set[tuple[str, int]] = set()

# Fields that are in every version of their class, for which we chose a handier default than Kafka's "" and 0.
OUR_OWN_DEFAULTS = {
    "ConsumerGroupHeartbeatRequest.topic_partitions": None,
    "ListOffsetsRequest.replica_id": -1,
    "MemberResponse.group_instance_id": None,
}


def kio_class(cls: type, version: int) -> Any:
    load = load_request_schema if spec(cls).kind == "request" else load_response_schema
    api_key = spec(cls).api_key
    assert api_key is not None
    return load(api_key, version)


def our_name(field: dataclasses.Field[Any]) -> str:
    return field.name + "_ms" if field.metadata.get("kafka_type") in TIMES else field.name


def plain(value: Any, kind: Any, version: int, flexible: bool) -> Any:
    """A value of kio's as we would have it."""
    if isinstance(kind, Struct) and value is not None:
        return ours(kind.cls, value, version, flexible)
    if isinstance(value, tuple):
        return [plain(item, kind.element, version, flexible) for item in value]
    if isinstance(value, datetime.datetime):
        return (value - EPOCH) // MILLISECOND
    if isinstance(value, datetime.timedelta):
        return value // MILLISECOND
    return value.bytes if isinstance(value, uuid.UUID) else value


def ours(cls: type, entity: Any, version: int, flexible: bool) -> Any:
    """Make our message of kio's entity, whose fields have to be exactly those of ours in this version."""
    layout = layout_of(cls, version, flexible)
    kinds = {field.name: field for field in layout.inline + layout.tagged}
    values = {our_name(field): getattr(entity, field.name) for field in dataclasses.fields(entity)}
    assert values.keys() == kinds.keys(), f"{cls.__name__} v{version}"
    return cls(**{name: from_kio(kinds[name], value, version, flexible) for name, value in values.items()})


def from_kio(field: Any, value: Any, version: int, flexible: bool) -> Any:
    if value is None and getattr(field.type, "code", None) == "16s":
        return bytes(16)  # To kio the zero id is no id.
    if value is None and getattr(field.type, "code", None) == "q":
        return -1  # To kio -1 is no date.
    return plain(value, field.type, version, flexible)


def assert_same_fields(cls: type, entity_class: Any, version: int, flexible: bool) -> None:
    layout = layout_of(cls, version, flexible)
    theirs = {our_name(field): field for field in dataclasses.fields(entity_class)}
    inline = [name for name, field in theirs.items() if "tag" not in field.metadata]
    tags = {name: field.metadata["tag"] for name, field in theirs.items() if "tag" in field.metadata}
    assert [field.name for field in layout.inline] == inline, cls.__name__
    assert {field.name: field.tag for field in layout.tagged} == tags, cls.__name__
    for field in layout.inline + layout.tagged:
        where = f"{cls.__name__}.{field.name}"
        assert_same_default(where, field, theirs[field.name], version, flexible)
        kind = field.type.element if isinstance(field.type, Array) else field.type
        # None of a fixed size is no null on the wire.
        if not isinstance(kind, Fixed) or kind is not field.type:
            nullable = types.NoneType in getattr(theirs[field.name].type, "__args__", ())
            assert (version in field.nullable) == nullable, where
        if isinstance(kind, Struct):
            inner = nested_class(theirs[field.name].type)
            assert inner.__name__ == kafka_name(kind.cls), where
            assert_same_fields(kind.cls, inner, version, flexible)


def assert_same_default(where: str, field: FieldSpec, their: Any, version: int, flexible: bool) -> None:
    """A default of ours is theirs; where they have none it is the type's own, as in Kafka."""
    if where in OUR_OWN_DEFAULTS:
        assert field.default_value() == OUR_OWN_DEFAULTS[where], where
    elif field.default is None:
        assert their.default in (dataclasses.MISSING, ()), f"{where} has the default {their.default!r}"
    elif their.default is not dataclasses.MISSING:
        assert field.default_value() == from_kio(field, their.default, version, flexible), where
    else:
        assert field.default_value() in (0, "", b"", [], bytes(16)), where


def nested_class(annotation: Any) -> Any:
    """The dataclass in `X`, `X | None`, `tuple[X, ...]` or `tuple[X, ...] | None`."""
    if dataclasses.is_dataclass(annotation):
        return annotation
    found = (nested_class(argument) for argument in getattr(annotation, "__args__", ()))
    return next((cls for cls in found if cls is not None), None)


def test_kio_lacks_no_message_but_those_listed() -> None:
    missing = set()
    for cls, version in VERSIONS_OF_MESSAGES:
        try:
            kio_class(cls, version)
        except ImportError:
            missing.add((cls.__name__, version))
    assert missing == NOT_IN_KIO


@pytest.mark.parametrize(("cls", "version"), PAIRS)
def test_every_version_has_the_fields_that_kio_has(cls: type, version: int) -> None:
    """Names of fields and nested classes, their order, tags, defaults and nullability, without any example."""
    assert_same_fields(cls, kio_class(cls, version), version, spec(cls).is_flexible(version))


@pytest.mark.parametrize(("cls", "version"), of_groups(VERSIONS_OF_MESSAGES))
@MORE
@given(data=st.data())
def test_kio_reads_what_we_write_and_we_read_what_kio_writes(
    cls: type, version: int, data: st.DataObject
) -> None:
    reads_and_writes(cls, version, data)


@pytest.mark.parametrize(("cls", "version"), of_others(VERSIONS_OF_MESSAGES))
@FEW
@given(data=st.data())
def test_kio_reads_what_we_write_and_we_read_what_kio_writes_of_other_apis(
    cls: type, version: int, data: st.DataObject
) -> None:
    reads_and_writes(cls, version, data)


def reads_and_writes(cls: type, version: int, data: st.DataObject) -> None:
    message = data.draw(messages(cls, version))
    entity_class = kio_class(cls, version)
    encoded = encode(message, version)

    try:
        entity, size = entity_reader(entity_class)(encoded, 0)
    except OutOfBoundValue:
        reject()  # kio makes dates of times, and knows none before 1970.
    assert size == len(encoded)
    assert ours(cls, entity, version, spec(cls).is_flexible(version)) == message

    written = io.BytesIO()
    entity_writer(entity_class)(written, entity)
    assert decode_prefix(cls, version, written.getvalue()) == (message, len(written.getvalue()))
