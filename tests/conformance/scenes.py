"""Groups in the states that scenarios begin in, made the way clients make them.

A script names the cast; afterwards the first one leads. How a group got there is in the transcript too.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from protocol.errors import ErrorCode
from tests.conformance.actors import Actor
from tests.conformance.run import Asked, Run

STATES: Final = ("absent", "Empty", "PreparingRebalance", "CompletingRebalance", "Stable")


@dataclass
class Scene:
    """Alice leads and bob follows, where there are members. `waiting` has the requests that are parked there."""

    alice: Actor
    bob: Actor
    carol: Actor
    waiting: tuple[Asked, ...] = ()


def cast(run: Run, *names: str, static: bool = False) -> list[Actor]:
    """The actors of these names; static ones have an instance id."""
    return [Actor(run, name, instance_id=f"{name}-instance" if static else None) for name in names]


async def completing(run: Run, *members: Actor, version: int = 9) -> None:
    """Bring `members` into one generation that no member has synced yet; the first leads."""
    leader = members[0]
    await leader.enter(version)
    joins: list[Asked] = []
    for follower in members[1:]:
        asked = await follower.send_enter(version)
        joins.append(asked)
        await run.until("PreparingRebalance", len(joins) + 1)
    if joins:
        await leader.join(version)
    for follower, asked in zip(members[1:], joins, strict=True):
        await follower.joined(asked)


async def stable(run: Run, *members: Actor, version: int = 9) -> None:
    """Bring `members` into one Stable generation: each is assigned the bytes of its own name."""
    await completing(run, *members, version=version)
    await all_sync(run, *members)


async def all_sync(run: Run, *members: Actor) -> None:
    """The leader, which is first, assigns to each member its name; all collect it."""
    syncs = await asyncio.gather(*[member.send_sync() for member in members[1:]])
    assignments = {member.member_id: member.name.encode() for member in members}
    await members[0].sync(assignments=assignments)
    for asked in syncs:
        await run.answer(asked, ErrorCode.NONE)


async def rejoin_all(run: Run, *members: Actor, version: int = 9) -> None:
    """All members join again, side by side, once a rebalance is on."""
    joins = await asyncio.gather(*[member.send_join(version) for member in members])
    for member, asked in zip(members, joins, strict=True):
        await member.joined(asked)


async def scene(run: Run, state: str, static: bool = False) -> Scene:
    """The run's group in `state`, one of STATES."""
    alice, bob, carol = cast(run, "alice", "bob", "carol", static=static)
    made = Scene(alice, bob, carol)
    if state == "Empty":
        await stable(run, alice)
        await alice.leave()
    elif state == "CompletingRebalance":
        await completing(run, alice, bob)
    elif state in ("Stable", "PreparingRebalance"):
        await stable(run, alice, bob)
    if state == "PreparingRebalance":
        made.waiting = (await carol.send_enter(),)
        await run.until("PreparingRebalance", 3)
    return made


async def undisturbed(run: Run, *members: Actor) -> None:
    """Nothing that happened has moved the group: it is Stable, and each heartbeat is answered so."""
    described = await run.describe("Stable")
    run.expect(len(described.members) == len(members), f"{len(members)} members, as before")
    for member in members:
        await member.heartbeat(note="undisturbed")
