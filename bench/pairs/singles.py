"""Members that are alone in their groups, each on a lane of its own, and the topic that they commit to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bench.pairs.crowd import ANSWER_HEADER_BYTES, joined
from bench.pairs.frames import FETCH, HEARTBEAT, Joined
from bench.pairs.lanes import Lane, LoadError, ask
from protocol.codec import decode
from protocol.errors import ErrorCode
from protocol.messages import RESPONSES
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.processes import ServerProcess
from tests.wire import WireClient

TOPIC: Final = "bench"
PARTITIONS: Final = 1_000
CREATE_VERSION: Final = 5


def errors_in(api: tuple[int, int], answer: bytes) -> list[int]:
    told = decode(RESPONSES[api[0]], api[1], answer, ANSWER_HEADER_BYTES)
    if api == HEARTBEAT:
        return [told.error_code]
    if api == FETCH:
        return [group.error_code for group in told.groups]
    return [partition.error_code for topic in told.topics for partition in topic.partitions]


def lanes_of(
    server: ServerProcess, prefix: str, count: int, frame_of: Callable[[Joined], bytes], api: tuple[int, int]
) -> list[Lane]:
    """`count` connections, each the only member of a group, its answer learned and found good."""
    made = []
    for connection, member in joined(server.port, [f"{prefix}-{index:05d}" for index in range(count)], 1):
        frame = frame_of(member)
        answer = ask(connection, frame)
        if any(errors_in(api, answer)):
            raise LoadError(f"{server}: {frame_of.__name__} was refused: {answer.hex(' ')}")
        made.append(Lane(connection, frame, answer))
    return made


def make_topic(server: ServerProcess, partitions: int = PARTITIONS) -> None:
    with WireClient(server.bootstrap) as client:
        topic = CreatableTopic(name=TOPIC, num_partitions=partitions, replication_factor=1)
        made = client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=60_000), CREATE_VERSION).topics[0]
        assert made.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS), made
