"""Writes the flights to a topic with a stock producer: key = carrier, value = the row as JSON."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from bench.demo.flights import json_lines

FLUSH_TIMEOUT_S = 60.0
ROOM_TIMEOUT_S = 1.0


class FlightProducer:
    """Counts what the brokers have acknowledged; the first refusal ends it."""

    def __init__(self, bootstrap: str, on_delivered: Callable[[int], None]) -> None:
        self.delivered = 0
        self._refused: KafkaError | None = None
        self._on_delivered = on_delivered
        settings = {
            "bootstrap.servers": bootstrap,
            "client.id": "flights-producer",
            "linger.ms": 20,
            "compression.type": "lz4",
            "enable.idempotence": True,
            "partitioner": "murmur2_random",  # A key's partition is then the same as by Java's clients.
        }
        self._producer = Producer(settings)

    def produce(self, topic: str, flights: pd.DataFrame) -> int:
        """Write all rows; returns how many were acknowledged. Raises KafkaException."""
        for carrier, line in zip(flights["carrier"], json_lines(flights), strict=True):
            self._send(topic, carrier, line)
        self._producer.flush(FLUSH_TIMEOUT_S)
        self._check()
        return self.delivered

    def _send(self, topic: str, key: str, value: str) -> None:
        while True:
            try:
                self._producer.produce(topic, value, key, on_delivery=self._delivered)
                break
            except BufferError:  # librdkafka's queue is full: let it send.
                self._producer.poll(ROOM_TIMEOUT_S)
        self._producer.poll(0)
        self._check()

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._refused = self._refused or error
            return
        self.delivered += 1
        self._on_delivered(self.delivered)

    def _check(self) -> None:
        if self._refused is not None:
            raise KafkaException(self._refused)
