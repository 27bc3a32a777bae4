"""What docs/apis.md says of clients that do not speak the consumer protocol: a new version of theirs may."""

from __future__ import annotations

import inspect

from aiokafka import AIOKafkaConsumer
from kafka import KafkaConsumer


def test_kafka_python_has_no_group_protocol() -> None:
    assert "group_id" in KafkaConsumer.DEFAULT_CONFIG
    assert "group_protocol" not in KafkaConsumer.DEFAULT_CONFIG


def test_aiokafka_has_no_group_protocol() -> None:
    settings = inspect.signature(AIOKafkaConsumer.__init__).parameters
    assert "group_id" in settings
    assert "group_protocol" not in settings
