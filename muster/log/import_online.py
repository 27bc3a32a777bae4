"""Imports into a running cluster, Muster or Kafka: commits each group's offsets without membership.

All groups are described before the first commit: one with members refuses the whole import. The commit time is
the server's present time. Partitions that it refuses, as of topics it does not have, are reported.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from itertools import groupby, islice
from typing import Any, Final

from muster.cluster import TEMPORARY, Cluster, ClusterError, RefusedError, check, connected, retried
from muster.groups.descriptions import require_no_members
from muster.log.import_offline import Imported
from muster.log.places import LogToolError
from muster.log.progress import Advance
from muster.log.rows import OffsetRow
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

TOPICS_BY_NAME: Final = 9  # OffsetCommit names topics by id after that.
ROWS_PER_REQUEST: Final = 1000


def import_to(
    bootstrap: str, groups: frozenset[str], rows: Iterable[OffsetRow], advance: Advance
) -> Imported:
    """Connect to the cluster and import `rows`, all of `groups`. Raises LogToolError."""

    async def run() -> Imported:
        async with connected(bootstrap) as cluster:
            return await import_online(cluster, groups, rows, advance)

    try:
        return asyncio.run(run())
    except ClusterError as error:
        raise LogToolError(str(error)) from error


async def import_online(
    cluster: Cluster, groups: frozenset[str], rows: Iterable[OffsetRow], advance: Advance
) -> Imported:
    """Commit `rows`, all of `groups`. Raises LogToolError before anything is committed, and ClusterError."""
    for group in sorted(groups):
        try:
            await require_no_members(cluster, group)
        except RefusedError:  # It refused the request, and said nothing about the group.
            raise
        except ClusterError as error:
            raise LogToolError(f"{error} (nothing was written)") from error
    done = Imported()
    for group, of_group in groupby(rows, key=lambda row: row.group):
        while some := list(islice(of_group, ROWS_PER_REQUEST)):
            await _commit(cluster, group, some, done)
            advance(len(some))
    return done


async def _commit(cluster: Cluster, group: str, rows: list[OffsetRow], done: Imported) -> None:
    by_topic: dict[str, list[OffsetCommitRequestPartition]] = defaultdict(list)
    for row in rows:
        by_topic[row.topic].append(_partition(row))
    topics = [OffsetCommitRequestTopic(name=name, partitions=new) for name, new in by_topic.items()]
    request = OffsetCommitRequest(group_id=group, topics=topics)
    coordinator = await cluster.coordinator(group)

    async def ask() -> Any:
        answer = await cluster.send(coordinator, request, max_version=TOPICS_BY_NAME)
        for topic in answer.topics:
            for partition in topic.partitions:
                if partition.error_code in TEMPORARY:
                    check(f"committing offsets of group {group}", partition.error_code)
        return answer

    answer = await retried(ask)
    for topic in answer.topics:
        for partition in topic.partitions:
            if partition.error_code == ErrorCode.NONE:
                done.rows += 1
                done.groups.add(group)
            else:
                where = f"{group} {topic.name}-{partition.partition_index}"
                done.refused[where] = ErrorCode(partition.error_code).name


def _partition(row: OffsetRow) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        partition_index=row.partition,
        committed_offset=row.offset,
        committed_leader_epoch=-1 if row.leader_epoch is None else row.leader_epoch,
        committed_metadata=row.metadata,
    )
