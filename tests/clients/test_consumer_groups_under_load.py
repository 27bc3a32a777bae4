"""Whatever happens to a group of the new protocol under load, its members' books agree at the end: see ledger."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.observer import Observer
from harness.processes import ServerProcess
from tests.clients.fleet import Fleet, Worker
from tests.clients.groups import LONG_SESSION_MS, Group, shares_of, values_seen
from tests.clients.ledgered import LedgeredGroup

NEW = {"protocol": "consumer"}
PARTITIONS = 8  # Each of four members has two, so a busy one.
RECORDS = 100
UNRELEASED = {
    "java": "UnreleasedInstanceIdException",
    "confluent": "The instance ID is still used by another member in the consumer group",
}


@pytest.fixture(params=["confluent", "java"])
def family(request: pytest.FixtureRequest) -> str:
    """The client libraries that speak the protocol."""
    if request.param == "java":
        request.getfixturevalue("java")
    return str(request.param)


@pytest.fixture
def ledgered(quick_broker: ServerProcess, quick_fleet: Fleet) -> LedgeredGroup:
    return LedgeredGroup(quick_broker, quick_fleet, PARTITIONS)


@pytest.fixture
def own_ledgered(own_quick_broker: ServerProcess, tmp_path: Path) -> Iterator[LedgeredGroup]:
    clients = Fleet(own_quick_broker.bootstrap, tmp_path)
    yield LedgeredGroup(own_quick_broker, clients, PARTITIONS)
    clients.close()


def last_share(member: Worker) -> list[str]:
    return shares_of(member)[0]


def test_members_join_leave_and_crash(ledgered: LedgeredGroup, family: str) -> None:
    """Only a crash may have records read again: those that the member read and did not commit."""
    leaver, victim, stays = (ledgered.start(family, **NEW) for _ in range(3))
    ledgered.await_shared(leaver, victim, stays)
    ledgered.await_under_way(leaver, victim, stays)
    joiner = ledgered.start(family, **NEW)
    ledgered.await_shared(leaver, victim, stays, joiner)
    ledgered.await_progress(leaver, victim, stays, joiner)
    leaver.stop()
    ledgered.await_shared(victim, stays, joiner)
    ledgered.await_progress(victim, stays, joiner)
    victim.kill()
    ledgered.await_shared(stays, joiner)
    ledgered.finish(stays, joiner)


@pytest.mark.parametrize("ends", ["restart", "kill"])
def test_the_coordinator_ends_and_comes_back(own_ledgered: LedgeredGroup, family: str, ends: str) -> None:
    """Members go on with what they have, and nothing is read again: a commit that had no answer is repeated."""
    own_ledgered.set_sessions(LONG_SESSION_MS)
    members = [own_ledgered.start(family, **NEW) for _ in range(3)]
    own_ledgered.await_shared(*members)
    own_ledgered.await_under_way(*members)
    owned = [last_share(each) for each in members]
    for _ in range(2):
        own_ledgered.await_progress(*members)
        own_ledgered.end_broker(ends)
        own_ledgered.await_shared(*members)
        assert [last_share(each) for each in members] == owned
    own_ledgered.await_progress(*members)
    assert own_ledgered.finish(*members).repeated == 0


def test_a_static_member_restarts(ledgered: LedgeredGroup, family: str) -> None:
    """It closes and comes back, and the other member notices nothing (A9, A12)."""
    ledgered.set_sessions(LONG_SESSION_MS)
    static, other = (ledgered.start(family, **NEW, instance_id=name) for name in ("one", "two"))
    ledgered.await_shared(static, other)
    owned, noticed = last_share(static), len(other.of("owns"))
    for restarts in (1, 2):
        ledgered.await_progress(static, other)
        static.become()
        static.wait_for(lambda: len(static.of("closed")) == restarts, "it closes")  # noqa: B023 - called at once.
        ledgered.await_shared(static, other)
        assert last_share(static) == owned
    assert len(other.of("owns")) == noticed, other.story()
    ledgered.await_progress(static, other)
    assert ledgered.finish_static(static, other).repeated == 0


def test_a_static_member_that_crashed_may_come_back_after_its_session(
    ledgered: LedgeredGroup, family: str
) -> None:
    """Until then its instance has an owner: 111, which both libraries take for fatal."""
    ledgered.set_sessions(LONG_SESSION_MS)
    static, other = (ledgered.start(family, **NEW, instance_id=name) for name in ("one", "two"))
    ledgered.await_shared(static, other)
    static.kill()
    refused = ledgered.start(family, **NEW, instance_id="one")
    refused.wait_for(lambda: refused.status, "it is refused", may_end=True)
    assert UNRELEASED[family] in refused.story()
    ledgered.await_shared(other)
    returned = ledgered.start(family, **NEW, instance_id="one")
    ledgered.await_shared(returned, other)
    ledgered.finish_static(returned, other)


def test_an_expression_takes_up_topics_that_are_made_later(
    quick_fleet: Fleet, watcher: Observer, family: str
) -> None:
    """And lets go of those that are deleted; ten seconds may pass between two looks at the topics (A47)."""
    group = Group(quick_fleet, watcher)
    member = group.start(family, **NEW, pattern=f"{group.topic}.*")
    group.await_shared(member)
    later = f"{group.topic}-later"
    watcher.create_named_topic(later, 2)
    both = {f"{later}-0", f"{later}-1"}
    member.wait_for(lambda: both <= {*last_share(member)}, f"{later} is assigned")
    values = [f"later-{number}" for number in range(RECORDS)]
    watcher.write(later, values)
    member.wait_for(lambda: {*values} <= {*values_seen(member)}, f"all of {later} is read")
    watcher.delete_topic(later)
    member.wait_for(lambda: not both & {*last_share(member)}, f"{later} is given up")
    group.await_shared(member)
    group.write()
    group.await_everything_read(member)
    group.stop(member)


def test_a_topic_grows_under_load(quick_fleet: Fleet, watcher: Observer, family: str) -> None:
    group = Group(quick_fleet, watcher)
    group.set_sessions(LONG_SESSION_MS)
    members = [group.start(family, **NEW) for _ in range(2)]
    group.await_shared(*members)
    with group.steady_writer():
        group.grow(10)
        group.await_shared(*members)
    seen = group.await_everything_read(*members)
    assert set(seen.values()) == {1}
    group.stop(*members)
