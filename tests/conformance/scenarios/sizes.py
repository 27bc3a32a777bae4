"""`group.max.size` (docs/kafka.md 3.30 to 3.32) and the sweep (3.76, O17 to O22), on brokers with small limits."""

from __future__ import annotations

import asyncio
from typing import Final

from protocol.errors import ErrorCode
from tests.conformance.actors import JOIN, OTHER_TOPIC, TOPIC, Actor
from tests.conformance.registry import scenario
from tests.conformance.run import Run
from tests.conformance.scenes import cast, completing, stable

SMALL: Final = "small"
FULL: Final = ErrorCode.GROUP_MAX_SIZE_REACHED
WITH_IDS: Final = range(4, 10)
STATIC_JOIN: Final = range(5, 10)
RETENTION_S: Final = 60
WITHOUT_ID: Final = 3
"""A JoinGroup version in which no member asks for an id first: a group with only such an id may be swept away."""


async def kept(run: Run) -> None:
    """Give the group an offset, or the sweep might take it away between a client's two first requests."""
    await Actor(run, "keeper").commit()


@scenario(
    "3.30",
    "2.2 Join: group over its size",
    versions=JOIN,
    on=SMALL,
    choices=("CompletingRebalance", "Stable"),
)
async def a_full_group_takes_no_other_member(run: Run, version: int, state: str) -> None:
    await kept(run)
    alice, bob, carol = cast(run, "alice", "bob", "carol")
    await (stable if state == "Stable" else completing)(run, alice, bob)
    await carol.join(version, FULL)
    await carol.join(version, FULL, member_id="some-id", note="some id")
    if version >= 5:
        await carol.join(version, FULL, group_instance_id="carols", note="static")
    await bob.join(version)
    await run.describe(state)


@scenario("3.30", "2.2 Join: group over its size", versions=JOIN, on=SMALL)
async def in_a_rebalance_parked_joins_are_counted(run: Run, version: int) -> None:
    await kept(run)
    alice, bob, carol = cast(run, "alice", "bob", "carol")
    await stable(run, alice, bob)
    alices = await alice.send_join(version)
    await run.until("PreparingRebalance", 2)
    carols = await carol.send_enter(version)  # One is parked, so there is room for one more.
    await run.parked(carols)
    await bob.join(version, FULL)
    await run.answer_if_any(carols)
    await run.answer_if_any(alices)
    await run.describe()


@scenario("3.30", versions=JOIN, on=SMALL)
async def existing_members_pass(run: Run, version: int) -> None:
    await kept(run)
    alice, bob = cast(run, "alice", "bob")
    await stable(run, alice, bob)
    alices = await alice.send_join(version)
    await run.until("PreparingRebalance", 2)
    await run.parked(alices)
    await bob.join(version)
    await alice.joined(alices)


@scenario("3.32", "3.5", "2.2 Join: group over its size forgets a pending id", versions=WITH_IDS, on=SMALL)
async def pending_ids_do_not_count(run: Run, version: int) -> None:
    await kept(run)
    alice, bob, carol, dave = cast(run, "alice", "bob", "carol", "dave")
    await stable(run, alice)
    for each in (bob, carol, dave):
        await each.get_id(version)
    bobs = await bob.send_join(version)
    await run.until("PreparingRebalance", 2)
    alices = await alice.send_join(version)
    await run.parked(alices)
    await carol.join(version, FULL)
    await dave.leave()
    await alice.joined(alices)
    await bob.joined(bobs)
    await carol.join(version, FULL, note="its id is forgotten, but that is looked at later")
    await bob.leave()
    await carol.join(version, ErrorCode.UNKNOWN_MEMBER_ID, note="its id is forgotten")


@scenario("3.30", versions=STATIC_JOIN, on=SMALL)
async def a_static_member_returns_to_a_full_group(run: Run, version: int) -> None:
    await kept(run)
    alice, bob = cast(run, "alice", "bob", static=True)
    await stable(run, alice, bob)
    again = Actor(run, "bob-again", instance_id=bob.instance_id)
    await again.join(version, error=None)
    await run.describe()


@scenario("3.76", on=SMALL)
async def an_empty_group_without_offsets_is_swept_away(run: Run) -> None:
    (alice,) = cast(run, "alice")
    await stable(run, alice, version=WITHOUT_ID)
    await alice.leave()
    await run.until("Dead", 0)
    await run.describe("Dead")


@scenario("3.76", on=SMALL)
async def a_group_with_a_pending_id_only_is_swept_away(run: Run) -> None:
    (alice,) = cast(run, "alice")
    await alice.get_id()
    await asyncio.sleep(2.5)
    await run.describe()
    await alice.join(error=None)


@scenario("O17", "O18", "O22", on=SMALL)
async def offsets_expire(run: Run) -> None:
    """Offsets expire after their group became empty, or after a simple group's commit; then the group goes."""
    alice, bob, carol = cast(run, "alice", "bob", "carol")
    simple, lived = f"{run.group}/simple", run.group
    await bob.commit(group_id=simple, offsets={(TOPIC, 0): 1})
    await carol.commit(group_id=simple, offsets={(TOPIC, 1): 1})
    await stable(run, alice, version=WITHOUT_ID)
    await alice.commit(offsets={(TOPIC, 0): 1, (OTHER_TOPIC, 0): 2})
    await asyncio.sleep(RETENTION_S / 2)
    await bob.commit(group_id=simple, offsets={(TOPIC, 0): 2})
    await alice.heartbeat()
    await alice.leave()
    await asyncio.sleep(RETENTION_S / 2 + 8)
    await alice.fetch(9, None, simple, lived, note="the older ones went")
    await asyncio.sleep(RETENTION_S / 2)
    await alice.fetch(9, None, simple, lived, note="all went")
    await run.describe("Dead")


@scenario("O18", on=SMALL)
async def offsets_of_topics_that_are_read_do_not_expire(run: Run) -> None:
    (alice,) = cast(run, "alice")
    await stable(run, alice, version=WITHOUT_ID)
    await alice.commit(offsets={(TOPIC, 0): 1, (OTHER_TOPIC, 0): 2})
    await asyncio.sleep(RETENTION_S / 2)
    await alice.heartbeat()
    await asyncio.sleep(RETENTION_S / 2 + 6)
    await alice.fetch(9, None)
    await run.describe("Stable")


@scenario("O18", on=SMALL)
async def offsets_do_not_expire_in_a_rebalance(run: Run) -> None:
    alice, bob = cast(run, "alice", "bob")
    for each in (alice, bob):
        each.session_timeout_ms = each.rebalance_timeout_ms = 300_000
    await stable(run, alice, version=WITHOUT_ID)
    await alice.commit(offsets={(TOPIC, 0): 1, (OTHER_TOPIC, 0): 2})
    await bob.send_join(WITHOUT_ID)
    await run.until("PreparingRebalance", 2)
    await asyncio.sleep(RETENTION_S + 6)
    await alice.fetch(9, None)
    await run.describe("PreparingRebalance")


@scenario("O21", on=SMALL)
async def offsets_of_a_subscription_that_cannot_be_read_do_not_expire(run: Run) -> None:
    alice = Actor(run, "alice", protocols=[("range", b"\x00")], session_timeout_ms=300_000)
    await stable(run, alice, version=WITHOUT_ID)
    await alice.commit(offsets={(TOPIC, 0): 1, (OTHER_TOPIC, 0): 2})
    await asyncio.sleep(RETENTION_S + 6)
    await alice.fetch(9, None)
    await run.describe("Stable")


@scenario("3.30", "3.32", "3.13", versions=WITH_IDS, on=SMALL)
async def an_empty_group_takes_any_member(run: Run, version: int) -> None:
    """Ids that wait to be used, however many, keep no member out and hold up no first join without a delay."""
    await kept(run)
    alice, bob, carol = cast(run, "alice", "bob", "carol")
    for each in (alice, bob, carol):
        await each.get_id(version)
    await carol.join(version)
    await run.describe("CompletingRebalance")


@scenario("O18", "3.78", on=SMALL)
async def offsets_of_workers_do_not_expire(run: Run) -> None:
    worker = Actor(run, "worker", protocol_type="connect", protocols=[("eager", b"")])
    worker.session_timeout_ms = 300_000
    await stable(run, worker, version=WITHOUT_ID)
    await worker.commit(offsets={(TOPIC, 0): 1, (OTHER_TOPIC, 0): 2})
    await asyncio.sleep(RETENTION_S + 6)
    await worker.fetch(9, None)
    await run.describe("Stable")


@scenario("O19", "O17", on=SMALL, versions=range(2, 5))
async def a_retention_of_its_own_overrides_the_setting(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    await alice.commit(version, {(TOPIC, 0): 1}, retention_time_ms=1_000)
    await alice.commit(version, {(TOPIC, 1): 2}, retention_time_ms=300_000)
    await alice.commit(version, {(TOPIC, 2): 3})
    await asyncio.sleep(4.0)
    await alice.fetch(9, None)
    await run.describe("Empty")


@scenario("O19", "O22", on=SMALL)
async def the_group_goes_with_its_last_offset(run: Run) -> None:
    (alice,) = cast(run, "alice")
    await alice.commit(4, {(TOPIC, 0): 1}, retention_time_ms=1_000)
    await run.until("Dead", 0)
    await alice.fetch(9, None)
    await run.describe("Dead")
