"""One seeded history of clients, coordinator, log and clock: faults for a while, then peace, watched all along.

Everything that happens follows from the seed, so a seed that fails fails again. `Failure` names what was broken
and the command that repeats it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from functools import partial
from itertools import count
from random import Random
from typing import Any, ClassVar, Final

import structlog

from coordinator.groups.classic.states import EMPTY, STABLE
from coordinator.groups.group_settings import GroupSettings
from tests.simulation import faults, parameters
from tests.simulation.catalogue import Catalogue
from tests.simulation.consumer import Consumer
from tests.simulation.disk import Disk
from tests.simulation.network import Network
from tests.simulation.parts import Parts
from tests.simulation.profile import (
    CONNECT_GROUP,
    CONNECT_TOPIC,
    CONSUMER_GROUPS,
    GROUPS,
    SUBSCRIPTIONS,
    Profile,
    drawn,
)
from tests.simulation.real_storage import RealDisk
from tests.simulation.server import Server
from tests.simulation.timeline import Timeline
from tests.simulation.transactions import Producer
from tests.simulation.witness import Witness

PARTITIONS: Final = 2
TOPIC_PARTITIONS: Final = {"orders": 4, "clicks": 2}
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
    marks: frozenset[str]  # The rare events among it.

    def plain(self) -> tuple[int, ...]:
        """The figures alone."""
        return astuple(self)[:-1]


class Simulation:
    """`run` plays the whole history, or raises Failure."""

    options: ClassVar[str] = ""
    """What the command that repeats it needs besides the seed, with a space behind it."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random = Random(seed)
        self.parts = self._parts()
        self.timeline = Timeline()
        self.witness = self._new_witness()
        self.disk = RealDisk(random) if self.parts.real_logs else Disk(random)
        self.topics = Catalogue(**TOPIC_PARTITIONS)
        self.settings = GroupSettings(
            group_initial_rebalance_delay_ms=random.choice((0, 500, 3_000)),
            group_max_size=random.choice((2**31 - 1, 2**31 - 1, 2**31 - 1, 3)),
            offsets_retention_minutes=random.choice((1, 10_080)),
            offsets_retention_check_interval_ms=random.choice((5_000, 600_000)),
        )
        self.server = self._new_server()
        self.network = Network(
            self.timeline,
            random,
            self.server,
            faults=random.choice((0, 1, 5)),
            keeps_connections=self.parts.real_connections,
        )
        self.witness.knows_topics(self.topics)
        self.witness.sights.cuts = self.network.cuts
        self.profiles: list[Profile] = []
        self.faults_ms = self.pace_ms = 0
        self.consumers: list[Consumer] = []
        self.offsets = count(1)
        self.producers: list[Producer] = []
        self.paused: list[Consumer] = []
        self._steps = 0

    def _parts(self) -> Parts:
        return Parts.drawn(self.random)

    def _new_witness(self) -> Witness:
        return Witness()

    def _new_server(self) -> Any:
        return Server(
            self.timeline,
            self.random,
            self.disk,
            self.settings,
            self.topics,
            PARTITIONS,
            GROUPS,
            self.witness,
        )

    def run(self) -> Summary:
        with quiet_logs():
            try:
                return self._run()
            finally:
                self.server.storage.close()

    def _run(self) -> Summary:
        self.server.start()
        self.profiles = self._profiles()
        for profile in self.profiles:
            self.timeline.after(self.random.choice((0, 5, 100, 2_000)), partial(self.add, profile))
        for number in range(self.random.choice((0, 1, 3))):
            self._add_producer(number)
        self.faults_ms = self.random.choice((30_000, 90_000, 180_000))
        self.pace_ms = self.random.choice((400, 2_000, 5_000))
        self._let_faults_happen(self.timeline.now_ms + self.faults_ms)
        self._make_peace()
        self._settle()
        return self._summary()

    # Clients.

    def _profiles(self) -> list[Profile]:
        random = self.random
        cooperative = {group_id: random.random() < 0.3 for group_id in CONSUMER_GROUPS}
        profiles = []
        for number in range(random.randint(2, 7)):
            group_id = random.choice(CONSUMER_GROUPS[: 1 + number // 2])
            profiles.append(drawn(random, number, group_id, cooperative[group_id], is_worker=False))
        for _ in range(random.choice((0, 0, 0, 1, 3))):
            profiles.append(drawn(random, len(profiles), CONNECT_GROUP, is_cooperative=False, is_worker=True))
        return profiles

    def add(self, profile: Profile) -> None:
        """Start a process, which wants what its predecessor wanted, unless it is a newer version of that."""
        former = [c.subscription for c in self.consumers if c.profile.client_id == profile.client_id]
        at_first = (CONNECT_TOPIC,) if profile.is_worker else tuple(TOPIC_PARTITIONS)
        subscription = former[-1] if former else at_first
        if former and not profile.is_worker and self.random.random() < 0.15:
            subscription = self.random.choice(SUBSCRIPTIONS)
        self.consumers.append(self._new_consumer(profile, subscription))

    def _new_consumer(self, profile: Profile, subscription: tuple[str, ...]) -> Consumer:
        return Consumer(profile, subscription, self.network, self.random, self.topics, self.offsets)

    def _add_producer(self, number: int) -> None:
        self.producers.append(Producer(number, self.network, self.witness, self.random, GROUPS, self.offsets))

    def running(self, group_id: str | None = None) -> list[Consumer]:
        return [
            consumer
            for consumer in self.consumers
            if consumer.is_running and group_id in (None, consumer.profile.group_id)
        ]

    # Faults.

    def _let_faults_happen(self, until_ms: int) -> None:
        faults_to_come = self._faults() * 6
        self.random.shuffle(faults_to_come)
        at_ms = self.timeline.now_ms
        while (at_ms := at_ms + self.random.randint(1, 2 * self.pace_ms)) < until_ms and faults_to_come:
            fault = faults_to_come.pop()
            self.timeline.at(at_ms, partial(fault, self))
        self._play(until_ms)

    def more_parameters(self) -> list[str]:
        """What is drawn besides, for `parameters`."""
        return []

    def _faults(self) -> list[faults.Fault]:
        return faults.FAULTS

    def _make_peace(self) -> None:
        """From here on nothing goes wrong, and all that lives behaves."""
        self.network.is_sound = self.disk.is_sound = True
        self.disk.is_full = False
        self.network.cuts.mend_all()
        for name in TOPIC_PARTITIONS:
            faults.make_a_topic(self, name)
        if self.server.runtime is None:
            self.server.start()
        for consumer in self.paused:
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
        self.witness.transactions.check_outcomes()
        if self.witness.violations:
            raise self._failure(self.witness.violations)

    def _unsettled(self) -> Iterator[str]:
        """What is not yet as it should be without faults."""
        for runner in self.server.runners:
            if runner.shard is None:
                yield f"partition {runner.partition} is {runner.state}"
                return
            if runner.shard.offsets.transactions.group_ids():
                yield f"partition {runner.partition} holds offsets of an open transaction"
            if any(True for _ in runner.shard.offsets.offsets_with_topic_id(self.topics.was_deleted)):
                yield f"partition {runner.partition} holds offsets of a topic that has gone"
        if self.server.runtime is not None and self.server.runtime.outages.is_full:
            yield "a log waits for room, which is there"
        for group_id in GROUPS:
            yield from self._unsettled_group(group_id)
        if self.server.transactions is not None:
            yield from self.server.transactions.unsettled()
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
            if not consumer.is_settled_in(group.generation_id):
                yield f"{consumer.member_id} of {group_id} is not in its generation"
        yield from self.witness.ownership.unsettled((group_id, group.generation_id), live, self.topics)

    def _overdue(self) -> list[Any]:
        """Requests without an answer, though no member waits in a rebalance any more."""
        stuck = [request for end in self.server.ends for request in end.stuck()]
        return stuck + self.witness.deadlines.unanswered(before_ms=2 * LOOK_EVERY_MS)

    # Steps.

    def _play(self, until_ms: int) -> None:
        """Let everything happen that is due before `until_ms`."""
        reached: list[bool] = []
        self.timeline.at(until_ms, lambda: reached.append(True))
        while not reached:
            try:
                self.timeline.step()
            except Exception as error:
                raise self._failure([f"a bug: {error!r}"]) from error
            self._steps += 1
            self._look()
            if self.witness.violations:
                raise self._failure(self.witness.violations)

    def _look(self) -> None:
        """After a step."""
        self.witness.look()

    def _failure(self, violations: list[str]) -> Failure:
        broken = "\n".join(violations[:5])
        command = f"python -m tests.simulation {self.options}--seed {self.seed}"
        repeat = f"at {self.timeline.now_ms} ms; repeat it: {command}"
        return Failure(f"{broken}\n{repeat}\n{parameters.described(self)}")

    def _summary(self) -> Summary:
        witness = self.witness
        return Summary(
            self._steps,
            self.timeline.now_ms,
            witness.crashes,
            witness.expired,
            witness.calls,
            len(witness.facts.was_assigned),
            self.disk.times_no_room,
            self.server.storage.batches_cleaned,
            frozenset(witness.marks.reached),
        )
