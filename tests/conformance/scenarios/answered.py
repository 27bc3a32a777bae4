"""Whatever was answered is there after the broker's end (KAFKA.md 3.33, 3.44, 3.63, 3.64, O8, O15).

Each script keeps several lanes of requests going, and the broker ends while all of them are busy, right after an
answer. What was under way at that moment may be there or not, and is not looked at. Who answers before writing
loses something; that a disk has synced it is not shown here, since a page cache survives the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, Final

from coordinator.groups.partitioning import partition_for
from coordinator.topics.names import GROUP_METADATA_TOPIC
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.conformance.actors import TOPIC, Actor
from tests.conformance.producers import TIMEOUT_MS
from tests.conformance.registry import BOTH, scenario
from tests.conformance.restarts import Lane
from tests.conformance.run import Run
from tests.conformance.targets import CONFIGURATIONS

LANES: Final = 3
COMMITTED: Final = 5
OFFSETS_PARTITIONS: Final = int(CONFIGURATIONS["plain"]["offsets.topic.num.partitions"])
DYNAMIC: Final = 3  # The newest version of JoinGroup that gives an id without asking for it first.
STATIC: Final = 5

Answered = dict[str, Any]
"""By group, what was answered of it."""
Once = Callable[[str, str], Any]
"""Does one thing to a fresh group, by a client of that name; returns what is to be found, None if refused."""


class Client(Actor):
    """An actor whose requests stay out of the transcript: how many are answered differs from run to run."""

    async def ask(self, request: Any, version: int) -> Any:
        connection = await self.run.free_connection(self.name)
        return await connection.send(request, version)

    async def enter_alone(self, group_id: str, version: int) -> bool:
        """Join as the only member, and sync."""
        reply = await self.ask(self.join_request(version, group_id=group_id, member_id=""), version)
        if reply.error_code:
            return False
        self.member_id, self.generation_id = reply.member_id, reply.generation_id
        request = self.sync_request(3, {self.member_id: b"mine"}, group_id=group_id)
        return not (await self.ask(request, 3)).error_code


def lanes(run: Run, answered: Answered, once: Once) -> Iterator[Lane]:
    """LANES lanes that do the same thing to group after group, until the broker ends."""
    for number in range(LANES):
        yield _lane(run, answered, once, f"lane-{number}")


def _lane(run: Run, answered: Answered, once: Once, name: str) -> Lane:
    async def go(on_answer: Callable[[], None]) -> None:
        for turn in count():
            group_id = f"{run.group}/{name}/{turn}"
            try:
                found = await once(name, group_id)
            except ConnectionError:
                return  # The end.
            if found is None:
                return  # A broker that stops in order refuses before it hangs up.
            answered[group_id] = found
            on_answer()

    return go


async def check(run: Run, answered: Answered, found: Answered) -> None:
    """All that was answered has to be found."""
    lost = sorted(group_id for group_id, value in answered.items() if found.get(group_id) != value)
    run.saw("what was answered and is not there", lost)
    run.expect(
        bool(answered) and not lost, f"{len(lost)} of {len(answered)} that were answered are lost: {lost[:3]}"
    )


async def described(run: Run, answered: Answered) -> dict[str, DescribedGroup]:
    reply = await Client(run, "looker").ask(DescribeGroupsRequest(groups=list(answered)), 6)
    return {group.group_id: group for group in reply.groups}


async def offsets(run: Run, answered: Answered) -> dict[str, int]:
    """The stable offset of each group; -1 where there is none, or a transaction is open."""
    looker = Client(run, "looker")
    request = looker.fetch_request(9, [(TOPIC, 0)], *answered, require_stable=True)
    reply = await looker.ask(request, 9)
    return {group.group_id: group.topics[0].partitions[0].committed_offset for group in reply.groups}


@scenario("O8", "O1", on="restarted", restarts=BOTH)
async def every_commit_that_was_answered_is_there(run: Run) -> None:
    async def commit(name: str, group_id: str) -> int | None:
        client = Client(run, name)
        reply = await client.ask(client.commit_request(9, {(TOPIC, 0): COMMITTED}, group_id=group_id), 9)
        return None if reply.topics[0].partitions[0].error_code else COMMITTED

    answered: Answered = {}
    await run.ended_amid(*lanes(run, answered, commit))
    await check(run, answered, await offsets(run, answered))


@scenario("3.63", "3.64", on="restarted", restarts=BOTH)
async def every_group_whose_last_member_was_let_go_is_empty(run: Run) -> None:
    async def come_and_leave(name: str, group_id: str) -> str | None:
        client = Client(run, name)
        if not await client.enter_alone(group_id, DYNAMIC):
            return None
        reply = await client.ask(client.leave_request(0, group_id=group_id), 0)
        return None if reply.error_code else "Empty"

    answered: Answered = {}
    await run.ended_amid(*lanes(run, answered, come_and_leave))
    groups = await described(run, answered)
    await check(run, answered, {group_id: group.group_state for group_id, group in groups.items()})


@scenario("3.33", "3.64", on="restarted", restarts=BOTH)
async def every_static_member_that_was_given_an_id_is_known_by_it(run: Run) -> None:
    async def come_again(name: str, group_id: str) -> str | None:
        client = Client(run, name, instance_id="instance")
        if not await client.enter_alone(group_id, STATIC):
            return None
        request = client.join_request(STATIC, group_id=group_id, member_id="")
        reply = await client.ask(request, STATIC)
        return None if reply.error_code else str(reply.member_id)

    answered: Answered = {}
    await run.ended_amid(*lanes(run, answered, come_again))
    groups = await described(run, answered)
    await check(run, answered, {group_id: group.members[0].member_id for group_id, group in groups.items()})


@scenario("3.44", "3.64", on="restarted", restarts=BOTH)
async def every_assignment_that_a_follower_was_given_is_there(run: Run) -> None:
    async def follow(name: str, group_id: str) -> tuple[str, bytes] | None:
        leader, follower = Client(run, f"{name}-leader"), Client(run, f"{name}-follower")
        if not await leader.enter_alone(group_id, DYNAMIC):
            return None
        assignment = await _assigned(leader, follower, group_id)
        return None if assignment is None else (follower.member_id, assignment)

    answered: Answered = {}
    await run.ended_amid(*lanes(run, answered, follow))
    groups = await described(run, answered)
    found = {
        group_id: (member.member_id, member.member_assignment)
        for group_id, group in groups.items()
        for member in group.members
        if member.member_id == answered[group_id][0]
    }
    await check(run, answered, found)


async def _assigned(leader: Client, follower: Client, group_id: str) -> bytes | None:
    """Bring `follower` in beside `leader`, and return what it is assigned."""
    join = follower.join_request(DYNAMIC, group_id=group_id)
    followed, led = await asyncio.gather(follower.ask(join, DYNAMIC), _called_back(leader, group_id))
    if led.error_code or followed.error_code:
        return None
    follower.member_id = followed.member_id
    leader.generation_id = follower.generation_id = led.generation_id
    given = {follower.member_id: b"yours", leader.member_id: b"mine"}
    reply, own = await asyncio.gather(
        follower.ask(follower.sync_request(3, group_id=group_id), 3),
        leader.ask(leader.sync_request(3, given, group_id=group_id), 3),
    )
    return None if own.error_code or reply.error_code else bytes(reply.assignment)


async def _called_back(leader: Client, group_id: str) -> Any:
    """Join again as soon as a heartbeat says that another member has come."""
    beat = leader.heartbeat_request(3, group_id=group_id)
    while not (await leader.ask(beat, 3)).error_code:
        pass
    return await leader.ask(leader.join_request(DYNAMIC, group_id=group_id), DYNAMIC)


@scenario("3.74", "3.64", "O25", on="restarted", restarts=BOTH)
async def every_group_that_was_deleted_stays_deleted(run: Run) -> None:
    async def commit_and_delete(name: str, group_id: str) -> str | None:
        client = Client(run, name)
        await client.ask(client.commit_request(9, {(TOPIC, 0): COMMITTED}, group_id=group_id), 9)
        reply = await client.ask(DeleteGroupsRequest(groups_names=[group_id]), 2)
        return None if reply.results[0].error_code else "Dead"

    answered: Answered = {}
    await run.ended_amid(*lanes(run, answered, commit_and_delete))
    groups = await described(run, answered)
    await check(run, answered, {group_id: group.group_state for group_id, group in groups.items()})


@scenario("O15", "O14", on="restarted", restarts=BOTH)
async def every_marker_that_was_answered_is_there(run: Run) -> None:
    async def commit_and_mark(name: str, group_id: str) -> int | None:
        client = Client(run, name)
        made = await client.ask(
            InitProducerIdRequest(transactional_id=group_id, transaction_timeout_ms=TIMEOUT_MS), 4
        )
        own = {"producer_id": made.producer_id, "producer_epoch": made.producer_epoch}
        added = await client.ask(
            AddOffsetsToTxnRequest(transactional_id=group_id, group_id=group_id, **own), 3
        )
        held = await client.ask(_held_offset(group_id, **own), 4)
        marked = await client.ask(_marker(group_id, **own), 1)
        (topic,) = marked.markers[0].topics
        refused = (made.error_code, added.error_code, held.topics[0].partitions[0].error_code)
        return None if any(refused) or topic.partitions[0].error_code else COMMITTED

    answered: Answered = {}
    await run.ended_amid(*lanes(run, answered, commit_and_mark))
    await check(run, answered, await offsets(run, answered))


def _held_offset(group_id: str, *, producer_id: int, producer_epoch: int) -> TxnOffsetCommitRequest:
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=COMMITTED)
    return TxnOffsetCommitRequest(
        transactional_id=group_id,
        group_id=group_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
    )


def _marker(group_id: str, *, producer_id: int, producer_epoch: int) -> WriteTxnMarkersRequest:
    """The end of the group's offsets, written by hand in place of the transaction's coordinator."""
    partition = partition_for(group_id, OFFSETS_PARTITIONS)
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                transaction_result=True,
                topics=[WritableTxnMarkerTopic(name=GROUP_METADATA_TOPIC, partition_indexes=[partition])],
                coordinator_epoch=0,
            )
        ]
    )
