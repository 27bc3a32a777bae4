"""What a client is asked for: all that the subscriptions want which match it, under the id that Kafka gives it."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from coordinator.groups.consumer.java_order import string_hash
from coordinator.telemetry.subscriptions import (
    MAX_ATTRIBUTE_CHARS,
    MAX_TOGETHER,
    ClientAttributes,
    Matching,
    matches,
    subscription_id,
)
from coordinator.topics.client_metrics_configs import subscription

CLIENT = ClientAttributes(
    "CmZW4wAASfOS-s7JPSHd4g", "app-1", "apache-kafka-java", "4.3.1", "10.0.0.9", "51234"
)
ID = bytes(range(16))
OTHER_ID = bytes(15) + b"\7"


class Asked(NamedTuple):
    """What a client is asked for, with the names."""

    subscription_id: int
    metrics: tuple[str, ...]
    push_interval_ms: int


def asked_of(matching: Matching, client: ClientAttributes = CLIENT, client_instance_id: bytes = ID) -> Asked:
    found = matching.asked_for(client_instance_id, client)
    return Asked(found.subscription_id, matching.metrics(found), found.push_interval_ms)


def asked(*texts: dict[str, str]) -> Asked:
    return asked_of(Matching([subscription(each) for each in texts]))


def test_without_a_subscription_a_client_is_asked_for_nothing() -> None:
    assert asked() == Asked(subscription_id((), 300_000, ID), (), 300_000)


@pytest.mark.parametrize(
    ("metrics", "interval_ms", "client", "expected"),
    [  # What Kafka 4.3.1 answered.
        ((), 300_000, bytes.fromhex("dbdfcb5fea865a8abdcd1fe125c72bb3"), 2106916441),
        ((), 300_000, bytes.fromhex("f146112cf1005f8f89ce961eb52c1257"), -396127948),
        ((), 300_000, bytes.fromhex("7e3dc7d7c50755d98792a2ec209c5f7c"), -923585472),
    ],
)
def test_the_id_is_the_one_that_kafka_computes(
    metrics: tuple[str, ...], interval_ms: int, client: bytes, expected: int
) -> None:
    assert subscription_id(metrics, interval_ms, client) == expected


def test_metrics_come_once_each_in_the_order_of_javas_table_and_the_shortest_interval_counts() -> None:
    first = {"metrics": "org.apache.kafka.producer.,org.apache.kafka.consumer.", "interval.ms": "2000"}
    second = {"metrics": "org.apache.kafka.consumer.,b", "interval.ms": "1000"}
    found = asked(first, second, {"interval.ms": "400000"})
    assert sorted(found.metrics) == ["b", "org.apache.kafka.consumer.", "org.apache.kafka.producer."]
    assert found.metrics == asked(second, first).metrics
    assert found.push_interval_ms == 1_000
    assert found.subscription_id == subscription_id(found.metrics, 1_000, ID)


def test_one_that_asks_for_all_is_enough() -> None:
    assert asked({"metrics": "a,*"}, {"metrics": "b"}).metrics == ("*",)


def test_a_longer_interval_than_the_default_does_not_count() -> None:
    """As in Kafka, where the shortest is looked for from the default on."""
    assert asked({"metrics": "a", "interval.ms": "3600000"}).push_interval_ms == 300_000


@pytest.mark.parametrize(
    ("pattern", "does"),
    [
        ("client_id=app-.*", True),
        ("client_id=app", False),  # All of it has to match.
        ("client_id=pp-1", False),
        ("client_id=app-.*,client_source_port=51234", True),
        ("client_id=app-.*,client_source_port=1", False),
        ("client_id=x,client_id=app-1", True),  # The last about the same counts.
        ("client_software_name=apache-kafka-java,client_software_version=4[.].*", True),
        ("client_source_address=10[.]0[.]0[.][0-9]", True),
        ("client_instance_id=CmZW4wAASfOS-s7JPSHd4g", True),
    ],
)
def test_a_client_has_to_match_every_pattern(pattern: str, does: bool) -> None:
    assert matches(subscription({"match": pattern}), CLIENT) is does


def test_a_text_that_is_too_long_matches_nothing() -> None:
    any_client = subscription({"match": "client_id=.*"})
    assert matches(any_client, CLIENT._replace(client_id="c" * MAX_ATTRIBUTE_CHARS))
    assert not matches(any_client, CLIENT._replace(client_id="c" * (MAX_ATTRIBUTE_CHARS + 1)))


class Counted:
    """Java's hash of names, counted: each stands for a step for each character of a name."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, name: str) -> int:
        self.names.append(name)
        return string_hash(name)


def test_clients_that_match_the_same_subscriptions_are_asked_for_what_was_put_together_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hashed = Counted()
    monkeypatch.setattr("coordinator.telemetry.subscriptions.string_hash", hashed)
    texts = [{"metrics": "a,b", "interval.ms": "1000"}, {"metrics": "b,c", "match": "client_id=app-1"}]
    matching = Matching([subscription(each) for each in texts])
    first = asked_of(matching)
    second = asked_of(matching, CLIENT._replace(client_source_port="9"), OTHER_ID)
    assert second.metrics is first.metrics
    assert (second.push_interval_ms, set(second.metrics)) == (1_000, {"a", "b", "c"})
    assert second.subscription_id == subscription_id(second.metrics, 1_000, OTHER_ID) != first.subscription_id
    other = asked_of(matching, CLIENT._replace(client_id="app-2"))
    assert other == Asked(subscription_id(other.metrics, 1_000, ID), other.metrics, 1_000)
    assert set(other.metrics) == {"a", "b"}
    assert asked_of(matching).metrics is first.metrics
    assert sorted(hashed.names) == ["a", "b", "c"], "each name once, whatever sets it is in"


def test_so_many_sets_are_remembered_and_the_one_longest_unused_goes() -> None:
    texts = [
        {"metrics": "a"},
        *({"metrics": f"m{n}", "match": f"client_id=c{n}"} for n in range(MAX_TOGETHER)),
    ]
    matching = Matching([subscription(each) for each in texts])

    def asked(number: int) -> tuple[str, ...]:
        return asked_of(matching, CLIENT._replace(client_id=f"c{number}")).metrics

    first, second = asked(0), asked(1)
    kept = matching.asked_for(ID, CLIENT._replace(client_id="c1"))
    for number in range(2, MAX_TOGETHER):
        asked(number)
    assert asked(0) is first
    assert asked_of(matching).metrics == ("a",)  # One set more.
    assert asked(0) is first
    again = matching.metrics(kept)
    assert again == second
    assert again is not second
