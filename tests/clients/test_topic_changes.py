"""Topics that change under their consumers: more partitions, and another topic under an old name."""

from __future__ import annotations

from collections.abc import Callable, Set

import pytest
from confluent_kafka import Consumer
from kafka import KafkaConsumer

from harness.observer import Observer, unique
from harness.processes import ServerProcess, wait_until

METADATA_MS = 300
KAFKA_PYTHON_POLL_MS = 2_000  # Long enough for a rebalance.
DEADLINE_S = 40.0
OFFSET = 7


def confluent_member(
    bootstrap: str, topic: str, group: str
) -> tuple[Callable[[], Set[int]], Callable[[], None]]:
    """Return a call that polls once and returns the partitions owned, and one that closes the consumer."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "topic.metadata.refresh.interval.ms": METADATA_MS,
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])

    def owned() -> Set[int]:
        consumer.poll(0.1)
        return {each.partition for each in consumer.assignment()}

    return owned, consumer.close


def kafka_python_member(
    bootstrap: str, topic: str, group: str
) -> tuple[Callable[[], Set[int]], Callable[[], None]]:
    """The same with the other library, whose 3.0.12 forgets a join that ends between two polls."""
    consumer = KafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=group, metadata_max_age_ms=METADATA_MS
    )

    def owned() -> Set[int]:
        consumer.poll(KAFKA_PYTHON_POLL_MS)
        return {each.partition for each in consumer.assignment()}

    return owned, consumer.close


@pytest.mark.parametrize("member", [confluent_member, kafka_python_member])
def test_consumers_notice_partitions_that_are_added(
    member: Callable[[str, str, str], tuple[Callable[[], Set[int]], Callable[[], None]]], observer: Observer
) -> None:
    """The fourth cause of a rebalance: the leader joins again when its metadata shows more."""
    topic = observer.create_topic("grows", 2)
    owned, close = member(observer.bootstrap, topic, unique("grown"))
    wait_until(lambda: owned() == {0, 1}, "both partitions", DEADLINE_S)
    observer.grow_topic(topic, 5)
    wait_until(lambda: owned() == {0, 1, 2, 3, 4}, "all five partitions", DEADLINE_S)
    close()


def stay(server: ServerProcess) -> None:
    """Nothing happens to the broker."""


def restart(server: ServerProcess) -> None:
    server.restart()


def crash(server: ServerProcess) -> None:
    server.kill()
    server.start()


@pytest.mark.parametrize("before_it_is_made_again", [stay, restart, crash])
@pytest.mark.parametrize("after_it_was_made_again", [stay, crash])
def test_offsets_go_with_their_topic(
    before_it_is_made_again: Callable[[ServerProcess], None],
    after_it_was_made_again: Callable[[ServerProcess], None],
    own_broker: ServerProcess,
) -> None:
    """A topic of the same name is another: no member begins in it where it left off in the old one (O12, O23)."""
    observer, group, topic = Observer(own_broker.bootstrap), unique("left"), unique("made-again")
    kept = observer.create_topic("kept", 1)
    observer.create_named_topic(topic, 2)
    observer.write(topic, map(str, range(10)), 0)
    observer.commit(group, topic, {0: OFFSET, 1: 0})
    observer.commit(group, kept, {0: 0})
    observer.delete_topic(topic)
    before_it_is_made_again(own_broker)
    observer.connect()
    observer.create_named_topic(topic, 2)
    after_it_was_made_again(own_broker)
    observer.connect()
    wait_until(lambda: observer.committed(group, topic) == {}, "the offsets go", DEADLINE_S)
    assert observer.committed(group, kept) == {0: 0}
    assert observer.log_ends(topic, 2) == {0: 0, 1: 0}
    observer.commit(group, topic, {0: 0})
    assert observer.committed(group, topic) == {0: 0}
