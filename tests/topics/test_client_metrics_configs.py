"""Client metrics subscriptions as resources with settings: words as Kafka 4.3.1 has them, kept, shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from coordinator.topics.client_metrics_configs import (
    CLIENT_METRICS_FILE,
    MAX_METRIC_BYTES,
    MAX_PATTERN_BYTES,
    MAX_SUBSCRIPTION_NAME_BYTES,
    MAX_SUBSCRIPTIONS,
    MOST_IN_ALL,
    InvalidSubscription,
    parsed,
    subscription,
)
from coordinator.topics.config_values import InvalidConfig
from protocol.errors import ErrorCode
from protocol.messages.list_config_resources import ListConfigResourcesRequest
from storage.files import StorageError
from tests.topics.test_alter_configs import APPEND, DELETE, METRICS, SET, change, replace
from tests.topics.test_configs import describe
from tests.topics.world import World

INTERVAL = "interval.ms"
FILE_NAME = CLIENT_METRICS_FILE.file_name


def listed(world: World, *kinds: int, version: int = 1) -> list[tuple[str, int]]:
    request = ListConfigResourcesRequest(resource_types=list(kinds))
    answer = world.ask(request, version)
    return [(each.resource_name, each.resource_type) for each in answer.config_resources]


def test_values_are_kept_as_they_are_shown() -> None:
    texts = {"metrics": " b. , a.,b.", INTERVAL: " +1000 ", "match": "client_id = a.* , client_source_port=9"}
    shown = {"metrics": "b.,a.", INTERVAL: "1000", "match": "client_id = a.*,client_source_port=9"}
    assert parsed(texts) == shown
    asked = subscription(shown)
    assert (asked.metrics, asked.interval_ms) == (("b.", "a."), 1000)
    assert asked.patterns.keys() == {"client_id", "client_source_port"}
    assert asked.patterns["client_id"].fullmatch("abc")
    assert not asked.patterns["client_id"].fullmatch("bc")


def test_what_is_not_set_asks_for_nothing_every_five_minutes() -> None:
    asked = subscription({})
    assert (asked.metrics, asked.interval_ms, asked.patterns) == ((), 300_000, {})


@pytest.mark.parametrize(
    ("texts", "words", "kind"),
    [
        ({"foo": "1"}, "Unknown client metrics configuration: foo", InvalidSubscription),
        (
            {INTERVAL: "99"},
            "Invalid value 99 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
            InvalidSubscription,
        ),
        (
            {INTERVAL: "3600001"},
            "Invalid value 3600001 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
            InvalidSubscription,
        ),
        (
            {INTERVAL: "x"},
            "Invalid value x for configuration interval.ms: Not a number of type INT",
            InvalidConfig,
        ),
        ({"metrics": "a,,b"}, "Configuration 'metrics' values must not be empty.", InvalidConfig),
        ({"match": "client_id"}, "Illegal client matching pattern: client_id", InvalidConfig),
        ({"match": "client_id="}, "Illegal client matching pattern: client_id=", InvalidConfig),
        ({"match": "client_id=a=b"}, "Illegal client matching pattern: client_id=a=b", InvalidConfig),
        ({"match": "foo=a"}, "Illegal client matching pattern: foo=a", InvalidConfig),
        ({"match": "client_id=("}, "Illegal client matching pattern: client_id=(", InvalidConfig),
        ({"match": "client_id=(?=a)"}, "Illegal client matching pattern: client_id=(?=a)", InvalidConfig),
    ],
)
def test_what_kafka_refuses_is_refused_in_its_words(
    texts: dict[str, str], words: str, kind: type[InvalidConfig]
) -> None:
    with pytest.raises(InvalidConfig) as refused:
        parsed(texts)
    assert (str(refused.value), type(refused.value)) == (words, kind)


@pytest.mark.parametrize("pattern", ["a" * MAX_PATTERN_BYTES, r"(\pL{100}){10}"])
def test_a_pattern_is_bounded(pattern: str) -> None:
    with pytest.raises(InvalidConfig):
        parsed({"match": f"client_id={pattern}"})


def test_a_subscription_is_there_from_its_first_setting_to_its_last(world: World) -> None:
    assert change(world, METRICS, "s", (INTERVAL, SET, "1000"), ("metrics", SET, "a.")) == (0, None)
    assert listed(world)[:1] == [("s", METRICS)]
    assert listed(world, METRICS) == listed(world, version=0) == [("s", METRICS)]
    stored = json.loads(world.files.read_small(world.directory / FILE_NAME) or b"")
    assert stored["subscriptions"] == {"s": {"metrics": "a.", INTERVAL: "1000"}}
    world = world.restart()
    assert world.registry.client_metrics.subscriptions["s"].interval_ms == 1000
    before = world.registry.client_metrics.version
    assert change(world, METRICS, "s", (INTERVAL, DELETE, None)) == (0, None)
    assert world.registry.client_metrics.subscriptions["s"].interval_ms == 300_000
    assert replace(world, METRICS, "s") == (0, None)
    assert world.registry.client_metrics.version == before + 2
    assert listed(world, METRICS) == []
    assert world.registry.client_metrics.subscriptions == {}


def test_what_is_set_is_shown_with_its_source(world: World) -> None:
    change(world, METRICS, "s", (INTERVAL, SET, "1000"))
    result = describe(world, METRICS, "s")
    rows = [
        (
            each.name,
            each.value,
            each.config_source,
            [synonym.value for synonym in each.synonyms],
            each.config_type,
        )
        for each in result.configs
    ]
    assert rows == [("metrics", "", 5, [], 7), (INTERVAL, "1000", 7, ["1000"], 3), ("match", "", 5, [], 7)]
    result = describe(world, METRICS, "")
    words = "Client metrics subscription name must not be empty"
    assert (result.error_code, result.error_message) == (ErrorCode.INVALID_REQUEST, words)


def test_refusals_have_kafkas_codes(world: World) -> None:
    for name, operation, answer in (
        ("", (INTERVAL, SET, "1000"), (ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")),
        ("s", ("foo", SET, "1"), (ErrorCode.INVALID_REQUEST, "Unknown client metrics configuration: foo")),
        (
            "s",
            ("metrics", APPEND, "a"),
            (ErrorCode.INVALID_CONFIG, "Can't APPEND to key metrics because its type is not LIST."),
        ),
        ("s", ("match", SET, "a"), (ErrorCode.INVALID_CONFIG, "Illegal client matching pattern: a")),
    ):
        assert change(world, METRICS, name, operation) == answer
    assert listed(world, METRICS) == []


def test_no_more_subscriptions_are_kept_than_there_is_room_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coordinator.admin.alter_configs.MAX_SUBSCRIPTIONS", 1)
    assert MAX_SUBSCRIPTIONS == 1_000
    longest = "s" * MAX_SUBSCRIPTION_NAME_BYTES
    assert change(world, METRICS, f"{longest}s", (INTERVAL, SET, "1000"))[0] == ErrorCode.POLICY_VIOLATION
    assert change(world, METRICS, longest, (INTERVAL, SET, "1000")) == (0, None)
    assert change(world, METRICS, "t", (INTERVAL, SET, "1000"))[0] == ErrorCode.POLICY_VIOLATION
    assert change(world, METRICS, longest, (INTERVAL, SET, "2000")) == (0, None)
    assert change(world, METRICS, longest, (INTERVAL, DELETE, None)) == (0, None)
    assert change(world, METRICS, "t", (INTERVAL, SET, "1000")) == (0, None)


POLICY = ErrorCode.POLICY_VIOLATION


def named(count: int, prefix: str = "m") -> str:
    return ",".join(f"{prefix}{number}" for number in range(count))


def patterns(count: int) -> str:
    return ",".join(f"client_id=c{number}" for number in range(count))


@pytest.mark.parametrize(("key", "values"), [("metrics", named), ("match", patterns)])
def test_all_subscriptions_together_have_so_many_values(
    world: World, key: str, values: Callable[[int], str]
) -> None:
    """A client may be asked for all of them: beyond this, one request would hold up all others."""
    most = MOST_IN_ALL[key]
    assert (MOST_IN_ALL["metrics"], MOST_IN_ALL["match"]) == (1_000, 100)
    words = f"All client metrics subscriptions together have at most {most} values of '{key}'."
    assert change(world, METRICS, "s", (key, SET, values(most + 1))) == (POLICY, words)
    assert change(world, METRICS, "s", (key, SET, values(most - 1))) == (0, None)
    assert change(world, METRICS, "t", (key, SET, values(2))) == (POLICY, words)
    assert change(world, METRICS, "t", (key, SET, values(1))) == (0, None)
    assert change(world, METRICS, "s", (key, SET, values(most - 1)), (INTERVAL, SET, "1000")) == (0, None)
    assert change(world, METRICS, "u", (INTERVAL, SET, "1000")) == (0, None), "one that adds none"
    assert change(world, METRICS, "s", (key, SET, values(most - 2))) == (0, None)
    assert change(world, METRICS, "u", (key, SET, values(2))) == (POLICY, words)
    assert change(world, METRICS, "t", (key, DELETE, None)) == (0, None)
    assert change(world, METRICS, "u", (key, SET, values(2))) == (0, None)
    world = world.restart()
    assert change(world, METRICS, "u", (key, SET, values(3))) == (POLICY, words), "counted anew at the start"


def test_changes_under_way_count_and_those_that_fail_do_not(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = world.registry.client_metrics
    texts = {"metrics": named(600)}
    waiting: list[Any] = []
    monkeypatch.setattr(registry, "_workers", SimpleNamespace(submit=lambda work, done: waiting.append(done)))
    outcomes: list[ErrorCode] = []
    registry.alter("s", texts, outcomes.append)
    assert registry.without_room_for("t", texts) == "metrics"
    failed: Future[None] = Future()
    failed.set_exception(StorageError("write", world.directory, "no"))
    waiting.pop()(failed)
    assert outcomes == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert registry.without_room_for("t", {"metrics": named(1_000)}) is None
    written: Future[None] = Future()
    written.set_result(None)
    registry.alter("s", texts, outcomes.append)
    waiting.pop()(written)
    registry.alter("s", {}, outcomes.append)
    assert registry.without_room_for("t", texts) == "metrics", "it may still fail"
    waiting.pop()(written)
    assert registry.without_room_for("t", {"metrics": named(1_000)}) is None


def test_a_name_of_metrics_has_a_longest_length(world: World) -> None:
    longest = "m" * MAX_METRIC_BYTES
    words = f"Each of 'metrics' has at most {MAX_METRIC_BYTES} bytes."
    assert change(world, METRICS, "s", ("metrics", SET, f"a,{longest}")) == (0, None)
    assert change(world, METRICS, "s", ("metrics", SET, f"a,{longest}m")) == (POLICY, words)
    assert change(world, METRICS, "s", ("metrics", SET, f"{longest[1:]}é")) == (POLICY, words)


def test_a_change_that_is_not_stored_is_not_in_force(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    error = StorageError("write", world.directory, "no")
    monkeypatch.setattr(world.files, "write_atomically", lambda *_: (_ for _ in ()).throw(error))
    assert change(world, METRICS, "s", (INTERVAL, SET, "1000"))[0] == ErrorCode.KAFKA_STORAGE_ERROR
    assert world.registry.client_metrics.subscriptions == {}
