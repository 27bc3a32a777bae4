"""Commits of a thousand partitions against a daemon: answered, fetched, and there after a kill."""

from __future__ import annotations

from pathlib import Path

from harness.daemon import MusterDaemon
from harness.processes import wait_until
from harness.wire import WireClient
from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
)

PARTITIONS = 1_000
TOPIC, GROUP = "large", "g"
LOADED_S = 30.0


def commit(start: int, step: int = 1) -> OffsetCommitRequest:
    rows = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=start + index)
        for index in range(0, PARTITIONS, step)
    ]
    return OffsetCommitRequest(group_id=GROUP, topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=rows)])


def fetched(client: WireClient) -> dict[int, int]:
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=None)])
    answers: list[OffsetFetchResponseGroup] = []

    def is_loaded() -> bool:
        answers[:] = client.ask(request, 8).groups
        return answers[0].error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    wait_until(is_loaded, "the shard is loaded", LOADED_S)
    (group,) = answers
    assert group.error_code == 0
    (topic,) = group.topics
    return {each.partition_index: each.committed_offset for each in topic.partitions}


def test_a_thousand_partitions_in_one_commit_survive_a_kill(tmp_path: Path) -> None:
    expected = {index: 1 + index for index in range(PARTITIONS)}
    expected |= {index: 5_000 + index for index in range(0, PARTITIONS, 3)}
    with MusterDaemon(tmp_path) as daemon:
        with WireClient(daemon.bootstrap) as client:
            topic = CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)
            assert client.ask(CreateTopicsRequest(topics=[topic]), 5).topics[0].error_code == 0
            for request in (commit(0), commit(1), commit(5_000, step=3)):
                answer = client.ask(request, 8)
                assert [each.error_code for each in answer.topics[0].partitions] == [0] * len(
                    request.topics[0].partitions
                )
            assert fetched(client) == expected
        daemon.kill()
        daemon.start()
        with WireClient(daemon.bootstrap) as client:
            assert fetched(client) == expected
