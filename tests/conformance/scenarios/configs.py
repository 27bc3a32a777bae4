"""Settings are described and altered: of topics, and of the broker as far as others beside do not feel it."""

from __future__ import annotations

from typing import Final

from protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.incremental_alter_configs import IncrementalAlterableConfig as Operation
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsResource as OperationsOnResource,
)
from tests.conformance.admin_lines import ALTER_CONFIGS, DESCRIBE_CONFIGS, INCREMENTAL
from tests.conformance.registry import scenario
from tests.conformance.run import Run
from tests.conformance.topic_scenes import AT_MS, ask, eventually, make_topic, topic_name
from tests.topics.requests import produce_request
from tests.topics.world import batch

TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8
SET, DELETE, APPEND, SUBTRACT = range(4)
KEYS: Final = ("retention.ms", "retention.bytes", "segment.bytes", "cleanup.policy", "max.message.bytes")
BROKERS_KEY: Final = "log.cleaner.delete.retention.ms"
"""A setting of the broker that no other scenario looks at or needs."""

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


async def until_shown(run: Run, topic: str, key: str, value: str) -> None:
    await eventually(
        run,
        described(TOPIC, topic, key),
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
