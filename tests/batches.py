"""Batches for tests, with everything that a header can say as an argument of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from protocol.records.batch import (
    CONTROL_BIT,
    LOG_APPEND_TIME_BIT,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    BatchProducer,
)
from protocol.records.records import Record
from protocol.records.records import encode_batch as encode


def encode_batch(
    records: Sequence[Record],
    *,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    log_append_time: bool = False,
    **options: Any,
) -> bytearray:
    """One batch as `protocol.records.records.encode_batch` makes it; `options` are passed on to that."""
    attributes = transactional * TRANSACTIONAL_BIT | control * CONTROL_BIT
    attributes |= log_append_time * LOG_APPEND_TIME_BIT
    producer = BatchProducer(producer_id, producer_epoch, base_sequence)
    return encode(records, producer=producer, attributes=attributes, **options)
