"""A group that is being loaded (docs/kafka.md 3.69): its log is large, and the broker is asked once it accepts.

Every API is asked at once, between two reads of offsets that both say that the group is loading.
"""

from __future__ import annotations

import asyncio
import time
from itertools import count
from typing import Any, Final

from coordinator.groups.partitioning import partition_for
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.conformance.actors import TOPIC, Actor
from tests.conformance.registry import Ending, scenario
from tests.conformance.run import POLL_S, Run
from tests.conformance.scenes import cast, stable
from tests.conformance.targets import CONFIGURATIONS

RECORDS: Final = 2_500_000
"""A second and a half of loading on an idle machine: a busy one has to ask twelve questions meanwhile."""
RECORDS_OF_A_COMMIT: Final = 5_000
LOADING: Final = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
SEEN_WITHIN_S: Final = 60.0


async def fill_the_log(run: Run) -> None:
    """Make the partition of the run's group large, by commits of another group that lies there."""
    partitions = int(CONFIGURATIONS["plain"]["offsets.topic.num.partitions"])
    own = partition_for(run.group, partitions)
    names = (f"{run.group}/{number}" for number in count())
    neighbour = next(name for name in names if partition_for(name, partitions) == own)
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=0)
    topic = OffsetCommitRequestTopic(name=TOPIC, partitions=[part] * RECORDS_OF_A_COMMIT)
    connection = await run.free_connection("filler")
    for _ in range(RECORDS // RECORDS_OF_A_COMMIT):
        reply = await connection.send(OffsetCommitRequest(group_id=neighbour, topics=[topic]), 9)
        assert not any(each.error_code for each in reply.topics[0].partitions)


async def error_of_a_fetch(run: Run, actor: Actor) -> int:
    connection = await run.free_connection("looker")
    reply = await connection.send(actor.fetch_request(9, [(TOPIC, 0)]), 9)
    return int(reply.groups[0].error_code)


async def until_loading(run: Run, actor: Actor) -> None:
    """A broker that has only just begun to accept may not know yet that it coordinates anything (16)."""
    deadline = time.monotonic() + SEEN_WITHIN_S
    while (error := await error_of_a_fetch(run, actor)) != LOADING:
        assert error, "the group was loaded before its loading was seen"
        assert time.monotonic() < deadline, f"still {error}"
        await asyncio.sleep(POLL_S)


def requests(run: Run, alice: Actor) -> list[tuple[Any, int]]:
    """One of each API of groups, as alice would send it."""
    deleted = OffsetDeleteRequestTopic(
        name=TOPIC, partitions=[OffsetDeleteRequestPartition(partition_index=0)]
    )
    return [
        (alice.heartbeat_request(4), 4),
        (alice.join_request(9), 9),
        (alice.sync_request(5), 5),
        (alice.leave_request(5), 5),
        (alice.commit_request(9, {(TOPIC, 0): 43}), 9),
        (alice.fetch_request(7, [(TOPIC, 0)]), 7),
        (DescribeGroupsRequest(groups=[run.group]), 6),
        (ListGroupsRequest(), 5),
        (DeleteGroupsRequest(groups_names=[run.group]), 2),
        (OffsetDeleteRequest(group_id=run.group, topics=[deleted]), 0),
        (ConsumerGroupHeartbeatRequest(group_id=run.group, member_id="m", member_epoch=1), 1),
        (ConsumerGroupDescribeRequest(group_ids=[run.group]), 1),
    ]


@scenario("3.69", "2.1 loading", on="restarted", restarts=(Ending.KILL,))
async def while_its_group_is_loaded_a_member_is_put_off(run: Run) -> None:
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice, bob)
    await alice.commit()
    await fill_the_log(run)
    await run.restarted_just_now()
    await until_loading(run, alice)
    asked = [
        await run.send(f"asker {type(request).__name__.removesuffix('Request')}", request, version)
        for request, version in requests(run, alice)
    ]
    await asyncio.wait([each.reply for each in asked], timeout=SEEN_WITHIN_S)
    run.expect(await error_of_a_fetch(run, alice) == LOADING, "loading goes on while all are answered")
    for each in asked:
        await run.answer(each)
    await run.until("Stable", 2, timeout_s=SEEN_WITHIN_S)
    for member in (alice, bob):
        await member.heartbeat(note="loaded")
