"""Settings of single groups: names, bounds and words as Kafka 4.3.1 has them, kept, shown, taken back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from coordinator.topics.config_values import InvalidConfig
from coordinator.topics.group_configs import (
    FILE_NAME,
    GROUP_KEYS,
    MAX_GROUP_ID_BYTES,
    MAX_GROUPS,
    assignment_interval_ms,
    checked,
    current_text,
)
from coordinator.topics.settings import DynamicSettings, TopicSettings
from protocol.errors import ErrorCode
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.incremental_alter_configs import IncrementalAlterableConfig as Operation
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsResource as OperationsOnResource,
)
from protocol.messages.list_config_resources import ListConfigResourcesRequest
from storage.files import StorageError
from tests.topics.test_alter_configs import (
    APPEND,
    BROKER,
    DELETE,
    GROUP,
    SET,
    SUBTRACT,
    change,
    replace,
    shown,
)
from tests.topics.test_configs import describe
from tests.topics.world import World

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
INTERVAL = "consumer.assignment.interval.ms"
TOO_SHORT = f"{SESSION} must be greater than or equal to group.consumer.min.session.timeout.ms"
TOO_OFTEN = f"{HEARTBEAT} must be greater than or equal to group.consumer.min.heartbeat.interval.ms"
STOCK = TopicSettings()


def setting(group_id: str, name: str, value: str) -> OperationsOnResource:
    operation = Operation(name=name, config_operation=SET, value=value)
    return OperationsOnResource(resource_type=GROUP, resource_name=group_id, configs=[operation])


def refusal(overrides: dict[str, str], settings: TopicSettings = STOCK) -> str:
    """The words for what is set."""
    with pytest.raises(InvalidConfig) as refused:
        checked(overrides, settings)
    return str(refused.value)


# What is accepted.


@pytest.mark.parametrize("name", sorted(GROUP_KEYS))
def test_every_default_is_accepted(name: str) -> None:
    default = current_text(name, {}, STOCK)
    assert default
    assert checked({name: f" {default} "}, STOCK) == {name: default}


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("consumer.session.timeout.ms", "45000", "60000"),
        ("consumer.heartbeat.interval.ms", "5000", "15000"),
        ("consumer.assignment.interval.ms", "0", "15000"),
        ("share.session.timeout.ms", "45000", "60000"),
        ("share.heartbeat.interval.ms", "5000", "15000"),
        ("share.record.lock.duration.ms", "15000", "60000"),
        ("share.delivery.count.limit", "2", "10"),
        ("share.partition.max.record.locks", "100", "4000"),
        ("share.assignment.interval.ms", "0", "15000"),
        ("streams.session.timeout.ms", "45000", "60000"),
        ("streams.heartbeat.interval.ms", "5000", "15000"),
        ("streams.num.standby.replicas", "0", "2"),
        ("streams.assignment.interval.ms", "0", "15000"),
    ],
)
def test_the_brokers_bounds_hold(name: str, least: str, most: str) -> None:
    key = GROUP_KEYS[name]
    for value in (least, most):
        assert checked({name: value}, STOCK) == {name: value}
    below, above = str(int(least) - 1), str(int(most) + 1)
    words = refusal({name: below})
    if name in ("share.delivery.count.limit", "share.partition.max.record.locks") or least == "0":
        assert words == f"Invalid value {below} for configuration {name}: Value must be at least {least}"
    else:
        assert words == f"{name} must be greater than or equal to {key.least_name}"
    assert refusal({name: above}) == f"{name} must be less than or equal to {key.most_name}"


def test_bounds_are_those_that_the_broker_was_given() -> None:
    given = TopicSettings(
        group_consumer_max_session_timeout_ms=50_000, group_consumer_min_heartbeat_interval_ms=1
    )
    assert checked({HEARTBEAT: "1"}, given) == {HEARTBEAT: "1"}
    words = "consumer.session.timeout.ms must be less than or equal to group.consumer.max.session.timeout.ms"
    assert refusal({SESSION: "50001"}, given) == words


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"foo": "1"}, "Unknown group config name: foo"),
        ({"session.timeout.ms": "50000"}, "Unknown group config name: session.timeout.ms"),
        ({SESSION: "x"}, f"Invalid value x for configuration {SESSION}: Not a number of type INT"),
        ({SESSION: ""}, f"Invalid value  for configuration {SESSION}: Not a number of type INT"),
        ({SESSION: "1e9"}, f"Invalid value 1e9 for configuration {SESSION}: Not a number of type INT"),
        (
            {SESSION: "3000000000"},
            f"Invalid value 3000000000 for configuration {SESSION}: Not a number of type INT",
        ),
        ({SESSION: "0"}, f"Invalid value 0 for configuration {SESSION}: Value must be at least 1"),
        (
            {"share.isolation.level": "READ_COMMITTED"},
            "Invalid value READ_COMMITTED for configuration share.isolation.level: "
            "String must be one of: read_committed, read_uncommitted",
        ),
        (
            {"share.renew.acknowledge.enable": "yes"},
            "Invalid value yes for configuration share.renew.acknowledge.enable: "
            "Expected value to be either true or false",
        ),
        (
            {"share.auto.offset.reset": "none"},
            "Invalid value none for configuration share.auto.offset.reset: "
            "Invalid value `none` for configuration share.auto.offset.reset. The value must be either "
            "'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'.",
        ),
    ],
)
def test_refusals_have_kafkas_words(overrides: dict[str, str], words: str) -> None:
    assert refusal(overrides) == words


def test_what_is_wrong_is_found_in_kafkas_order() -> None:
    """Names, then values, then bounds with the heartbeat's first, and sessions against heartbeats at last."""
    assert refusal({SESSION: "x", "foo": "1"}) == "Unknown group config name: foo"
    assert refusal({HEARTBEAT: "1", "streams.assignment.interval.ms": "x"}).startswith(
        "Invalid value x for configuration streams.assignment.interval.ms"
    )
    assert refusal({SESSION: "1", HEARTBEAT: "1"}) == TOO_OFTEN
    wide = TopicSettings(
        group_consumer_min_session_timeout_ms=1,
        group_consumer_max_heartbeat_interval_ms=60_000,
        group_consumer_max_session_timeout_ms=60_000,
    )
    pair = "consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms"
    assert refusal({SESSION: "5000"}, wide) == pair
    assert refusal({HEARTBEAT: "45000"}, wide) == pair
    assert refusal({SESSION: "5000", "share.delivery.count.limit": "11"}, wide).startswith(
        "share.delivery.count.limit"
    )
    assert checked({SESSION: "5001"}, wide) == {SESSION: "5001"}


@pytest.mark.parametrize(
    "text",
    [
        *(
            "PT1H",
            "P1D",
            "p1dt2h3m4.5s",
            "PT0S",
            "PT-1H+60M",
            "-PT-1S",
            "+P1D",
            "PT1,5S",
            "PT1.S",
            "PT1M-60.0S",
        ),
        "PT9223372036854775807S",
    ],
)
def test_durations_as_java_reads_them(text: str) -> None:
    value = f"by_duration:{text}"
    assert checked({"share.auto.offset.reset": value}, STOCK) == {"share.auto.offset.reset": value}


@pytest.mark.parametrize(
    "text",
    [
        *("", "P", "PT", "P1DT", "1H", "P1H", "PT1D", "PT 1H", "PT1S|", "PT.5S", "PT0.1234567890S"),
        *("PT-1S", "-P1D", "PT-0.5S", "PT-1M59S", "PT9223372036854775808S", "P106751991167301D"),
    ],
)
def test_no_durations(text: str) -> None:
    for value in (f"by_duration:{text}", text or "by_duration"):
        assert "by_duration:<PnDTnHnMn.nS>" in refusal({"share.auto.offset.reset": value})


# Over the APIs.


@pytest.mark.parametrize("version", range(2))
def test_a_setting_is_set_shown_and_taken_back(world: World, version: int) -> None:
    of_broker = ("group.consumer.session.timeout.ms", "45000", 5)
    assert change(world, GROUP, "g", (SESSION, SET, " 50000 "), version=version) == (0, None)
    assert shown(world, GROUP, "g", SESSION) == ("50000", 8, [(SESSION, "50000", 8), of_broker])
    assert shown(world, GROUP, "other", SESSION) == ("45000", 5, [of_broker])
    change(world, GROUP, "g", (HEARTBEAT, SET, "6000"), (SESSION, DELETE, None), version=version)
    assert shown(world, GROUP, "g", SESSION) == ("45000", 5, [of_broker])
    assert shown(world, GROUP, "g", HEARTBEAT)[:2] == ("6000", 8)


@pytest.mark.parametrize("version", range(3))
def test_a_replacement_takes_back_what_it_does_not_name(world: World, version: int) -> None:
    change(world, GROUP, "g", (HEARTBEAT, SET, "6000"))
    assert replace(world, GROUP, "g", version, consumer_session_timeout_ms="50000") == (0, None)
    assert world.registry.groups.texts("g") == {SESSION: "50000"}
    assert replace(world, GROUP, "g", version) == (0, None)
    assert world.registry.groups.all() == {}


def test_all_settings_are_described_with_their_types(world: World) -> None:
    result = describe(world, GROUP, "no such group")
    assert [config.name for config in result.configs] == list(GROUP_KEYS)
    assert (result.error_code, len(result.configs)) == (0, 17)
    kinds = {config.name: config.config_type for config in result.configs}
    assert (kinds[SESSION], kinds["share.isolation.level"], kinds["share.renew.acknowledge.enable"]) == (
        3,
        2,
        1,
    )
    assert not any(config.read_only or config.is_sensitive for config in result.configs)
    own = ("share.auto.offset.reset", "latest", 5)
    assert shown(world, GROUP, "g", "share.auto.offset.reset") == ("latest", 5, [own])


def test_the_brokers_values_stand_below_those_of_a_group(tmp_path: Path) -> None:
    world = World(tmp_path, TopicSettings(group_consumer_assignment_interval_ms=3))
    broker = "group.consumer.assignment.interval.ms"
    below = [(broker, "3", 4), (broker, "1000", 5)]
    assert shown(world, GROUP, "g", INTERVAL) == ("3", 4, below)
    assert change(world, BROKER, "", (broker, SET, "4")) == (0, None)
    below.insert(0, (broker, "4", 3))
    assert shown(world, GROUP, "g", INTERVAL) == ("4", 3, below)
    assert change(world, GROUP, "g", (INTERVAL, SET, "5")) == (0, None)
    assert shown(world.restart(), GROUP, "g", INTERVAL) == ("5", 8, [(INTERVAL, "5", 8), *below])


@pytest.mark.parametrize(
    ("operations", "words"),
    [
        ([(SESSION, SET, "1")], TOO_SHORT),
        ([("foo", SET, "1")], "Unknown group config name: foo"),
        ([(SESSION, APPEND, "1")], f"Can't APPEND to key {SESSION} because its type is not LIST."),
        ([("foo", SUBTRACT, "1")], "Can't SUBTRACT to key foo because its type is not LIST."),
    ],
)
def test_a_refused_change_changes_nothing(
    world: World, operations: list[tuple[str, int, str]], words: str
) -> None:
    change(world, GROUP, "g", (HEARTBEAT, SET, "6000"))
    assert change(world, GROUP, "g", *operations) == (ErrorCode.INVALID_CONFIG, words)
    assert world.registry.groups.all() == {"g": {HEARTBEAT: "6000"}}


def test_no_group_has_an_empty_name(world: World) -> None:
    words = "Default group resources are not allowed."
    assert change(world, GROUP, "", (SESSION, SET, "1")) == (ErrorCode.INVALID_REQUEST, words)
    assert replace(world, GROUP, "") == (ErrorCode.INVALID_REQUEST, words)
    result = describe(world, GROUP, "")
    assert (result.error_code, result.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "Group name must not be empty",
    )


def test_what_is_not_set_is_taken_back_whatever_its_name(world: World) -> None:
    assert change(world, GROUP, "g", ("foo", DELETE, None)) == (0, None)
    assert not (world.directory / FILE_NAME).exists()


def test_a_change_that_is_only_checked_is_not_made(world: World) -> None:
    assert change(world, GROUP, "g", (SESSION, SET, "50000"), validate_only=True) == (0, None)
    assert change(world, GROUP, "g", (SESSION, SET, "1"), validate_only=True)[0] == ErrorCode.INVALID_CONFIG
    assert world.registry.groups.all() == {}


def test_groups_with_settings_are_listed(world: World) -> None:
    def listed(*kinds: int) -> list[tuple[str, int]]:
        found = world.ask(ListConfigResourcesRequest(resource_types=list(kinds)), 1).config_resources
        return [(each.resource_name, each.resource_type) for each in found]

    world.topic("t")
    for group_id in ("h", "g"):
        change(world, GROUP, group_id, (SESSION, SET, "50000"))
    assert listed() == [("g", 32), ("h", 32), ("1", 4), ("t", 2)]
    change(world, GROUP, "g", (SESSION, DELETE, None))
    assert listed(32) == [("h", 32)]


# On the disk.


def test_settings_last_over_a_restart(world: World) -> None:
    change(world, GROUP, "g", (SESSION, SET, "50000"), ("share.renew.acknowledge.enable", SET, "FALSE"))
    change(world, GROUP, "h", (HEARTBEAT, SET, "6000"))
    world = world.restart()
    kept = {SESSION: "50000", "share.renew.acknowledge.enable": "false"}
    assert world.registry.groups.all() == {"g": kept, "h": {HEARTBEAT: "6000"}}
    change(world, GROUP, "h", (HEARTBEAT, DELETE, None))
    assert world.restart().registry.groups.all() == {"g": kept}


def test_what_cannot_be_written_is_not_in_force(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise StorageError("write", world.directory, "no")

    change(world, GROUP, "g", (SESSION, SET, "50000"))
    with monkeypatch.context() as broken:
        broken.setattr(world.files, "write_atomically", refuse)
        assert change(world, GROUP, "g", (SESSION, SET, "51000"))[0] == ErrorCode.KAFKA_STORAGE_ERROR
        assert change(world, GROUP, "h", (SESSION, SET, "51000"))[0] == ErrorCode.KAFKA_STORAGE_ERROR
    assert world.registry.groups.all() == {"g": {SESSION: "50000"}}
    change(world, GROUP, "i", (SESSION, SET, "52000"))
    assert world.restart().registry.groups.all() == {"g": {SESSION: "50000"}, "i": {SESSION: "52000"}}


def test_a_damaged_file_is_no_empty_one(world: World) -> None:
    change(world, GROUP, "g", (SESSION, SET, "50000"))
    assert world.logs.close() == []
    path = world.directory / FILE_NAME
    path.write_text(path.read_text().replace("50000", "50001"))
    with pytest.raises(StorageError, match="checksum"):
        World(world.directory)


def test_a_start_names_the_file_and_the_group_of_what_it_does_not_know(world: World) -> None:
    world.settle()
    assert world.logs.close() == []
    document = {"format": 1, "groups": {"g": {"consumer.colour": "red"}}}
    (world.directory / FILE_NAME).write_text(json.dumps(document))
    with pytest.raises(InvalidConfig) as refused:
        World(world.directory)
    path = world.directory / FILE_NAME
    assert str(refused.value) == f"{path}, group g: Unknown group config name: consumer.colour"


def test_changes_of_one_group_follow_each_other_and_share_the_file_with_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All arrive before the disk has done anything: the first is written, then the others together."""
    write, written = world.files.write_atomically, []

    def count(path: Path, data: bytes) -> None:
        written.append(path.name)
        write(path, data)

    monkeypatch.setattr(world.files, "write_atomically", count)
    requests = [
        IncrementalAlterConfigsRequest(resources=[setting(group_id, name, value)])
        for group_id, name, value in (
            *(("g", SESSION, "50000"), ("h", SESSION, "51000"), ("i", SESSION, "52000")),
            *(("g", HEARTBEAT, "6000"), ("h", HEARTBEAT, "7000")),
        )
    ]
    waiting = [world.start(request, 1) for request in requests]
    assert not any(each.is_answered for each in waiting), "answered before it is durable"
    assert world.registry.groups.all() == {}
    world.settle()
    assert [each.answer.responses[0].error_code for each in waiting] == [0] * 5
    expected = {
        "g": {SESSION: "50000", HEARTBEAT: "6000"},
        "h": {SESSION: "51000", HEARTBEAT: "7000"},
        "i": {SESSION: "52000"},
    }
    assert world.registry.groups.all() == expected
    assert 3 <= written.count(FILE_NAME) <= 4
    assert world.restart().registry.groups.all() == expected


def test_no_more_groups_than_are_kept_have_settings(world: World) -> None:
    resources = [setting(f"g{number}", SESSION, "50000") for number in range(MAX_GROUPS + 1)]
    answers = world.ask(IncrementalAlterConfigsRequest(resources=resources), 1).responses
    assert {answer.error_code for answer in answers[:-1]} == {0}
    assert answers[-1].error_code == ErrorCode.POLICY_VIOLATION
    assert change(world, GROUP, "g1", (SESSION, SET, "51000")) == (0, None)
    words = f"There are settings of {MAX_GROUPS} groups already, the most that are kept."
    assert change(world, GROUP, "more", (SESSION, SET, "51000")) == (ErrorCode.POLICY_VIOLATION, words)
    assert change(world, GROUP, "g1", (SESSION, DELETE, None)) == (0, None)
    assert change(world, GROUP, "more", (SESSION, SET, "51000")) == (0, None)
    assert change(world, GROUP, "g1", (SESSION, SET, "51000"))[0] == ErrorCode.POLICY_VIOLATION


def test_changes_that_failed_leave_their_room(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.admin.alter_configs.MAX_GROUPS", 1)
    with monkeypatch.context() as broken:
        error = StorageError("write", world.directory, "no")
        broken.setattr(world.files, "write_atomically", lambda *_: (_ for _ in ()).throw(error))
        assert change(world, GROUP, "g", (SESSION, SET, "51000"))[0] == ErrorCode.KAFKA_STORAGE_ERROR
    assert change(world, GROUP, "h", (SESSION, SET, "51000")) == (0, None)
    assert change(world, GROUP, "g", (SESSION, SET, "51000"))[0] == ErrorCode.POLICY_VIOLATION


def test_the_id_of_a_group_with_settings_is_bounded(world: World) -> None:
    longest = "g" * MAX_GROUP_ID_BYTES
    assert change(world, GROUP, longest, (SESSION, SET, "50000")) == (0, None)
    words = f"The id of a group with settings has at most {MAX_GROUP_ID_BYTES} bytes."
    assert change(world, GROUP, f"{longest}g", (SESSION, SET, "50000")) == (ErrorCode.POLICY_VIOLATION, words)


# In force.


def test_those_who_follow_hear_of_each_group_once_it_has_changed(world: World) -> None:
    change(world, GROUP, "g", (SESSION, SET, "50000"))
    heard: list[tuple[str, dict[str, int]]] = []
    groups = world.registry.groups
    groups.follow(lambda group_id: heard.append((group_id, groups.numbers_in_force(group_id, STOCK))))
    change(world, GROUP, "h", (HEARTBEAT, SET, "6000"), ("share.isolation.level", SET, "read_committed"))
    change(world, GROUP, "g", (SESSION, DELETE, None))
    assert heard == [("g", {SESSION: 50_000}), ("h", {HEARTBEAT: 6_000}), ("g", {})]


def test_what_other_bounds_allowed_counts_as_the_nearest_that_these_do(world: World) -> None:
    change(world, GROUP, "g", (SESSION, SET, "60000"), (HEARTBEAT, SET, "5000"), (INTERVAL, SET, "7"))
    narrow = TopicSettings(
        group_consumer_max_session_timeout_ms=50_000,
        group_consumer_min_heartbeat_interval_ms=6_000,
        group_consumer_heartbeat_interval_ms=6_000,
    )
    world.settings = narrow
    world = world.restart()
    in_force = world.registry.groups.numbers_in_force("g", narrow)
    assert in_force == {SESSION: 50_000, HEARTBEAT: 6_000, INTERVAL: 7}
    assert shown(world, GROUP, "g", SESSION)[:2] == ("60000", 8), "what is stored is shown, as Kafka does"
    assert change(world, GROUP, "g", (INTERVAL, SET, "8")) == (ErrorCode.INVALID_CONFIG, TOO_OFTEN)


def test_an_interval_set_under_other_bounds_counts_as_the_nearest_that_these_allow() -> None:
    dynamic = DynamicSettings({}, {"group.consumer.assignment.interval.ms": "5"})
    settings = TopicSettings(group_consumer_assignment_interval_ms=5, dynamic=dynamic)
    assert assignment_interval_ms(settings) == 5
    narrow = TopicSettings(
        group_consumer_assignment_interval_ms=5, group_consumer_min_assignment_interval_ms=10
    )
    assert assignment_interval_ms(narrow) == 10


def test_every_version_describes_groups(world: World) -> None:
    for version in range(1, 5):
        asked = DescribeConfigsResource(resource_type=GROUP, resource_name="g", configuration_keys=[SESSION])
        (config,) = world.ask(DescribeConfigsRequest(resources=[asked]), version).results[0].configs
        assert config.value == "45000"
