"""The disk of the coordinator is full for a while: stock clients keep their places, and lose nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.faulty_daemon import FaultyDaemon
from harness.observer import Observer
from harness.processes import wait_until
from harness.wire import WireClient
from protocol.errors import ErrorCode
from tests.clients.conftest import SETTINGS
from tests.clients.fleet import DEADLINE_S, Fleet
from tests.clients.groups import Group
from tests.topics.requests import produce_request
from tests.topics.world import batch

SESSION_MS = 10_000
FULL_S = 12  # Longer than a session.
NO_ROOM = "no room on the disk"
PRODUCE_VERSION = 9


@pytest.fixture
def fillable(target: str, tmp_path: Path) -> Iterator[FaultyDaemon]:
    if target != "muster":
        pytest.skip("Kafka stops when its disk is full")
    with FaultyDaemon(tmp_path / "broker", SETTINGS) as daemon:
        yield daemon


@pytest.fixture
def group(fillable: FaultyDaemon, tmp_path: Path) -> Iterator[Group]:
    fleet = Fleet(fillable.bootstrap, tmp_path)
    yield Group(fleet, Observer(fillable.bootstrap))
    fleet.close()


@pytest.mark.parametrize("family", ["java", "confluent"], indirect=True)
def test_a_full_disk_costs_a_group_neither_a_member_nor_a_commit_nor_a_record(
    family: str, group: Group, fillable: FaultyDaemon
) -> None:
    """Members have read and not committed yet; a producer is in the middle of its work."""
    members = [group.start(family, holds=True, session_timeout_ms=SESSION_MS) for _ in range(2)]
    group.await_shared(*members)
    group.write()
    for member in members:
        member.wait_for_event("holding")
    ids, generations = group.member_ids(), len(group.generations())
    fillable.fill_disk()
    writer = threading.Thread(target=group.write, args=(60,), daemon=True)
    writer.start()
    for member in members:
        member.go()
    wait_until(lambda: fillable.has_said(NO_ROOM), "the disk was found full", DEADLINE_S)
    wait_until(lambda: writes_are_refused(group, fillable), "each log has found it out", DEADLINE_S)
    time.sleep(FULL_S)  # The point of the test: sessions would end if heartbeats were not taken.
    assert writes_are_refused(group, fillable)
    assert group.member_ids() == ids
    assert group.committed() == {}
    assert writer.is_alive(), "the producer tries again, and gets no false acknowledgement"
    fillable.make_room()
    writer.join(DEADLINE_S)
    group.await_everything_read(*members)
    group.await_everything_committed(*members)
    assert group.member_ids() == ids
    assert len(group.generations()) == generations, "no member had to join again"
    group.stop(*members)


def writes_are_refused(group: Group, daemon: FaultyDaemon) -> bool:
    """Whether writes get an error that clients retry, while known state is served."""
    produced = produce_request(batch(b"refused"), group.topic)
    with WireClient(daemon.bootstrap) as client:
        answer = client.ask(produced, PRODUCE_VERSION).responses[0].partition_responses[0]
    refused = group.commit_as("", -1)
    return (answer.error_code, refused) == (
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    )
