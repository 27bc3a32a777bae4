"""Clients of data behind gateways that never stop: what is acknowledged is read once, in its order, by the other.

They are librdkafka's, with all nodes as `bootstrap.servers`, and know nothing of what becomes of these.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

from tests.backing.crowd import Record

DATA_TOPIC: Final = "data"
EVERY_S: Final = 0.005
POLL_S: Final = 0.2
DELIVERED_MS: Final = 600_000
"""Longer than anything is away: an idempotent producer gives up no message and so leaves no gap."""
AWAY: Final = frozenset({KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._RESOLVE})
"""What a client says while it looks for another way; it goes on by itself."""
RECONNECT: Final = {"reconnect.backoff.max.ms": 1000, "topic.metadata.refresh.interval.ms": 10_000}


class DataClient(threading.Thread):
    """A thread that does `step` until it is told to stop, and then `close`."""

    def __init__(self, record: Record) -> None:
        super().__init__(daemon=True)
        self.record = record
        self.is_over = threading.Event()

    def run(self) -> None:
        try:
            while not self.is_over.is_set():
                self.step()
            self.close()
        except Exception as error:  # Whatever it is, stock clients are to meet none.
            self.record.problems.append(f"{type(self).__name__}: {error!r}")

    def step(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class DataProducer(DataClient):
    """Writes the numbers from 0 on, idempotently."""

    def __init__(self, places: Sequence[str], record: Record) -> None:
        super().__init__(record)
        self._next = 0
        settings = {
            "bootstrap.servers": ",".join(places),
            "enable.idempotence": True,
            "delivery.timeout.ms": DELIVERED_MS,
            "log_level": 0,
            **RECONNECT,
        }
        self._producer = Producer(settings)

    def step(self) -> None:
        try:
            self._producer.produce(DATA_TOPIC, str(self._next), partition=0, on_delivery=self._on_delivery)
            self._next += 1
        except BufferError:
            pass  # Brokers are away, and as much waits for them as there is room for.
        self._producer.poll(EVERY_S)
        self.is_over.wait(EVERY_S)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.record.produced = int(message.value() or b"") + 1
        else:
            self.record.problems.append(f"a record was refused: {error}")

    def close(self) -> None:
        left = self._producer.flush(DELIVERED_MS / 1000)
        if left:
            self.record.problems.append(f"{left} records were not acknowledged")


class DataReader(DataClient):
    """Reads them, with no group."""

    def __init__(self, places: Sequence[str], record: Record) -> None:
        super().__init__(record)
        settings = {
            "bootstrap.servers": ",".join(places),
            "group.id": "data-reader",
            "enable.auto.commit": False,
            "log_level": 0,
            **RECONNECT,
        }
        self._consumer = Consumer(settings)
        self._consumer.assign([TopicPartition(DATA_TOPIC, 0, OFFSET_BEGINNING)])

    def step(self) -> None:
        message = self._consumer.poll(POLL_S)
        if message is None:
            return
        error = message.error()
        if error is not None:
            if error.code() not in AWAY:
                self.record.problems.append(f"a read of data was answered {error}")
            return
        number = int(message.value() or b"")
        if number != self.record.consumed:
            self.record.problems.append(f"record {number} came where {self.record.consumed} was due")
        self.record.consumed = number + 1

    def close(self) -> None:
        self._consumer.close()
