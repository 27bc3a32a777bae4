"""`LIBRARY BOOTSTRAP TOPIC GROUP [--version]`: what the librdkafka in the file LIBRARY does with a broker.

Through its C interface, as far as version 0.11 has it. The topic is there, with two partitions: old
versions have no call to make one.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from functools import partial

from tests.old_clients.walking import RECORDS, Refused, step, wait_for

LIBRARY, BOOTSTRAP, TOPIC, GROUP = sys.argv[1:5]
PRODUCER, CONSUMER = 0, 1
CODECS = ("none", "gzip", "snappy", "lz4")
COPY = 2  # RD_KAFKA_MSG_F_COPY.
CONF_OK, NO_ERROR, PARTITION_END = 0, 0, -191
BEGINNING, UNASSIGNED = -2, -1
TIMEOUT_MS = 60_000


class Message(Structure):
    """rd_kafka_message_t."""

    _fields_ = [
        ("err", c_int),
        ("rkt", c_void_p),
        ("partition", c_int32),
        ("payload", c_void_p),
        ("len", c_size_t),
        ("key", c_void_p),
        ("key_len", c_size_t),
        ("offset", c_int64),
        ("private", c_void_p),
    ]


class TopicPartition(Structure):
    """rd_kafka_topic_partition_t."""

    _fields_ = [
        ("topic", c_char_p),
        ("partition", c_int32),
        ("offset", c_int64),
        ("metadata", c_void_p),
        ("metadata_size", c_size_t),
        ("opaque", c_void_p),
        ("err", c_int),
        ("private", c_void_p),
    ]


class TopicPartitions(Structure):
    """rd_kafka_topic_partition_list_t."""

    _fields_ = [("cnt", c_int), ("size", c_int), ("elems", POINTER(TopicPartition))]


class GroupInfo(Structure):
    """struct rd_kafka_group_info, its broker's three fields first."""

    _fields_ = [
        ("broker_id", c_int32),
        ("broker_host", c_char_p),
        ("broker_port", c_int),
        ("group", c_char_p),
        ("err", c_int),
        ("state", c_char_p),
        ("protocol_type", c_char_p),
        ("protocol", c_char_p),
        ("members", c_void_p),
        ("member_cnt", c_int),
    ]


class GroupList(Structure):
    """struct rd_kafka_group_list."""

    _fields_ = [("groups", POINTER(GroupInfo)), ("group_cnt", c_int)]


DELIVERED = ctypes.CFUNCTYPE(None, c_void_p, POINTER(Message), c_void_p)
rd = ctypes.CDLL(LIBRARY)
rd.rd_kafka_version_str.restype = c_char_p
rd.rd_kafka_err2name.restype = c_char_p
rd.rd_kafka_conf_new.restype = c_void_p
rd.rd_kafka_conf_set.argtypes = [c_void_p, c_char_p, c_char_p, c_char_p, c_size_t]
rd.rd_kafka_conf_set_dr_msg_cb.argtypes = [c_void_p, DELIVERED]
rd.rd_kafka_new.restype = c_void_p
rd.rd_kafka_new.argtypes = [c_int, c_void_p, c_char_p, c_size_t]
rd.rd_kafka_topic_new.restype = c_void_p
rd.rd_kafka_topic_new.argtypes = [c_void_p, c_char_p, c_void_p]
rd.rd_kafka_topic_destroy.argtypes = [c_void_p]
rd.rd_kafka_produce.argtypes = [
    c_void_p, c_int32, c_int, c_char_p, c_size_t, c_char_p, c_size_t, c_void_p
]  # fmt: skip
rd.rd_kafka_last_error.restype = c_int
rd.rd_kafka_poll.argtypes = [c_void_p, c_int]
rd.rd_kafka_flush.argtypes = [c_void_p, c_int]
rd.rd_kafka_destroy.argtypes = [c_void_p]
rd.rd_kafka_poll_set_consumer.argtypes = [c_void_p]
rd.rd_kafka_topic_partition_list_new.restype = POINTER(TopicPartitions)
rd.rd_kafka_topic_partition_list_add.argtypes = [POINTER(TopicPartitions), c_char_p, c_int32]
rd.rd_kafka_topic_partition_list_add.restype = POINTER(TopicPartition)
rd.rd_kafka_topic_partition_list_destroy.argtypes = [POINTER(TopicPartitions)]
rd.rd_kafka_subscribe.argtypes = [c_void_p, POINTER(TopicPartitions)]
rd.rd_kafka_assignment.argtypes = [c_void_p, POINTER(POINTER(TopicPartitions))]
rd.rd_kafka_consumer_poll.argtypes = [c_void_p, c_int]
rd.rd_kafka_consumer_poll.restype = POINTER(Message)
rd.rd_kafka_message_destroy.argtypes = [POINTER(Message)]
rd.rd_kafka_commit.argtypes = [c_void_p, POINTER(TopicPartitions), c_int]
rd.rd_kafka_committed.argtypes = [c_void_p, POINTER(TopicPartitions), c_int]
rd.rd_kafka_consumer_close.argtypes = [c_void_p]
rd.rd_kafka_list_groups.argtypes = [c_void_p, c_char_p, POINTER(POINTER(GroupList)), c_int]
rd.rd_kafka_group_list_destroy.argtypes = [POINTER(GroupList)]
rd.rd_kafka_query_watermark_offsets.argtypes = [
    c_void_p, c_char_p, c_int32, POINTER(c_int64), POINTER(c_int64), c_int
]  # fmt: skip
rd.rd_kafka_offsets_for_times.argtypes = [c_void_p, POINTER(TopicPartitions), c_int]


def check(error: int) -> None:
    """Raises Refused with the name that librdkafka has for `error`."""
    if error != NO_ERROR:
        raise Refused(rd.rd_kafka_err2name(error).decode())


def client(kind: int, settings: dict[str, str], on_delivered: object = None) -> int:
    reason = ctypes.create_string_buffer(512)
    conf = rd.rd_kafka_conf_new()
    common = {"bootstrap.servers": BOOTSTRAP, "api.version.request": "true", "client.id": "old-librdkafka"}
    for name, value in {**common, **settings}.items():
        if rd.rd_kafka_conf_set(conf, name.encode(), value.encode(), reason, 512) != CONF_OK:
            raise Refused(reason.value.decode())
    if on_delivered is not None:
        rd.rd_kafka_conf_set_dr_msg_cb(conf, on_delivered)
    made = rd.rd_kafka_new(kind, conf, reason, 512)
    if not made:
        raise Refused(reason.value.decode())
    return int(made)


def produce(codec: str, values: list[bytes], **settings: str) -> object:
    """Produce to the two partitions in turn; the last offset."""
    delivered: list[tuple[int, int]] = []

    def on_delivered(_: int, message: ctypes._Pointer[Message], opaque: int) -> None:
        delivered.append((message.contents.err, message.contents.offset))

    callback = DELIVERED(on_delivered)
    producer = client(PRODUCER, {"compression.codec": codec, "acks": "all", **settings}, callback)
    topic = rd.rd_kafka_topic_new(producer, TOPIC.encode(), None)
    try:
        for number, value in enumerate(values):
            if rd.rd_kafka_produce(topic, number % 2, COPY, value, len(value), b"key", 3, None):
                check(rd.rd_kafka_last_error())
        rd.rd_kafka_flush(producer, TIMEOUT_MS)
    finally:
        rd.rd_kafka_topic_destroy(topic)
        rd.rd_kafka_destroy(producer)
    for error, _ in delivered:
        check(error)
    return len(delivered), delivered[-1][1]


def new_consumer(group: str, session_timeout_ms: int = 10_000) -> int:
    consumer = client(
        CONSUMER,
        {
            "group.id": group,
            "enable.auto.commit": "false",
            "session.timeout.ms": str(session_timeout_ms),
            "heartbeat.interval.ms": "50",
            "fetch.wait.max.ms": "50",
        },
    )
    rd.rd_kafka_poll_set_consumer(consumer)
    return consumer


def subscribe(consumer: int) -> None:
    topics = rd.rd_kafka_topic_partition_list_new(1)
    rd.rd_kafka_topic_partition_list_add(topics, TOPIC.encode(), UNASSIGNED)
    check(rd.rd_kafka_subscribe(consumer, topics))
    rd.rd_kafka_topic_partition_list_destroy(topics)


def poll(consumer: int) -> tuple[int, int] | None:
    """The (partition, offset) of one record, if there is one soon. Raises Refused for an error."""
    message = rd.rd_kafka_consumer_poll(consumer, 100)
    if not message:
        return None
    error, where = message.contents.err, (message.contents.partition, message.contents.offset)
    rd.rd_kafka_message_destroy(message)
    if error == PARTITION_END:
        return None
    check(error)
    return where


def assigned(consumer: int) -> int:
    """Number of partitions that the consumer has."""
    listed = POINTER(TopicPartitions)()
    check(rd.rd_kafka_assignment(consumer, byref(listed)))
    count = int(listed.contents.cnt)
    rd.rd_kafka_topic_partition_list_destroy(listed)
    return count


def read(consumer: int, count: int) -> object:
    """How many records of each partition came, and up to which offset."""
    seen: dict[int, list[int]] = {0: [], 1: []}

    def poll_one() -> bool:
        if (where := poll(consumer)) is not None:
            seen[where[0]].append(where[1])
        return sum(map(len, seen.values())) >= count

    wait_for(poll_one)
    return {partition: (len(each), each[-1] if each else None) for partition, each in seen.items()}


def commit(consumer: int, offset: int, note: bytes) -> object:
    offsets = rd.rd_kafka_topic_partition_list_new(1)
    entry = rd.rd_kafka_topic_partition_list_add(offsets, TOPIC.encode(), 0).contents
    entry.offset = offset
    libc = ctypes.CDLL(None)
    libc.strdup.restype, libc.strdup.argtypes = c_void_p, [c_char_p]
    # The library frees it with the list, so it has to be of its heap.
    entry.metadata = libc.strdup(note)
    entry.metadata_size = len(note)
    error = rd.rd_kafka_commit(consumer, offsets, 0)
    rd.rd_kafka_topic_partition_list_destroy(offsets)
    check(error)
    return committed(consumer)


def committed(consumer: int) -> object:
    offsets = rd.rd_kafka_topic_partition_list_new(2)
    for partition in (0, 1):
        rd.rd_kafka_topic_partition_list_add(offsets, TOPIC.encode(), partition)
    check(rd.rd_kafka_committed(consumer, offsets, TIMEOUT_MS))
    found = [
        (each.offset, ctypes.string_at(each.metadata, each.metadata_size) if each.metadata else b"")
        for each in offsets.contents.elems[:2]
    ]
    rd.rd_kafka_topic_partition_list_destroy(offsets)
    return found


def positions(consumer: int) -> object:
    found = []
    for partition in (0, 1):
        low, high = c_int64(), c_int64()
        check(
            rd.rd_kafka_query_watermark_offsets(
                consumer, TOPIC.encode(), partition, byref(low), byref(high), TIMEOUT_MS
            )
        )
        found.append((low.value, high.value))
    return found


def offset_for_a_time(consumer: int) -> object:
    times = rd.rd_kafka_topic_partition_list_new(1)
    rd.rd_kafka_topic_partition_list_add(times, TOPIC.encode(), 0).contents.offset = 0
    check(rd.rd_kafka_offsets_for_times(consumer, times, TIMEOUT_MS))
    return times.contents.elems[0].offset


def share(consumer: int) -> object:
    second = new_consumer(GROUP)
    subscribe(second)

    def have(own: int, others: int) -> bool:
        poll(consumer)
        if others:
            poll(second)
        return assigned(consumer) == own and (not others or assigned(second) == others)

    try:
        is_shared = wait_for(lambda: have(1, 1))
    finally:
        rd.rd_kafka_consumer_close(second)
        rd.rd_kafka_destroy(second)
    return is_shared, wait_for(lambda: have(2, 0))


def members_in_group(consumer: int) -> int:
    listed = POINTER(GroupList)()
    check(rd.rd_kafka_list_groups(consumer, GROUP.encode(), byref(listed), TIMEOUT_MS))
    count = sum(int(group.member_cnt) for group in listed.contents.groups[: listed.contents.group_cnt])
    rd.rd_kafka_group_list_destroy(listed)
    return count


def leave(consumer: int) -> object:
    """Whether the group was left; asked before the end, since closing does not wait for LeaveGroup to be sent."""
    rd.rd_kafka_consumer_close(consumer)
    try:
        return wait_for(lambda: members_in_group(consumer) == 0)
    finally:
        rd.rd_kafka_destroy(consumer)


def session_out_of_range() -> object:
    consumer = new_consumer(f"{GROUP}-short", session_timeout_ms=100)
    subscribe(consumer)
    try:
        return wait_for(lambda: poll(consumer))
    finally:
        rd.rd_kafka_consumer_close(consumer)
        rd.rd_kafka_destroy(consumer)


def main() -> None:
    print(f"version\t{rd.rd_kafka_version_str().decode()}")
    if "--version" in sys.argv:
        return
    for codec in CODECS:
        step(f"produce {codec}", partial(produce, codec, [b"value %d" % n for n in range(RECORDS)]))
    too_much = {"message.max.bytes": "10000000"}
    step("produce too much", lambda: produce("none", [b"x" * 2_000_000], **too_much))
    consumer = new_consumer(GROUP)
    step("positions", lambda: positions(consumer))
    step("offset for a time", lambda: offset_for_a_time(consumer))
    # Without committed offsets it would begin at the end: the setting is a topic's in old versions.
    step("commit", lambda: commit(consumer, 0, b"noted"))
    subscribe(consumer)
    step("subscribe and poll", lambda: read(consumer, len(CODECS) * RECORDS // 2))
    step("commit as a member", lambda: commit(consumer, 7, b"noted"))
    step("commit too long a note", lambda: commit(consumer, 8, b"n" * 5_000))
    step("share with a second member", lambda: share(consumer))
    step("leave", lambda: leave(consumer))
    step("session out of range", session_out_of_range)


if __name__ == "__main__":
    main()
