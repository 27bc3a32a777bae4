"""Groups with members of both protocols: consumer groups, classic ones, and those that change between them.

`python -m tests.simulation --mixed` plays the same histories with clients of either protocol in the same groups,
under all four policies of migration. In a part of the seeds every target is computed aside while all else that
concerns its group waits. Clients are replaced by those of the other protocol while others go on, as in a rolling
upgrade and its undoing; members of the new protocol subscribe by expressions to topics that come and go.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Final
from uuid import UUID

from coordinator.effects import Result
from coordinator.groups.consumer.classic_checks import MigrationPolicy
from coordinator.groups.consumer.computing import MOST_WEIGHT
from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.shard_groups import ConsumerGroupSettings
from coordinator.groups.consumer.states import GroupState
from coordinator.shard.shard import Shard
from tests.simulation import faults
from tests.simulation.consumer import Consumer
from tests.simulation.mixed_witness import MixedWitness
from tests.simulation.new_consumer import NewConsumer, NewProfile
from tests.simulation.profile import CONSUMER_GROUPS, GROUPS, SUBSCRIPTIONS, Profile, drawn
from tests.simulation.real_storage import RealDisk
from tests.simulation.server import Server, WatchedShard
from tests.simulation.simulation import PARTITIONS, TOPIC_PARTITIONS, Simulation
from tests.simulation.timeline import Task

POLICIES: Final = (*MigrationPolicy, *4 * (MigrationPolicy.BIDIRECTIONAL,))
EXPRESSIONS: Final = ("orders|clicks", "o.*", "[a-z]+", "more-.*", ".*")
MORE_TOPICS: Final = ("more-a", "more-b")
"""Topics that come and go, and to which only expressions subscribe."""
GROWS_MS: Final = 30_000
"""So long after the last fault all topics grow."""
LARGE_SEGMENTS_BYTES: Final = (16_384, 65_536)
"""Larger than the batch of any group here that changes its kind."""
RESTART_MS: Final = (10, 1_000, 15_000)


class MixedShard(WatchedShard):
    """A shard with settings for consumer groups."""

    def __init__(self, server: MixedServer, partition: int) -> None:
        super().__init__(server.witness, partition, server.settings, server.topics, server.consumer_settings)

    def resume(self, now_ms: int) -> Result:
        result = super().resume(now_ms)
        witness = self._witness
        assert isinstance(witness, MixedWitness)
        witness.on_resumed(self, now_ms)
        return result


class MixedServer(Server):
    """A server whose consumer groups have settings of their own."""

    stock: ConsumerGroupSettings

    @property
    def consumer_settings(self) -> ConsumerGroupSettings:
        return replace(self.stock, classic_max_size=self.settings.group_max_size)

    def _new_shard(self, partition: int) -> Shard:
        return MixedShard(self, partition)

    def _new_uuid(self) -> UUID:
        return UUID(int=self._random.getrandbits(128), version=4)


class MixedGroups(Simulation):
    """`run` plays the whole history, or raises Failure."""

    options: ClassVar[str] = "--mixed "
    witness: MixedWitness

    def __init__(self, seed: int) -> None:
        self.consumer_settings = ConsumerGroupSettings()
        self.rolled: dict[str, Any] = {}  # By client id: its profile in the other protocol.
        self.share_of_new = 0.5
        super().__init__(seed)

    def _new_witness(self) -> MixedWitness:
        random = self.random
        self.consumer_settings = ConsumerGroupSettings(
            session_timeout_ms=random.choice((6_000, 10_000, 30_000)),
            heartbeat_interval_ms=random.choice((500, 1_500, 2_500)),
            assignment_interval_ms=random.choice((0, 1_000, 5_000)),
            max_size=random.choice((2**31 - 1, 2**31 - 1, 2**31 - 1, 4)),
            regex_refresh_interval_ms=random.choice((10_000, 600_000)),
            assignors=random.choice((("uniform", "range"), ("range", "uniform"))),
            migration_policy=random.choice(POLICIES),
            most_weight=random.choice((0, 0, MOST_WEIGHT)),
        )
        self.share_of_new = random.choice((0.4, 0.6, 1.0))
        return MixedWitness(self.consumer_settings.session_timeout_ms)

    def _new_server(self) -> MixedServer:
        if isinstance(self.disk, RealDisk):
            self.disk.segment_bytes = LARGE_SEGMENTS_BYTES
        server = MixedServer(
            self.timeline,
            self.random,
            self.disk,
            self.settings,
            self.topics,
            PARTITIONS,
            GROUPS,
            self.witness,
        )
        server.stock = self.consumer_settings
        return server

    # Clients.

    def _profiles(self) -> list[Any]:
        random = self.random
        profiles: list[Any] = []
        is_cooperative = {group_id: random.random() < 0.5 for group_id in CONSUMER_GROUPS}
        for number in range(random.randint(2, 6)):
            group_id = random.choice(CONSUMER_GROUPS[: 1 + number // 3])
            classic = drawn(random, number, group_id, is_cooperative[group_id], is_worker=False)
            new = self._new_profile(number, classic)
            profile, other = (new, classic) if random.random() < self.share_of_new else (classic, new)
            self.rolled[profile.client_id] = other
            profiles.append(profile)
        return profiles

    def _new_profile(self, number: int, classic: Profile) -> NewProfile:
        random = self.random
        return NewProfile(
            client_id=f"c{number}",
            group_id=classic.group_id,
            instance_id=classic.instance_id,
            version=random.choice((0, 1, 1, 1)),
            assignor=random.choice((None, None, "uniform", "range")),
            rebalance_timeout_ms=classic.rebalance_timeout_ms,
            callback_ms=random.choice((0, 0, 500, 4_000)),
            leaves_when_stuck=random.random() < 0.5,
            leaves_for_good=random.random() < 0.3,
            by_ids=random.random() < 0.5,
        )

    def _new_consumer(self, profile: Any, subscription: Any) -> Any:
        if isinstance(profile, Profile):
            if isinstance(subscription, str):
                subscription = self.random.choice(SUBSCRIPTIONS)
            return super()._new_consumer(profile, subscription)
        if profile.version >= 1 and self.random.random() < 0.2:
            subscription = self.random.choice(EXPRESSIONS)
        elif profile.version < 1 and isinstance(subscription, str):
            subscription = self.random.choice(SUBSCRIPTIONS)
        return NewConsumer(profile, subscription, self.network, self.random, self.topics, self.offsets)

    def more_parameters(self) -> list[str]:
        each = self.consumer_settings
        return [
            f"consumer groups: {each.migration_policy.value}, session {each.session_timeout_ms:,} ms, heartbeat "
            f"{each.heartbeat_interval_ms:,} ms, assignment {each.assignment_interval_ms:,} ms, max size "
            f"{each.max_size}, aside from {each.most_weight}"
        ]

    # Faults.

    def _faults(self) -> list[Any]:
        own = [
            roll,
            roll,
            roll,
            bring_one_back,
            bring_one_back,
            change_an_expression,
            come_and_go,
            get_many_stuck,
        ]
        return [*faults.FAULTS, *own]

    def _make_peace(self) -> None:
        super()._make_peace()
        if not self.running() and self.profiles:
            self.add(self.profiles[0])
        self.timeline.after(GROWS_MS, self._grow)

    def _grow(self) -> None:
        """Topics grow in peace: a group that was upgraded may not know of the last change of before."""
        for name in TOPIC_PARTITIONS:
            self.topics.grow(name, (self.topics.partition_count(name) or 0) + 1)

    def _unsettled_group(self, group_id: str) -> Iterator[str]:
        shard = self.server.runner_for(group_id).shard
        group = None if shard is None else shard.consumer_groups.get(group_id)
        live: list[Any] = self.running(group_id)
        if group is not None:
            yield from self._unsettled_consumer_group(group, live)
        elif all(isinstance(each, Consumer) for each in live):
            yield from self._unsettled_classic_group(group_id, live)
        else:
            yield f"{group_id} is classic, alive are {[each.profile.client_id for each in live]}"

    def _unsettled_classic_group(self, group_id: str, live: list[Consumer]) -> Iterator[str]:
        shard = self.server.runner_for(group_id).shard
        group = None if shard is None else shard.groups.get(group_id)
        generation = (group_id, -1 if group is None else group.generation_id)
        if group is None or not live or self.witness.ownership.was_answered(*generation):
            yield from super()._unsettled_group(group_id)
            return
        # Made by a downgrade that called for no rebalance: nobody in it decided anything.
        if group.members.keys() != {each.member_id for each in live}:
            yield f"{group_id} has {list(group.members)}, alive are {[each.member_id for each in live]}"
        owned = sorted(where for each in live for where in each.owned)
        if len(owned) != len(set(owned)):
            yield f"{group_id}: two have one of {owned}"
        if not all(each.is_settled_in(group.generation_id) for each in live):
            yield f"{group_id}: not all are in its generation"

    def _unsettled_consumer_group(self, group: ConsumerGroup, live: list[Any]) -> Iterator[str]:
        group_id = group.group_id
        alive = {each.member_id for each in live}
        if alive != group.members.keys():
            yield f"{group_id} has {sorted(group.members)}, alive are {sorted(alive)}"
            return
        if all(isinstance(each, Consumer) for each in live):
            return  # Topics are looked at when somebody joins, or beats by the new protocol (N6).
        if group.state is not GroupState.STABLE:
            yield f"{group_id} is {group.state}"
        wanted: dict[tuple[bytes, int], list[str]] = {}
        for each in live:
            epoch = each.epoch if isinstance(each, NewConsumer) else each.generation_id
            is_settled = each.is_settled() if isinstance(each, NewConsumer) else each.is_settled_in(epoch)
            if not is_settled or epoch != group.epoch:
                yield f"{each.member_id} of {group_id} is at {epoch} of {group.epoch}, settled: {is_settled}"
        yield from self._misowned(group_id, live, wanted)

    def _misowned(self, group_id: str, live: list[Any], owners: dict[Any, list[str]]) -> Iterator[str]:
        subscribed = {each.member_id: _wanted(each) for each in live}
        for each in live:
            for name, partition in self._owned(each):
                owners.setdefault((name, partition), []).append(each.member_id)
                if name not in subscribed[each.member_id]:
                    yield f"{each.member_id} of {group_id} has {name}, and did not subscribe to it"
        for name in sorted(set().union(*subscribed.values())):
            for partition in range(self.topics.partition_count(name) or 0):
                found = owners.pop((name, partition), [])
                if len(found) != 1:
                    yield f"{name}-{partition} of {group_id} is had by {found}"
        if owners:
            yield f"{group_id} has what is not there: {owners}"

    def _owned(self, consumer: Any) -> list[tuple[Any, int]]:
        if isinstance(consumer, NewConsumer):
            return [(self.topics.topic_name(topic_id), p) for topic_id, p in consumer.owned]
        return list(consumer.owned)

    def _look(self) -> None:
        super()._look()
        if self.server.runtime is not None and self.server.runtime.outages.is_full:
            self.witness.on_no_room()


def _wanted(consumer: Any) -> set[str]:
    return consumer.wanted() if isinstance(consumer, NewConsumer) else set(consumer.subscription)


# Faults of these groups alone.


def roll(simulation: Any) -> None:
    """A process ends, and one of the other protocol takes its place."""
    running = simulation.running()
    if not running:
        return
    consumer = simulation.random.choice(running)
    profile = consumer.profile
    other = simulation.rolled[profile.client_id]
    simulation.rolled[profile.client_id] = profile
    if simulation.random.random() < 0.8:
        Task(consumer.leave())
    else:
        consumer.die()
    simulation.timeline.after(simulation.random.choice(RESTART_MS), partial(_add_alone, simulation, other))


def bring_one_back(simulation: Any) -> None:
    """One that has ended, be it of an error, is started again, by the protocol that it had or by the other."""
    running = {each.profile.client_id for each in simulation.running()}
    ended = [each.profile for each in simulation.consumers if each.profile.client_id not in running]
    if ended:
        profile = simulation.random.choice(ended)
        if simulation.random.random() < 0.5:
            other = simulation.rolled[profile.client_id]
            simulation.rolled[profile.client_id], profile = profile, other
        simulation.add(profile)


def _add_alone(simulation: Any, profile: Any) -> None:
    if not any(each.profile.client_id == profile.client_id for each in simulation.running()):
        simulation.add(profile)


def change_an_expression(simulation: Any) -> None:
    """A member of the new protocol subscribes by an expression, or by another one."""
    new = [
        each for each in simulation.running() if isinstance(each, NewConsumer) and each.profile.version >= 1
    ]
    if new:
        simulation.random.choice(new).subscribe(simulation.random.choice(EXPRESSIONS))


def come_and_go(simulation: Any) -> None:
    """A topic comes that only expressions match, or grows."""
    name = simulation.random.choice(MORE_TOPICS)
    count = simulation.topics.partition_count(name)
    if count is None:
        simulation.topics.make(name, 1)
    elif count < faults.PARTITIONS_MAX:
        simulation.topics.grow(name, count + 1)


def get_many_stuck(simulation: Any) -> None:
    """Users of several members do not poll for long, so that nobody gives anything up."""
    until_ms = simulation.timeline.now_ms + simulation.random.choice((8_000, 25_000, 70_000))
    for consumer in simulation.running():
        if simulation.random.random() < 0.5:
            consumer.get_stuck(until_ms)
