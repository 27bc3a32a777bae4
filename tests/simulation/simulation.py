"""One seeded history of clients, coordinator, log and clock: faults for a while, then peace, watched all along.

Everything that happens follows from the seed, so a seed that fails fails again. `Failure` names what was broken
and the command that repeats it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from random import Random
from typing import Any, Final

import structlog

from coordinator.groups.group_settings import GroupSettings
from coordinator.groups.states import EMPTY, STABLE
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
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
from tests.groups.driver import Topics
from tests.simulation.consumer import ERAS, INSTANCE_IDS_SINCE, Consumer, Profile
from tests.simulation.disk import Disk
from tests.simulation.network import Network
from tests.simulation.server import Server
from tests.simulation.timeline import Task, Timeline
from tests.simulation.transactions import Coordinator, Producer
from tests.simulation.witness import Witness

GROUPS: Final = ("g0", "g1")
PARTITIONS: Final = 2
TOPIC_PARTITIONS: Final = {"orders": 4, "clicks": 2}
SESSION_TIMEOUTS_MS: Final = (6_000, 10_000, 30_000)
REBALANCE_TIMEOUTS_MS: Final = (5_000, 10_000, 60_000)
PEACE_MS: Final = 260_000
"""What the slowest group may need: a session, two rebalance timeouts, the delay, a coordinator that loads."""
LOOK_EVERY_MS: Final = 500


class Failure(AssertionError):
    """A promise was broken."""


@contextmanager
def quiet_logs() -> Iterator[None]:
    """What the daemon logs of its failing disks is not for people to read here."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)


@dataclass(frozen=True, slots=True)
class Summary:
    """What a seed came to, for people who wonder whether anything happened."""

    steps: int
    virtual_ms: int
    crashes: int
    expired: int
    calls: int
    generations: int
    no_room: int  # Flushes that found none.
    cleaned: int  # Batches that compaction took away.


class Simulation:
    """`run` plays the whole history, or raises Failure."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random = Random(seed)
        self.timeline = Timeline()
        self.witness = Witness()
        self.disk = Disk(random)
        self.topics = Topics(**TOPIC_PARTITIONS)
        self.settings = GroupSettings(
            group_initial_rebalance_delay_ms=random.choice((0, 500, 3_000)),
            group_max_size=random.choice((2**31 - 1, 2**31 - 1, 2**31 - 1, 3)),
            offsets_retention_minutes=random.choice((1, 10_080)),
            offsets_retention_check_interval_ms=random.choice((5_000, 600_000)),
        )
        self.server = Server(
            self.timeline, random, self.disk, self.settings, self.topics, PARTITIONS, GROUPS, self.witness
        )
        self.coordinator = self.server.transactions = Coordinator(random, self.server)
        self.network = Network(self.timeline, random, self.server, faults=random.choice((0, 1, 5)))
        self.consumers: list[Consumer] = []
        self._offsets = count(1)
        self.producers: list[Producer] = []
        self._paused: list[Consumer] = []
        self._steps = 0

    def run(self) -> Summary:
        with quiet_logs():
            return self._run()

    def _run(self) -> Summary:
        self.server.start()
        profiles = [self._profile(number) for number in range(self.random.randint(2, 7))]
        for profile in profiles:
            self.timeline.after(self.random.choice((0, 5, 100, 2_000)), partial(self.add, profile))
        for number in range(self.random.choice((0, 1, 3))):
            self._add_producer(number)
        self._let_faults_happen(self.timeline.now_ms + self.random.choice((30_000, 90_000, 180_000)))
        self._make_peace()
        self._settle()
        return self._summary()

    # Clients.

    def _profile(self, number: int) -> Profile:
        random = self.random
        era = random.choice(ERAS)
        group_id = random.choice(GROUPS[: 1 + number // 2])
        is_static = era.join >= INSTANCE_IDS_SINCE and random.random() < 0.4
        return Profile(
            client_id=f"c{number}",
            group_id=group_id,
            instance_id=f"i{number}" if is_static else None,
            era=era,
            assignors=random.choice((("range",), ("range", "roundrobin"), ("roundrobin", "range"))),
            session_timeout_ms=random.choice(SESSION_TIMEOUTS_MS),
            rebalance_timeout_ms=random.choice(REBALANCE_TIMEOUTS_MS),
            patience_ms=max(*SESSION_TIMEOUTS_MS, *REBALANCE_TIMEOUTS_MS) + 5_000,
        )

    def add(self, profile: Profile) -> None:
        """Start a process, which wants what its predecessor wanted."""
        former = [c.subscription for c in self.consumers if c.profile.client_id == profile.client_id]
        subscription = former[-1] if former else tuple(TOPIC_PARTITIONS)
        self.consumers.append(
            Consumer(profile, subscription, self.network, self.random, self.topics, self._offsets)
        )

    def _add_producer(self, number: int) -> None:
        server = self.server
        self.producers.append(
            Producer(number, self.coordinator, self.network, server, self.random, GROUPS, self._offsets)
        )

    def running(self, group_id: str | None = None) -> list[Consumer]:
        return [
            consumer
            for consumer in self.consumers
            if consumer.is_running and group_id in (None, consumer.profile.group_id)
        ]

    # Faults.

    def _let_faults_happen(self, until_ms: int) -> None:
        faults = FAULTS * 6
        self.random.shuffle(faults)
        at_ms = self.timeline.now_ms
        pace_ms = self.random.choice((400, 2_000, 5_000))
        while (at_ms := at_ms + self.random.randint(1, 2 * pace_ms)) < until_ms and faults:
            fault = faults.pop()
            self.timeline.at(at_ms, partial(fault, self))
        self._play(until_ms)

    def _make_peace(self) -> None:
        """From here on nothing goes wrong, and whoever lives behaves."""
        self.network.is_sound = self.disk.is_sound = True
        self.disk.is_full = False
        if self.server.runtime is None:
            self.server.start()
        for consumer in self._paused:
            consumer.go_on()
        for consumer in self.consumers:
            consumer.stuck_until_ms = 0
        for producer in self.producers:
            producer.is_running = False

    def _settle(self) -> None:
        deadline_ms = self.timeline.now_ms + PEACE_MS
        unsettled = ["not looked yet"]
        while unsettled:
            if self.timeline.now_ms > deadline_ms:
                raise self._failure([f"no peace within {PEACE_MS} ms: {unsettled}"])
            self._play(self.timeline.now_ms + LOOK_EVERY_MS)
            unsettled = list(self._unsettled())

    def _unsettled(self) -> Iterator[str]:
        """What is not yet as it should be when everybody behaves."""
        for runner in self.server.runners:
            if runner.shard is None:
                yield f"partition {runner.partition} is {runner.state}"
                return
        if self.server.runtime is not None and self.server.runtime.outages.is_full:
            yield "somebody waits for room, which is there"
            if runner.shard.offsets.transactions.group_ids():
                yield f"partition {runner.partition} holds offsets of an open transaction"
        for group_id in GROUPS:
            yield from self._unsettled_group(group_id)
        yield from ("a producer works" for producer in self.producers if not producer.is_done)
        yield from (f"no answer to {request}" for request in self._overdue())

    def _unsettled_group(self, group_id: str) -> Iterator[str]:
        runner = self.server.runner_for(group_id)
        group = runner.shard.groups.get(group_id) if runner.shard is not None else None
        live = self.running(group_id)
        if not live:
            if group is not None and group.state is not EMPTY:
                yield f"{group_id} is {group.state} without a live member"
            return
        if group is None or group.state is not STABLE:
            yield f"{group_id} is {group and group.state}, members {group and list(group.members)}"
            return
        if {consumer.member_id for consumer in live} != group.members.keys():
            yield f"{group_id} has {list(group.members)}, alive are {[c.member_id for c in live]}"
        for consumer in live:
            if not consumer.is_settled or consumer.generation_id != group.generation_id:
                yield f"{consumer.member_id} of {group_id} is not in its generation"
        wanted = {topic for consumer in live for topic in consumer.subscription}
        everything = sorted((topic, p) for topic in wanted for p in range(TOPIC_PARTITIONS[topic]))
        owned = sorted(where for consumer in live for where in consumer.owned)
        # A static member that comes back with another subscription keeps its assignment all the same (3.33).
        if owned != everything and not group.static_members:
            yield f"{group_id} owns {owned}"

    def _overdue(self) -> list[Any]:
        """Requests without an answer, though no member waits in a rebalance any more."""
        return self.witness.unanswered(before_ms=self.timeline.now_ms - 2 * LOOK_EVERY_MS)

    # Steps.

    def _play(self, until_ms: int) -> None:
        """Let everything happen that is due before `until_ms`."""
        reached: list[bool] = []
        self.timeline.at(until_ms, lambda: reached.append(True))
        while not reached:
            self.timeline.step()
            self._steps += 1
            self.witness.look()
            if self.witness.violations:
                raise self._failure(self.witness.violations)

    def _failure(self, violations: list[str]) -> Failure:
        told = "\n".join(violations[:5])
        return Failure(
            f"{told}\nat {self.timeline.now_ms} ms; repeat it: python -m tests.simulation --seed {self.seed}"
        )

    def _summary(self) -> Summary:
        witness = self.witness
        return Summary(
            self._steps,
            self.timeline.now_ms,
            witness.crashes,
            witness.expired,
            len(witness.calls),
            len(witness.facts.was_assigned),
            self.disk.times_no_room,
            sum(log.batches_cleaned for log in self.server.logs),
        )

    # What can go wrong: each is given the simulation, and draws the rest.

    def crash(self) -> None:
        """The coordinator dies, and is started again."""
        if self.server.runtime is not None and not self.disk.is_sound:  # Else there is peace by now.
            self.server.crash()
            self.timeline.after(self.random.choice((50, 1_000, 8_000)), self._start_again)

    def _start_again(self) -> None:
        if self.server.runtime is None:
            self.server.start()

    def stop_the_server(self) -> None:
        self.server.stop_for(self.random.choice((100, 400, 3_000, 20_000, 60_000)))

    def break_the_disk(self) -> None:
        self.disk.failures_to_come += 1

    def fill_the_disk(self) -> None:
        """Until somebody makes room; a coordinator that is killed for it meanwhile is no better off."""
        self.disk.is_full = True
        full_ms = self.random.choice((200, 3_000, 20_000, 70_000))
        self.timeline.after(full_ms, self._make_room)
        if self.random.random() < 0.2:
            self.timeline.after(self.random.randrange(2 * full_ms), self.crash)

    def _make_room(self) -> None:
        self.disk.is_full = False

    def compact_the_logs(self) -> None:
        took_ms = self.random.choice((1, 100, 5_000))
        self.server.clean(took_ms, delete_retention_ms=self.random.choice((0, 0, 60_000)))
        if self.random.random() < 0.2:
            self.timeline.after(self.random.randrange(2 * took_ms), self.crash)

    def jump_the_wall_clock(self) -> None:
        self.timeline.wall_offset_ms += self.random.choice((-3_600_000, -500, 500, 3_600_000))

    def kill_a_client(self) -> None:
        """It may come back as another process, with the same instance id if it has one."""
        if consumer := self._pick():
            consumer.die()
            if self.random.random() < 0.8:
                later_ms = self.random.choice((10, 1_000, 15_000))
                self.timeline.after(later_ms, lambda: self.add(consumer.profile))

    def let_one_leave(self) -> None:
        if consumer := self._pick():
            Task(consumer.leave())
            later_ms = self.random.choice((10, 1_000, 15_000))
            self.timeline.after(later_ms, lambda: self.add(consumer.profile))

    def pause_a_client(self) -> None:
        if consumer := self._pick():
            consumer.pause()
            self._paused.append(consumer)
            self.timeline.after(self.random.choice((500, 5_000, 30_000)), consumer.go_on)

    def get_one_stuck(self) -> None:
        if consumer := self._pick():
            consumer.get_stuck(self.timeline.now_ms + self.random.choice((2_000, 12_000, 40_000)))

    def start_a_twin(self) -> None:
        """Two processes under one instance id: the older is fenced, whatever it is doing."""
        static = [consumer for consumer in self.running() if consumer.profile.instance_id is not None]
        if static:
            self.add(self.random.choice(static).profile)

    def change_a_subscription(self) -> None:
        if consumer := self._pick():
            consumer.subscribe(self.random.choice((("orders",), ("clicks",), ("orders", "clicks"))))

    def have_one_rejoin(self) -> None:
        if consumer := self._pick():
            consumer.rejoin()

    def let_an_admin_work(self) -> None:
        group_id = self.random.choice(GROUPS)
        partition = OffsetDeleteRequestPartition(partition_index=self.random.randrange(2))
        topic = OffsetDeleteRequestTopic(name="orders", partitions=[partition])
        identity = MemberIdentity(
            member_id="", group_instance_id=f"i{self.random.randrange(4)}", reason="by hand"
        )
        requests = [
            (DeleteGroupsRequest(groups_names=list(GROUPS)), 2),
            (OffsetDeleteRequest(group_id=group_id, topics=[topic]), 0),
            (LeaveGroupRequest(group_id=group_id, members=[identity]), 5),
            (self._commit_of_a_stranger(group_id), 9),
            (DescribeGroupsRequest(groups=list(GROUPS)), 6),
            (ListGroupsRequest(), 5),
        ]
        request, version = self.random.choice(requests)
        Task(self._ask(request, version))

    def _commit_of_a_stranger(self, group_id: str) -> OffsetCommitRequest:
        """Of a consumer that manages its partitions by itself: good only while the group is Empty (O5)."""
        partition = OffsetCommitRequestPartition(partition_index=3, committed_offset=next(self._offsets))
        topic = OffsetCommitRequestTopic(name="orders", partitions=[partition])
        return OffsetCommitRequest(group_id=group_id, topics=[topic])

    async def _ask(self, request: Any, version: int) -> None:
        await self.network.call("admin", request, version, 10_000)

    def _pick(self) -> Consumer | None:
        running = self.running()
        return self.random.choice(running) if running else None


FAULTS: Final[list[Callable[[Simulation], None]]] = [
    Simulation.crash,
    Simulation.crash,
    Simulation.stop_the_server,
    Simulation.break_the_disk,
    Simulation.fill_the_disk,
    Simulation.compact_the_logs,
    Simulation.compact_the_logs,
    Simulation.jump_the_wall_clock,
    Simulation.kill_a_client,
    Simulation.kill_a_client,
    Simulation.let_one_leave,
    Simulation.pause_a_client,
    Simulation.get_one_stuck,
    Simulation.get_one_stuck,
    Simulation.start_a_twin,
    Simulation.change_a_subscription,
    Simulation.have_one_rejoin,
    Simulation.let_an_admin_work,
    Simulation.let_an_admin_work,
]
