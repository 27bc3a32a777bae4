"""Settings: Kafka's names, sources and their order, ranges, and what is refused in which words."""

from __future__ import annotations

import fnmatch
import importlib
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.groups.consumer.assignors import ASSIGNORS
from coordinator.part_settings import consumer_group_settings, shown_configs, topic_settings
from coordinator.server.memory_pool import FRAME_MS, STALLED_MS
from coordinator.settings import group_kinds
from coordinator.settings.kafka_names import IGNORED, RETIRED
from coordinator.settings.kinds import kind_of
from coordinator.settings.listeners import ListenerConfig
from coordinator.settings.model import OPTIONS, Settings, attribute_name, option_name
from coordinator.settings.page import (
    DIFFERENT_DEFAULTS,
    NARROWER_RANGES,
    PAGE,
    settings_page,
)
from coordinator.settings.plugins import LOADER, without_plugins
from coordinator.settings.properties import PropertiesError, parse_properties
from coordinator.settings.sources import LoadedSettings, SettingsError, environment_variable, load
from coordinator.settings.types import Flag, Whole
from coordinator.topics.dynamic_kinds import CHANGEABLE
from coordinator.topics.settings import TopicSettings
from coordinator.topics.topic_config import topic_config
from harness import java_tools

# Kafka's own file, as its 4.x archive ships it for one node in combined mode, comments left out.
STOCK_FILE = """\
process.roles=broker,controller
node.id=7
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""


def properties(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "server.properties"
    path.write_bytes(text.encode())
    return path


def problems(overrides: Mapping[str, str | None] | None = None, **sources: object) -> list[str]:
    with pytest.raises(SettingsError) as refused:
        load(overrides, **sources)  # type: ignore[arg-type]
    return list(refused.value.problems)


def test_without_anything_given_the_defaults_are_kafkas_on_loopback() -> None:
    settings = load().settings
    assert settings.endpoints == (ListenerConfig("PLAINTEXT", "127.0.0.1", 9092, "127.0.0.1", 9092),)
    assert settings.group_initial_rebalance_delay_ms == 3000
    assert settings.offsets_topic_num_partitions == 50
    assert settings.data_directory == Path("muster-data")


def test_a_flag_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    config = properties(tmp_path, "group.max.size=1\nnum.partitions=1\nfetch.max.bytes=2000\n")
    environment = {"MUSTER_GROUP_MAX_SIZE": "2", "MUSTER_NUM_PARTITIONS": "2"}
    settings = load({"group.max.size": "3"}, environment, config).settings
    assert (settings.group_max_size, settings.num_partitions, settings.fetch_max_bytes) == (3, 2, 2000)


def test_a_stock_brokers_file_works_and_what_means_nothing_is_listed(tmp_path: Path) -> None:
    """L5 and L11 among it."""
    loaded = load(config=properties(tmp_path, STOCK_FILE))
    assert loaded.settings.endpoints == (ListenerConfig("PLAINTEXT", "", 9092, "localhost", 9092),)
    assert loaded.settings.node_id == 7
    assert loaded.settings.data_directory == Path("logs")
    assert "process.roles" in loaded.ignored
    assert "num.io.threads" in loaded.ignored
    assert not OPTIONS & set(loaded.ignored)


def test_a_file_of_the_zookeeper_days_works() -> None:
    assert load({"zookeeper.connect": "localhost:2181", "broker.id": "4"}).settings.node_id == 4


def test_everything_wrong_is_reported_at_once_with_name_value_origin_and_range(tmp_path: Path) -> None:
    config = properties(tmp_path, "# sizes\ngroup.max.size=0\ngroup.mx.size=1\n")
    environment = {"MUSTER_LOG_ROLL_HOURS": "soon"}
    reported = problems({"auto.create.topics.enable": "yes"}, environment=environment, config=config)
    assert sorted(reported) == [
        "auto.create.topics.enable=yes (flag) must be true or false",
        "group.max.size=0 (server.properties:2) must be a whole number from 1 to 2147483647",
        "log.roll.hours=soon (MUSTER_LOG_ROLL_HOURS) must be a whole number from 1 to 2147483647",
        "unknown setting group.mx.size (server.properties:3); did you mean group.max.size?",
    ]


def test_a_name_like_nothing_known_is_refused_without_a_guess() -> None:
    assert problems({"colour": "blue"}) == ["unknown setting colour (flag): neither Kafka nor Muster has it"]


def test_a_password_that_reads_as_a_name_in_a_file_is_not_repeated(tmp_path: Path) -> None:
    """It stands behind a line that goes on, and then on a line of its own; no origin is made up for a flag."""
    config = properties(tmp_path, "ssl.keystore.password=\\\n\nCANARY-hunter2\nCANARY.hunter2=1\n")
    assert problems(config=config) == [
        f"server.properties:{line} has no setting that Kafka or Muster knows: is it a part of the line before?"
        for line in (3, 4)
    ]


def test_a_variable_that_nearly_names_a_setting_is_refused() -> None:
    reported = problems(environment={"MUSTER_GROUP_INITAL_REBALANCE_DELAY_MS": "0"})
    assert reported == [
        "unknown variable MUSTER_GROUP_INITAL_REBALANCE_DELAY_MS; "
        "did you mean MUSTER_GROUP_INITIAL_REBALANCE_DELAY_MS?"
    ]


def test_variables_that_kubernetes_sets_for_a_service_named_muster_do_no_harm() -> None:
    environment = {"MUSTER_SERVICE_HOST": "10.0.0.1", "MUSTER_PORT_9092_TCP_ADDR": "10.0.0.1", "HOME": "/"}
    loaded = load(environment=environment)
    assert loaded == LoadedSettings(Settings(), (), ("MUSTER_PORT_9092_TCP_ADDR", "MUSTER_SERVICE_HOST"))


def test_no_two_options_share_a_variable() -> None:
    known = OPTIONS | IGNORED | RETIRED
    assert len({environment_variable(option) for option in known}) == len(known)


def test_our_own_settings_have_one_muster_in_their_variable() -> None:
    assert load(environment={"MUSTER_FLUSH_POLICY": "os"}).settings.muster_flush_policy == "os"


def test_settings_cannot_be_changed() -> None:
    settings: Any = Settings()
    with pytest.raises(ValueError, match="frozen"):
        settings.group_max_size = 5


def test_settings_built_directly_read_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_GROUP_MAX_SIZE", "2")
    monkeypatch.setenv("GROUP_MAX_SIZE", "2")
    assert Settings().group_max_size == 2**31 - 1


@pytest.mark.parametrize("attribute", list(Settings.model_fields))
def test_every_default_is_allowed_by_its_own_range(attribute: str) -> None:
    default = Settings.model_fields[attribute].default
    assert kind_of(attribute).parse(default) == default


@pytest.mark.parametrize("attribute", [a for a in Settings.model_fields if isinstance(kind_of(a), Whole)])
def test_every_number_is_refused_just_outside_its_range_and_taken_at_its_ends(attribute: str) -> None:
    kind = kind_of(attribute)
    assert isinstance(kind, Whole)
    for allowed in (kind.low, kind.high, *kind.also):
        assert kind.parse(str(allowed)) == allowed
    for outside in {kind.low - 1, kind.high + 1} - set(kind.also):
        (reported,) = problems({option_name(attribute): str(outside)})
        assert reported == f"{option_name(attribute)}={outside} (flag) must be {kind.allowed}"


@given(st.text(max_size=30))
def test_any_text_is_either_a_number_in_range_or_refused_with_the_range(text: str) -> None:
    kind = Whole(1, 1000)
    try:
        value = kind.parse(text)
    except ValueError as error:
        reported = str(error)
    else:
        assert value in range(1, 1001)
        return
    assert reported == kind.allowed


@pytest.mark.parametrize("text", ["1_000", "1e3", "0x10", "1.0", "", "٣", "9" * 5000])
def test_numbers_are_digits_as_kafka_wants_them(text: str) -> None:
    with pytest.raises(ValueError, match="whole number"):
        Whole(0, 2**63 - 1).parse(text)


@pytest.mark.parametrize(("text", "value"), [("true", True), (" FALSE ", False)])
def test_booleans_are_true_and_false_in_any_case(text: str, value: bool) -> None:
    assert Flag().parse(text) is value


@pytest.mark.parametrize(
    ("given", "retention_ms"),
    [
        ({}, 168 * 3_600_000),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.minutes": "2"}, 120_000),
        ({"log.retention.minutes": "2", "log.retention.ms": "5"}, 5),
        ({"log.retention.minutes": "2", "log.retention.ms": "-1"}, -1),
        ({"log.retention.minutes": "", "log.retention.hours": "1"}, 3_600_000),
    ],
)
def test_the_finest_unit_of_retention_wins(given: dict[str, str], retention_ms: int) -> None:
    assert load(given).settings.retention_ms == retention_ms


@pytest.mark.parametrize(
    ("given", "flush_ms"),
    [
        ({}, 2**63 - 1),
        ({"log.flush.scheduler.interval.ms": "500"}, 500),
        ({"log.flush.scheduler.interval.ms": "500", "log.flush.interval.ms": "7"}, 7),
        ({"log.flush.scheduler.interval.ms": "500", "log.flush.interval.ms": "-1"}, -1),
    ],
)
def test_logs_are_synced_whenever_that_is_looked_at_unless_it_is_given(
    given: dict[str, str], flush_ms: int
) -> None:
    settings = topic_settings(load(given).settings, "cluster")
    assert settings.log_flush_interval_ms == flush_ms
    assert topic_config({}, settings).log.flush_ms == (flush_ms if flush_ms >= 0 else 2**63 - 1)


def test_the_finer_unit_of_rolling_wins() -> None:
    assert load({"log.roll.ms": "7", "log.roll.hours": "1"}).settings.roll_ms == 7
    jitter = {"log.roll.jitter.hours": "2"}
    assert topic_settings(load(jitter).settings, "cluster").log_roll_jitter_ms == 7_200_000
    assert (
        topic_settings(load(jitter | {"log.roll.jitter.ms": "5"}).settings, "cluster").log_roll_jitter_ms == 5
    )


OF_THE_DATA_PLANE = {field.name.replace("_", ".") for field in fields(TopicSettings)} - {
    "min.insync.replicas"  # There is one replica, whatever is asked for.
}
"""Settings that topics and their logs go by."""


@pytest.mark.parametrize("name", sorted(CHANGEABLE.keys() & OF_THE_DATA_PLANE))
def test_what_can_be_changed_at_run_time_counts_in_a_file_as_well(name: str, tmp_path: Path) -> None:
    """It reaches what works by it, and not only the page of settings."""
    attribute = attribute_name(name)
    value = {
        "log.cleanup.policy": "compact,delete",
        "log.message.timestamp.type": "LogAppendTime",
        "log.cleaner.min.cleanable.ratio": "0.25",
        "log.cleaner.io.max.bytes.per.second": "1234567.5",
        "log.cleaner.threads": "7",
        "group.consumer.assignment.interval.ms": "7",
        "transaction.partition.verification.enable": "false",
        "max.connections.per.ip.overrides": "127.0.0.1:5,::1:7",
        "cordoned.log.dirs": "*",
        "compression.type": "zstd",
        **{f"compression.{codec}.level": "7" for codec in ("gzip", "lz4", "zstd")},
    }.get(name, "1234567")
    given = load(config=properties(tmp_path, f"{name}={value}\n"))
    assert given.ignored == ()
    settings = topic_settings(given.settings, "cluster")
    assert str(getattr(settings, attribute)).lower() == value.lower()
    assert getattr(topic_settings(Settings(), "cluster"), attribute) == getattr(TopicSettings(), attribute)


KAFKAS = "org.apache.kafka.coordinator.group.assignor."
"""Where the classes of Kafka's assignors are."""

ASSIGNORS_ALLOWED = (
    f"a list separated by commas of uniform and range, or {KAFKAS}UniformAssignor and {KAFKAS}RangeAssignor "
    "for these, each once, and not empty"
)


@pytest.mark.parametrize(
    "text", ["", "uniform,uniform", f"uniform,{KAFKAS}UniformAssignor", "sticky", "Uniform", "uniform,,range"]
)
def test_assignors_are_refused_that_no_shard_could_work_with(text: str) -> None:
    (problem,) = problems({"group.consumer.assignors": text})
    assert problem == f"group.consumer.assignors={text} (flag) must be {ASSIGNORS_ALLOWED}"


def test_assignors_are_given_by_name_or_by_class_and_shown_as_given() -> None:
    given = f"{KAFKAS}RangeAssignor,uniform"
    settings = load({"group.consumer.assignors": given}).settings
    assert consumer_group_settings(settings).assignors == ("range", "uniform")
    (shown,) = (each for each in shown_configs(settings) if each.name == "group.consumer.assignors")
    assert (shown.value, shown.default) == (given, "uniform,range")


def test_there_is_an_assignor_of_each_name_that_may_be_given() -> None:
    assert set(ASSIGNORS) == set(group_kinds.ASSIGNORS)


@pytest.mark.parametrize("text", ["", "consumer", "classic,queue", "Classic", "classic,classic"])
def test_the_kinds_of_groups_are_kafkas_and_classic_is_always_one(text: str) -> None:
    (problem,) = problems({"group.coordinator.rebalance.protocols": text})
    words = "a list separated by commas of classic and consumer and streams and share, classic among them"
    assert problem == f"group.coordinator.rebalance.protocols={text} (flag) must be {words}"


@pytest.mark.parametrize("text", ["classic", "share,classic", "classic,consumer,streams,share"])
def test_the_kinds_of_groups_are_shown_as_given(text: str) -> None:
    given = load({"group.coordinator.rebalance.protocols": text})
    assert given.ignored == ()
    (shown,) = (
        each for each in shown_configs(given.settings) if each.name == "group.coordinator.rebalance.protocols"
    )
    assert (shown.value, shown.default) == (text, "classic,consumer,streams")


@pytest.mark.parametrize("text", ["127.0.0.1", "127.0.0.1:many", "a b:1", ":1"])
def test_connections_of_single_addresses_are_addresses_with_numbers(text: str) -> None:
    (problem,) = problems({"max.connections.per.ip.overrides": text})
    words = "must be a list separated by commas of address:count"
    assert problem == f"max.connections.per.ip.overrides={text} (flag) {words}"


def test_no_connections_of_any_address_need_an_address_that_may_have_some() -> None:
    """As Kafka has it: otherwise no client could ever connect."""
    assert problems({"max.connections.per.ip": "0"}) == [
        "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set."
    ]
    given = {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:1"}
    assert load(given).settings.max_connections_per_ip == 0


def test_only_the_log_directory_can_be_cordoned() -> None:
    for entries in ("logs", "*"):
        settings = load({"log.dirs": "logs", "cordoned.log.dirs": entries}).settings
        assert topic_settings(settings, "cluster").cordoned_log_dirs == entries
    missing = (
        "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. Missing entries : other"
    )
    assert problems({"log.dirs": "logs", "cordoned.log.dirs": "logs,other"}) == [missing]
    alone = "When cordoned.log.dirs is set to *, it must not contain other values"
    assert problems({"log.dirs": "logs", "cordoned.log.dirs": "*,logs"}) == [alone]


def test_where_the_node_stands_is_shown_to_clients(tmp_path: Path) -> None:
    given = load(config=properties(tmp_path, "broker.rack=west\n")).settings
    assert topic_settings(given, "cluster").rack == "west"
    assert topic_settings(load({"broker.rack": " "}).settings, "cluster").rack is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("log.cleanup.policy", "compact,compact"),
        ("log.cleanup.policy", "delete,keep"),
        ("log.message.timestamp.type", "logappendtime"),
        ("compression.type", "none"),
        ("compression.type", "GZIP"),
    ],
)
def test_words_that_kafka_does_not_take_are_refused(name: str, value: str) -> None:
    (reported,) = problems({name: value})
    assert reported == f"{name}={value} (flag) must be {kind_of(attribute_name(name)).allowed}"


def test_settings_that_do_not_fit_together_are_refused_together() -> None:
    given = {
        "node.id": "1",
        "broker.id": "2",
        "log.dirs": "one,two",
        "group.min.session.timeout.ms": "10",
        "group.max.session.timeout.ms": "9",
        "listeners": "EXTERNAL://localhost:9093",
    }
    assert problems(given) == [
        "broker.id=2 and node.id=1 must be the same",
        "group.min.session.timeout.ms=10 must not be above group.max.session.timeout.ms=9",
        "log.dirs=one,two must be one directory",
        "listener.security.protocol.map: has no entry for the listener EXTERNAL",
    ]


@pytest.mark.parametrize(
    ("listeners", "reported"),
    [
        ("PLAINTEXT://:99999", "must be NAME://host:port with a port from 0 to 65535"),
        ("localhost:9092", "must be NAME://host:port"),
        ("PLAINTEXT://a:1,PLAINTEXT://b:2", "the name PLAINTEXT is given twice"),
        ("EXTERNAL://localhost:9092", "has no entry for the listener EXTERNAL"),
        ("PLAINTEXT://0.0.0.0:9092", "clients cannot connect to 0.0.0.0"),
        ("", "at least one is needed"),
    ],
)
def test_listeners_that_cannot_work_are_refused(listeners: str, reported: str) -> None:
    """L2, L3."""
    (problem,) = problems({"listeners": listeners})
    assert reported in problem


def test_two_listeners_each_have_their_own_advertised_address() -> None:
    """A laptop and a container see different addresses of one node (L4)."""
    settings = load(
        {
            "listeners": "internal://:19092,HOST://0.0.0.0:9092",
            "advertised.listeners": "INTERNAL://muster:19092,HOST://localhost:29092",
            "listener.security.protocol.map": "INTERNAL:PLAINTEXT,HOST:PLAINTEXT",
        }
    ).settings
    assert settings.endpoints == (
        ListenerConfig("INTERNAL", "", 19092, "muster", 19092),
        ListenerConfig("HOST", "", 9092, "localhost", 29092),
    )


def test_listeners_on_the_same_port_are_refused_but_for_one_of_each_address_family() -> None:
    """L3."""
    names = "A:PLAINTEXT,B:PLAINTEXT"
    assert load(
        {"listeners": "A://127.0.0.1:1,B://[::1]:1", "listener.security.protocol.map": names}
    ).settings.endpoints == (
        ListenerConfig("A", "127.0.0.1", 1, "127.0.0.1", 1),
        ListenerConfig("B", "::1", 1, "::1", 1),
    )
    reported = problems(
        {"listeners": "A://127.0.0.1:1,B://127.0.0.2:1", "listener.security.protocol.map": names}
    )
    assert reported == ["listeners: A and B both take port 1"]


def test_an_advertised_name_must_be_a_listener() -> None:
    """L4."""
    assert problems({"advertised.listeners": "OTHER://host:1"}) == [
        "advertised.listeners: OTHER is not one of the listeners"
    ]


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("a=b", "a", "b"),
        ("a:b", "a", "b"),
        ("a b c", "a", "b c"),
        ("  a \t= b ", "a", "b "),
        ("a", "a", ""),
        ("a = = b", "a", "= b"),
        ("a\\ b=c", "a b", "c"),
        ("a\\=b=c", "a=b", "c"),
        ("a=one,\\\n   two", "a", "one,two"),
        ("a=one\\\\", "a", "one\\"),
        ("a=\\u0041\\t\\q", "a", "A\tq"),
        ("a=b\\", "a", "b"),
        ("a=1\\\r\n 2", "a", "12"),
        ("#c\n!d\n\n a=b", "a", "b"),
        ("a=b # no comment", "a", "b # no comment"),
        ("a=b\\\n#c", "a", "b#c"),
    ],
)
def test_properties_are_read_by_javas_rules(line: str, name: str, value: str) -> None:
    assert [(entry.name, entry.value) for entry in parse_properties(line)] == [(name, value)]


def test_each_property_knows_the_line_it_began_on() -> None:
    assert [entry.line for entry in parse_properties("a=1\n#\nb=\\\n2\nc=3")] == [1, 3, 5]


@given(st.text(alphabet="ab=:\\ \t\f\n\r#!u0041", max_size=40))
def test_any_text_is_read_or_refused_with_its_line(text: str) -> None:
    try:
        entries = parse_properties(text)
    except PropertiesError as error:
        reported = str(error)
    else:
        lines = [entry.line for entry in entries]
        assert lines == sorted(set(lines))
        return
    assert reported.startswith("line ")


def test_a_malformed_escape_is_refused_with_file_and_line(tmp_path: Path) -> None:
    config = properties(tmp_path, "node.id=1\nlog.dir=\\u12")
    (reported,) = problems(config=config)
    assert reported == f"{config}, line 2: \\u must be followed by four hexadecimal digits"


MIN_SESSION, MAX_SESSION = "group.min.session.timeout.ms", "group.max.session.timeout.ms"
MIN_LAG, MAX_LAG = "log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"


@pytest.mark.parametrize("name", ["session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms"])
def test_settings_of_consumer_groups_are_within_their_bounds(name: str) -> None:
    own, least, most = (f"group.consumer.{bound}{name}" for bound in ("", "min.", "max."))
    high = "100000"
    assert f"{own}={high} must not be above {most}=" in problems({own: high})[0]
    assert f"{least}=70000 must not be above {own}=" in problems({least: "70000", most: high})[0]


def test_a_heartbeat_comes_within_a_session() -> None:
    given = {
        "group.consumer.min.session.timeout.ms": "5000",
        "group.consumer.session.timeout.ms": "5000",
    }
    assert problems(given) == [
        "group.consumer.heartbeat.interval.ms=5000 must be below group.consumer.session.timeout.ms=5000"
    ]


def test_what_is_wrong_in_every_way_is_reported_at_once(tmp_path: Path) -> None:
    config = properties(tmp_path, f"log.dir=\\u12\n{MIN_LAG}=9\n\\u=1\ngroup.mx.size=1\n{MAX_LAG}=8\n")
    flags = {"bla": None, "group.max.size": "0", MIN_SESSION: "7", MAX_SESSION: "6"}
    escape = "\\u must be followed by four hexadecimal digits"
    assert problems(flags, config=config) == [
        "--override bla must be NAME=VALUE",
        f"{config}, line 1: {escape}",
        f"{config}, line 3: {escape}",
        "unknown setting group.mx.size (server.properties:4); did you mean group.max.size?",
        "group.max.size=0 (flag) must be a whole number from 1 to 2147483647",
        f"{MIN_SESSION}=7 must not be above {MAX_SESSION}=6",
        f"{MIN_LAG}=9 must not be above {MAX_LAG}=8",
    ]


@pytest.mark.parametrize(
    ("flags", "text", "reported"),
    [
        ({MIN_SESSION: "x"}, "", f"{MIN_SESSION}=x (flag) must be a whole number from 0 to 2147483647"),
        ({MIN_SESSION: None}, "", f"--override {MIN_SESSION} must be NAME=VALUE"),
        ({}, f"{MIN_SESSION}=\\u", "line 1: \\u must be followed by four hexadecimal digits"),
        ({}, None, "No such file or directory"),
    ],
    ids=["of a wrong value", "of none", "of a malformed escape", "of a file that is not there"],
)
def test_nothing_is_said_of_how_a_setting_fits_others_when_its_value_is_not_known(
    tmp_path: Path, flags: dict[str, str | None], text: str | None, reported: str
) -> None:
    """The default of the lowest session timeout is above this highest one: it was not asked for."""
    config = tmp_path / "absent" if text is None else properties(tmp_path, text)
    (problem,) = problems({MAX_SESSION: "500", **flags}, config=config)
    assert problem.endswith(reported)


def test_a_flag_counts_where_the_file_cannot_be_read(tmp_path: Path) -> None:
    config = properties(tmp_path, f"{MIN_SESSION}=\\u")
    found = problems({MIN_SESSION: "7", MAX_SESSION: "6"}, config=config)
    assert f"{MIN_SESSION}=7 must not be above {MAX_SESSION}=6" in found


def test_a_file_that_is_not_there_is_reported_in_a_sentence(tmp_path: Path) -> None:
    config = tmp_path / "absent.properties"
    assert problems(config=config) == [f"cannot read {config}: No such file or directory"]


def test_a_file_that_is_far_too_large_is_not_read(tmp_path: Path) -> None:
    (reported,) = problems(config=properties(tmp_path, "#" * (1 << 20) + "\n"))
    assert "is it a properties file?" in reported


def test_the_page_of_settings_is_fresh() -> None:
    assert PAGE.read_text() == settings_page(), "run: make docs"


def test_the_page_names_what_is_ignored_of_the_coordinators_own_settings() -> None:
    head = PAGE.read_text().partition("| setting |")[0]
    patterns = re.findall(r"`(group\.[a-z.]+(?:\.\*)?)`", head.partition("those are:")[2])
    ignored = {name for name in IGNORED if name.startswith(("group.", "offset"))}
    assert {name for name in ignored if any(fnmatch.fnmatch(name, each) for each in patterns)} == ignored
    assert all(fnmatch.filter(ignored, each) for each in patterns)


@pytest.fixture(scope="session")
def broker_options(java: None) -> dict[str, tuple[str, str, str]]:
    """Type, default and range of every option, from the classes of a 4.3.1 broker."""
    source = Path(__file__).parent / "java" / "BrokerOptions.java"
    command = [java_tools.java(), "-cp", java_tools.classpath(), str(source)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    rows = (line.split("\t") for line in shown.splitlines())
    return {name: (type_, default, validator) for name, type_, default, validator in rows}


OF_THE_AUTHORIZER = {"super.users", "allow.everyone.if.no.acl.found"}
"""Options that the authorizer reads, of which Kafka's broker knows nothing."""


def test_every_option_of_a_broker_is_either_honoured_or_ignored(
    broker_options: dict[str, tuple[str, str, str]],
) -> None:
    ours = {option for option in OPTIONS if not option.startswith("muster.")}
    assert ours | IGNORED == broker_options.keys() | OF_THE_AUTHORIZER
    assert not ours & IGNORED
    assert not RETIRED & broker_options.keys()


def test_every_default_is_kafkas_unless_a_reason_is_given(
    broker_options: dict[str, tuple[str, str, str]],
) -> None:
    different = {
        option
        for option, (type_, default, _) in broker_options.items()
        if option in OPTIONS and not same_default(option, type_, default)
    }
    assert different == DIFFERENT_DEFAULTS.keys()


def same_default(option: str, type_: str, theirs: str) -> bool:
    theirs = theirs.removeprefix("class ")
    ours = Settings.model_fields[attribute_name(option)].default
    if theirs == "null":
        return ours in (None, ())
    if type_ == "LIST":
        return ",".join(ours) == theirs.strip("[]").replace(", ", ",")
    if type_ == "DOUBLE":
        return bool(ours == float(theirs))
    shown = ",".join(ours) if isinstance(ours, tuple) else str(ours)
    return shown.lower() == theirs.lower()


RANGE = re.compile(r"\[(-?\d+),\.{3}(?:,(-?\d+))?\](?: or (-?\d+))?")
"""How a broker writes the range of a number, and a value beside it."""


def test_every_range_is_kafkas_unless_a_reason_is_given(
    broker_options: dict[str, tuple[str, str, str]],
) -> None:
    """None is wider; where Kafka's definition has a range, none is narrower but for what is named."""
    narrower = set()
    for option, (type_, _, validator) in broker_options.items():
        if option not in OPTIONS or type_ not in ("INT", "LONG", "SHORT"):
            continue
        kind = kind_of(attribute_name(option))
        assert isinstance(kind, Whole)
        largest = {"INT": 2**31, "LONG": 2**63, "SHORT": 2**15}[type_] - 1
        assert kind.high <= largest, option
        if bounds := RANGE.match(validator):
            lowest, highest = int(bounds[1]), int(bounds[2] or largest)
            also = {int(bounds[3])} if bounds[3] else set()
            mine = min(kind.low, *(set(kind.also) - also), kind.low)
            assert mine >= lowest, option
            if (mine, kind.high) != (lowest, highest):
                narrower.add(option)
    assert narrower == NARROWER_RANGES.keys()


def test_the_page_says_after_how_long_a_connection_gives_way() -> None:
    (row,) = (
        line for line in PAGE.read_text().splitlines() if line.startswith("| `queued.max.request.bytes` |")
    )
    assert f"no byte for {STALLED_MS // 1000} seconds or is not whole after {FRAME_MS // 1000}" in row


def test_models_are_built_without_plugins_only_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """What else there may be of pydantic in the process, finds plugins as ever."""
    monkeypatch.delitem(sys.modules, LOADER, raising=False)
    with without_plugins():
        assert sys.modules[LOADER].get_plugins() == ()
    assert LOADER not in sys.modules
    assert importlib.import_module(LOADER).__spec__ is not None


def test_plugins_that_were_found_before_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    loader = ModuleType(LOADER)
    monkeypatch.setitem(sys.modules, LOADER, loader)
    with without_plugins():
        assert sys.modules[LOADER] is loader
    assert sys.modules[LOADER] is loader
