"""Consumer groups (KIP-848) beside Kafka: steady heartbeats, many groups and a large one that join, and memory.

Time until all is reconciled is mostly the wait for heartbeats: a member learns of partitions that another gave up
when it next sends one. The interval is that of users, the same for both servers. Sessions are as long as those of
the members of classic groups here: members that send no heartbeats outlive the rounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median
from typing import Final

from bench.pairs import frames
from bench.pairs.consumer_crowd import ConsumerCrowd, Subscription, consumers
from bench.pairs.crowd import await_coordinator
from bench.pairs.frames import CONSUMER_HEARTBEAT, SESSION_MS
from bench.pairs.lanes import connect_all
from bench.pairs.plan import SHARE, Plan
from bench.pairs.rounds import KAFKA, Section, cpus, take_turns, throughputs
from bench.pairs.servers import resident_mb
from bench.pairs.singles import PARTITIONS, learned, make_topic
from bench.pairs.steady import close, conditions, contender, lines
from bench.pairs.storms import DEADLINE_S, SIZE, Storms, contending, play_in_turns
from bench.pairs.targets import judged
from harness.processes import ServerProcess

LONG_SESSIONS: Final = {f"group.consumer.{name}session.timeout.ms": str(SESSION_MS) for name in ("max.", "")}
SESSIONS: Final = f"Sessions of consumer groups of {SESSION_MS // 60_000} minutes in both."
TOPIC: Final = "consumed"
EACH_ITS_SHARE: Final = Subscription([TOPIC], SIZE * SHARE)
MEMORY_INTERVAL_MS: Final = 1_000
"""Between heartbeats while members join whose memory is asked for: it does not depend on it, and the wait does."""

TABLE: Final = (
    "| server | s until reconciled | lowest to highest | server CPU, s | lowest to highest "
    "| heartbeats | epochs |\n|---|---|---|---|---|---|---|"
)


@dataclass(slots=True)
class Rebalances(Storms):
    """The crowds that one server reconciled."""

    subscription: Subscription = field(kw_only=True)
    heartbeats: list[int] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)

    def rebalance(self, name: str, groups: int, size: int) -> None:
        """One more, of groups that are new; they are left to stand when it is over."""
        crowd = self.join(name, groups, size, partial(ConsumerCrowd, subscription=self.subscription))
        self.heartbeats.append(crowd.heartbeats)
        self.epochs += {member.generation_id for member in crowd.members()}

    @property
    def row(self) -> str:
        return f"{self.times} {median(self.heartbeats):,.0f} | {min(self.epochs)} to {max(self.epochs)} |"


def heartbeats(plan: Plan) -> list[Section]:
    """Steady heartbeats of members that are alone in their groups, and reconciled."""
    with contending(plan, LONG_SESSIONS) as servers:
        contenders = []
        for name, server in servers.items():
            make_topic(server, SIZE * SHARE, TOPIC)
            group_ids = [f"consumer-beat-{index:05d}" for index in range(plan.connections)]
            alone = consumers(server.port, group_ids, 1, EACH_ITS_SHARE, DEADLINE_S)
            lanes = learned(server, alone, frames.consumer_heartbeat, CONSUMER_HEARTBEAT)
            contenders.append(contender(name, server, lanes))
        take_turns(contenders, plan.rounds, plan.seconds, 1, plan.warm_again_s)
        close(contenders)
    *ours, theirs = contenders
    targets = [
        judged("consumer_heartbeats.throughput", plan, throughputs(ours, theirs)),
        judged("consumer_heartbeats.cpu", plan, cpus(ours, theirs)),
    ]
    title = f"Consumer groups: heartbeats, {plan.connections:,} connections, 1 in flight"
    return [Section(title, lines(contenders), targets, f"{conditions(plan, plan.warm_again_s)} {SESSIONS}")]


def storms(plan: Plan) -> list[Section]:
    """Many groups whose members join at once."""
    groups = plan.sizes["storm_groups"]

    def storm(each: Rebalances, name: str) -> None:
        each.rebalance(f"consumer-storm-{name}", groups, SIZE)

    *ours, theirs = _rounds(plan, EACH_ITS_SHARE, storm)
    targets = [
        judged(
            "consumer_storms.time", plan, [median(each.seconds) / median(theirs.seconds) for each in ours]
        ),
        judged("consumer_storms.cpu", plan, [median(each.cpu_s) / min(theirs.cpu_s) for each in ours]),
    ]
    title = f"Consumer groups: {groups:,} of {SIZE} join at once, on a topic of {SIZE * SHARE} partitions"
    conditions_ = f"{_conditions(plan)} Kafka's least CPU against the median of ours; of times the medians."
    return [Section(title, [TABLE, *(each.row for each in (*ours, theirs))], targets, conditions_)]


def herd(plan: Plan) -> list[Section]:
    """One large group whose members join at once."""
    size, partitions = plan.sizes["consumer_herd"], plan.sizes["consumer_partitions"]
    each_has = min(PARTITIONS, partitions)
    topics = [f"{TOPIC}-by-many-{number}" for number in range(partitions // each_has)]

    def one(each: Rebalances, name: str) -> None:
        each.rebalance(f"consumer-herd-{name}", 1, size)

    *ours, theirs = _rounds(plan, Subscription(topics, partitions), one)
    ratios = [median(each.seconds) / median(theirs.seconds) for each in ours]
    title = f"Consumer groups: one of {size:,} joins at once, topics of {each_has:,} partitions"
    rows = [TABLE, *(each.row for each in (*ours, theirs))]
    targets = [judged("consumer_herd.time", plan, ratios)]
    return [Section(title, rows, targets, f"{_conditions(plan)} The medians of both.")]


def _rounds(
    plan: Plan, subscription: Subscription, play: Callable[[Rebalances, str], None]
) -> list[Rebalances]:
    """What every build and, last, Kafka went through, in turns."""
    with contending(plan, LONG_SESSIONS) as servers:
        every = [Rebalances(name, server, subscription=subscription) for name, server in servers.items()]
        for each in every:
            for topic in subscription.topics:
                make_topic(each.server, subscription.partitions // len(subscription.topics), topic)
        warm_up = Rebalances(KAFKA, every[-1].server, subscription=subscription)
        play_in_turns(every, plan.consumer_rounds, play, warm_up, min(1, plan.storm_warm_ups))
    return every


def _conditions(plan: Plan) -> str:
    return (
        f"{plan.consumer_rounds} of each in turns, of connections that are open already, after "
        f"{min(1, plan.storm_warm_ups)} not counted for Kafka and none for Muster. Members send a heartbeat "
        f"every {plan.consumer_interval_ms / 1000:g} s, and at once when what they own has changed; a group is "
        f"reconciled when its members are of one epoch and have confirmed an equal share of the partitions. "
        f"{SESSIONS}"
    )


def memory(plan: Plan) -> list[Section]:
    """Resident memory with many members of consumer groups, each with its share of a topic."""
    plan = replace(plan, consumer_interval_ms=min(MEMORY_INTERVAL_MS, plan.consumer_interval_ms))
    found: dict[str, tuple[float, float]] = {}
    for name, tree in plan.builds.items():
        with plan.muster(name, LONG_SESSIONS, tree) as ours:
            found[name] = _memory(plan, ours)
    with plan.kafka(LONG_SESSIONS) as theirs:
        found[KAFKA] = _memory(plan, theirs)
    head = ["| server | empty, MB | with members, MB |", "|---|---|---|"]
    rows = [f"| {name} | {empty:,.0f} | {full:,.0f} |" for name, (empty, full) in found.items()]
    ratios = [found[name][1] / found[KAFKA][1] for name in plan.builds]
    conditions_ = (
        f"One sample of each server, one after the other: resident memory, all of a JVM's heap included. "
        f"Groups of {plan.group_size}, each member with {SIZE * SHARE // plan.group_size} partitions, and a "
        f"heartbeat every {plan.consumer_interval_ms / 1000:g} s while members join. {SESSIONS}"
    )
    targets = [judged("consumer_memory", plan, ratios)]
    return [Section("Consumer groups: memory", [*head, *rows], targets, conditions_)]


def _memory(plan: Plan, server: ServerProcess) -> tuple[float, float]:
    make_topic(server, SIZE * SHARE, TOPIC)
    empty = resident_mb(server.pid)
    connections = connect_all(server.port, plan.groups * plan.group_size)
    for number in range(plan.crowds):
        group_ids = [f"consumer-memory-{number}-{index:05d}" for index in range(plan.groups)]
        await_coordinator(server.port, group_ids)
        ConsumerCrowd(group_ids, plan.group_size, connections, EACH_ITS_SHARE).join(DEADLINE_S)
    with_members = resident_mb(server.pid)
    for connection in connections:
        connection.close()
    return empty, with_members
