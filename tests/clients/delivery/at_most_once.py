"""At most once: a row's offset is committed first, and then it is processed. No row is ever processed twice.

    python at_most_once.py BOOTSTRAP TOPIC GROUP OUTPUT [NAME=VALUE ...]

Appends the value of each row to the file OUTPUT; NAME=VALUE are further settings of the consumer. A worker that
dies between the commit and the end of its batch loses the rest of the batch: no worker gets those rows again.
SIGTERM lets it finish its batch, and loses nothing.
"""

from __future__ import annotations

import signal
import sys
import threading
import time

from confluent_kafka import Consumer, KafkaException, Message

BATCH = 100  # What a crash may lose, at most, of each worker.


def main(bootstrap: str, topic: str, group: str, output: str, *settings: str) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **dict(setting.split("=", 1) for setting in settings),
        }
    )
    consumer.subscribe([topic])
    print(f"{group} reads {topic}", flush=True)
    while not stop.is_set():
        messages = consumer.consume(BATCH, timeout=0.5)
        if messages and is_committed(consumer):
            for message in messages:
                process(message, output)
    consumer.close()


def is_committed(consumer: Consumer) -> bool:
    """Commit what was read. If the group refuses, another member may get the rows: they are not ours."""
    try:
        consumer.commit(asynchronous=False)
    except KafkaException as error:
        print(f"not committed, not processed: {error}", file=sys.stderr)
        return False
    return True


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
