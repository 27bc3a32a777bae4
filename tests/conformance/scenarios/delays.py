"""The initial rebalance delay (docs/kafka.md 3.11 to 3.15), on brokers where it is DELAY_S."""

from __future__ import annotations

import asyncio
from typing import Final

from protocol.errors import ErrorCode
from tests.conformance.actors import JOIN, LEAVE, LONG_MS, Actor
from tests.conformance.registry import scenario
from tests.conformance.run import Run
from tests.conformance.scenes import cast
from tests.conformance.targets import DELAY_S

DELAYED: Final = "delayed"


@scenario("3.11", versions=JOIN, on=DELAYED)
async def the_first_member_waits_for_others(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    await alice.get_id(version)
    async with run.taking(0.9 * DELAY_S, 3.0 * DELAY_S):
        join = await alice.send_join(version)
        await run.until("PreparingRebalance", 1)
        await run.parked(join)
        await run.describe("PreparingRebalance")
        await alice.joined(join)
    await run.describe("CompletingRebalance")


@scenario("3.11", "3.16", versions=JOIN, on=DELAYED)
async def outside_the_initial_delay_no_join_waits(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await alice.enter(version)
    await alice.sync()
    bobs = await bob.send_enter(version)
    await run.until("PreparingRebalance", 2)
    async with run.taking(0.0, 0.8 * DELAY_S):
        await alice.join(version)
        await bob.joined(bobs)


@scenario("3.12", versions=JOIN, on=DELAYED)
async def a_newcomer_extends_the_delay_by_a_slice(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    async with run.taking(1.8 * DELAY_S, 3.5 * DELAY_S):
        alices = await alice.send_enter(version)
        await asyncio.sleep(0.4 * DELAY_S)
        bobs = await bob.send_enter(version)
        await alice.joined(alices)
    await bob.joined(bobs)
    run.expect(alice.generation_id == 1, "one rebalance for both")


@scenario("3.12", versions=JOIN, on=DELAYED)
async def the_delay_ends_with_the_rebalance_timeout(run: Run, version: int) -> None:
    alice, *others = cast(run, "alice", "bob", "carol", "dave", "erin")
    for each in (alice, *others):
        each.rebalance_timeout_ms = 2_500 * DELAY_S
        each.session_timeout_ms = 2_500 * DELAY_S if version == 0 else each.session_timeout_ms
    async with run.taking(2.2 * DELAY_S, 4.0 * DELAY_S):
        alices = await alice.send_enter(version)
        joins = []
        for other in others[:3]:
            await asyncio.sleep(0.6 * DELAY_S)
            joins.append(await other.send_enter(version))
        await alice.joined(alices)
    for other, join in zip(others, joins, strict=False):
        await other.joined(join)
    await run.describe("CompletingRebalance")


@scenario("3.12", versions=JOIN, on=DELAYED)
async def a_rebalance_timeout_shorter_than_the_delay_allows_no_extension(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    alice.rebalance_timeout_ms = bob.rebalance_timeout_ms = 400 * DELAY_S
    alice.session_timeout_ms = bob.session_timeout_ms = 400 * DELAY_S if version == 0 else LONG_MS
    async with run.taking(0.9 * DELAY_S, 1.75 * DELAY_S):
        alices = await alice.send_enter(version)
        await asyncio.sleep(0.3 * DELAY_S)
        bobs = await bob.send_enter(version)
        await alice.joined(alices)
    await bob.joined(bobs)


@scenario("3.12", on=DELAYED)
async def a_pending_id_does_not_extend_the_delay(run: Run) -> None:
    alice, bob = cast(run, "alice", "bob")
    async with run.taking(0.9 * DELAY_S, 1.8 * DELAY_S):
        alices = await alice.send_enter()
        await asyncio.sleep(0.3 * DELAY_S)
        await bob.get_id()
        await run.answer_if_any(alices, 1.4 * DELAY_S)
    await run.describe()


@scenario("3.14", "3.62", versions=LEAVE, on=DELAYED)
async def a_member_that_leaves_does_not_end_the_delay(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await bob.get_id()
    async with run.taking(1.8 * DELAY_S, 3.5 * DELAY_S):
        alices = await alice.send_enter()
        await asyncio.sleep(0.3 * DELAY_S)
        bobs = await bob.send_join()
        await run.parked(bobs)
        await bob.leave_with(ErrorCode.NONE, version)
        await run.answer(bobs, ErrorCode.UNKNOWN_MEMBER_ID)
        await alice.joined(alices)
    await run.describe("CompletingRebalance")


@scenario("3.14", versions=LEAVE, on=DELAYED)
async def all_members_leave_during_the_delay(run: Run, version: int) -> None:
    (alice,) = cast(run, "alice")
    join = await alice.send_enter()
    await run.parked(join)
    await alice.leave_with(ErrorCode.NONE, version)
    await run.answer(join, ErrorCode.UNKNOWN_MEMBER_ID)
    await run.describe("PreparingRebalance")
    await run.until("Empty", 0)
    await run.describe("Empty")
    bob = Actor(run, "bob")
    await bob.enter()
    run.expect(bob.generation_id == 2, "the empty generation counts")


@scenario("3.14", "3.4", on=DELAYED)
async def a_pending_id_that_times_out_during_the_delay(run: Run) -> None:
    """An id that times out ends the delay, unlike one that leaves."""
    alice, bob = cast(run, "alice", "bob")
    bob.session_timeout_ms = 200
    await alice.get_id()
    await bob.get_id()
    async with run.taking(0.0, 0.8 * DELAY_S):
        await alice.enter()
    await run.describe("CompletingRebalance")


@scenario("3.14", "3.6", on=DELAYED)
async def a_pending_id_that_leaves_during_the_delay(run: Run) -> None:
    alice, bob = cast(run, "alice", "bob")
    await bob.get_id()
    join = await alice.send_enter()
    await run.parked(join)
    await bob.leave()
    await run.parked(join, 0.2 * DELAY_S)
    await alice.joined(join)


@scenario("3.15", "2.2 state Join with a pending id or v<4/Empty", versions=JOIN, on=DELAYED)
async def a_group_that_emptied_is_joined_with_the_delay_again(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    await alice.enter(version)
    await alice.sync()
    await alice.leave()
    await run.describe("Empty")
    await bob.get_id(version)
    async with run.taking(0.9 * DELAY_S, 3.0 * DELAY_S):
        join = await bob.send_join(version)
        await run.parked(join)
        await bob.joined(join)


@scenario("3.26", "3.12", on=DELAYED)
async def a_repeated_join_during_the_delay(run: Run) -> None:
    (alice,) = cast(run, "alice")
    first = await alice.send_enter()
    await run.parked(first)
    second = await alice.send_join(note="again")
    await run.parked(second)
    await alice.joined(second)
    await run.unanswered(first)


@scenario("3.36", "3.12", on=DELAYED)
async def a_static_member_comes_back_during_the_delay(run: Run) -> None:
    alice = Actor(run, "alice", instance_id="i")
    again = Actor(run, "alice-again", instance_id="i")
    first = await alice.send_join()
    await run.parked(first)
    second = await again.send_join()
    await run.answer(first, ErrorCode.FENCED_INSTANCE_ID)
    await again.joined(second)
    await run.describe("CompletingRebalance")


@scenario("3.13", versions=JOIN)
async def without_a_delay_the_first_member_is_alone(run: Run, version: int) -> None:
    alice, bob = cast(run, "alice", "bob")
    async with run.taking(0.0, 0.8 * DELAY_S):
        await alice.enter(version)
    bobs = await bob.send_enter(version)
    await run.until("PreparingRebalance", 2)
    await alice.join(version)
    await bob.joined(bobs)
    run.expect(bob.generation_id == 2, "later arrivals cost a second rebalance")
