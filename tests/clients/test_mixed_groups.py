"""Members of different client libraries in one group: the range assignor's bytes are the same in all."""

from __future__ import annotations

import pytest

from harness.observer import Observer
from tests.clients.fleet import FAMILIES, Fleet
from tests.clients.groups import Group


def test_two_python_libraries_share_a_topic(fleet: Fleet, observer: Observer) -> None:
    share_a_topic(Group(fleet, observer), ("confluent", "kafka_python"))


@pytest.mark.usefixtures("java")
@pytest.mark.parametrize("families", [("aiokafka", "java"), FAMILIES], ids="-".join)
def test_java_and_python_libraries_share_a_topic(
    families: tuple[str, ...], fleet: Fleet, observer: Observer
) -> None:
    share_a_topic(Group(fleet, observer), families)


def share_a_topic(group: Group, families: tuple[str, ...]) -> None:
    """All members read; the first (often the leader) leaves and its share moves on; then it joins again."""
    config = {
        "assignor": "range",
        "session_timeout_ms": 30_000,
    }  # Nobody is to be put out: each row is read once.
    leaver, *others = (group.start(family, **config) for family in families)
    group.await_shared(leaver, *others)
    group.write()
    group.await_everything_read(leaver, *others)
    leaver.stop()
    group.await_shared(*others)
    group.write()
    group.await_everything_read(leaver, *others)
    returned = group.start(families[0], **config)
    group.await_shared(returned, *others)
    group.write()
    seen = group.await_everything_read(leaver, returned, *others)
    # No member crashed and every share was committed before it was handed on: exactly once, here.
    assert set(seen.values()) == {1}
    group.await_everything_committed(returned, *others)
    group.stop(returned, *others)
