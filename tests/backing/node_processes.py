"""Nodes as processes, with their logs on a running Kafka, and requests to the coordinators that they name."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coordinator.groups.partitioning import partition_for
from harness.daemon import MusterDaemon
from harness.processes import wait_until
from harness.wire import WireClient
from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

PARTITIONS = 8
PATIENCE_S = float(os.environ.get("MUSTER_PATIENCE_S", "60"))
FIRST_NODE_ID = 1_000_000
NOT_NOW = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
"""What a node answers that does not have the shard, or not yet: clients look for another."""
NO_OFFSETS_NOW = tuple(error for error in NOT_NOW if error is not ErrorCode.COORDINATOR_NOT_AVAILABLE)
"""Of these what it answers to OffsetFetch: clients take the third for fatal there (docs/kafka.md 2.1)."""


def node(
    folder: Path, kafka: str, topic: str, node_id: int, overrides: Mapping[str, str] | None = None
) -> MusterDaemon:
    """A node of the log on `topic` of the Kafka at `kafka`, to be started."""
    given = {
        "muster.backing.bootstrap.servers": kafka,
        "muster.offsets.topic": topic,
        "node.id": str(node_id),
        "offsets.topic.num.partitions": str(PARTITIONS),
        "group.initial.rebalance.delay.ms": "0",
        **(overrides or {}),
    }
    return MusterDaemon(folder / f"node-{node_id}", given)


def ended(prepared: MusterDaemon) -> subprocess.CompletedProcess[str]:
    """A node that does not start, once it has ended."""
    return subprocess.run(
        prepared._command(),
        env={**os.environ, **prepared._environment()},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def groups_of_all_shards() -> list[str]:
    """A group id for each shard, in their order."""
    found: dict[int, str] = {}
    number = 0
    while len(found) < PARTITIONS:
        group = f"group-{number}"
        found.setdefault(partition_for(group, PARTITIONS), group)
        number += 1
    return [found[partition] for partition in range(PARTITIONS)]


def coordinator_of(bootstrap: str, group: str) -> Coordinator:
    """Whom a node names, or why nobody."""
    with WireClient(bootstrap) as client:
        answer = client.ask(FindCoordinatorRequest(coordinator_keys=[group]), 4)
    (found,) = answer.coordinators
    assert isinstance(found, Coordinator)
    return found


def owners(bootstrap: str) -> list[int]:
    """The node ids that a node names for each shard; -1 where it names none."""
    return [coordinator_of(bootstrap, group).node_id for group in groups_of_all_shards()]


def wait_for_owners(nodes: list[MusterDaemon], node_ids: set[int]) -> None:
    """Wait until all these nodes name the same owners, who are these, and these serve.

    Who takes a shard from a node that stood still is named at once, and serves when that one's lease is over.
    """

    def agree() -> bool:
        named = [owners(each.bootstrap) for each in nodes]
        return all(each == named[0] for each in named) and set(named[0]) == node_ids

    wait_until(agree, f"all shards are owned by {sorted(node_ids)}", PATIENCE_S)
    for group in groups_of_all_shards():
        fetch_at_its_coordinator(nodes, group)


def fetch_request(*groups: str) -> OffsetFetchRequest:
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=each, topics=None) for each in groups])


def commit_request(group: str, offset: int, topic: str = "orders") -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    return OffsetCommitRequest(
        group_id=group, topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])]
    )


def commit_at_its_coordinator(nodes: list[MusterDaemon], group: str, offset: int) -> None:
    """Commit at the node that these name, once it serves."""

    def outcome() -> list[int]:
        answer = ask_coordinator(nodes, group, commit_request(group, offset), 8)
        return _unless_not_now(answer.topics[0].partitions[0].error_code)

    assert wait_until(outcome, f"{group} is served", PATIENCE_S) == [ErrorCode.NONE]


def fetch_at_its_coordinator(nodes: list[MusterDaemon], group: str) -> dict[int, int]:
    """The offsets of a group by partition, from the node that these name, once it serves."""
    found: dict[int, int] = {}

    def outcome() -> list[int]:
        (answer,) = ask_coordinator(nodes, group, fetch_request(group), 8).groups
        found.update(_offsets(answer))
        return _unless_not_now(answer.error_code)

    assert wait_until(outcome, f"{group} is served", PATIENCE_S) == [ErrorCode.NONE]
    return found


def _unless_not_now(error_code: int) -> list[int]:
    return [] if error_code in NOT_NOW else [error_code]


def _offsets(answer: Any) -> dict[int, int]:
    return {
        each.partition_index: each.committed_offset for topic in answer.topics for each in topic.partitions
    }


def commit(client: WireClient, group: str, offset: int) -> ErrorCode:
    """Commit as a simple consumer."""
    answer = client.ask(commit_request(group, offset), 8)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


def fetched(client: WireClient, group: str) -> tuple[ErrorCode, dict[int, int]]:
    """The offsets of a group, by partition of its one topic."""
    (answer,) = client.ask(fetch_request(group), 8).groups
    return ErrorCode(answer.error_code), _offsets(answer)


def ask_coordinator(nodes: list[MusterDaemon], group: str, request: Any, version: int) -> Any:
    """The answer of the coordinator that one of the nodes names, once one does and can be reached."""

    def answered() -> Any:
        for each in nodes:
            try:
                found = coordinator_of(each.bootstrap, group)
                if found.error_code == ErrorCode.NONE:
                    with WireClient(f"{found.host}:{found.port}") as client:
                        return client.ask(request, version)
            except OSError:
                continue  # It is gone: another is asked.
        return None

    return wait_until(answered, f"a coordinator of {group}", PATIENCE_S)
