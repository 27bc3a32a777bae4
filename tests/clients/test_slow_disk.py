"""The coordinator's disk is slow, and then hangs: a group of all client libraries keeps members and commits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.faulty_daemon import FaultyDaemon
from harness.observer import Observer
from harness.processes import wait_until
from protocol.errors import ErrorCode
from tests.clients.conftest import SETTINGS
from tests.clients.fleet import DEADLINE_S, FAMILIES, Fleet
from tests.clients.groups import Group

SYNC_S = 0.3
RECORDS = 120


@pytest.fixture
def slow(target: str, tmp_path: Path) -> Iterator[FaultyDaemon]:
    if target != "muster":
        pytest.skip("Kafka answers before its disk has synced")
    with FaultyDaemon(tmp_path / "broker", {**SETTINGS, "offsets.commit.timeout.ms": "1000"}) as daemon:
        yield daemon


@pytest.mark.usefixtures("java")
def test_a_slow_disk_costs_a_group_time_and_nothing_else(slow: FaultyDaemon, tmp_path: Path) -> None:
    fleet = Fleet(slow.bootstrap, tmp_path)
    group = Group(fleet, Observer(slow.bootstrap), partitions=len(FAMILIES))
    try:
        # Longer sessions than a busy machine stands still: heartbeats wait for commits that are on their way.
        config = {"assignor": "range", "session_timeout_ms": 20_000}
        members = [group.start(family, **config) for family in FAMILIES]
        group.await_shared(*members)
        ids, generations = group.member_ids(), len(group.generations())

        slow.slow_down(SYNC_S)
        group.write(RECORDS)
        group.await_everything_read(*members)
        group.await_everything_committed(*members)

        slow.slow_down()  # It hangs: a commit is answered that it takes too long, and sent again.
        batches = [len(member.of("records")) for member in members]
        group.write(RECORDS)
        wait_until(
            lambda: all(
                len(member.of("records")) > seen for member, seen in zip(members, batches, strict=True)
            ),
            "each member has something to commit",
            DEADLINE_S,
        )
        for _ in range(2):
            assert group.commit_as("", -1) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        slow.speed_up()
        seen = group.await_everything_read(*members)
        group.await_everything_committed(*members)
        assert set(seen.values()) == {1}
        assert (group.member_ids(), len(group.generations())) == (ids, generations)
        group.stop(*members)
    finally:
        fleet.close()
