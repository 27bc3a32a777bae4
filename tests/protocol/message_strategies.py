"""Hypothesis strategies for messages, derived from the message classes themselves.

A message is drawn as one version has it: absent fields stay at their defaults. `PAIRS` is every message
class with every one of its versions, for tests that go through all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from protocol.codec.codec import spec
from protocol.codec.primitives import Fixed
from protocol.codec.schema import Array, FieldSpec, Struct, Text, WireType, layout_of
from protocol.errors import ErrorCode
from protocol.messages import REQUESTS, RESPONSES

# Few examples for each of some 480 pairs: what a schema gets wrong shows in nearly every message, and each run has
# others. More of what a group coordinator is for.
FEW: Final = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
MORE: Final = settings(FEW, max_examples=20)
OF_GROUPS: Final = frozenset({8, 9, 10, 11, 12, 13, 14, 15, 16, 42, 47})
"""API keys: committed offsets, FindCoordinator, membership, and what admins ask of groups."""

VERSIONS_OF_MESSAGES: Final[list[tuple[type, int]]] = [
    (cls, version)
    for classes in (REQUESTS, RESPONSES)
    for cls in classes.values()
    for version in range(spec(cls).min_version, spec(cls).max_version + 1)
]


def parameter(cls: type, version: int) -> Any:
    """A parameter of a test, with an id to be read."""
    return pytest.param(cls, version, id=f"{cls.__name__}-v{version}")


PAIRS: Final = [parameter(cls, version) for cls, version in VERSIONS_OF_MESSAGES]

Pair = tuple[type, int]


def of_groups(pairs: Iterable[Pair]) -> list[Any]:
    """The `pairs` (messages in a version) of APIs of groups, as parameters of a test."""
    return [parameter(*pair) for pair in pairs if is_of_groups(pair)]


def of_others(pairs: Iterable[Pair]) -> list[Any]:
    """The `pairs` of all other APIs, as parameters of a test."""
    return [parameter(*pair) for pair in pairs if not is_of_groups(pair)]


def is_of_groups(pair: Pair) -> bool:
    return spec(pair[0]).api_key in OF_GROUPS


# Lengths of 127 and more take a second byte in the flexible versions.
TEXTS: Final = st.text(max_size=10) | st.sampled_from(["", "x" * 126, "x" * 127, "ü" * 100])
BLOBS: Final = st.binary(max_size=20) | st.just(bytes(300))
INTEGERS: Final = {
    code: st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)
    for code, bits in {"b": 8, "h": 16, "i": 32, "q": 64}.items()
}
FIXED: Final[dict[str, st.SearchStrategy[Any]]] = {
    **INTEGERS,
    "H": st.integers(0, (1 << 16) - 1),
    "d": st.floats(allow_nan=False),
    "?": st.booleans(),
    "16s": st.binary(min_size=16, max_size=16) | st.just(bytes(16)),
}
ERROR_CODES: Final = st.sampled_from([code.value for code in ErrorCode])
# Other libraries make dates and durations of the fields that end in _ms, which end sooner than int64 does.
TIMES_MS: Final = st.integers(-1, 1 << 41)


def messages(cls: type, version: int) -> st.SearchStrategy[Any]:
    """Draw messages of `cls` (a message or a struct of one) as `version` has it."""
    return _structs(cls, version, _is_flexible(cls, version))


def _is_flexible(cls: type, version: int) -> bool:
    return spec(cls).is_flexible(version)


def _structs(cls: type, version: int, flexible: bool) -> st.SearchStrategy[Any]:
    layout = layout_of(cls, version, flexible)
    return st.builds(cls, **{f.name: _field(f, version, flexible) for f in layout.inline + layout.tagged})


def _field(field: FieldSpec, version: int, flexible: bool) -> st.SearchStrategy[Any]:
    values = _values(field.name, field.type, version, flexible)
    if version in field.nullable:
        values = st.none() | values
    if field.tag is not None:
        values = st.builds(field.default_value) | values
    return values


def _values(name: str, kind: WireType, version: int, flexible: bool) -> st.SearchStrategy[Any]:
    if isinstance(kind, Fixed):
        if name.endswith("error_code"):
            return ERROR_CODES
        return TIMES_MS if kind.code == "q" and name.endswith("_ms") else FIXED[kind.code]
    if isinstance(kind, Struct):
        return _structs(kind.cls, version, flexible)
    if isinstance(kind, Array):
        return st.lists(_values(name, kind.element, version, flexible), max_size=3)
    return TEXTS if isinstance(kind, Text) else BLOBS
