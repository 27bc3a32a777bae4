"""A consumer of the new protocol, as stock clients behave: it beats, reconciles, commits, heeds errors.

A heartbeat task and a task that polls, like the threads of a real one: partitions are given up and taken by the
second, while the first goes on. Both of Java's and librdkafka's manners: all fields with the first heartbeat and
after each failure, else those that changed; owned partitions whenever they did.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, Final
from uuid import UUID

from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatTopicPartitions,
)
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.simulation.catalogue import Catalogue
from tests.simulation.network import Network
from tests.simulation.timeline import Task
from tests.simulation.wire import LOST

Where = tuple[bytes, int]
REQUEST_TIMEOUT_MS: Final = 3_000
BACKOFF_MS: Final = 100
BACKOFF_MAX_MS: Final = 1_000
POLL_MS: Final = 200
JOIN, LEAVE, LEAVE_FOR_NOW = 0, -1, -2
GONE: Final = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)
"""Errors after which a member drops all that it has, and joins again under its id."""
AGAIN: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
"""Errors after which it asks again; every other one ends it."""


@dataclass(frozen=True, slots=True)
class NewProfile:
    """What a consumer of the new protocol is started with."""

    client_id: str
    group_id: str
    instance_id: str | None
    version: int  # Of ConsumerGroupHeartbeat.
    assignor: str | None
    rebalance_timeout_ms: int
    callback_ms: int  # What its user takes to give partitions up.
    leaves_when_stuck: bool  # As Java's does after `max.poll.interval.ms`.
    leaves_for_good: bool  # A static one as well.
    by_ids: bool  # It commits by the ids of topics.
    is_worker: bool = False

    def __str__(self) -> str:
        instance = f" as {self.instance_id}" if self.instance_id else ""
        return (
            f"{self.client_id}{instance} of {self.group_id}: new protocol, v{self.version}, {self.assignor}; "
            f"rebalance {self.rebalance_timeout_ms:,} ms, callbacks {self.callback_ms:,} ms"
        )


class NewConsumer:
    """One process with one consumer. `subscription` are names of topics, or one expression."""

    def __init__(
        self,
        profile: NewProfile,
        subscription: tuple[str, ...] | str,
        network: Network,
        random: Random,
        topics: Catalogue,
        offsets: Iterator[int],
    ) -> None:
        """Commits the numbers of `offsets`, which are never committed twice."""
        self.profile = profile
        self.subscription = subscription
        self.member_id = _new_id(random) if profile.version >= 1 else ""
        self.epoch = JOIN
        self.owned: set[Where] = set()
        self.is_running = True
        self.ended_by: ErrorCode | None = None
        self.stuck_until_ms = 0
        self._stuck_since_ms = 0
        self._target: set[Where] | None = None  # As it was told last; None: it has come to it.
        self._network = network
        self._port = network.port(profile.client_id)
        self._random = random
        self._topics = topics
        self._offsets = offsets
        self._said: dict[str, Any] = {}  # What the coordinator is known to know of this member.
        # Once it has, it says so when it has none; so does one whose instance may have had one, as that is kept.
        self._had_regex = profile.instance_id is not None
        self._life = 0  # How often it has begun anew.
        self._is_away = False  # It has left since its user does not poll.
        self._is_urgent = False  # It has something to say before the interval is over.
        self._interval_ms = 1_000
        self._tasks = [Task(self._beat()), Task(self._poll())]

    # What happens to a process.

    def die(self) -> None:
        """It is gone, without a word."""
        self.is_running = False
        for task in self._tasks:
            task.cancel()
        self._port.close()

    def pause(self) -> None:
        """SIGSTOP."""
        for task in self._tasks:
            task.pause()

    def go_on(self) -> None:
        for task in self._tasks:
            task.go_on()

    def get_stuck(self, until_ms: int) -> None:
        """Its user does something long between two polls: heartbeats go on."""
        self.stuck_until_ms, self._stuck_since_ms = until_ms, self._network.now_ms

    def subscribe(self, topics: tuple[str, ...] | str) -> None:
        self.subscription, self._is_urgent = topics, True

    def rejoin(self) -> None:
        """As one that was fenced."""
        self._start_anew()

    async def leave(self) -> None:
        """Commit, give everything up, say goodbye, and end."""
        if self.owned and self.epoch > 0 and self._random.random() < 0.7:
            await self._commit(self._pick_owned())
        if not self.is_running:
            return
        self.owned.clear()
        request = self._goodbye(for_good=self.profile.leaves_for_good)
        had_joined = bool(self.member_id) and self.epoch > 0
        self.die()
        if had_joined:
            await self._call(request, self.profile.version)

    def _goodbye(self, *, for_good: bool) -> ConsumerGroupHeartbeatRequest:
        is_static = self.profile.instance_id is not None
        return ConsumerGroupHeartbeatRequest(
            group_id=self.profile.group_id,
            member_id=self.member_id,
            member_epoch=LEAVE_FOR_NOW if is_static and not for_good else LEAVE,
            instance_id=self.profile.instance_id,
        )

    # What it is to come to.

    def is_settled(self) -> bool:
        """Whether it has come to what it was told last, and has nothing to say."""
        return self.epoch > 0 and self._target is None and not self._is_urgent and not self._is_away

    def wanted(self) -> set[str]:
        """The names of the topics that it subscribes to."""
        if isinstance(self.subscription, str):
            return {name for name in self._topics.names() if re.fullmatch(self.subscription, name)}
        return set(self.subscription)

    # Heartbeats.

    async def _beat(self) -> None:
        backoff_ms = BACKOFF_MS
        while self.is_running:
            if self._is_stuck_for_too_long():
                await self._go_away()
                continue
            if await self._beat_once():
                backoff_ms = BACKOFF_MS
                await self._wait_for(self._interval_ms)
            elif self.is_running:
                await self._network.sleep(backoff_ms)
                backoff_ms = min(2 * backoff_ms, BACKOFF_MAX_MS)

    async def _wait_for(self, interval_ms: int) -> None:
        until_ms = self._network.now_ms + interval_ms
        while self.is_running and not self._is_urgent and (left_ms := until_ms - self._network.now_ms) > 0:
            await self._network.sleep(min(left_ms, POLL_MS))

    async def _beat_once(self) -> bool:
        """One heartbeat; False if the next is due after a pause."""
        fields = self._fields()
        news = {name: value for name, value in fields.items() if self._said.get(name) != value}
        self._is_urgent = False
        epoch, life = self.epoch, self._life
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.profile.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self.profile.instance_id,
            **_as_sent(news),
        )
        answer = await self._call(request, self.profile.version)
        if life != self._life:
            return True  # It began anew meanwhile.
        if answer is LOST:
            self._said = {}
            return False
        return self._heed(ErrorCode(answer.error_code), answer, fields)

    def _fields(self) -> dict[str, Any]:
        names: tuple[str, ...] = ()
        regex = ""
        if isinstance(self.subscription, str):
            regex = self.subscription
        else:
            names = self.subscription
        fields: dict[str, Any] = {
            "rebalance_timeout_ms": self.profile.rebalance_timeout_ms,
            "subscribed_topic_names": tuple(names),
            "topic_partitions": frozenset(self.owned),
        }
        if self.profile.assignor is not None:
            fields["server_assignor"] = self.profile.assignor
        self._had_regex = self._had_regex or bool(regex)
        if self.profile.version >= 1 and self._had_regex:
            fields["subscribed_topic_regex"] = regex
        return fields

    def _heed(self, error: ErrorCode, answer: Any, said: dict[str, Any]) -> bool:
        if error is ErrorCode.NONE:
            self.member_id, self.epoch = answer.member_id, answer.member_epoch
            self._interval_ms, self._said = answer.heartbeat_interval_ms, said
            if answer.assignment is not None:
                self._target = {
                    (each.topic_id, p) for each in answer.assignment.topic_partitions for p in each.partitions
                }
            return True
        self._said = {}
        if error in GONE:
            self._start_anew()
        elif error not in AGAIN:
            self.ended_by = error
            self.die()
        return False

    def _start_anew(self) -> None:
        self.owned.clear()
        self.epoch, self._target, self._said = JOIN, None, {}
        self._life += 1
        self._is_urgent = True

    # A user that does not poll.

    @property
    def _is_stuck(self) -> bool:
        return self._network.now_ms < self.stuck_until_ms

    def _is_stuck_for_too_long(self) -> bool:
        stuck_ms = self._network.now_ms - self._stuck_since_ms
        limit_ms = self.profile.rebalance_timeout_ms
        return self.profile.leaves_when_stuck and self._is_stuck and stuck_ms > limit_ms

    async def _go_away(self) -> None:
        """Leave, and join again once the user polls."""
        self._is_away = True
        had_joined, goodbye = self.epoch > 0, self._goodbye(for_good=False)
        self._start_anew()
        if had_joined:
            await self._call(goodbye, self.profile.version)
        while self._is_stuck:
            await self._network.sleep(POLL_MS)
        self._is_away = False

    # The thread that polls.

    async def _poll(self) -> None:
        while self.is_running:
            await self._network.sleep(POLL_MS)
            if self._is_stuck or self._is_away:
                continue
            if self._target is not None:
                await self._reconcile(self._target)
            elif self.owned and self.epoch > 0 and self._random.random() < 0.05:
                await self._commit(self._pick_owned())

    async def _reconcile(self, target: set[Where]) -> None:
        """Give up what is not ours any more, then take what is: of topics that are known by now."""
        life = self._life
        if given_up := self.owned - target:
            if self._random.random() < 0.5:
                await self._commit(min(given_up))
            await self._network.sleep(self.profile.callback_ms)
            if life != self._life:
                return
            self.owned -= given_up
            self._is_urgent = True
            if self._target is not target:
                return
        known = {where for where in target if self._topics.topic_name(where[0]) is not None}
        if added := known - self.owned:
            self.owned |= added
            self._is_urgent = True
            await self._fetch(added)
        if self._target is target and self.owned == target:
            self._target = None

    def _pick_owned(self) -> Where:
        return self._random.choice(sorted(self.owned))

    async def _fetch(self, added: set[Where]) -> None:
        topics = [
            OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=sorted(partitions))
            for topic_id, partitions in sorted(_by_topic(added).items())
        ]
        group = OffsetFetchRequestGroup(
            group_id=self.profile.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            topics=topics,
        )
        await self._call(OffsetFetchRequest(groups=[group], require_stable=True), 10)

    async def _commit(self, where: Where) -> None:
        topic_id, index = where
        name = self._topics.topic_name(topic_id)
        if name is None:
            return
        partition = OffsetCommitRequestPartition(partition_index=index, committed_offset=next(self._offsets))
        topic = OffsetCommitRequestTopic(name=name, partitions=[partition])
        if self.profile.by_ids:
            topic = OffsetCommitRequestTopic(topic_id=topic_id, partitions=[partition])
        request = OffsetCommitRequest(
            group_id=self.profile.group_id,
            generation_id_or_member_epoch=self.epoch,
            member_id=self.member_id,
            group_instance_id=self.profile.instance_id,
            topics=[topic],
        )
        await self._call(request, 10 if self.profile.by_ids else 9)

    async def _call(self, request: Any, version: int) -> Any:
        return await self._port.call(request, version, REQUEST_TIMEOUT_MS)


def _new_id(random: Random) -> str:
    return str(UUID(int=random.getrandbits(128), version=4))


def _as_sent(news: dict[str, Any]) -> dict[str, Any]:
    sent = dict(news)
    if "subscribed_topic_names" in sent:
        sent["subscribed_topic_names"] = list(sent["subscribed_topic_names"])
    if "topic_partitions" in sent:
        sent["topic_partitions"] = [
            ConsumerGroupHeartbeatTopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in sorted(_by_topic(sent["topic_partitions"]).items())
        ]
    return sent


def _by_topic(where: Any) -> dict[bytes, set[int]]:
    found: dict[bytes, set[int]] = {}
    for topic_id, partition in where:
        found.setdefault(topic_id, set()).add(partition)
    return found
