"""Fills a topic with rows at a bounded rate, through every outage, on a thread of its own."""

from __future__ import annotations

import threading

from confluent_kafka import KafkaError, Message, Producer

from tests.clients.delivery.exactly_once_transactions import KEEP_BROKERS

PAUSE_S = 0.05
DELIVERY_MS = 120_000


class RowWriter:
    """Writes rows, each with a number of its own, to all partitions in turn, until it is stopped."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, rows_a_second: int) -> None:
        common = {"bootstrap.servers": bootstrap, **KEEP_BROKERS, "log_level": 0, "enable.idempotence": True}
        self._producer = Producer({**common, "message.timeout.ms": DELIVERY_MS, "linger.ms": 10})
        self._topic = topic
        self._partitions = partitions
        self._at_a_time = int(rows_a_second * PAUSE_S)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self.written = 0
        self.failed: list[str] = []
        self._thread.start()

    def stop(self) -> None:
        """Wait until every row is acknowledged. Raises AssertionError if one is not."""
        self._stop.set()
        self._thread.join()
        left = self._producer.flush(DELIVERY_MS / 1000)
        assert not left, f"{left} rows were not acknowledged"
        assert not self.failed, self.failed[:3]

    def _write(self) -> None:
        while not self._stop.wait(PAUSE_S):
            for _ in range(self._at_a_time):
                row, partition = f"row-{self.written}", self.written % self._partitions
                self._producer.produce(self._topic, row, partition=partition, on_delivery=self._on_delivery)
                self.written += 1
            self._producer.poll(0)

    def _on_delivery(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self.failed.append(str(error))
