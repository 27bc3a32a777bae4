"""The parts of a record that a confluent-kafka consumer read.

confluent-kafka annotates every part of a message as possibly None, since errors are messages as well. Here a
missing part raises AssertionError, which names the message.
"""

from __future__ import annotations

from typing import TypeVar

from confluent_kafka import Message

T = TypeVar("T")


def value_of(message: Message) -> bytes:
    return _there(message.value(), "value", message)


def key_of(message: Message) -> bytes:
    return _there(message.key(), "key", message)


def partition_of(message: Message) -> int:
    return _there(message.partition(), "partition", message)


def offset_of(message: Message) -> int:
    return _there(message.offset(), "offset", message)


def headers_of(message: Message) -> list[tuple[str, str | bytes | None]]:
    """The headers in their order; an empty list if there are none."""
    headers = message.headers() or []
    return list(headers.items()) if isinstance(headers, dict) else headers


def _there(part: T | None, name: str, message: Message) -> T:
    if part is None:
        where = f"{message.topic()}-{message.partition()} at {message.offset()}"
        raise AssertionError(f"no {name}: {where}, error {message.error()}")
    return part
