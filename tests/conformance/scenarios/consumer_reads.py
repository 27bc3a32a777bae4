"""What is read of a consumer group is durable (docs/kafka.md A74): the broker's end takes nothing of it back.

A reader looks again and again at what a request under way is making, and waits for no answer to that. The broker
ends while it does: whatever was seen by then has to be there.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any, Final

from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.list_groups import ListGroupsRequest
from tests.conformance.actors import TOPIC
from tests.conformance.new_members import REBALANCE_MS
from tests.conformance.registry import BOTH, scenario
from tests.conformance.run import Run
from tests.conformance.scenarios.answered import LANES, Client


class Growing(ABC):
    """Something of a group that each write raises by one, and that can be read."""

    def __init__(self, run: Run, name: str) -> None:
        self.group_id = f"{run.group}/{name}"
        self.writer, self.reader = Client(run, name), Client(run, f"{name}-reader")
        self.epoch = 0

    async def begin(self) -> None:
        """Make what is to grow."""
        await self.beat(self.group_id)

    async def beat(self, group_id: str, *topics: str, epoch: int = 0) -> Any:
        """Join the group, or subscribe to other topics; keep the member's epoch."""
        joins: Any = {"rebalance_timeout_ms": REBALANCE_MS, "topic_partitions": []} if not epoch else {}
        request: Any = ConsumerGroupHeartbeatRequest(
            group_id=group_id,
            member_id="member",
            member_epoch=epoch,
            subscribed_topic_names=[TOPIC, *topics],
            **joins,
        )
        reply = await self.writer.ask(request, 1)
        self.epoch = reply.member_epoch or self.epoch
        return reply

    @abstractmethod
    async def raise_to(self, level: int) -> None: ...

    @abstractmethod
    async def read(self, reader: Client) -> int:
        """The level that is seen now; a reader's connection may end."""


class Epoch(Growing):
    """The group's epoch, which is 2 with the first member and rises with each new subscription."""

    async def raise_to(self, level: int) -> None:
        await self.beat(self.group_id, f"nowhere-{level}", epoch=self.epoch)

    async def read(self, reader: Client) -> int:
        request = ConsumerGroupDescribeRequest(group_ids=[self.group_id])
        (group,) = (await reader.ask(request, 1)).groups
        return int(group.group_epoch) - 2


class Groups(Growing):
    """The number of groups that are listed."""

    async def raise_to(self, level: int) -> None:
        await self.beat(f"{self.group_id}/{level}")

    async def read(self, reader: Client) -> int:
        groups = (await reader.ask(ListGroupsRequest(types_filter=["consumer"]), 5)).groups
        return sum(group.group_id.startswith(f"{self.group_id}/") for group in groups)


class Offset(Growing):
    """A committed offset."""

    async def raise_to(self, level: int) -> None:
        by: Any = {"member_id": "member", "generation_id_or_member_epoch": self.epoch}
        offsets = {(TOPIC, 0): level}
        await self.writer.ask(self.writer.commit_request(9, offsets, group_id=self.group_id, **by), 9)

    async def read(self, reader: Client) -> int:
        (group,) = (await reader.ask(reader.fetch_request(9, [(TOPIC, 0)], self.group_id), 9)).groups
        return int(group.topics[0].partitions[0].committed_offset) if group.topics else -1


GROWING: Final[dict[str, type[Growing]]] = {"described": Epoch, "listed": Groups, "fetched": Offset}


@scenario("A74", choices=GROWING, on="restarted", restarts=BOTH)
async def whatever_was_read_of_a_consumer_group_is_there(run: Run, what: str) -> None:
    growing = [GROWING[what](run, f"lane-{number}") for number in range(LANES)]
    await asyncio.gather(*[each.begin() for each in growing])
    seen: dict[Growing, int] = {}

    async def lane(each: Growing, on_answer: Callable[[], None]) -> None:
        with suppress(ConnectionError):  # The end.
            for level in count(1):
                writing = asyncio.gather(each.raise_to(level), return_exceptions=True)
                while (found := await each.read(each.reader)) < level and not writing.done():
                    pass
                if found < level and await each.read(each.reader) < level:
                    return  # A broker that stops in order refuses before it hangs up.
                seen[each] = level
                on_answer()
                await writing

    lanes = [lambda on_answer, each=each: lane(each, on_answer) for each in growing]
    await run.ended_amid(*lanes)
    looker = Client(run, "looker")
    found = {each: await each.read(looker) for each in seen}
    lost = sorted(each.group_id for each, level in seen.items() if found[each] < level)
    run.saw("what was read and is not there", lost)
    run.expect(len(seen) == LANES and not lost, f"of what was read in {len(seen)} lanes is lost: {lost}")
