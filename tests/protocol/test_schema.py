"""Declarations that make no sense are refused, and what Kafka's notation of versions means."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.codec import schema
from protocol.codec.codec import data, decoder, encoder, since, struct
from protocol.codec.primitives import Int32
from protocol.codec.schema import NEVER, VersionRange, fields_of


def test_versions_are_written_as_kafka_writes_them() -> None:
    assert VersionRange.parse("3") == VersionRange(3, 3)
    assert VersionRange.parse("0-4") == VersionRange(0, 4)
    assert 2 in VersionRange.parse("2+")
    assert 32767 in VersionRange.parse("2+")
    assert 1 not in VersionRange.parse("2+")
    assert all(version not in NEVER for version in (-1, 0, 5, 32767))
    assert VersionRange.parse("none") is NEVER


def test_a_field_with_a_version_needs_a_default() -> None:
    declare: Any = since
    with pytest.raises(TypeError, match="default"):
        declare(3)


def test_a_field_that_is_tagged_needs_its_tag() -> None:
    with pytest.raises(TypeError, match="tag"):
        since(3, default=0, tagged="3+")


def test_a_tag_needs_a_flexible_version() -> None:
    @data(versions="0-1", flexible="1+")
    class TooEarly:
        field: Int32 = since(0, tag=0, default=0)

    with pytest.raises(TypeError, match=r"TooEarly\.field is tagged in version 0"):
        encoder(TooEarly, 0)


def test_only_a_field_that_may_be_none_says_where_it_is_nullable() -> None:
    @data(versions="0", flexible="none")
    class NeverNull:
        field: str = since(0, nullable="0+", default="")

    with pytest.raises(TypeError, match=r"NeverNull\.field"):
        fields_of(NeverNull)


def test_a_type_that_the_wire_has_not_is_refused() -> None:
    for hint in (
        int,
        "Int32 | None",
        "str | bytes",
        "list[str | None]",
        "list[list[Int32]]",
        "dict[str, str]",
    ):
        cls = type("Odd", (), {"__annotations__": {"field": hint}, "__module__": __name__})
        odd: Any = data(versions="0", flexible="none")(cls)
        with pytest.raises(TypeError, match=r"Odd\.field"):
            fields_of(odd)


def test_an_array_of_nothing_is_refused_since_its_count_could_not_be_checked() -> None:
    nothing: Any = struct(type("Nothing", (), {"__module__": __name__}))
    cls: Any = type("Void", (), {"__annotations__": {"field": list[nothing]}, "__module__": __name__})
    with pytest.raises(TypeError, match=r"Void\.field takes no bytes"):
        decoder(data(versions="0", flexible="none")(cls), 0)


def test_a_second_thread_that_comes_to_a_new_class_finds_the_same_fields() -> None:
    """A field that has lost what `since` says of it would be read in versions that do not have it."""

    @data(versions="0-3", flexible="1+")
    class Shared:
        old: Int32 = 0
        new: Int32 = since(2, default=0)
        tagged: list[Int32] = since(2, tag=0, default_factory=list)

    for _ in range(2):
        schema._complete(Shared)
    assert [1 in each.present for each in fields_of(Shared)] == [True, False, False]
    assert Shared() == Shared(old=0, new=0, tagged=[])
