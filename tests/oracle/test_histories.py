"""Histories of consumer groups come out as Kafka's own group manager writes and answers them (docs/kafka.md 9).

The class of 4.3.1 is driven in a process of its own, without a broker: `Histories.java` plays random ones and
prints what was asked, answered and written, and we play the same. In those of `Migrations.java` the group is a
classic one, too. `Rand.java` has groups of more topics and
partitions, of which the targets are compared.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import java_tools
from tests.groups.consumer_groups.test_assignors import Group
from tests.oracle.assignor_vectors import histories
from tests.oracle.heartbeat_histories import played

SOURCES = Path(__file__).parent
PACKAGE = "org.apache.kafka.coordinator.group"
HISTORIES = 1_000
MIGRATIONS = 500
FIRST_SEED = 10_000


def driven(program: str, *arguments: int | str) -> Iterator[str]:
    """The lines that one of our drivers of Kafka's class prints."""
    classes = java_tools.compile_java(SOURCES)
    command = [java_tools.java(), "-cp", java_tools.classpath(classes), f"{PACKAGE}.{program}"]
    done = subprocess.run(
        [*command, *map(str, arguments)], capture_output=True, text=True, check=True, timeout=300
    )
    return iter(done.stdout.splitlines())


@pytest.mark.timeout(300)
def test_replies_records_and_timers_are_those_of_kafka(java: None) -> None:
    """Names and expressions, static members, classic ones among them, growing topics, sessions that end."""
    seeds = [*played(driven("Histories", FIRST_SEED, HISTORIES, 16))]
    assert seeds == [*range(FIRST_SEED, FIRST_SEED + HISTORIES)]


@pytest.mark.timeout(300)
def test_groups_change_their_kind_as_those_of_kafka_do(java: None) -> None:
    """Under all policies: classic groups, in the midst of a rebalance, too, that are upgraded and downgraded."""
    seeds = [*played(driven("Migrations", FIRST_SEED, MIGRATIONS, 16))]
    assert seeds == [*range(FIRST_SEED, FIRST_SEED + MIGRATIONS)]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("assignor", "partitions_max"), [("uniform", 70), ("range", 70)])
def test_targets_of_larger_groups_are_those_of_kafka(java: None, assignor: str, partitions_max: int) -> None:
    found = histories("\n".join(driven("Rand", FIRST_SEED, 500, partitions_max, assignor)))
    assert len(found) == 500
    for history in found:
        group = Group(history)
        for number, step in enumerate(history.steps):
            group.play(step)
            assert group.seen == step.targets, f"{history}, step {number}"
