"""Settings are described and altered: of topics and groups, and of the broker as far as others do not feel it."""

from __future__ import annotations

from typing import Final

from protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.incremental_alter_configs import IncrementalAlterableConfig as Operation
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsResource as OperationsOnResource,
)
from protocol.messages.list_config_resources import ListConfigResourcesRequest
from tests.conformance.admin_lines import ALTER_CONFIGS, DESCRIBE_CONFIGS, INCREMENTAL
from tests.conformance.new_members import NewMember
from tests.conformance.registry import scenario
from tests.conformance.run import Run
from tests.conformance.topic_scenes import AT_MS, ask, eventually, make_topic, quietly, topic_name
from tests.topics.requests import produce_request
from tests.topics.world import batch

TOPIC, BROKER, BROKER_LOGGER, GROUP = 2, 4, 8, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
KEYS: Final = ("retention.ms", "retention.bytes", "segment.bytes", "cleanup.policy", "max.message.bytes")
BROKERS_KEY: Final = "log.cleaner.delete.retention.ms"
"""A setting of the broker that no other scenario looks at or needs."""

SESSION, BEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"

Operations = tuple[tuple[str, int, str | None], ...]


def described(kind: int, name: str, *keys: str) -> DescribeConfigsRequest:
    asked = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
    )
    return DescribeConfigsRequest(resources=[asked], include_synonyms=True)


def incremental(
    kind: int, name: str, *operations: tuple[str, int, str | None], validate_only: bool = False
) -> IncrementalAlterConfigsRequest:
    configs = [Operation(name=key, config_operation=what, value=value) for key, what, value in operations]
    resource = OperationsOnResource(resource_type=kind, resource_name=name, configs=configs)
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)


def replaced(kind: int, name: str, **values: str | None) -> AlterConfigsRequest:
    """An AlterConfigs; option names are written with '_' for '.'."""
    configs = [AlterableConfig(name=key.replace("_", "."), value=value) for key, value in values.items()]
    return AlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)]
    )


async def until_shown(run: Run, name: str, key: str, value: str, kind: int = TOPIC) -> None:
    await eventually(
        run,
        described(kind, name, key),
        4,
        lambda reply: [config.value for config in reply.results[0].configs] == [value],
    )


@scenario("6 DescribeConfigs", versions=DESCRIBE_CONFIGS)
async def settings_are_described(run: Run, version: int) -> None:
    name = await make_topic(run, segment_bytes="2000000")
    await ask(run, described(TOPIC, name, *KEYS), version)
    await ask(run, described(TOPIC, name, "foo"), version, "unknown key")
    without = described(TOPIC, name, *KEYS)
    without.include_synonyms = False
    await ask(run, without, version, "without synonyms")
    for kind, asked in ((TOPIC, topic_name(run, "nope")), (TOPIC, "a b"), (BROKER, "7"), (BROKER, "x")):
        await ask(run, described(kind, asked), version, f"{kind} {asked}")
    await ask(run, described(BROKER, "1", "num.partitions", "message.max.bytes"), version, "the broker")


@scenario("6 AlterConfigs", versions=ALTER_CONFIGS)
async def settings_are_replaced(run: Run, version: int) -> None:
    name = await make_topic(run)
    await ask(run, replaced(TOPIC, name, segment_bytes="2000000"), version)
    await until_shown(run, name, "segment.bytes", "2000000")
    await ask(run, described(TOPIC, name, *KEYS), 4)
    for note, request in {
        "unknown": replaced(TOPIC, name, foo="1"),
        "bad": replaced(TOPIC, name, segment_bytes="2"),
        "null": replaced(TOPIC, name, segment_bytes=None),
        "no topic": replaced(TOPIC, topic_name(run, "nope")),
        "no name": replaced(TOPIC, "", retention_ms="1"),
        "logger": replaced(BROKER_LOGGER, "1", foo="INFO"),
        "broker": replaced(BROKER, "1", num_partitions="3"),
        "broker 7": replaced(BROKER, "7", log_retention_ms="3"),
        "nothing": replaced(TOPIC, name),
    }.items():
        await ask(run, request, version, note)
    await until_shown(run, name, "segment.bytes", "1073741824")
    checked = replaced(TOPIC, name, retention_ms="5")
    checked.validate_only = True
    await ask(run, checked, version, "only checked")
    await ask(run, described(TOPIC, name, *KEYS), 4)


@scenario("6 IncrementalAlterConfigs", versions=INCREMENTAL)
async def settings_are_altered(run: Run, version: int) -> None:
    name = await make_topic(run)
    steps: list[tuple[tuple[str, int, str | None], str]] = [
        (("retention.bytes", SET, "5"), "5"),
        (("retention.bytes", DELETE, None), "-1"),
        (("retention.ms", DELETE, "-1"), "604800000"),
        (("cleanup.policy", APPEND, "compact"), "delete,compact"),
        (("cleanup.policy", APPEND, "compact,delete"), "delete,compact"),
        (("cleanup.policy", SUBTRACT, "delete"), "compact"),
        (("cleanup.policy", SUBTRACT, "compact"), ""),
        (("cleanup.policy", DELETE, None), "delete"),
        (("leader.replication.throttled.replicas", APPEND, "0:1"), "0:1"),
    ]
    for operation, value in steps:
        await ask(run, incremental(TOPIC, name, operation), version, str(operation))
        await until_shown(run, name, operation[0], value)
        await ask(run, described(TOPIC, name, operation[0]), 4)
    several: Operations = (("retention.ms", SET, "7"), ("retention.bytes", SET, "8"))
    await ask(run, incremental(TOPIC, name, *several, validate_only=True), version, "only checked")
    await ask(run, described(TOPIC, name, *KEYS), 4)
    await ask(run, incremental(TOPIC, name), version, "nothing")
    await ask(run, IncrementalAlterConfigsRequest(resources=[]), version, "no resource")


@scenario("6 IncrementalAlterConfigs: refusals", versions=INCREMENTAL)
async def settings_that_cannot_be_altered(run: Run, version: int) -> None:
    name, nope = await make_topic(run), topic_name(run, "nope")
    refusals: list[tuple[int, str, Operations]] = [
        (TOPIC, name, (("foo", SET, "1"),)),
        (TOPIC, name, (("foo", DELETE, None),)),
        (TOPIC, name, (("foo", APPEND, "1"),)),
        (TOPIC, name, (("retention.ms", APPEND, "1"),)),
        (TOPIC, name, (("retention.ms", SUBTRACT, "1"),)),
        (TOPIC, name, (("cleanup.policy", APPEND, "foo"),)),
        (TOPIC, name, (("retention.ms", SET, "x"),)),
        (TOPIC, name, (("retention.ms", SET, None),)),
        (TOPIC, name, (("retention.ms", SET, "1"), ("retention.ms", SET, "2"))),
        (TOPIC, name, (("remote.storage.enable", SET, "true"),)),
        (TOPIC, name, (("min.compaction.lag.ms", SET, "10"), ("max.compaction.lag.ms", SET, "5"))),
        (TOPIC, nope, (("retention.ms", SET, "1"),)),
        (TOPIC, nope, (("retention.ms", SET, "x"),)),
        (TOPIC, "a b", (("retention.ms", SET, "1"),)),
        (TOPIC, "", (("retention.ms", SET, "1"),)),
        (0, "x", ()),
        (3, "x", ()),
        (99, "x", ()),
    ]
    for kind, asked, operations in refusals:
        await ask(run, incremental(kind, asked, *operations), version, f"{kind} {asked} {operations}")
    twice = incremental(TOPIC, name)
    twice.resources *= 2
    await ask(run, twice, version, "named twice")
    await ask(run, described(TOPIC, name, *KEYS), 4)


@scenario("6 IncrementalAlterConfigs: of the broker", versions=INCREMENTAL)
async def the_brokers_settings_are_altered(run: Run, version: int) -> None:
    """The changes are only validated, but for those that are refused."""
    for name in ("1", ""):
        for key, value in (
            ("log.retention.ms", "777"),
            ("log.retention.ms", "x"),
            ("message.max.bytes", "2000000"),
            ("log.segment.bytes", "1"),
            ("log.cleanup.policy", "compact"),
            ("num.partitions", "3"),
            ("auto.create.topics.enable", "false"),
            ("log.retention.hours", "3"),
            ("node.id", "3"),
            ("offsets.retention.minutes", "3"),
            ("producer.id.expiration.ms", "60000"),
            (BROKERS_KEY, "5"),
        ):
            request = incremental(BROKER, name, (key, SET, value), validate_only=True)
            await ask(run, request, version, f"{name} {key}={value}")
    for name, operation in (
        ("7", ("log.retention.ms", SET, "5")),
        ("x", ("log.retention.ms", SET, "5")),
        ("1", ("log.retention.ms", APPEND, "5")),
        ("1", ("foo", APPEND, "5")),
        ("1", ("log.retention.ms", 9, "5")),
        ("1", ("log.retention.ms", SET, None)),
        ("", ("log.cleanup.policy", APPEND, "foo")),
    ):
        request = incremental(BROKER, name, operation, validate_only=True)
        await ask(run, request, version, f"{name} {operation}")


@scenario("6 settings in force at once")
async def a_setting_is_in_force_at_once(run: Run) -> None:
    """The records' times are of now; the transcript has only what is the same on both sides."""
    name = await make_topic(run)

    async def error(size: int, at_ms: int = AT_MS) -> int:
        asked = await run.send("producer", produce_request(batch(b"x" * size, at_ms=at_ms), name), 9)
        reply = await asked.reply
        return int(reply.responses[0].partition_responses[0].error_code)

    run.saw("a large record", await error(2000))
    for key, value, size in (
        ("max.message.bytes", "1000", 2000),
        ("max.message.bytes", "3000", 2000),
        ("message.timestamp.before.max.ms", "1000", 10),
        ("message.timestamp.type", "LogAppendTime", 10),
    ):
        await ask(run, incremental(TOPIC, name, (key, SET, value)), 1)
        await until_shown(run, name, key, value)
        run.saw(f"a record of {size} bytes with {key}={value}", await error(size))


@scenario("6 settings in force at once")
async def settings_of_the_broker_stand_below_those_of_topics(run: Run) -> None:
    name = await make_topic(run)
    key = "delete.retention.ms"
    for broker, value in (("", "1111"), ("1", "2222")):
        await ask(run, incremental(BROKER, broker, (BROKERS_KEY, SET, value)), 1, broker)
        await until_shown(run, name, key, value)
        await ask(run, described(TOPIC, name, key), 4)
        await ask(run, described(BROKER, "1", BROKERS_KEY), 4)
    await ask(run, described(BROKER, "", BROKERS_KEY), 4)
    await ask(run, incremental(TOPIC, name, (key, SET, "3333")), 1)
    await until_shown(run, name, key, "3333")
    await ask(run, described(TOPIC, name, key), 4)
    await ask(run, incremental(TOPIC, name, (key, DELETE, None)), 1)
    for broker, value in (("1", "1111"), ("", "86400000")):
        await ask(run, incremental(BROKER, broker, (BROKERS_KEY, DELETE, None)), 1, broker)
        await until_shown(run, name, key, value)
        await ask(run, described(TOPIC, name, key), 4)


@scenario("A75", "6 DescribeConfigs: of groups", versions=DESCRIBE_CONFIGS)
async def settings_of_a_group_are_described(run: Run, version: int) -> None:
    """Of one that is not there, too."""
    await ask(run, described(GROUP, run.group), version)
    changes: Operations = ((SESSION, SET, " 50000 "), ("share.renew.acknowledge.enable", SET, "FALSE"))
    await ask(run, incremental(GROUP, run.group, *changes), 1)
    await until_shown(run, run.group, SESSION, "50000", GROUP)
    await ask(run, described(GROUP, run.group), version, "changed")
    await ask(run, described(GROUP, run.group, SESSION, "foo"), version, "some")
    without = described(GROUP, run.group, SESSION)
    without.include_synonyms = False
    await ask(run, without, version, "without synonyms")
    await ask(run, described(GROUP, ""), version, "no name")
    await ask(run, incremental(GROUP, run.group, *((name, DELETE, None) for name, *_ in changes)), 1)


@scenario("A75", "6 AlterConfigs: of groups", versions=ALTER_CONFIGS)
async def settings_of_a_group_are_replaced(run: Run, version: int) -> None:
    await ask(run, replaced(GROUP, run.group, consumer_session_timeout_ms="50000"), version)
    await until_shown(run, run.group, SESSION, "50000", GROUP)
    listed = await quietly(run, ListConfigResourcesRequest(resource_types=[GROUP]), 1)
    run.saw("listed", run.group in {each.resource_name for each in listed.config_resources})
    for note, request in {
        "unknown": replaced(GROUP, run.group, foo="1"),
        "bad": replaced(GROUP, run.group, consumer_session_timeout_ms="x"),
        "null": replaced(GROUP, run.group, consumer_session_timeout_ms=None),
        "no name": replaced(GROUP, ""),
    }.items():
        await ask(run, request, version, note)
    checked = replaced(GROUP, run.group, consumer_heartbeat_interval_ms="6000")
    checked.validate_only = True
    await ask(run, checked, version, "only checked")
    await ask(run, replaced(GROUP, run.group, consumer_heartbeat_interval_ms="6000"), version, "others")
    await until_shown(run, run.group, BEAT, "6000", GROUP)
    await ask(run, described(GROUP, run.group), 4)
    await ask(run, replaced(GROUP, run.group), version, "nothing")
    await until_shown(run, run.group, BEAT, "5000", GROUP)
    listed = await quietly(run, ListConfigResourcesRequest(resource_types=[GROUP]), 1)
    run.saw("not listed", run.group in {each.resource_name for each in listed.config_resources})


@scenario("A75", "6 IncrementalAlterConfigs: of groups", versions=INCREMENTAL)
async def settings_of_a_group_that_are_beyond_their_bounds(run: Run, version: int) -> None:
    """The changes are only validated, but for the first."""
    await ask(run, incremental(GROUP, run.group, (SESSION, SET, "50000")), version)
    await until_shown(run, run.group, SESSION, "50000", GROUP)
    bounds = {
        "session.timeout.ms": ("0", "44999", "45000", "60000", "60001"),
        "heartbeat.interval.ms": ("0", "4999", "5000", "15000", "15001"),
        "assignment.interval.ms": ("-1", "0", "15000", "15001"),
    }
    values = {f"{kind}.{name}": bounds[name] for kind in ("consumer", "share", "streams") for name in bounds}
    values |= {
        "share.record.lock.duration.ms": ("999", "14999", "15000", "60000", "60001"),
        "share.delivery.count.limit": ("1", "2", "10", "11"),
        "share.partition.max.record.locks": ("99", "100", "4000", "4001"),
        "share.auto.offset.reset": (
            "earliest",
            "none",
            "by_duration",
            "by_duration:PT1H",
            "by_duration:-PT1H",
        ),
        "share.isolation.level": ("read_committed", "READ_COMMITTED"),
        "share.renew.acknowledge.enable": ("false", "TRUE", "yes"),
        "streams.num.standby.replicas": ("-1", "0", "2", "3"),
        "streams.initial.rebalance.delay.ms": ("-1", "0", "2147483647", "2147483648"),
        "foo": ("1",),
    }
    changes: list[Operations] = [((name, SET, value),) for name in values for value in values[name]]
    changes += [
        ((SESSION, SET, "1"), (BEAT, SET, "1")),
        ((SESSION, SET, "1"), ("share.delivery.count.limit", SET, "11")),
        ((SESSION, SET, "x"), (BEAT, SET, "1")),
        ((SESSION, APPEND, "1"),),
        (("foo", SUBTRACT, "1"),),
        (("foo", DELETE, None),),
        ((SESSION, SET, None),),
        ((SESSION, SET, "50000"), (SESSION, SET, "51000")),
    ]
    for operations in changes:
        request = incremental(GROUP, run.group, *operations, validate_only=True)
        await ask(run, request, version, str(operations))
    await ask(run, incremental(GROUP, "", (SESSION, SET, "50000")), version, "no name")
    await ask(run, described(GROUP, run.group), 4)
    await ask(run, incremental(GROUP, run.group, (SESSION, DELETE, None)), version)


@scenario("A75", "6 settings of groups in force")
async def a_setting_of_a_group_is_in_force_with_its_next_heartbeat(run: Run) -> None:
    """Kafka's coordinator may follow a change only after it was answered and is described."""
    alice = NewMember(run, "alice")
    await alice.beat()

    async def until_told(interval_ms: int) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id=run.group, member_id=alice.member_id, member_epoch=alice.epoch
        )
        await eventually(run, request, 1, lambda reply: bool(reply.heartbeat_interval_ms == interval_ms))

    for value in ("6000", "7000", None):
        operation = (BEAT, SET, value) if value else (BEAT, DELETE, None)
        await ask(run, incremental(GROUP, run.group, operation), 1)
        await until_shown(run, run.group, BEAT, value or "5000", GROUP)
        await until_told(int(value or 5000))
        await alice.beat(note=f"at {value}")
    await alice.leave()
