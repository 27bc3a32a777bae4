"""Groups of the new protocol (KIP-848), of real clients: the broker assigns, and members confirm.

Here members name an assignor, and libraries share a group. Members that restart, coordinators that end,
expressions and groups that change their kind are in test_consumer_groups_under_load and test_migration.
"""

from __future__ import annotations

import pytest

from harness.observer import Observer
from tests.clients.fleet import Fleet
from tests.clients.groups import LONG_SESSION_MS, Group, values_seen

NEW = {"protocol": "consumer"}
KILL_AFTER_RECORDS = 50


@pytest.fixture
def group(quick_fleet: Fleet, watcher: Observer) -> Group:
    return Group(quick_fleet, watcher)


@pytest.mark.parametrize(
    ("family", "assignor"), [("confluent", "uniform"), ("java", "range")], indirect=["family"]
)
def test_a_group_survives_a_kill_and_a_join(group: Group, family: str, assignor: str) -> None:
    config = {**NEW, "assignor": assignor}
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


@pytest.mark.usefixtures("java")
def test_two_libraries_share_a_topic_and_nothing_is_read_twice(group: Group) -> None:
    group.set_sessions(LONG_SESSION_MS)
    leaver, *others = (group.start(each, **NEW) for each in ("confluent", "java", "java"))
    group.await_shared(leaver, *others)
    group.write()
    group.await_everything_read(leaver, *others)
    group.await_everything_committed(leaver, *others)
    leaver.stop()
    group.await_shared(*others)
    group.write()
    seen = group.await_everything_read(leaver, *others)
    assert set(seen.values()) == {1}
    group.await_everything_committed(*others)
    group.stop(*others)
