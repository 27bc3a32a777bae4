"""Finds the field of a message that cannot be encoded, after the compiled encoder has failed on it.

The fast code does not know where it was; this walks the same message slowly, once, and names the first
value that does not fit. It never writes anything.
"""

from struct import error as StructError
from struct import pack
from typing import Any

from protocol.codec.primitives import MAX_STRING_BYTES, Fixed
from protocol.codec.schema import Array, Struct, Text, WireType, fields_of, spec


def explain(message: Any, version: int, fault: Exception) -> str:
    """Return a sentence on which field of `message` made encoding it as `version` fail with `fault`."""
    cls = type(message)
    found = _struct_fault(message, cls, version, spec(cls).is_flexible(version))
    return f"{cls.__name__} v{version}: {found or fault}"


def _struct_fault(value: Any, cls: type, version: int, flexible: bool) -> str | None:
    if not isinstance(value, cls):
        return f"{value!r:.80} is no {cls.__name__}"
    for field in fields_of(cls):
        if version not in field.present:
            continue
        content = getattr(value, field.name)
        if content is None and version in field.nullable:
            continue
        if found := _value_fault(content, field.type, version, flexible):
            return f"{cls.__name__}.{field.name}: {found}"
    return None


def _value_fault(value: Any, kind: WireType, version: int, flexible: bool) -> str | None:
    if value is None:
        return "None in a version in which it is not nullable"
    if isinstance(kind, Fixed):
        return _fixed_fault(value, kind)
    if isinstance(kind, Text):
        return _text_fault(value)
    if isinstance(kind, Struct):
        return _struct_fault(value, kind.cls, version, flexible)
    if isinstance(kind, Array):
        found = (_value_fault(item, kind.element, version, flexible) for item in value)
        return next(filter(None, found), None)
    return None if isinstance(value, bytes | bytearray | memoryview) else f"{value!r:.80} is not bytes"


def _fixed_fault(value: Any, kind: Fixed) -> str | None:
    if kind.code == "16s":
        return None if isinstance(value, bytes) and len(value) == 16 else f"{value!r:.80} is no uuid"
    try:
        pack(">" + kind.code, value)
    except (StructError, TypeError) as fault:
        return f"{value!r:.80} does not fit: {fault}"
    return None


def _text_fault(value: Any) -> str | None:
    if not isinstance(value, str):
        return f"{value!r:.80} is not a string"
    try:
        length = len(value.encode())
    except UnicodeEncodeError as fault:
        return str(fault)
    return None if length <= MAX_STRING_BYTES else f"{length} bytes; {MAX_STRING_BYTES} is the most"
