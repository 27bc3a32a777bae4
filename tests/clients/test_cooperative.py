"""Cooperative rebalancing (KIP-429): members give up only what moves; the coordinator must not care."""

from __future__ import annotations

import pytest

from harness.observer import Observer
from tests.clients.chronicle import handed_over_at_once
from tests.clients.fleet import Fleet, Worker
from tests.clients.groups import Group, values_seen

# aiokafka 0.14 has no cooperative assignor: its members give up everything in each rebalance.
COOPERATIVE = ("confluent", "kafka_python", "java")


@pytest.mark.parametrize("family", COOPERATIVE, indirect=True)
def test_what_a_member_keeps_is_never_revoked_from_it(family: str, fleet: Fleet, observer: Observer) -> None:
    """A third member joins two busy ones, in two rebalances: one to give up, one to hand out."""
    group = Group(fleet, observer)
    config = {"assignor": "cooperative-sticky", "session_timeout_ms": 30_000}  # Nobody is to be put out.
    staying = [group.start(family, **config) for _ in range(2)]
    group.await_shared(*staying)
    generations_before = group.generations()[-1].number
    reported_before = {member: len(member.of("owns")) for member in staying}
    with group.steady_writer():
        joiner = group.start(family, **config)
        group.await_shared(*staying, joiner)
        joiner.wait_for(lambda: values_seen(joiner), "the joiner reads")
    for member in staying:
        owned = owned_since(member, reported_before[member])
        assert all(owned[-1] <= share for share in owned), member.story()
    # Before them a member may have joined alone, and been joined before it had taken what it was given.
    generations = [each for each in group.generations() if each.number >= generations_before]
    assert generations[-1].number >= generations_before + 2
    assert handed_over_at_once(generations) == set()
    group.await_everything_read(*staying, joiner)
    group.await_everything_committed(*staying, joiner)
    group.stop(*staying, joiner)


def owned_since(member: Worker, reported_before: int) -> list[set[str]]:
    """The partitions that the member owned at report `reported_before`, and after each change since."""
    return [set(event["partitions"]) for event in member.of("owns")[reported_before - 1 :]]
