"""Whatever was answered is there after the broker's end (docs/kafka.md 3.33, 3.44, 3.63, 3.64, O8, O15).

Each script keeps several lanes of requests going, and the broker ends while all of them are busy, right after an
answer. What was under way at that moment may be there or not, and is not looked at. Who answers before writing
loses something; that a disk has synced it is not shown here, since a page cache survives the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from itertools import count
from typing import Any, Final, TypeAlias

from coordinator.groups.partitioning import partition_for
from coordinator.topics.names import GROUP_METADATA_TOPIC
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
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
from tests.conformance.restarts import ANSWERS_BEFORE_THE_END, Lane
from tests.conformance.run import Run
from tests.conformance.targets import CONFIGURATIONS

LANES: Final = 4
GROUPS_OF_A_LANE: Final = 32
"""All requests but the last are sent before the end begins, so that nothing but that one is under way then."""
RECORDS_OF_A_LARGE_COMMIT: Final = 2_000
COMMITTED: Final = 5
OFFSETS_PARTITIONS: Final = int(CONFIGURATIONS["plain"]["offsets.topic.num.partitions"])
DYNAMIC: Final = 3  # The newest version of JoinGroup that gives an id without asking for it first.
STATIC: Final = 5

Answered = dict[str, Any]
"""What has to be found of each group."""
Finish = Callable[[], Awaitable[Any]]
"""Sends the last request about a group; what is to be found later, or None if the broker refuses."""
Prepare = Callable[[str, str], Awaitable[Finish]]
"""Sends all requests before the last, for a group, by a client of that name; returns what sends the last."""
Find: TypeAlias = "Callable[[Client, Answered], Awaitable[Answered]]"
"""Looks up what there is of these groups after the restart."""


class Client(Actor):
    """An actor whose requests stay out of the transcript: how many are answered differs from run to run."""

    async def ask(self, request: Any, version: int) -> Any:
        connection = await self.run.free_connection(self.name)
        return await connection.send(request, version)

    def last(self, request: Any, version: int, error_of: Callable[[Any], int], found: Any) -> Finish:
        """Send the group's last request; `found` has to be there once it is answered without an error."""

        async def finish() -> Any:
            return None if error_of(await self.ask(request, version)) else found

        return finish

    async def enter_alone(self, group_id: str, version: int) -> None:
        """Join as the only member, and sync."""
        reply = await self.ask(self.join_request(version, group_id=group_id, member_id=""), version)
        self.member_id, self.generation_id = reply.member_id, reply.generation_id
        request = self.sync_request(3, {self.member_id: b"mine"}, group_id=group_id)
        synced = await self.ask(request, 3)
        assert (reply.error_code, synced.error_code) == (0, 0)


async def keeps(run: Run, prepare: Prepare, find: Find, *others: Lane) -> None:
    """End the broker while the last requests of many groups, and `others`, are under way.

    All that was answered has to be found.
    """
    answered: Answered = {}
    names = [f"lane-{number}" for number in range(LANES)]
    prepared = await asyncio.gather(*[_prepared(run, prepare, name) for name in names])
    await run.ended_amid(*[_lane(each, answered) for each in prepared], *others)
    found = await find(Client(run, "looker"), answered)
    lost = sorted(group_id for group_id, value in answered.items() if found.get(group_id) != value)
    run.saw("what was answered and is not there", lost)
    run.expect(bool(answered) and not lost, f"{len(lost)} of {len(answered)} answered are lost: {lost[:3]}")


def busy_disk(run: Run) -> Iterator[Lane]:
    """A lane of large commits for each partition: what is answered meanwhile has to wait for their write."""
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=COMMITTED)
    topic = OffsetCommitRequestTopic(name=TOPIC, partitions=[part] * RECORDS_OF_A_LARGE_COMMIT)
    names = (f"{run.group}/large/{number}" for number in count())
    for partition in range(OFFSETS_PARTITIONS):
        group_id = next(name for name in names if partition_for(name, OFFSETS_PARTITIONS) == partition)
        yield _large_commits(
            Client(run, f"large-{partition}"), OffsetCommitRequest(group_id=group_id, topics=[topic])
        )


def _large_commits(client: Client, request: OffsetCommitRequest) -> Lane:
    async def go(on_answer: Callable[[], None]) -> None:
        with suppress(ConnectionError):
            while not (await client.ask(request, 9)).topics[0].partitions[0].error_code:
                for _ in range(ANSWERS_BEFORE_THE_END):  # One answer is enough to be busy with.
                    on_answer()

    return go


async def _prepared(run: Run, prepare: Prepare, name: str) -> dict[str, Finish]:
    group_ids = [f"{run.group}/{name}/{number}" for number in range(GROUPS_OF_A_LANE)]
    return {group_id: await prepare(name, group_id) for group_id in group_ids}


def _lane(prepared: dict[str, Finish], answered: Answered) -> Lane:
    async def go(on_answer: Callable[[], None]) -> None:
        for group_id, finish in prepared.items():
            try:
                found = await finish()
            except ConnectionError:
                return  # The end.
            if found is None:
                return  # A broker that stops in order refuses before it hangs up.
            answered[group_id] = found
            on_answer()

    return go


async def described(looker: Client, answered: Answered) -> list[DescribedGroup]:
    return list((await looker.ask(DescribeGroupsRequest(groups=list(answered)), 6)).groups)


async def states(looker: Client, answered: Answered) -> Answered:
    return {group.group_id: group.group_state for group in await described(looker, answered)}


async def member_ids(looker: Client, answered: Answered) -> Answered:
    return {group.group_id: group.members[0].member_id for group in await described(looker, answered)}


async def followers(looker: Client, answered: Answered) -> Answered:
    """The id and the assignment of the member that was answered."""
    return {
        group.group_id: (member.member_id, member.member_assignment)
        for group in await described(looker, answered)
        for member in group.members
        if member.member_id == answered[group.group_id][0]
    }


async def offsets(looker: Client, answered: Answered) -> Answered:
    """The stable offset of each group; -1 where there is none, or a transaction is open."""
    request = looker.fetch_request(9, [(TOPIC, 0)], *answered, require_stable=True)
    reply = await looker.ask(request, 9)
    return {group.group_id: group.topics[0].partitions[0].committed_offset for group in reply.groups}


@scenario("O8", "O1", on="restarted", restarts=BOTH)
async def every_commit_that_was_answered_is_there(run: Run) -> None:
    async def prepare(name: str, group_id: str) -> Finish:
        client = Client(run, name)
        request = client.commit_request(9, {(TOPIC, 0): COMMITTED}, group_id=group_id)
        return client.last(request, 9, lambda reply: reply.topics[0].partitions[0].error_code, COMMITTED)

    await keeps(run, prepare, offsets, *busy_disk(run))


@scenario("3.63", "3.64", on="restarted", restarts=BOTH)
async def every_group_whose_last_member_was_let_go_is_empty(run: Run) -> None:
    async def prepare(name: str, group_id: str) -> Finish:
        client = Client(run, name)
        await client.enter_alone(group_id, DYNAMIC)
        request = client.leave_request(0, group_id=group_id)
        return client.last(request, 0, lambda reply: reply.error_code, "Empty")

    await keeps(run, prepare, states)


@scenario("3.33", "3.64", on="restarted", restarts=BOTH)
async def every_static_member_that_was_given_an_id_is_known_by_it(run: Run) -> None:
    async def prepare(name: str, group_id: str) -> Finish:
        client = Client(run, name, instance_id="instance")
        await client.enter_alone(group_id, STATIC)

        async def come_again() -> str | None:
            request = client.join_request(STATIC, group_id=group_id, member_id="")
            reply = await client.ask(request, STATIC)
            return None if reply.error_code else str(reply.member_id)

        return come_again

    await keeps(run, prepare, member_ids)


@scenario("3.44", "3.64", on="restarted", restarts=BOTH)
async def every_assignment_that_a_follower_was_given_is_there(run: Run) -> None:
    async def prepare(name: str, group_id: str) -> Finish:
        leader, follower = Client(run, f"{name}-leader"), Client(run, f"{name}-follower")
        await leader.enter_alone(group_id, DYNAMIC)
        await _join_beside(leader, follower, group_id)
        given = {follower.member_id: b"yours", leader.member_id: b"mine"}

        async def sync() -> tuple[str, bytes] | None:
            reply, own = await asyncio.gather(
                follower.ask(follower.sync_request(3, group_id=group_id), 3),
                leader.ask(leader.sync_request(3, given, group_id=group_id), 3),
            )
            is_refused = reply.error_code or own.error_code
            return None if is_refused else (follower.member_id, bytes(reply.assignment))

        return sync

    await keeps(run, prepare, followers)


async def _join_beside(leader: Client, follower: Client, group_id: str) -> None:
    """Bring `follower` into a generation with `leader` that is not synced yet."""
    join = follower.join_request(DYNAMIC, group_id=group_id)
    followed, led = await asyncio.gather(follower.ask(join, DYNAMIC), _called_back(leader, group_id))
    assert followed.generation_id == led.generation_id, (followed, led)
    follower.member_id = followed.member_id
    leader.generation_id = follower.generation_id = led.generation_id


async def _called_back(leader: Client, group_id: str) -> Any:
    """Join again as soon as a heartbeat says that another member has come."""
    beat = leader.heartbeat_request(3, group_id=group_id)
    while not (await leader.ask(beat, 3)).error_code:
        pass
    return await leader.ask(leader.join_request(DYNAMIC, group_id=group_id), DYNAMIC)


@scenario("3.74", "3.64", "O25", on="restarted", restarts=BOTH)
async def every_group_that_was_deleted_stays_deleted(run: Run) -> None:
    async def prepare(name: str, group_id: str) -> Finish:
        client = Client(run, name)
        await client.ask(client.commit_request(9, {(TOPIC, 0): COMMITTED}, group_id=group_id), 9)
        request = DeleteGroupsRequest(groups_names=[group_id])
        return client.last(request, 2, lambda reply: reply.results[0].error_code, "Dead")

    await keeps(run, prepare, states)


@scenario("O15", "O14", on="restarted", restarts=BOTH)
async def every_marker_that_was_answered_is_there(run: Run) -> None:
    async def prepare(name: str, group_id: str) -> Finish:
        client = Client(run, name)
        begin = InitProducerIdRequest(transactional_id=group_id, transaction_timeout_ms=TIMEOUT_MS)
        made = await client.ask(begin, 4)
        own = {"producer_id": made.producer_id, "producer_epoch": made.producer_epoch}
        add = AddOffsetsToTxnRequest(transactional_id=group_id, group_id=group_id, **own)
        added = await client.ask(add, 3)
        held = await client.ask(_held_offset(group_id, **own), 4)
        errors = (made.error_code, added.error_code, held.topics[0].partitions[0].error_code)
        assert errors == (0, 0, 0)
        request = _marker(group_id, **own)
        return client.last(
            request, 1, lambda reply: reply.markers[0].topics[0].partitions[0].error_code, COMMITTED
        )

    await keeps(run, prepare, offsets)


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
