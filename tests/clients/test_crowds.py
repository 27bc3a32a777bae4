"""Fifty members that join at once come to one generation, each with a share."""

from __future__ import annotations

from collections.abc import Callable

from harness.observer import Observer
from tests.clients.fleet import Fleet
from tests.clients.groups import Group

PROCESSES = 5
MEMBERS = 50
# All come within the initial delay of 500 ms. The leader of kafka-python's members joins once more where it
# learns of the topic's partitions only after it has joined: it compares what it knew with what it assigned. On a
# busy machine it does so twice: "leader rejoined" is the cause of both in the group's history.
MAX_GENERATIONS = {"kafka_python": 3}


def test_fifty_members_join_at_once(
    family: str, fleet: Fleet, observer: Observer, record_property: Callable[[str, object], None]
) -> None:
    """Five processes with ten members each, all made before the first joins."""
    group = Group(fleet, observer, partitions=MEMBERS)
    crowd = [group.start(family, members=MEMBERS // PROCESSES, waits=True) for _ in range(PROCESSES)]
    for process in crowd:
        process.wait_for_event("waiting")
    for process in crowd:
        process.go()
    group.await_shared(*crowd, members=MEMBERS)
    generations = group.generations()
    first, last = generations[0], generations[-1]
    figure = (
        f"{family}: {MEMBERS} at once, generations: {last.number}, members of the first: {len(first.shares)}"
    )
    record_property("figure", figure)
    assert last.number <= MAX_GENERATIONS.get(family, 1)
    assert len(first.shares) == MEMBERS
    assert [len(share) for share in last.shares.values()] == [1] * MEMBERS
    group.write(10 * MEMBERS)
    group.await_everything_read(*crowd)
    group.await_everything_committed(*crowd)
    group.stop(*crowd)
