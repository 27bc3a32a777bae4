"""Records of kinds of groups that Muster does not keep are shown decoded, or as bytes: never as something else.

That they are decoded as Kafka does is shown on Kafka's own log in tests/kafka_log.
"""

from __future__ import annotations

import pytest

from coordinator.groups.consumer.record_schemas import CONSUMER_GROUP_SCHEMAS
from coordinator.groups.record_schemas import RECORD_TYPES
from muster.log.entries import key_texts
from muster.log.other_records import VALUES, StreamsGroupMetadataValue, decode_other
from protocol.codec.codec import encode


def test_every_type_but_those_that_are_kept_has_a_class() -> None:
    assert VALUES.keys() == RECORD_TYPES.keys() - {0, 1, 2} - CONSUMER_GROUP_SCHEMAS.keys()


@pytest.mark.parametrize("value", [b"", b"\0", b"\0\0", b"\0\0\0\0", b"\0\1" + bytes(20)])
@pytest.mark.parametrize("number", [*VALUES, 99])
def test_bytes_that_do_not_fit_are_not_decoded(number: int, value: bytes) -> None:
    assert decode_other(number, value) is None


def test_tagged_fields_are_read() -> None:
    value = StreamsGroupMetadataValue(epoch=3, metadata_hash=-5, validated_topology_epoch=2)
    assert decode_other(17, b"\0\0" + encode(value, 0)) == value


def test_a_key_is_texts_to_its_end_or_nothing() -> None:
    assert key_texts(b"\0\5\0\1g\0\2mm") == ["g", "mm"]
    assert key_texts(b"\0\3\0\0") == [""]
    assert key_texts(b"\0\3\0\5g") == []
    assert key_texts(b"\0\3\0\1g\0") == []
