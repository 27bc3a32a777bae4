"""The coordinator dies, or sleeps: its clients come back to one group, and nothing is lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.observer import Observer
from harness.processes import ServerProcess
from tests.clients.fleet import Fleet
from tests.clients.groups import Group

SESSION_MS = 12_000
LEFT_MS = 7_000
"""At least, of a session that is renewed every second or, on a busy machine, some seconds late, and of a stop
known to half a one."""
SLEEP_S = 14  # Longer than a session.
REBALANCING = "PREPARING_REBALANCING"
# librdkafka gives up a session that was not answered for its length, and joins as a new member. The others keep
# their member id, look for the coordinator, and find that they still are in the group.
REJOINS_BY_ITSELF = {"confluent"}


@pytest.fixture
def group(own_broker: ServerProcess, tmp_path: Path) -> Iterator[Group]:
    """A group on a coordinator that this test may kill or stop."""
    fleet = Fleet(own_broker.bootstrap, tmp_path)
    yield Group(fleet, Observer(own_broker.bootstrap))
    fleet.close()


def test_a_coordinator_killed_in_the_middle_of_a_rebalance_comes_back(
    family: str, group: Group, own_broker: ServerProcess
) -> None:
    """A fourth member begins a rebalance, a member that sleeps holds it up: then the coordinator is killed."""
    config = {"session_timeout_ms": 40_000}  # The sleeper is not to be expired while the fourth one starts.
    members = [group.start(family, **config) for _ in range(3)]
    group.await_shared(*members)
    group.write()
    group.await_everything_read(*members)
    sleeper = members[0]
    sleeper.pause()
    members.append(group.start(family, **config))
    group.await_state(REBALANCING)
    own_broker.kill()
    sleeper.resume()
    own_broker.start()
    group.reconnect()
    group.await_shared(*members)
    group.write()
    group.await_everything_read(*members)
    group.await_everything_committed(*members)
    assert len(group.member_ids()) == len(members)
    numbers = [generation.number for generation in group.generations()]
    assert numbers == sorted(numbers), "a generation that went back"
    group.stop(*members)


@pytest.mark.parametrize("family", ["java", "confluent"], indirect=True)
def test_no_member_is_expired_for_the_coordinators_own_sleep(
    family: str, group: Group, own_broker: ServerProcess, target: str
) -> None:
    members = [group.start(family, session_timeout_ms=SESSION_MS) for _ in range(2)]
    group.await_shared(*members)
    ids = group.member_ids()
    own_broker.pause()
    time.sleep(SLEEP_S)  # The point of the test: time passes, and the coordinator does not know.
    woken_ms = time.time() * 1_000
    own_broker.resume()
    group.write()
    group.await_everything_read(*members)
    group.await_shared(*members)
    group.await_everything_committed(*members)
    if target == "kafka":
        return  # It knows no such mercy, and keeps no history.
    if family not in REJOINS_BY_ITSELF:
        assert group.member_ids() == ids
    group.stop(*members)
    expired = [event for event in group.history() if event.cause == "session_expired"]
    if family in REJOINS_BY_ITSELF:  # Ids that were given up: they have what was left of their sessions.
        assert all(event.wall_ms >= woken_ms + LEFT_MS for event in expired), expired
    else:
        assert not expired
