"""Living groups go to the new protocol and back, and no commit is lost or doubled: see migration and ledger.

`make soak-migration` has ten members do it five times.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.observer import Observer
from tests.clients.conftest import TARGETS
from tests.clients.fleet import Fleet
from tests.clients.groups import Group
from tests.clients.migration import SETTINGS, Migration, Plan

PLANS = {
    "both libraries": Plan(members=4, rounds=1),
    "the broker is killed": Plan(members=4, rounds=1, kills=True),
    "librdkafka": Plan(members=3, rounds=1, families=("confluent",)),
    "cooperative": Plan(members=3, rounds=1, families=("java",), assignor="cooperative-sticky"),
}


@pytest.fixture(params=[*PLANS.values()], ids=[*PLANS])
def plan(request: pytest.FixtureRequest) -> Plan:
    chosen: Plan = request.param
    if "java" in chosen.families:
        request.getfixturevalue("java")
    return chosen


def test_no_commit_is_lost_or_doubled(
    plan: Plan, target: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    with TARGETS[target](tmp_path / "broker", SETTINGS) as broker:
        figures = Migration(broker, tmp_path, plan).run()
    record_property("figure", f"migration: {figures}")


def test_a_group_that_librdkafka_leads_as_cooperative_is_not_upgraded(
    quick_fleet: Fleet, watcher: Observer
) -> None:
    """Its assignments carry user data once there was one before: to Kafka the sign of a custom assignor (A54)."""
    group = Group(quick_fleet, watcher)
    first = group.start("confluent", assignor="cooperative-sticky")
    group.await_shared(first)
    second = group.start("confluent", assignor="cooperative-sticky")
    group.await_shared(first, second)
    newcomer = group.start("confluent", protocol="consumer")
    refused = "ConsumerGroupHeartbeat fatal error: Broker: The group id does not exist"
    newcomer.wait_for(lambda: refused in newcomer.last_words, refused, may_end=True)
    group.await_shared(first, second)
    assert group.kind() == "CLASSIC"
    group.stop(first, second)
