"""Members as threads of the test: the same loop as in Spark's tasks, with real consumers on a real broker."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from confluent_kafka import ConsumerGroupType
from confluent_kafka.admin import AdminClient

from muster.spark.members.checks import ClusterQueries
from muster.spark.members.driver import prepare
from muster.spark.members.member import ExecutorMember, Task
from muster.spark.members.plan import MemberContext, Plan, Positions, effective_settings
from muster.spark.members.report import MemberReport

CONSUMER: Mapping[str, str] = {"group.protocol": "consumer"}
"""The settings of members by the consumer protocol (KIP-848)."""

DESCRIBE_TIMEOUT_S = 60

Seen = tuple[int, int, str]
"""A row that `process` was given: partition, offset, value."""


@dataclass
class Sink:
    """What the members of a run were given, in order; safe to share between threads."""

    rows: list[Seen] = field(default_factory=list)
    contexts: list[MemberContext] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def process(self, batch: pa.RecordBatch, context: MemberContext) -> None:
        found = [(row["partition"], row["offset"], row["value"].decode()) for row in batch.to_pylist()]
        with self.lock:
            self.rows += found
            self.contexts.append(context)


def plan_for(
    bootstrap: str,
    group_id: str,
    topic: str,
    process: Callable[..., None],
    *,
    members: int = 1,
    positions: Positions | None = None,
    continuous: bool = False,
    settings: Mapping[str, str] | None = None,
    **options: Any,
) -> Plan:
    """The plan that `members.run` would make."""
    quick = {"fetch.wait.max.ms": "20", **({"heartbeat.interval.ms": "200"} if settings != CONSUMER else {})}
    quick |= settings or {}
    effective = effective_settings(quick, has_positions=positions is not None)
    plan = Plan(
        bootstrap,
        group_id,
        uuid.uuid4().hex,
        (topic,),
        members,
        process,
        positions,
        settings=effective,
        **options,
    )
    return prepare(ClusterQueries(bootstrap, effective), plan, continuous=continuous)


def run_threads(plan: Plan) -> list[MemberReport]:
    """Run all members of the plan to their end; what one of them raises is raised."""
    barrier = threading.Barrier(plan.members)

    def live(number: int) -> MemberReport:
        def arrive() -> None:
            barrier.wait(60)

        return ExecutorMember(plan, Task(number, number, arrive)).run()

    with ThreadPoolExecutor(plan.members) as pool:
        return list(pool.map(live, range(plan.members)))


def members_of(bootstrap: str, group: str) -> int:
    """How many members the group has, as the cluster describes it."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    return len(admin.describe_consumer_groups([group])[group].result(DESCRIBE_TIMEOUT_S).members)


def group_type(bootstrap: str, group: str) -> ConsumerGroupType:
    """The protocol that the group is of, as the cluster describes it."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    found: ConsumerGroupType = admin.describe_consumer_groups([group])[group].result(DESCRIBE_TIMEOUT_S).type
    return found
