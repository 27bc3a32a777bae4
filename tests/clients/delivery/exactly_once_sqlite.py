"""Exactly once, into a database: the result and the offset are one SQLite transaction.

    python exactly_once_sqlite.py BOOTSTRAP TOPIC GROUP DATABASE [NAME=VALUE ...]

Adds the value of each row to the table `results`; NAME=VALUE are further settings of the consumer. The database
alone decides where a worker goes on: on assignment it seeks there. Every transaction moves a partition's offset
from where this worker found it, or fails: a worker that slept, and lost its partition meanwhile, can add nothing.
"""

from __future__ import annotations

import signal
import sqlite3
import sys
import threading
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, TopicPartition

BATCH = 100
SCHEMA = """
CREATE TABLE IF NOT EXISTS results (value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS offsets (
    topic TEXT, partition INTEGER, next_offset INTEGER NOT NULL, PRIMARY KEY (topic, partition));
"""
MOVE = "UPDATE offsets SET next_offset = ? WHERE topic = ? AND partition = ? AND next_offset = ?"


class Moved(Exception):
    """Another worker has gone on from where we were: the partition is no longer ours."""


class Worker:
    def __init__(self, database: str, settings: dict[str, object]) -> None:
        self.database = sqlite3.connect(database, timeout=30, isolation_level=None)
        self.database.executescript(f"PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; {SCHEMA}")
        self.consumer = Consumer(settings)
        self.next_offsets: dict[tuple[str, int], int] = {}  # As this worker last saw them in the database.

    def run(self, topic: str, stop: threading.Event) -> None:
        self.consumer.subscribe([topic], on_assign=self.on_assign)
        while not stop.is_set():
            messages = self.consumer.consume(BATCH, timeout=0.5)
            try:
                self.store(messages)
            except Moved:
                self.database.execute("ROLLBACK")
                for partition in self.stored_positions(self.consumer.assignment()):
                    self.consumer.seek(partition)
            else:
                self.show_progress(bool(messages))
        self.consumer.close()

    def on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Begin where the database says, whatever the group has committed."""
        consumer.assign(self.stored_positions(partitions))

    def stored_positions(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        for each in partitions:
            key = each.topic, each.partition
            self.database.execute("INSERT OR IGNORE INTO offsets VALUES (?, ?, ?)", (*key, OFFSET_BEGINNING))
            query = "SELECT next_offset FROM offsets WHERE topic = ? AND partition = ?"
            (each.offset,) = self.database.execute(query, key).fetchone()
            self.next_offsets[key] = each.offset
        return partitions

    def store(self, messages: list[Message]) -> None:
        """Store all results of a batch and how far it goes, or nothing. Raises Moved; the caller rolls back."""
        if not messages:
            return
        results = [(process(message),) for message in messages]  # Before the lock is held: others work, too.
        ends = dict(map(end_of, messages))
        self.database.execute("BEGIN IMMEDIATE")
        self.database.executemany("INSERT INTO results VALUES (?)", results)
        for key, end in ends.items():
            if self.database.execute(MOVE, (end, *key, self.next_offsets[key])).rowcount == 0:
                raise Moved(key)
        self.database.execute("COMMIT")
        self.next_offsets.update(ends)

    def show_progress(self, has_moved: bool) -> None:
        """Commit to the group as well, so that tools show its lag. Nothing is decided by this offset."""
        if has_moved:
            self.consumer.commit(asynchronous=True)


def end_of(message: Message) -> tuple[tuple[str, int], int]:
    """The message's partition, and the offset behind it."""
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    if topic is None or partition is None or offset is None:
        raise AssertionError("only an error may lack them")
    return (topic, partition), offset + 1


def process(message: Message) -> str:
    if message.error():
        raise KafkaException(message.error())
    time.sleep(0.001)  # Stands for the work.
    value = message.value()
    assert value is not None, "a tombstone among the rows"
    return value.decode()


def main(bootstrap: str, topic: str, group: str, database: str, *settings: str) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    consumer = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": "error",  # If the topic has lost what comes next, say so, and skip nothing.
        **dict(setting.split("=", 1) for setting in settings),
    }
    worker = Worker(database, consumer)
    print(f"{group} reads {topic}", flush=True)
    worker.run(topic, stop)


if __name__ == "__main__":
    main(*sys.argv[1:])
