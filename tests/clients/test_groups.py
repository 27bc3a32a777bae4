"""Groups of real clients, one process each: a member is killed, one joins, and not a record is missed."""

from __future__ import annotations

import pytest

from harness.observer import Observer
from tests.clients.fleet import Fleet
from tests.clients.groups import Group, values_seen

KILL_AFTER_RECORDS = 50


def test_a_group_survives_a_kill_and_a_join(family: str, fleet: Fleet, observer: Observer) -> None:
    run_with_a_kill_and_a_join(Group(fleet, observer), family)


@pytest.mark.parametrize("family", ["confluent", "kafka_python"])
def test_a_cooperative_group_survives_a_kill_and_a_join(
    family: str, fleet: Fleet, observer: Observer
) -> None:
    """KIP-429: members give up only what moves; a rebalance is two, and the daemon must not care."""
    run_with_a_kill_and_a_join(Group(fleet, observer), family, assignor="cooperative-sticky")


def run_with_a_kill_and_a_join(group: Group, family: str, **config: object) -> None:
    """Three busy members; one is killed, one joins: all records read, one owner each, commits at the ends."""
    victim, *survivors = (group.start(family, **config) for _ in range(3))
    group.await_shared(victim, *survivors)
    with group.steady_writer():
        victim.wait_for(lambda: len(values_seen(victim)) >= KILL_AFTER_RECORDS, "the victim is busy")
        victim.kill()
        joiner = group.start(family, **config)
        members = (*survivors, joiner)
        group.await_shared(*members)
        joiner.wait_for(lambda: values_seen(joiner), "the joiner reads")
    seen = group.await_everything_read(victim, *members)
    assert seen.keys() == set(group.written), "records that were never written"
    group.await_everything_committed(*members)
    group.stop(*members)
