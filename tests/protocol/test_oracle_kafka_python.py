"""Every message in every version that kafka-python has, against kafka-python: an implementation of its own.

kafka-python reads what we wrote into its own objects, which have to hold the same values, and writes them
again, which has to give the same bytes and be read by us as the same message.
"""

from __future__ import annotations

import importlib
import pkgutil
import uuid
from functools import cache
from typing import Any

import kafka.protocol
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.api_message import ApiMessage

from protocol.codec import decode_prefix, encode, spec
from protocol.primitives import Fixed
from protocol.schema import Array, Struct, WireType, layout_of
from tests.protocol.message_strategies import FEW, PAIRS, messages

# Messages and versions that kafka-python does not have. It has all of them.
NOT_IN_KAFKA_PYTHON: set[tuple[str, int]] = set()


@cache
def kafka_python_classes() -> dict[tuple[str, int], Any]:
    """kafka-python's message classes by kind and API key."""
    for module in pkgutil.walk_packages(kafka.protocol.__path__, "kafka.protocol."):
        if ".old" not in module.name and "generate" not in module.name:
            importlib.import_module(module.name)
    return {(cls.type, cls.API_KEY): cls for cls in subclasses(ApiMessage) if is_message(cls)}


def subclasses(cls: Any) -> set[Any]:
    return {cls}.union(*(subclasses(sub) for sub in type.__subclasses__(cls)))


def is_message(cls: Any) -> bool:
    return cls._class_version is None and getattr(cls, "_json", None) is not None


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
    elif isinstance(kind, Fixed) and kind.code == "16s":
        assert (their.bytes if isinstance(their, uuid.UUID) else their) == our, where
    else:
        assert their == our, where


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
        value = getattr(our, right.name)
        assert_equal(getattr(their, left.name), value, right.type, version, flexible, where)


def test_kafka_python_lacks_no_message_but_those_listed() -> None:
    lacking = {(pair.values[0].__name__, pair.values[1]) for pair in PAIRS if not has(*pair.values)}
    assert lacking == NOT_IN_KAFKA_PYTHON


@pytest.mark.parametrize(("cls", "version"), PAIRS)
@FEW
@given(data=st.data())
def test_kafka_python_reads_what_we_write_and_writes_what_we_do(
    cls: type, version: int, data: st.DataObject
) -> None:
    message = data.draw(messages(cls, version))
    their_class = kafka_python_classes()[spec(cls).kind, spec(cls).api_key]
    encoded = encode(message, version)

    decoded = their_class.decode(encoded, version=version)
    assert_same_struct(decoded, message, version, spec(cls).is_flexible(version))

    decoded._header = None  # Decoding leaves it unset, and encoding asks for it.
    written = decoded.encode(version=version)
    assert decode_prefix(cls, version, written) == (message, len(written))
    assert written == encoded
