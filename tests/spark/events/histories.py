"""Histories for the tests of rebalances and sessions: of a shard driven by plain calls, and single events."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from coordinator.effects import GroupEvent
from coordinator.groups.causes import CauseKind
from coordinator.groups.group_settings import GroupSettings
from coordinator.history.events import encode_event
from muster.spark.events.bucket import SourceRecord
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatTopicPartitions
from tests.groups.consumer import Consumer
from tests.groups.consumer_groups.new_member import NewMember
from tests.groups.driver import Driver

T = 1_700_000_100_000  # A whole five minutes.


def event(wall_ms: int, step: str, cause: CauseKind, **more: Any) -> GroupEvent:
    """An event of group `g`; `step` is "Stable" or "Stable Empty", times count from T."""
    came_from, _, goes_to = step.partition(" ")
    base = GroupEvent("g", 1, came_from, goes_to or came_from, cause.text, T + wall_ms, cause=cause.slug)
    return replace(base, **more)


def record(offset: int, event: GroupEvent) -> SourceRecord:
    return SourceRecord(0, offset, event.wall_ms, *encode_event(event))


def records(events: list[GroupEvent], first: int = 0) -> list[SourceRecord]:
    return [record(first + number, each) for number, each in enumerate(events)]


class Chronicle:
    """A group `g` of a real shard, to which a seeded sequence of things happens."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.driver = Driver(GroupSettings(group_initial_rebalance_delay_ms=0))
        self.consumers: list[Consumer] = []
        self.names = 0

    def member_ids(self) -> set[str]:
        group = self.driver.shard.groups.get("g")
        return set() if group is None else set(group.members)

    def step(self) -> None:
        """One thing happens, and the others react to it or do not."""
        act = self.random.choice((self.join, self.leave, *[self.settle] * 4, self.wait, self.replace))
        act()

    def join(self) -> None:
        self.names += 1
        instance_id = f"i-{self.names}" if self.random.random() < 0.3 else None
        joiner = Consumer(self.driver, f"c-{self.names % 3}", instance_id=instance_id)
        joiner.join()
        self.consumers.append(joiner)

    def leave(self) -> None:
        if self.consumers:
            leaver = self.consumers.pop(self.random.randrange(len(self.consumers)))
            if leaver.member_id:
                leaver.leave("done")

    def settle(self) -> None:
        """Every living consumer joins again, as long as it is asked to, and syncs."""
        self.driver.advance(self.random.randrange(3_000))
        for _ in range(4):
            for consumer in self.consumers:
                self._go_on(consumer)
        for consumer in self.consumers:
            if consumer.parked is None and consumer.generation_id >= 0:
                consumer.send_sync()

    def _go_on(self, consumer: Consumer) -> None:
        if consumer.parked is None:
            consumer.send_join()
        elif self.driver.answered(consumer.parked):
            reply = consumer.collect_join()
            if reply.error_code == ErrorCode.NONE:
                return
            consumer.member_id = reply.member_id if reply.error_code == ErrorCode.MEMBER_ID_REQUIRED else ""
            consumer.send_join()

    def wait(self) -> None:
        """Time passes, and sessions or the rebalance with it."""
        self.driver.advance(self.random.choice((10, 500, 11_000, 70_000)))

    def replace(self) -> None:
        static = [each for each in self.consumers if each.instance_id and each.member_id]
        if static:
            before = self.random.choice(static)
            again = Consumer(self.driver, f"{before.client_id}-again", instance_id=before.instance_id)
            self.consumers[self.consumers.index(before)] = again
            again.join()


class ConsumerChronicle:
    """A consumer group `g` of a real shard, to which a seeded sequence of things happens."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.driver = Driver()
        self.members: list[tuple[NewMember, str | None]] = []  # Each with its instance id.
        self.names = 0

    def member_ids(self) -> set[str]:
        group = self.driver.shard.consumer_groups.get("g")
        return set() if group is None else set(group.members)

    def step(self) -> None:
        """One thing happens, or members confirm what they have."""
        act = self.random.choice((self.join, self.leave, *[self.confirm] * 6, self.wait, self.come_back))
        act()

    def join(self) -> None:
        instance_id = f"i-{self.names}" if self.random.random() < 0.3 else None
        self.members.append((self._new_member(instance_id), instance_id))

    def _new_member(self, instance_id: str | None) -> NewMember:
        self.names += 1
        member = NewMember(self.driver, f"m-{self.names}", instance_id=instance_id)
        member.beat()
        return member

    def leave(self) -> None:
        if self.members:
            member, instance_id = self.members.pop(self.random.randrange(len(self.members)))
            member.epoch = -1
            member.beat(instance_id=instance_id)

    def confirm(self) -> None:
        """Some members say that they have what they were told, or join again where they were removed."""
        self.driver.advance(self.random.randrange(1_500))
        for member, instance_id in self.members:
            if self.random.random() < 0.7 and self._own(member, instance_id):
                member.epoch = 0
                member.beat()

    def _own(self, member: NewMember, instance_id: str | None) -> ErrorCode:
        owned = [
            ConsumerGroupHeartbeatTopicPartitions(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in member.assigned.items()
        ]
        return ErrorCode(member.beat(topic_partitions=owned, instance_id=instance_id).error_code)

    def wait(self) -> None:
        """Time passes, and sessions with it."""
        self.driver.advance(self.random.choice((10, 500, 20_000, 70_000)))

    def come_back(self) -> None:
        """A static member leaves for now, and comes back with another id."""
        static = [number for number, (_, instance_id) in enumerate(self.members) if instance_id]
        if static:
            number = self.random.choice(static)
            before, instance_id = self.members[number]
            before.epoch = -2
            before.beat(instance_id=instance_id)
            self.driver.advance(self.random.choice((0, 300)))
            self.members[number] = (self._new_member(instance_id), instance_id)
