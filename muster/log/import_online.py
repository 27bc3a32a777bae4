"""Imports into a running cluster, Muster or Kafka: commits each group's offsets without membership.

All groups are described before the first commit: one with members refuses the whole import. The commit time is
the server's present time. Partitions that it refuses, as of topics it does not have, are reported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import groupby, islice
from typing import Final

from muster.cluster import Cluster, ClusterError
from muster.connection import Endpoint
from muster.groups.descriptions import LiveMembersError, require_no_members
from muster.groups.offsets import Committed, commit
from muster.log.import_offline import Imported
from muster.log.places import LogToolError
from muster.log.progress import Advance
from muster.log.rows import OffsetRow
from muster.usage import UsageError
from protocol.errors import ErrorCode
from protocol.topic_partition import TopicPartition

ROWS_PER_REQUEST: Final = 1000


def import_to(
    endpoint: Endpoint, groups: frozenset[str], rows: Iterable[OffsetRow], advance: Advance
) -> Imported:
    """Connect to the cluster and import `rows`, all of `groups`. Raises LogToolError."""

    async def run() -> Imported:
        async with endpoint.connected() as cluster:
            return await import_online(cluster, groups, rows, advance)

    try:
        return asyncio.run(run())
    except (ClusterError, UsageError) as error:
        raise LogToolError(str(error)) from error


async def import_online(
    cluster: Cluster, groups: frozenset[str], rows: Iterable[OffsetRow], advance: Advance
) -> Imported:
    """Commit `rows`, all of `groups`. Raises LiveMembersError before anything is committed, and ClusterError."""
    for group in sorted(groups):
        try:
            await require_no_members(cluster, group)
        except LiveMembersError as error:
            raise LiveMembersError(f"{error} (nothing was written)") from None
    done = Imported()
    for group, of_group in groupby(rows, key=lambda row: row.group):
        while some := list(islice(of_group, ROWS_PER_REQUEST)):
            await _commit(cluster, group, some, done)
            advance(len(some))
    return done


async def _commit(cluster: Cluster, group: str, rows: list[OffsetRow], done: Imported) -> None:
    offsets = {
        TopicPartition(row.topic, row.partition): Committed(row.offset, row.leader_epoch, row.metadata)
        for row in rows
    }
    for where, error in (await commit(cluster, group, offsets)).items():
        if error is ErrorCode.NONE:
            done.rows += 1
            done.groups.add(group)
        else:
            done.refused[f"{group} {where.topic}-{where.partition}"] = error.name
