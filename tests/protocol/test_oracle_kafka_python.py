"""Every message in every version that kafka-python has, against kafka-python: an implementation of its own.

kafka-python reads what we wrote into its own objects, which have to hold the same values, and writes them
again, which has to give the same bytes and be read by us as the same message.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import uuid
from functools import cache
from typing import Any

import kafka.protocol
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.api_message import ApiMessage

from protocol.codec.codec import decode_prefix, encode, spec
from protocol.codec.primitives import ZERO_UUID, Fixed
from protocol.codec.schema import Array, FieldSpec, Struct, WireType, layout_of
from protocol.messages.api_versions import ApiVersionsResponse
from protocol.messages.authorized_operations import OPERATIONS_NOT_ASKED_FOR
from tests.protocol.kafka_names import kafka_name
from tests.protocol.message_strategies import FEW, MORE, VERSIONS_OF_MESSAGES, messages, of_groups, of_others

# It reads its schemas in a way that newer Pythons frown upon.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

# Messages and versions that kafka-python does not have.
NOT_IN_KAFKA_PYTHON: set[tuple[str, int]] = {
    (f"{name}{kind}", version)
    for name, versions in {
        "UnregisterBroker": 1,
        "AddRaftVoter": 2,
        "RemoveRaftVoter": 1,
        "ConsumerGroupHeartbeat": 2,
        "ConsumerGroupDescribe": 2,
        "GetTelemetrySubscriptions": 1,
        "PushTelemetry": 1,
        **dict.fromkeys(("CreateDelegationToken", "DescribeDelegationToken"), 4),
        **dict.fromkeys(("RenewDelegationToken", "ExpireDelegationToken"), 3),
    }.items()
    for version in range(1 if "DelegationToken" in name else 0, versions)
    for kind in ("Request", "Response")
}
IN_KAFKA_PYTHON = [
    (cls, version)
    for cls, version in VERSIONS_OF_MESSAGES
    if (cls.__name__, version) not in NOT_IN_KAFKA_PYTHON
]


@cache
def kafka_python_classes() -> dict[tuple[str, int | None], Any]:
    """kafka-python's message classes by kind and API key."""
    for module in pkgutil.walk_packages(kafka.protocol.__path__, "kafka.protocol."):
        if ".old" not in module.name and "generate" not in module.name:
            importlib.import_module(module.name)
    return {(cls.type, cls.API_KEY): cls for cls in subclasses(ApiMessage) if is_message(cls)}


def subclasses(cls: Any) -> set[Any]:
    return {cls}.union(*(subclasses(sub) for sub in type.__subclasses__(cls)))


def is_message(cls: Any) -> bool:
    return cls is not ApiMessage and cls._class_version is None and getattr(cls, "_json", None) is not None


def has(cls: type, version: int) -> bool:
    found = kafka_python_classes().get((spec(cls).kind, spec(cls).api_key))
    return found is not None and found.valid_versions[0] <= version <= found.valid_versions[1]


def assert_equal(their: Any, our: Any, kind: WireType, version: int, flexible: bool, where: str) -> None:
    if isinstance(kind, Array) and our is not None:
        assert len(their) == len(our), where
        for left, right in zip(their, our, strict=True):
            assert_equal(left, right, kind.element, version, flexible, where)
    elif isinstance(kind, Struct) and our is not None:
        assert_same_struct(their, our, version, flexible)
    else:
        assert plain(their) == our, where


def plain(value: Any) -> Any:
    """A value of kafka-python's as we would have it."""
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, set):  # The bits that are set in the authorised operations.
        return int.from_bytes(sum(1 << bit for bit in value).to_bytes(4, "big"), "big", signed=True)
    return value


def assert_same_struct(their: Any, our: Any, version: int, flexible: bool) -> None:
    """Compare field by field, in order: some of theirs have names of their own."""
    cls = type(our)
    layout = layout_of(cls, version, flexible)
    fields = [field for field in type(their)._struct._fields if field.for_version_q(version)]
    inline = [field for field in fields if field._tag is None or not flexible]
    tagged = sorted((field for field in fields if field not in inline), key=lambda field: field._tag)
    assert len(inline) == len(layout.inline), cls.__name__
    assert [field._tag for field in tagged] == [field.tag for field in layout.tagged], cls.__name__
    for left, right in zip(inline + tagged, layout.inline + layout.tagged, strict=True):
        where = f"{cls.__name__}.{right.name}"
        found, value = getattr(their, left.name), getattr(our, right.name)
        if found is None and value is not None:
            assert value in stand_ins(right), where
        else:
            assert_equal(found, value, right.type, version, flexible, where)


def stand_ins(field: FieldSpec) -> list[Any]:
    """What kafka-python shows as None: no id, no operations asked for, and a struct that was not sent."""
    if isinstance(field.type, Fixed):
        return [ZERO_UUID, OPERATIONS_NOT_ASKED_FOR]
    return [field.default_value()] if field.tag is not None else []


def test_kafka_python_lacks_no_message_but_those_listed() -> None:
    lacking = {(cls.__name__, version) for cls, version in VERSIONS_OF_MESSAGES if not has(cls, version)}
    assert lacking == NOT_IN_KAFKA_PYTHON


def ignorable_fields(owner: str, fields: list[dict[str, Any]]) -> set[str]:
    """The fields that a schema of Kafka's allows to be left out in silence, with the struct they are in."""
    found = {f"{owner}.{snake(field['name'])}" for field in fields if field.get("ignorable")}
    for field in fields:
        found |= ignorable_fields(field["type"].removeprefix("[]"), field.get("fields", []))
    return found


def snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def absent_fields(cls: type, version: int, flexible: bool) -> dict[str, bool]:
    """Our fields that are not in `version`, and whether they are ignorable."""
    layout = layout_of(cls, version, flexible)
    found = {f"{kafka_name(cls)}.{field.name}": field.ignorable for field in layout.absent}
    for field in layout.inline + layout.tagged:
        kind = field.type.element if isinstance(field.type, Array) else field.type
        if isinstance(kind, Struct):
            found |= absent_fields(kind.cls, version, flexible)
    return found


@pytest.mark.parametrize(("cls", "version"), of_groups(IN_KAFKA_PYTHON) + of_others(IN_KAFKA_PYTHON))
def test_what_is_absent_is_ignorable_if_it_is_in_kafka(cls: type, version: int) -> None:
    """kafka-python carries Kafka's own schemas."""
    schema = kafka_python_classes()[spec(cls).kind, spec(cls).api_key].json
    ignorable = ignorable_fields(cls.__name__, schema["fields"])
    for common in schema.get("commonStructs", []):
        ignorable |= ignorable_fields(common["name"], common["fields"])
    absent = absent_fields(cls, version, spec(cls).is_flexible(version))
    assert absent == {field: field in ignorable for field in absent}


@pytest.mark.parametrize(("cls", "version"), of_groups(IN_KAFKA_PYTHON))
@MORE
@given(data=st.data())
def test_kafka_python_reads_what_we_write_and_writes_what_we_do(
    cls: type, version: int, data: st.DataObject
) -> None:
    reads_and_writes(cls, version, data)


@pytest.mark.parametrize(("cls", "version"), of_others(IN_KAFKA_PYTHON))
@FEW
@given(data=st.data())
def test_kafka_python_reads_what_we_write_and_writes_what_we_do_of_other_apis(
    cls: type, version: int, data: st.DataObject
) -> None:
    reads_and_writes(cls, version, data)


def reads_and_writes(cls: type, version: int, data: st.DataObject) -> None:
    message = data.draw(messages(cls, version))
    if cls is ApiVersionsResponse:
        message.error_code = 0  # With any error kafka-python reads the answer as version 0 (KIP-511).
    their_class = kafka_python_classes()[spec(cls).kind, spec(cls).api_key]
    encoded = encode(message, version)

    decoded = their_class.decode(encoded, version=version)
    assert_same_struct(decoded, message, version, spec(cls).is_flexible(version))

    decoded._header = None  # Decoding leaves it unset, and encoding asks for it.
    written = decoded.encode(version=version)
    assert decode_prefix(cls, version, written) == (message, len(written))
    assert written == encoded
