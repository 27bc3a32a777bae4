"""Heartbeats of the newer kinds of groups (KIP-848, KIP-932, KIP-1071), so that Kafka writes their records.

Muster does not serve these APIs, and of the latter two it knows no messages: those live with the tests. An
answer is read as far as the fields that all three have in common.
"""

from __future__ import annotations

from dataclasses import field
from struct import Struct
from typing import Any, NamedTuple

from harness.wire import WireClient
from protocol.codec.codec import request, struct
from protocol.codec.primitives import Int16, Int32
from protocol.framing import encode_request

HEAD = Struct(">ibih")
EPOCH = Struct(">i")


@request(key=76, versions="1", flexible="0+")
class ShareGroupHeartbeatRequest:
    group_id: str
    member_id: str
    member_epoch: Int32
    rack_id: str | None = None
    subscribed_topic_names: list[str] | None = None


@struct
class KeyValue:
    key: str
    value: str


@struct
class TopicInfo:
    name: str
    partitions: Int32
    replication_factor: Int16
    topic_configs: list[KeyValue] = field(default_factory=list)


@struct
class CopartitionGroup:
    source_topics: list[Int16]
    source_topic_regex: list[Int16]
    repartition_source_topics: list[Int16]


@struct
class Subtopology:
    subtopology_id: str
    source_topics: list[str]
    source_topic_regex: list[str] = field(default_factory=list)
    state_changelog_topics: list[TopicInfo] = field(default_factory=list)
    repartition_sink_topics: list[str] = field(default_factory=list)
    repartition_source_topics: list[TopicInfo] = field(default_factory=list)
    copartition_groups: list[CopartitionGroup] = field(default_factory=list)


@struct
class Topology:
    epoch: Int32
    subtopologies: list[Subtopology]


@struct
class TaskIds:
    subtopology_id: str
    partitions: list[Int32]


@struct
class Endpoint:
    host: str
    port: Int16


@struct
class TaskOffset:
    subtopology_id: str
    partition: Int32
    offset: Int32


@request(key=88, versions="0", flexible="0+")
class StreamsGroupHeartbeatRequest:
    group_id: str
    member_id: str
    member_epoch: Int32
    endpoint_information_epoch: Int32 = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: Int32 = -1
    topology: Topology | None = None
    active_tasks: list[TaskIds] | None = None
    standby_tasks: list[TaskIds] | None = None
    warmup_tasks: list[TaskIds] | None = None
    process_id: str | None = None
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue] | None = None
    task_offsets: list[TaskOffset] | None = None  # Neither these nor the end offsets are sent by these tests.
    task_end_offsets: list[TaskOffset] | None = None
    shutdown_application: bool = False


class HeartbeatAnswer(NamedTuple):
    """The fields with which the responses of all three APIs begin."""

    error_code: int
    error_message: str | None
    member_id: str | None
    member_epoch: int


def send_heartbeat(client: WireClient, request: Any, version: int) -> HeartbeatAnswer:
    """Send one heartbeat; return the fields of its response that all three APIs have."""
    client.socket.sendall(encode_request(request, version, 1, client.client_id))
    return _read_answer(client.receive_frame())


def _read_answer(frame: bytes) -> HeartbeatAnswer:
    """The answer in a response frame, whose fields behind the epoch differ by API and are not read."""
    _, tags, _, error_code = HEAD.unpack_from(frame)
    assert tags == 0
    message, position = _text(frame, HEAD.size)
    member_id, position = _text(frame, position)
    return HeartbeatAnswer(error_code, message, member_id, EPOCH.unpack_from(frame, position)[0])


def _text(frame: bytes, position: int) -> tuple[str | None, int]:
    """Read a compact nullable string, whose length + 1 is a varint of one or two bytes; return its end as well."""
    size, start = frame[position], position + 1
    if size >= 0x80:
        size, start = size & 0x7F | frame[start] << 7, start + 1
    return (None, start) if size == 0 else (frame[start : start + size - 1].decode(), start + size - 1)
