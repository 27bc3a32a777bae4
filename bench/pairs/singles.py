"""Members that are alone in their groups, each on a lane of its own, and the topic that they commit to."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from typing import Final

from bench.pairs import frames
from bench.pairs.crowd import ANSWER_HEADER_BYTES, joined
from bench.pairs.frames import COMMIT, CONSUMER_HEARTBEAT, FETCH, HEARTBEAT, Joined
from bench.pairs.lanes import Lane, LoadError, ask
from harness.processes import ServerProcess
from harness.wire import WireClient
from protocol.codec.codec import decode
from protocol.errors import ErrorCode
from protocol.messages import RESPONSES
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest

TOPIC: Final = "bench"
PARTITIONS: Final = 1_000
CREATE_VERSION: Final = 5
OFFSET: Final = 1_234_567_890_123
"""Where every commit begins: a number whose eight bytes are nowhere else in a frame."""


def commit_of(partitions: int) -> Callable[[Joined], bytes]:
    """Makes a member's commit of the topic's first partitions."""

    def commit(member: Joined) -> bytes:
        return frames.commit(member, TOPIC, range(partitions), OFFSET)

    return commit


def fill(members: Iterable[tuple[socket.socket, Joined]]) -> None:
    """Have each of these members commit `PARTITIONS` offsets, over its connection."""
    commit = commit_of(PARTITIONS)
    for connection, member in members:
        if any(errors_in(COMMIT, ask(connection, commit(member)))):
            raise LoadError(f"a commit of {member.group_id} was refused")


def errors_in(api: tuple[int, int], answer: bytes) -> list[int]:
    response = decode(RESPONSES[api[0]], api[1], answer, ANSWER_HEADER_BYTES)
    if api in (HEARTBEAT, CONSUMER_HEARTBEAT):
        return [response.error_code]
    if api == FETCH:
        return [group.error_code for group in response.groups]
    return [partition.error_code for topic in response.topics for partition in topic.partitions]


def lanes_of(
    server: ServerProcess, prefix: str, count: int, frame_of: Callable[[Joined], bytes], api: tuple[int, int]
) -> list[Lane]:
    """`count` connections, each the only member of a group, its answer learned and found good."""
    alone = joined(server.port, [f"{prefix}-{index:05d}" for index in range(count)], 1)
    return learned(server, alone, frame_of, api)


def learned(
    server: ServerProcess,
    members: Iterable[tuple[socket.socket, Joined]],
    frame_of: Callable[[Joined], bytes],
    api: tuple[int, int],
) -> list[Lane]:
    """A lane for each member, on its connection; the answer to its frame is learned and found good."""
    made = []
    for connection, member in members:
        frame = frame_of(member)
        answer = ask(connection, frame)
        if any(errors_in(api, answer)):
            raise LoadError(f"{server}: {frame_of.__name__} was refused: {answer.hex(' ')}")
        made.append(Lane(connection, frame, answer))
    return made


def make_topic(server: ServerProcess, partitions: int = PARTITIONS, name: str = TOPIC) -> None:
    with WireClient(server.bootstrap) as client:
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        made = client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=60_000), CREATE_VERSION).topics[0]
        assert made.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS), made
