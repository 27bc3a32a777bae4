"""OffsetCommit: who may commit in which state (docs/kafka.md 2.2, O5 to O7), and what is stored (O1 to O4)."""

from __future__ import annotations

from typing import Any, Final

from protocol.errors import ErrorCode
from protocol.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from tests.conformance.actors import (
    COMMIT,
    FETCH,
    OTHER_TOPIC,
    PARTITIONS,
    STATIC_COMMIT_SINCE,
    TOPIC,
    UNKNOWN_TOPIC_ID,
    Actor,
)
from tests.conformance.registry import scenario
from tests.conformance.run import Run
from tests.conformance.scenes import STATES, cast, scene, stable

NONE: Final = ErrorCode.NONE
UNKNOWN: Final = ErrorCode.UNKNOWN_MEMBER_ID
OLD: Final = ErrorCode.ILLEGAL_GENERATION
BUSY: Final = ErrorCode.REBALANCE_IN_PROGRESS
FENCED: Final = ErrorCode.FENCED_INSTANCE_ID
SIMPLE: Final[dict[str, Any]] = {"member_id": "", "generation_id_or_member_epoch": -1}
BY_STATE: Final = {"PreparingRebalance": NONE, "CompletingRebalance": BUSY, "Stable": NONE}
BY_NAME: Final = range(2, 10)
STATIC_COMMIT: Final = range(STATIC_COMMIT_SINCE, 11)


def claiming(member_id: str, generation_id: int) -> dict[str, Any]:
    """The fields of a commit that name its member."""
    return {"member_id": member_id, "generation_id_or_member_epoch": generation_id}


def absent(version: int) -> ErrorCode:
    return ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else OLD


@scenario(
    "2.2 state Commit of a member/{choice}",
    "2.2 state Commit on its own/{choice}",
    "2.3 OffsetCommit: not a member",
    "2.3 OffsetCommit: wrong generation",
    "O5",
    "O6",
    "O7",
    versions=COMMIT,
    choices=STATES,
)
async def commit_in_every_state(run: Run, version: int, state: str) -> None:
    made = await scene(run, state)
    alice, generation = made.alice, made.alice.generation_id
    right = absent(version) if state == "absent" else BY_STATE.get(state, UNKNOWN)
    stranger = absent(version) if state == "absent" else UNKNOWN
    old = OLD if state in BY_STATE else stranger
    member_id = alice.member_id or "some-id"
    for note, error, by in (
        ("as it should be", right, claiming(member_id, max(generation, 1))),
        ("the last generation", old, claiming(member_id, max(generation - 1, 0))),
        ("the next generation", old, claiming(member_id, generation + 2)),
        ("not a member", stranger, claiming("x", max(generation, 0))),
        ("no id", stranger, claiming("", max(generation, 0))),
    ):
        await alice.commit(version, errors=error, note=note, **by)
    await run.describe(state if state != "absent" else "Dead")
    is_open = state in ("absent", "Empty")
    for note, error, by in (
        ("an id, no generation", OLD, claiming(member_id, -1)),
        ("not a member, no generation", UNKNOWN, claiming("x", -1)),
        ("on its own", UNKNOWN, claiming("", -1)),
        ("generation -2", UNKNOWN, claiming("", -2)),
    ):
        await alice.commit(version, errors=NONE if is_open else error, note=note, **by)
    await alice.fetch(offsets=None)
    await run.describe("Empty" if state == "absent" else state)


@scenario("2.3 OffsetCommit: fenced", "O6", "3.37", "3.39", versions=STATIC_COMMIT, choices=STATES)
async def commit_of_a_static_member_in_every_state(run: Run, version: int, state: str) -> None:
    made = await scene(run, state, static=True)
    alice, bob = made.alice, made.bob
    await alice.commit(version, errors=None, note="as it should be")
    await alice.commit(version, errors=None, note="by its id alone", group_instance_id=None)
    fenced = FENCED if state in BY_STATE else UNKNOWN  # By now there is a group, if only a simple one.
    generation = max(alice.generation_id, 1)
    for note, error, by in (
        ("not its id", fenced, claiming("some-id", generation)),
        ("another member's id", fenced, claiming(bob.member_id or "bobs-id", generation)),
        ("82 before 22", fenced, claiming("some-id", 77)),
        ("an unknown instance", UNKNOWN, claiming("x", generation) | {"group_instance_id": "unknown"}),
    ):
        await alice.commit(version, errors=error, note=note, **by)
    await alice.commit(version, errors=None, note="an instance, no id", **claiming("", -1))
    await alice.commit(version, errors=None, note="an instance, no id, a generation", member_id="")
    unknown_instance = claiming("", -1) | {"group_instance_id": "unknown"}
    await alice.commit(version, errors=None, note="an unknown instance alone", **unknown_instance)
    await alice.fetch(offsets=None)
    await run.describe()


@scenario("2.3 OffsetCommit: not a member", versions=COMMIT)
async def a_pending_id_may_not_commit(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice)
    await bob.get_id()
    await bob.commit(version, errors=None)
    await bob.commit(version, errors=UNKNOWN, generation_id_or_member_epoch=alice.generation_id)


@scenario("O1", "O4", "O26", versions=COMMIT)
async def what_is_committed_comes_back(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    offsets = {(TOPIC, 0): 0, (TOPIC, 1): 2**63 - 1, (OTHER_TOPIC, 2): -1, (TOPIC, 2): -(2**63)}
    await alice.commit(version, offsets, metadata="äöü 😀")
    for fetch_version in FETCH:
        await alice.fetch(
            fetch_version, [(TOPIC, 0), (TOPIC, 1), (TOPIC, 2), (OTHER_TOPIC, 2), (OTHER_TOPIC, 0)]
        )


@scenario("O1", versions=COMMIT, choices=("none", "empty"))
async def metadata_may_be_null(run: Run, version: int, kind: str) -> None:
    (alice,) = cast(run, "alice")
    await alice.commit(version, metadata=None if kind == "none" else "")
    await alice.fetch(offsets=[(TOPIC, 0)])


@scenario("O26", versions=range(6, 11), choices=(-1, 0, 5, 2**31 - 1, -2), thin=True)
async def the_leader_epoch_comes_back(run: Run, version: int, epoch: int) -> None:
    (alice,) = cast(run, "alice")
    request = alice.commit_request(version, {(TOPIC, 0): 42})
    request.topics[0].partitions[0].committed_leader_epoch = epoch
    await run.answer(await run.send("alice", request, version))
    for fetch_version in FETCH:
        await alice.fetch(fetch_version)


@scenario("O2", versions=COMMIT)
async def the_last_commit_wins(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    for offset in (10, 20, 5):
        await alice.commit(version, {(TOPIC, 0): offset})
    await alice.fetch()
    twice = alice.commit_request(version, {(TOPIC, 1): 1})
    again = OffsetCommitRequestPartition(partition_index=1, committed_offset=2)
    twice.topics[0].partitions = [*twice.topics[0].partitions, again]
    await run.answer(await run.send("alice", twice, version))
    await alice.fetch(offsets=[(TOPIC, 1)])


@scenario(
    "O3",
    "2.3 OffsetCommit: metadata too long",
    versions=COMMIT,
    choices=("ascii", "umlauts", "emoji"),
    thin=True,
)
async def metadata_has_a_limit_for_each_partition(run: Run, version: int, kind: str) -> None:
    (alice,) = cast(run, "alice")
    letter = {"ascii": "x", "umlauts": "ö", "emoji": "😀"}[kind]
    units = 2 if kind == "emoji" else 1
    request = alice.commit_request(version, {(TOPIC, 0): 1, (TOPIC, 1): 2, (TOPIC, 2): 3})
    sizes = (4096 // units, 4096 // units + 1, 0)
    for partition, size in zip(request.topics[0].partitions, sizes, strict=True):
        partition.committed_metadata = letter * size
    reply = await run.answer(await run.send("alice", request, version))
    errors = [partition.error_code for partition in reply.topics[0].partitions]
    run.expect(
        errors == [NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE, NONE], f"only the second is too long: {errors}"
    )
    await alice.fetch(offsets=[(TOPIC, 0), (TOPIC, 1), (TOPIC, 2)])


@scenario("O3", on="small", versions=COMMIT)
async def the_limit_of_metadata_is_a_setting(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    await alice.commit(version, metadata="x" * 16)
    await alice.commit(version, metadata="x" * 17, errors=ErrorCode.OFFSET_METADATA_TOO_LARGE)


@scenario("O27", "2.3 OffsetCommit: unknown partition", versions=COMMIT)
async def commit_for_partitions_that_are_not_there(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    reply = await alice.commit(version, {(TOPIC, PARTITIONS): 1, (TOPIC, 0): 2, (TOPIC, -1): 3}, errors=None)
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    errors = {p.partition_index: p.error_code for topic in reply.topics for p in topic.partitions}
    run.expect(errors == {PARTITIONS: missing, 0: NONE, -1: missing}, f"3 for what is not there: {errors}")
    await alice.fetch(offsets=[(TOPIC, PARTITIONS), (TOPIC, 0), (TOPIC, -1)])
    await run.describe("Empty")


@scenario("O27", "2.3 OffsetCommit: unknown topic", versions=BY_NAME)
async def commit_for_topics_that_are_not_there(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await alice.commit(version, {("nowhere", 0): 1, ("nowhere", 1): 1}, errors=missing)
    await run.describe("Dead")
    offsets = {("nowhere", 0): 1, (OTHER_TOPIC, 0): 2, (TOPIC, 9): 3, (TOPIC, 1): 4, ("", 0): 5}
    await alice.commit(version, offsets, errors=None)
    await alice.commit(
        version, {("nowhere", 0): 1}, errors=missing, member_id="x", generation_id_or_member_epoch=7
    )
    await alice.fetch(offsets=None)


@scenario("O27", "2.3 OffsetCommit: unknown topic id", versions=(10,))
async def commit_for_topic_ids_that_are_not_there(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    known = run.topic_ids[TOPIC]
    for topic_ids in ([UNKNOWN_TOPIC_ID], [bytes(16)], [UNKNOWN_TOPIC_ID, known], [known, UNKNOWN_TOPIC_ID]):
        topics = [
            OffsetCommitRequestTopic(
                topic_id=topic_id,
                partitions=[
                    OffsetCommitRequestPartition(partition_index=index, committed_offset=3)
                    for index in (0, 9)
                ],
            )
            for topic_id in topic_ids
        ]
        reply = await alice.commit(version, errors=None, topics=topics)
        for topic in reply.topics:
            errors = [partition.error_code for partition in topic.partitions]
            if topic.topic_id != known:
                run.expect(errors == [ErrorCode.UNKNOWN_TOPIC_ID] * 2, f"100: {errors}")
    await alice.fetch(10, None)


@scenario("2.1 OffsetCommit: record list too large", versions=COMMIT)
async def a_commit_that_fits_no_record_batch(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    await alice.commit()
    request = alice.commit_request(version, {(TOPIC, 0): 77}, "x" * 4_000)
    request.topics[0].partitions = [*request.topics[0].partitions] * 400
    reply = await run.answer(await run.send("alice", request, version))
    errors = {partition.error_code for topic in reply.topics for partition in topic.partitions}
    run.expect(errors == {ErrorCode.UNKNOWN_SERVER_ERROR}, f"-1 for all: {errors}")
    await alice.fetch(note="the offset is as before")
    await run.describe("Empty")


@scenario("O5", versions=COMMIT)
async def commit_nothing(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    await alice.commit(version, topics=[])
    await alice.commit(
        version, topics=[], member_id="x", generation_id_or_member_epoch=5, note="not a member"
    )
    empty = alice.commit_request(version, {(TOPIC, 0): 1})
    empty.topics[0].partitions = []
    await run.answer(await run.send("alice", empty, version, "no partitions"))
    await run.describe("Dead")


@scenario("O5", "O27", versions=COMMIT)
async def commit_one_topic_twice_in_a_request(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    one = alice.commit_request(version, {(TOPIC, 0): 1})
    other = alice.commit_request(version, {(TOPIC, 1): 2})
    one.topics += other.topics
    await run.answer(await run.send("alice", one, version))
    one.topics += alice.commit_request(version, {(TOPIC, 9): 2, (OTHER_TOPIC, 0): 3}).topics
    await run.answer(await run.send("alice", one, version, "and a partition that is not there"))
    await alice.fetch(offsets=[(TOPIC, 0), (TOPIC, 1)])


@scenario("2.3 OffsetCommit: empty group id", versions=COMMIT)
async def commit_with_an_empty_group_id(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    await alice.commit(version, group_id="", errors=NONE)
    await alice.commit(
        version, group_id="", errors=None, member_id="some-id", generation_id_or_member_epoch=3
    )


@scenario("O5", "3.77", versions=COMMIT)
async def a_simple_group_becomes_a_real_one(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await alice.commit(version)
    described = await run.describe("Empty")
    run.expect(described.protocol_type == "", "a simple group has no protocol type")
    await stable(run, bob)
    await run.describe("Stable")
    await alice.commit(version, errors=UNKNOWN, **SIMPLE)
    await alice.fetch()
    await bob.leave()
    await alice.commit(version, {(TOPIC, 0): 77}, **SIMPLE)
    await alice.fetch()
    await run.describe("Empty")


@scenario("O1", "O19", versions=range(2, 5))
async def a_retention_time_of_old_versions(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    await alice.commit(version, {(TOPIC, 0): 5}, retention_time_ms=3_600_000, metadata="an hour")
    await alice.commit(version, {(TOPIC, 1): 6}, retention_time_ms=-1)
    for fetch_version in (1, 5, 9, 10):
        await alice.fetch(fetch_version, [(TOPIC, 0), (TOPIC, 1)])


@scenario("O7", "2.3 OffsetCommit: rebalance in progress", versions=COMMIT)
async def a_member_commits_what_it_read_before_it_rejoins(run: Run, version: int) -> None:
    made = await scene(run, "PreparingRebalance")
    await made.bob.commit(version, {(TOPIC, 0): 9})
    join = await made.bob.send_join()
    await run.parked(join)
    await made.bob.commit(version, {(TOPIC, 0): 10}, note="with a join parked")
    await made.alice.join()
    await made.bob.joined(join)
    await made.bob.commit(version, errors=BUSY)
    await Actor(run, "reader").fetch()
