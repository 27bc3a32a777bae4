"""`FOLDER BOOTSTRAP TOPIC GROUP [--version]`: what the kafka-python unpacked in FOLDER does with a broker.

It runs with FOLDER first on the path, and calls nothing that came after version 1.4.
"""

from __future__ import annotations

import sys
from functools import partial
from importlib import import_module
from typing import Any

sys.path.insert(0, sys.argv[1])

from tests.clients.workers.sharing import share_with_a_second_member
from tests.old_clients.walking import RECORDS, step, wait_for

# The old one, which the path just named; what types the newest has says nothing of it.
kafka: Any = import_module("kafka")
structs: Any = import_module("kafka.structs")
admin: Any = import_module("kafka.admin")

FOLDER, BOOTSTRAP, TOPIC, GROUP = sys.argv[1:5]
BOTH = [kafka.TopicPartition(TOPIC, 0), kafka.TopicPartition(TOPIC, 1)]
CODECS = ("none", "gzip", "snappy", "lz4")


def consumer_of(group: str, session_timeout_ms: int = 10_000) -> Any:
    return kafka.KafkaConsumer(
        bootstrap_servers=BOOTSTRAP,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=session_timeout_ms,
        heartbeat_interval_ms=50,
    )


def create_topics() -> object:
    client = admin.KafkaAdminClient(bootstrap_servers=BOOTSTRAP)
    client.create_topics([admin.NewTopic(TOPIC, 2, 1)])
    client.close()
    consumer = kafka.KafkaConsumer(bootstrap_servers=BOOTSTRAP)
    is_listed = wait_for(lambda: TOPIC in consumer.topics())
    partitions = sorted(consumer.partitions_for_topic(TOPIC))
    consumer.close()
    return is_listed, partitions


def produce(codec: str) -> object:
    producer = kafka.KafkaProducer(
        bootstrap_servers=BOOTSTRAP, acks="all", compression_type=None if codec == "none" else codec
    )
    sent = [producer.send(TOPIC, b"value %d" % n, b"key", partition=n % 2) for n in range(RECORDS)]
    offsets = [each.get(timeout=60).offset for each in sent]
    producer.close()
    return offsets[-1]


def produce_too_much() -> object:
    producer = kafka.KafkaProducer(bootstrap_servers=BOOTSTRAP, max_request_size=10_000_000)
    try:
        return producer.send(TOPIC, b"x" * 2_000_000).get(timeout=60).offset
    finally:
        producer.close()


def read(consumer: Any, count: int) -> object:
    values: dict[int, list[bytes]] = {0: [], 1: []}

    def poll() -> bool:
        for where, records in consumer.poll(timeout_ms=100).items():
            values[where.partition] += [record.value for record in records]
        return sum(map(len, values.values())) >= count

    wait_for(poll)
    return {partition: (len(each), len(set(each))) for partition, each in values.items()}


def positions(consumer: Any) -> object:
    starts, ends = consumer.beginning_offsets(BOTH), consumer.end_offsets(BOTH)
    return [(starts[where], ends[where]) for where in BOTH]


def commit(consumer: Any, offset: int, note: str) -> object:
    about = {"leader_epoch": -1} if "leader_epoch" in structs.OffsetAndMetadata._fields else {}
    consumer.commit({BOTH[0]: structs.OffsetAndMetadata(offset, note, **about)})
    return consumer.committed(BOTH[0]), consumer.committed(BOTH[1])


def seek(consumer: Any) -> object:
    consumer.seek(BOTH[1], 5)
    found: list[int] = []

    def poll() -> list[int]:
        found.extend(record.offset for record in consumer.poll(timeout_ms=100).get(BOTH[1], ()))
        return found

    wait_for(poll)
    return found[:1]


def share(consumer: Any) -> object:
    def poll(member: Any) -> None:
        member.poll(timeout_ms=100)

    def is_back() -> bool:
        poll(consumer)
        return len(consumer.assignment()) == 2

    share_with_a_second_member(consumer, TOPIC, lambda: consumer_of(GROUP), poll)
    return wait_for(is_back)


def session_out_of_range() -> object:
    consumer = consumer_of(f"{GROUP}-short", session_timeout_ms=100)
    consumer.subscribe([TOPIC])
    try:
        return read(consumer, 1)
    finally:
        consumer.close()


def main() -> None:
    print(f"version\t{kafka.__version__}")
    if "--version" in sys.argv:
        return
    step("create topics", create_topics)
    for codec in CODECS:
        step(f"produce {codec}", partial(produce, codec))
    step("produce too much", produce_too_much)
    consumer = consumer_of(GROUP)
    step("positions", lambda: positions(consumer))
    step("offset for a time", lambda: consumer.offsets_for_times({BOTH[0]: 0})[BOTH[0]].offset)
    consumer.subscribe([TOPIC])
    step("subscribe and poll", lambda: read(consumer, len(CODECS) * RECORDS))
    step("commit", lambda: commit(consumer, 7, "noted"))
    step("commit too long a note", lambda: commit(consumer, 8, "n" * 5_000))
    step("seek", lambda: seek(consumer))
    step("share with a second member", lambda: share(consumer))
    consumer.close()
    step("session out of range", session_out_of_range)


if __name__ == "__main__":
    main()
