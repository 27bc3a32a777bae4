"""One librdkafka client in a process of its own: `produce` fills a topic, `consume` reads it from the start.

It goes in batches through confluent-kafka, so that librdkafka is at work and not Python: one list of records
is handed over again and again, and a thousand are taken at a time. The clock of a producer runs from the
first record to the last acknowledgement, that of a consumer from the first record in hand to the last. Further
settings of librdkafka, passwords among them, come as JSON on standard input. Prints one line of JSON.

    python -m bench.throughput_client produce --bootstrap HOST:PORT --topic NAME --records N --bytes N
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import sys
import time
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition

from harness.messages import value_of

BATCH_RECORDS: Final = 1000
QUEUE_KBYTES: Final = 64 << 10  # librdkafka's own bound for a consumer; its producer's would be a gigabyte.
GIVE_UP_S: Final = 120.0

PRODUCER: Final = {
    "acks": "all",
    "compression.type": "none",
    "linger.ms": 5,
    "batch.size": 1_000_000,
    "queue.buffering.max.kbytes": QUEUE_KBYTES,
    "queue.buffering.max.messages": 1_000_000,
}
CONSUMER: Final = {
    "group.id": "throughput",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "queued.max.messages.kbytes": QUEUE_KBYTES,
    "queued.min.messages": 1_000_000,
}


def produce(settings: dict[str, Any], topic: str, partitions: int, records: int, record_bytes: int) -> float:
    """Write `records` to all partitions in turn; seconds until the last is acknowledged."""
    failures: list[KafkaError] = []
    producer = Producer({"error_cb": failures.append, **PRODUCER, **settings})
    producer.list_topics(topic, timeout=30)  # Connected before the clock starts.
    batch = [{"value": random.Random(index).randbytes(record_bytes)} for index in range(BATCH_RECORDS)]
    start = time.perf_counter()
    for turn, _ in enumerate(range(0, records, BATCH_RECORDS)):
        enqueue(producer, topic, turn % partitions, batch)
    left = producer.flush(GIVE_UP_S)
    elapsed = time.perf_counter() - start
    assert (left, failures) == (0, []), f"{left} records not acknowledged: {failures}"
    return elapsed


def enqueue(producer: Producer, topic: str, partition: int, batch: list[dict[str, Any]]) -> None:
    """Hand over the whole batch, waiting while the queue is full."""
    rest = batch
    while producer.produce_batch(topic, rest, partition=partition) < len(rest):
        rest = [{"value": each["value"]} for each in rest if each.pop("_error", None) is not None]
        producer.poll(0.05)


def consume(settings: dict[str, Any], topic: str, partitions: int, records: int, record_bytes: int) -> float:
    """Read `records` from the beginning of all partitions; seconds from the first of them to the last."""
    consumer = Consumer({**CONSUMER, **settings})
    consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in range(partitions)])
    seen, give_up = 0, time.monotonic() + GIVE_UP_S
    start: float | None = None
    while seen < records:
        for message in (got := consumer.consume(BATCH_RECORDS, timeout=1.0)):
            if (error := message.error()) is not None:
                raise KafkaException(error)
        if got and start is None:
            assert len(value_of(got[0])) == record_bytes, "a record of another size"
            start = time.perf_counter()
        seen += len(got)
        assert time.monotonic() < give_up, f"{seen} of {records} records"
    assert start is not None
    elapsed = time.perf_counter() - start
    assert seen == records, f"{seen} of {records} records"
    consumer.close()
    return elapsed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("produce", "consume"))
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--bytes", type=int, required=True)
    asked = parser.parse_args()
    run = produce if asked.what == "produce" else consume
    settings = {"bootstrap.servers": asked.bootstrap, **json.load(sys.stdin)}
    seconds = run(settings, asked.topic, asked.partitions, asked.records, asked.bytes)
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"seconds": seconds, "cpu_s": used.ru_utime + used.ru_stime}), flush=True)
    os._exit(0)  # librdkafka takes its time to say goodbye, and the figures are out.


if __name__ == "__main__":
    main()
