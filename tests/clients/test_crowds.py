"""Fifty members that join at once come to one generation, each with a share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.observer import Observer
from harness.processes import ServerProcess
from tests.clients.conftest import SETTINGS, TARGETS
from tests.clients.fleet import Fleet
from tests.clients.groups import Group

PROCESSES = 5
MEMBERS = 50
# All come within the initial delay, or within another one of those who came before: on a busy machine the five
# processes do not go on within half a second of each other.
PATIENT = {**SETTINGS, "group.initial.rebalance.delay.ms": "3000"}
# The leader of kafka-python's members joins once more where it learns of the topic's partitions only after it has
# joined: it compares what it knew with what it assigned. On a busy machine it does so twice: "leader rejoined" is
# the cause of both in the group's history.
MAX_GENERATIONS = {"kafka_python": 3}


@pytest.fixture(scope="module")
def patient_broker(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with TARGETS[target](tmp_path_factory.mktemp("patient-broker"), PATIENT) as server:
        yield server


@pytest.fixture
def group(patient_broker: ServerProcess, tmp_path: Path) -> Iterator[Group]:
    fleet = Fleet(patient_broker.bootstrap, tmp_path)
    yield Group(fleet, Observer(patient_broker.bootstrap), partitions=MEMBERS)
    fleet.close()


def test_fifty_members_join_at_once(
    family: str, group: Group, record_property: Callable[[str, object], None]
) -> None:
    """Five processes with ten members each, all made before the first joins."""
    config: dict[str, Any] = {"members": MEMBERS // PROCESSES, "waits": True, "session_timeout_ms": 30_000}
    crowd = [group.start(family, **config) for _ in range(PROCESSES)]
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
