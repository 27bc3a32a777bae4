"""Members that are idle, die or sleep: their partitions are read on by others, and nothing is lost."""

from __future__ import annotations

import pytest

from harness.observer import Observer
from protocol.errors import ErrorCode
from tests.clients.fleet import Fleet
from tests.clients.groups import Group, shares_of, values_seen

# What each library makes of the broker's 25 to a commit, or to a heartbeat just before. librdkafka may also find
# by itself that its session is long over, and then does not ask.
REFUSED = {
    "aiokafka": {"CommitFailedError"},
    "confluent": {"UNKNOWN_MEMBER_ID", "_ASSIGNMENT_LOST"},
    "java": {"CommitFailedException"},
    "kafka_python": {"CommitFailedError"},
}


@pytest.mark.parametrize("family", ["java", "kafka_python"], indirect=True)
def test_the_fifth_of_five_on_four_partitions_idles_until_one_dies(
    family: str, fleet: Fleet, observer: Observer
) -> None:
    group = Group(fleet, observer, partitions=4)
    members = [group.start(family) for _ in range(5)]
    group.await_shared(*members, idle=1)
    group.write()
    group.await_everything_read(*members)
    group.await_everything_committed(*members)
    (idle,) = (member for member in members if shares_of(member) == {0: []})
    victim, *survivors = (member for member in members if member is not idle)
    assert not values_seen(idle)
    victim.kill()
    group.await_shared(idle, *survivors)
    group.write()
    group.await_everything_read(*members)
    assert values_seen(idle), "the one that was idle reads"
    group.await_everything_committed(idle, *survivors)
    group.stop(idle, *survivors)


def test_a_commit_after_the_expiry_of_its_member_is_refused_and_it_comes_back(
    family: str, fleet: Fleet, observer: Observer
) -> None:
    """One stops (SIGSTOP) with records read and not committed; the other takes over; then it wakes up."""
    group = Group(fleet, observer)
    sleeper, other = group.start(family, holds=True), group.start(family)
    group.await_shared(sleeper, other)
    ids, generation = group.member_ids(), group.generations()[-1].number
    group.write()
    sleeper.wait_for_event("holding")
    sleeper.pause()
    group.await_shared(other)
    group.await_everything_read(other)  # All of it: the sleeper had not committed a record.
    group.await_everything_committed(other)
    ends = group.committed()
    (expired,) = ids - group.member_ids()
    assert group.commit_as(expired, generation) == ErrorCode.UNKNOWN_MEMBER_ID
    sleeper.go()  # It finds that when it wakes up, and commits at once.
    sleeper.resume()
    refused = sleeper.wait_for_event("commit_refused")
    assert refused["error"] in REFUSED[family], refused
    group.await_shared(sleeper, other)
    assert group.committed() == ends, "a commit that was refused has changed nothing"
    earlier = set(group.written)
    group.write()
    group.await_everything_read(sleeper, other)
    assert set(values_seen(sleeper)) - earlier, "it reads on"
    group.await_everything_committed(sleeper, other)
    group.stop(sleeper, other)
