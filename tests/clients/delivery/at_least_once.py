"""At least once: a row is processed first, and its offset committed then. No row is ever left out.

    python at_least_once.py BOOTSTRAP TOPIC GROUP OUTPUT [NAME=VALUE ...]

Appends the value of each row to the file OUTPUT; NAME=VALUE are further settings of the consumer. Offsets are
committed once a second, when partitions are taken away, and at the end. What a worker that dies has processed
since its last commit, the next owner of the partition processes again.
"""

from __future__ import annotations

import signal
import sys
import threading
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

COMMIT_INTERVAL_S = 1.0  # What a crash may repeat, at most: what is processed in so much time.


def main(bootstrap: str, topic: str, group: str, output: str, *settings: str) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,  # A row counts as done when we say so, not when we have got it.
            **dict(setting.split("=", 1) for setting in settings),
        }
    )
    consumer.subscribe([topic], on_revoke=on_revoke)
    print(f"{group} reads {topic}", flush=True)
    next_commit = time.monotonic() + COMMIT_INTERVAL_S
    while not stop.is_set():
        for message in consumer.consume(20, timeout=0.5):
            process(message, output)
            consumer.store_offsets(message)
        if time.monotonic() >= next_commit:
            commit(consumer)
            next_commit = time.monotonic() + COMMIT_INTERVAL_S
    consumer.close()  # Which revokes, and so commits.


def on_revoke(consumer: Consumer, partitions: list[TopicPartition]) -> None:
    """Another worker gets these partitions: it is to begin where we are, not where we last committed."""
    commit(consumer)


def commit(consumer: Consumer) -> None:
    """Commit what is processed. If the group refuses, another member owns the rows and processes them again."""
    try:
        consumer.commit(asynchronous=False)
    except KafkaException as error:
        if error.args[0].code() != KafkaError._NO_OFFSET:  # Nothing was processed since.
            print(f"not committed, to be processed again: {error}", file=sys.stderr)


def process(message: Message, output: str) -> None:
    if message.error():
        raise KafkaException(message.error())
    time.sleep(0.001)  # Stands for the work.
    value = message.value()
    assert value is not None, "a tombstone among the rows"
    with open(output, "ab") as rows:
        rows.write(value + b"\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
