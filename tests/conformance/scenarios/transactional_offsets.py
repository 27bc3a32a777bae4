"""TxnOffsetCommit, and what open transactions do to a group's offsets (docs/kafka.md 2.3, O2, O13 to O16, O20)."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from coordinator.groups.partitioning import partition_for
from coordinator.topics.names import GROUP_METADATA_TOPIC
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
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
from tests.conformance.actors import OTHER_TOPIC, PARTITIONS, TOPIC, Actor, Offsets
from tests.conformance.producers import BUMPING_SINCE, OLD_EPOCH, UNMAPPED, VERIFIED, WRONG_STATE, Producer
from tests.conformance.registry import scenario
from tests.conformance.run import POLL_S, Run
from tests.conformance.scenes import STATES, cast, scene
from tests.conformance.targets import CONFIGURATIONS
from tests.fields import with_fields

TXN_COMMIT: Final = range(6)
WITH_MEMBERS: Final = range(3, 6)
STABLE_FETCH: Final = range(7, 11)
MARKERS: Final = range(1, 3)
EXPIRING_COMMIT: Final = range(2, 5)
ENDS: Final = ("commit", "abort")
ABORTABLE: Final = ErrorCode.TRANSACTION_ABORTABLE
MISSING: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
OLD: Final = ErrorCode.ILLEGAL_GENERATION
UNKNOWN: Final = ErrorCode.UNKNOWN_MEMBER_ID
FENCED_INSTANCE: Final = ErrorCode.FENCED_INSTANCE_ID
BOTH: Final = ((TOPIC, 0), (OTHER_TOPIC, 1))
SWEPT_WITHIN_S: Final = 20.0


class Committer(Producer):
    """A producer that commits a group's offsets within its transactions."""

    async def ready(self, version: int) -> None:
        """Begin as clients of TxnOffsetCommit `version` do; from v5 on the broker adds what is committed to."""
        await self.init()
        await self.join_transaction(version)

    async def join_transaction(self, version: int) -> None:
        if version < BUMPING_SINCE:
            await self.add_offsets(3)

    async def commit(
        self,
        version: int,
        offsets: Offsets | None = None,
        errors: list[int] | int | None = 0,
        note: str = "",
        metadata: str | None = "",
        **changed: Any,
    ) -> None:
        """Commit; `errors` are expected of the partitions in the answer's order, one number of each of them."""
        topics: dict[str, TxnOffsetCommitRequestTopic] = {}
        for (topic, index), offset in ({(TOPIC, 0): 42} if offsets is None else offsets).items():
            committed = TxnOffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset, committed_metadata=metadata
            )
            entry = topics.setdefault(topic, TxnOffsetCommitRequestTopic(name=topic, partitions=[]))
            entry.partitions.append(committed)
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=self.run.group,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            topics=list(topics.values()),
        )
        reply = await self._ask(with_fields(request, **changed), version, note, None)
        got = [each.error_code for topic in reply.topics for each in topic.partitions]
        right = [errors] * len(got) if isinstance(errors, int) else errors
        self.run.expect(
            errors is None or got == right, f"TxnOffsetCommit v{version} ({note}): {got}, not {right}"
        )

    async def finish(self, version: int, outcome: str = "commit") -> None:
        """End the transaction, and wait for the markers."""
        await self.end(outcome == "commit", 5 if version >= BUMPING_SINCE else 4)
        await self.described("CompleteCommit" if outcome == "commit" else "CompleteAbort")


def reader(run: Run) -> Actor:
    (alice,) = cast(run, "alice")
    return alice


# What counts, and from when on.


@scenario("O14", "2.3 TxnOffsetCommit: committed, aborted", versions=TXN_COMMIT, choices=ENDS)
async def offsets_count_when_their_transaction_ends(run: Run, version: int, outcome: str) -> None:
    alice, producer = reader(run), Committer(run)
    await alice.commit(9, {(TOPIC, 0): 1})
    await producer.ready(version)
    await producer.commit(version, {(TOPIC, 0): 5, (OTHER_TOPIC, 1): 6}, metadata="note")
    await alice.fetch(9, BOTH, note="meanwhile")
    await producer.commit(version, {(TOPIC, 0): 7}, note="again")
    await run.describe("Empty")
    await producer.finish(version, outcome)
    await alice.fetch(9, BOTH, require_stable=True, note="afterwards")
    await alice.fetch(9, None, note="all")
    await producer.join_transaction(version)
    await producer.commit(version, {(TOPIC, 2): 8}, note="the next transaction")
    await producer.finish(version)
    await alice.fetch(9, None, require_stable=True, note="all")


@scenario("O2", "O14", versions=TXN_COMMIT, choices=("first", "second"))
async def two_producers_hold_one_partition(run: Run, version: int, first_to_end: str) -> None:
    alice = reader(run)
    one, two = Committer(run, "one"), Committer(run, "two")
    for producer, offset in ((one, 5), (two, 6)):
        await producer.ready(version)
        await producer.commit(version, {(TOPIC, 0): offset, (TOPIC, offset - 4): offset})
    for producer in (one, two) if first_to_end == "first" else (two, one):
        await producer.finish(version)
        await alice.fetch(9, [(TOPIC, index) for index in range(PARTITIONS)], require_stable=True)
        await alice.fetch(9, [(TOPIC, index) for index in range(PARTITIONS)])


@scenario("O2", versions=TXN_COMMIT)
async def a_commit_behind_it_outdoes_a_transaction(run: Run, version: int) -> None:
    alice, producer = reader(run), Committer(run)
    await producer.ready(version)
    await producer.commit(version, {(TOPIC, 0): 5})
    await alice.commit(9, {(TOPIC, 0): 6})
    await producer.finish(version)
    await alice.fetch(9)


@scenario("O13", "2.3 OffsetFetch: open transaction", versions=STABLE_FETCH)
async def stable_readers_are_answered_unstable_offset_commit(run: Run, version: int) -> None:
    alice, producer = reader(run), Committer(run)
    await alice.commit(9, {(TOPIC, 0): 1, (TOPIC, 1): 2})
    await producer.ready(5)
    await producer.commit(5, {(TOPIC, 0): 5, (OTHER_TOPIC, 1): 6})
    for wanted in (BOTH, ((TOPIC, 1),), None):
        await alice.fetch(version, wanted, require_stable=True, note="stable")
        await alice.fetch(version, wanted, note="as it is")
    await producer.finish(5, "abort")
    await alice.fetch(version, None, require_stable=True)


# Markers and tombstones.


def marker(producer: Committer, partition: int, version: int, **changed: Any) -> WriteTxnMarkersRequest:
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        transaction_result=True,
        topics=[WritableTxnMarkerTopic(name=GROUP_METADATA_TOPIC, partition_indexes=[partition])],
        coordinator_epoch=7,
    )
    return WriteTxnMarkersRequest(markers=[with_fields(marker, **changed)])


@scenario("O14", "2.3 WriteTxnMarkers: of offsets", versions=MARKERS, choices=ENDS)
async def a_marker_by_hand(run: Run, version: int, outcome: str) -> None:
    alice, producer = reader(run), Committer(run)
    count = int(CONFIGURATIONS["plain"]["offsets.topic.num.partitions"])
    partition = partition_for(run.group, count)

    async def write(note: str, **changed: Any) -> None:
        request = marker(producer, partition, version, **changed)
        await run.answer(await run.send("coordinator", request, version, note))

    await producer.init(note="once")
    await producer.ready(4)
    await producer.commit(4, {(TOPIC, 0): 5})
    await write("an older epoch", producer_epoch=0)
    await alice.fetch(require_stable=True)
    await write(outcome, transaction_result=outcome == "commit")
    await alice.fetch(require_stable=True)
    await write("again")
    await write("again, transactions v2", transaction_version=version)
    await producer.commit(4, {(TOPIC, 0): 6}, None, "its coordinator has seen no end")
    await write("not bumped, transactions v2", transaction_version=version)
    await alice.fetch(require_stable=True)
    await write("bumped, transactions v2", transaction_version=version, producer_epoch=2)
    await alice.fetch(require_stable=True)
    await write("by an older coordinator", coordinator_epoch=6)
    await write("of an unknown producer", producer_id=10**13, transaction_result=False)
    await write(
        "a partition that is not there",
        topics=[WritableTxnMarkerTopic(name=GROUP_METADATA_TOPIC, partition_indexes=[99])],
    )
    await alice.fetch(require_stable=True)


async def delete_offset(run: Run) -> None:
    partitions = [OffsetDeleteRequestPartition(partition_index=index) for index in range(PARTITIONS)]
    topic = OffsetDeleteRequestTopic(name=TOPIC, partitions=partitions)
    await run.answer(await run.send("admin", OffsetDeleteRequest(group_id=run.group, topics=[topic]), 0))


async def delete_group(run: Run) -> None:
    await run.answer(await run.send("admin", DeleteGroupsRequest(groups_names=[run.group]), 2))


DELETIONS: Final = {"offset": delete_offset, "group": delete_group}


@scenario("O16", "O24", "O25", choices=DELETIONS)
async def a_deletion_takes_along_what_is_held(run: Run, what: str) -> None:
    alice, producer = reader(run), Committer(run)
    await alice.commit(9, {(TOPIC, 0): 1})
    await producer.ready(4)
    await producer.commit(4, {(TOPIC, 0): 5, (TOPIC, 1): 6})
    await DELETIONS[what](run)
    await alice.fetch(9, [(TOPIC, 0), (TOPIC, 1)], require_stable=True)
    await run.describe()
    await producer.commit(4, {(TOPIC, 1): 7}, note="behind the tombstone")
    await producer.finish(4)
    await alice.fetch(9, None, require_stable=True)


async def until_gone(run: Run, alice: Actor, *wanted: tuple[str, int]) -> None:
    """Wait for the sweep to have taken these offsets."""
    deadline = time.monotonic() + SWEPT_WITHIN_S
    while time.monotonic() < deadline:
        connection = await run.free_connection("observer")
        reply = await connection.send(alice.fetch_request(9, wanted), 9)
        if all(p.committed_offset == -1 for topic in reply.groups[0].topics for p in topic.partitions):
            return
        await asyncio.sleep(POLL_S)
    run.expect(False, f"{wanted} should have expired")


@scenario("O20", versions=EXPIRING_COMMIT, choices=ENDS, on="small")
async def nothing_expires_under_an_open_transaction(run: Run, version: int, outcome: str) -> None:
    alice, producer = reader(run), Committer(run)
    await producer.ready(4)
    await producer.commit(4, {(TOPIC, 0): 5})
    await alice.commit(version, {(TOPIC, 0): 1, (TOPIC, 1): 2}, retention_time_ms=1)
    await until_gone(run, alice, (TOPIC, 1))
    await alice.fetch(9, [(TOPIC, 0), (TOPIC, 1)])
    await run.describe("Empty")
    await producer.finish(4, outcome)
    await until_gone(run, alice, (TOPIC, 0))
    await run.until("Dead")


@scenario("O20", on="small")
async def a_group_with_but_an_open_transaction_stays(run: Run) -> None:
    alice, producer, clock = reader(run), Committer(run), Actor(run, "clock")
    await producer.ready(4)
    await producer.commit(4, {(TOPIC, 0): 5})
    other = f"{run.group}-other"
    await clock.commit(2, {(TOPIC, 1): 2}, group_id=other, retention_time_ms=1)
    await until_gone_of(run, clock, other)
    await asyncio.sleep(1.5)  # The sweep of the group's own partition may be another one.
    await run.describe("Empty")
    await alice.fetch(9, require_stable=True)
    await producer.finish(4, "abort")
    await run.until("Dead")


async def until_gone_of(run: Run, actor: Actor, group_id: str) -> None:
    deadline = time.monotonic() + SWEPT_WITHIN_S
    while time.monotonic() < deadline:
        connection = await run.free_connection("observer")
        reply = await connection.send(actor.fetch_request(9, ((TOPIC, 1),), group_id), 9)
        if reply.groups[0].topics[0].partitions[0].committed_offset == -1:
            return
        await asyncio.sleep(POLL_S)
    run.expect(False, f"{group_id} should have expired")


# What is refused.


@scenario("2.3 TxnOffsetCommit: partitions and metadata", versions=TXN_COMMIT)
async def what_does_not_exist_is_refused_by_itself(run: Run, version: int) -> None:
    alice, producer = reader(run), Committer(run)
    await producer.ready(version)
    await producer.commit(version, {(TOPIC, 9): 1, ("nowhere", 0): 1}, MISSING, "nothing there")
    await producer.commit(version, {(TOPIC, 9): 1}, MISSING, "nothing there, empty group", group_id="")
    await producer.commit(version, {(TOPIC, -1): 1, (TOPIC, 0): 2, ("nowhere", 0): 1}, [3, 0, 3], "a mixture")
    long = "x" * 4097
    await producer.commit(version, {(TOPIC, 1): 1, (TOPIC, 9): 1}, None, "long metadata", long)
    await producer.commit(version, {(TOPIC, 1): 1}, 0, "longest metadata", "x" * 4096)
    await producer.commit(version, {(TOPIC, 2): -5}, 0, "no metadata", None)
    await producer.commit(version, {}, 0, "nothing at all")
    await producer.commit(version, None, ErrorCode.INVALID_GROUP_ID, "empty group", group_id="")
    await alice.fetch(9, None, require_stable=True)
    await producer.finish(version)
    await alice.fetch(9, None)


@scenario("2.3 TxnOffsetCommit: transaction", versions=TXN_COMMIT, **VERIFIED)
async def producers_that_may_not(run: Run, version: int) -> None:
    """Commits of producers not begun, not added, fenced, unknown; then one whose transaction has ended."""
    alice, producer = reader(run), Committer(run)
    await producer.commit(version, errors=None, note="an unknown member id")
    await producer.commit(
        version, errors=None, note="an unknown producer", producer_id=10**12, producer_epoch=0
    )
    await producer.init(note="once")
    await producer.init()
    absent = ABORTABLE if version == 4 else WRONG_STATE
    if version < BUMPING_SINCE:
        await producer.commit(version, errors=absent, note="not begun")
        await producer.add(3)
        await producer.commit(version, errors=absent, note="not added")
    await producer.join_transaction(version)
    await producer.commit(version, errors=None, note="no transactional id", transactional_id="")
    await producer.commit(version, errors=None, note="another's id", transactional_id=f"{run.name}/another")
    await producer.commit(version, errors=UNMAPPED, note="another producer id", producer_id=10**12)
    await producer.commit(version, errors=OLD_EPOCH, note="an epoch to come", producer_epoch=5)
    await producer.commit(version, note="as it should be")
    await producer.commit(version, errors=None, note="an older epoch", producer_epoch=0)
    await producer.commit(version, errors=None, note="no id, now it is open", transactional_id="")
    before = Committer(run, producer.name, producer.producer_id, producer.producer_epoch)
    await producer.finish(version)
    await before.commit(version, errors=None, note="after the end")
    await producer.init(note="again")
    await before.commit(version, errors=OLD_EPOCH, note="fenced")
    await alice.fetch(9, None, require_stable=True)


@scenario("2.3 TxnOffsetCommit: members", versions=WITH_MEMBERS, choices=STATES)
async def members_that_may_not(run: Run, version: int, state: str) -> None:
    made = await scene(run, state)
    producer = Committer(run)
    await producer.ready(version)
    member_id, generation = made.alice.member_id or "some-id", made.alice.generation_id
    for note, claimed_id, claimed in (
        ("as it should be", member_id, max(generation, 1)),
        ("the last generation", member_id, max(generation - 1, 0)),
        ("the next generation", member_id, generation + 2),
        ("not a member", "x", max(generation, 0)),
        ("no id", "", max(generation, 0)),
        ("an id, no generation", member_id, -1),
        ("not a member, no generation", "x", -1),
        ("on its own", "", -1),
        ("generation -2", "", -2),
    ):
        await producer.commit(version, errors=None, note=note, member_id=claimed_id, generation_id=claimed)
    await producer.finish(version)
    await made.alice.fetch(offsets=None)
    await run.describe("Empty" if state == "absent" else state)


@scenario("2.3 TxnOffsetCommit: members", versions=range(3))
async def old_producers_speak_for_no_member(run: Run, version: int) -> None:
    made = await scene(run, "Stable")
    producer = Committer(run)
    await producer.ready(version)
    await producer.commit(version)
    await producer.finish(version)
    await made.alice.fetch(offsets=None)


@scenario(
    "2.3 TxnOffsetCommit: fenced", versions=WITH_MEMBERS, choices=("Empty", "CompletingRebalance", "Stable")
)
async def static_members_that_may_not(run: Run, version: int, state: str) -> None:
    made = await scene(run, state, static=True)
    producer, alice, bob = Committer(run), made.alice, made.bob
    await producer.ready(version)
    for note, claimed_id, generation, instance in (
        ("as it should be", alice.member_id or "some-id", alice.generation_id, alice.instance_id),
        ("not its id", "some-id", alice.generation_id, alice.instance_id),
        ("another member's id", bob.member_id or "bobs-id", alice.generation_id, alice.instance_id),
        ("82 before 22", "some-id", 77, alice.instance_id),
        ("an unknown instance", "x", max(alice.generation_id, 1), "unknown"),
        ("an instance, no id", "", -1, alice.instance_id),
        ("an unknown instance alone", "", -1, "unknown"),
    ):
        await producer.commit(
            version,
            errors=None,
            note=note,
            member_id=claimed_id,
            generation_id=generation,
            group_instance_id=instance,
        )
    await producer.finish(version)
    await alice.fetch(offsets=None)
