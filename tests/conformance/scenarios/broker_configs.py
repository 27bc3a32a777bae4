"""The broker's own settings: which there are, which may change while it runs, and which values they may have.

What is asked to be changed is only checked, so that others beside do not feel it.
"""

from __future__ import annotations

from typing import Any, Final

from coordinator.settings.page import DIFFERENT_DEFAULTS
from protocol.messages.describe_configs import (
    ConfigSource,
    ConfigType,
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from tests.conformance.registry import scenario
from tests.conformance.run import Run
from tests.conformance.scenarios.configs import BROKER, SET, incremental
from tests.conformance.topic_scenes import ADMIN, ask

OURS: Final = "muster."
OTHER_DEFAULTS: Final = frozenset({"broker.id", *DIFFERENT_DEFAULTS})
"""Muster's defaults of these differ, or are each node's own; docs/settings.md says why."""

NOT_CHANGED_HERE: Final = frozenset({"listeners", "listener.security.protocol.map"})
SET_BY_KAFKA_ITSELF: Final = "min.insync.replicas"
"""Kafka's storage tool sets it, as it elects by it."""


def is_not_changed_here(name: str) -> bool:
    """What Muster refuses by name: where it listens; keys and certificates."""
    return name in NOT_CHANGED_HERE or name.startswith("ssl.")


def default_of(config: Any) -> str | None:
    return next(
        (
            each.value
            for each in config.synonyms
            if each.name == config.name and each.source == ConfigSource.DEFAULT_CONFIG
        ),
        None,
    )


@scenario("6 DescribeConfigs: all settings of the broker")
async def the_brokers_settings_are_those_of_kafka(run: Run) -> None:
    """The type of each, whether it can change (but for what Muster refuses), is secret, and its default."""
    resource = DescribeConfigsResource(resource_type=BROKER, resource_name="1", configuration_keys=None)
    asked = await run.send(
        ADMIN, DescribeConfigsRequest(resources=[resource], include_synonyms=True), 4, "the broker"
    )
    (result,) = (await asked.reply).results
    shown = {config.name: config for config in result.configs if not config.name.startswith(OURS)}
    run.expect(len(shown) > 300, f"only {len(shown)} settings")
    for name in sorted(shown):
        config = shown[name]
        can_change = "as it may" if is_not_changed_here(name) else not config.read_only
        default = "its own" if name in OTHER_DEFAULTS else default_of(config)
        run.saw(name, [ConfigType(config.config_type).name, can_change, config.is_sensitive, default])


VALUES: Final = ("1", "-1", "0", "x", "", "7", "true", "600000", "9223372036854775808")
CHECKED: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(
        (
            *("compression.gzip.level", "compression.lz4.level", "compression.zstd.level"),
            *(
                "follower.fetch.last.tiered.offset.enable",
                "log.preallocate",
                "unclean.leader.election.enable",
            ),
            *("transaction.partition.verification.enable", "producer.id.expiration.ms"),
            *("group.consumer.assignment.interval.ms", "group.share.assignment.interval.ms"),
            *("group.streams.assignment.interval.ms", "group.coordinator.cached.buffer.max.bytes"),
            *("share.coordinator.cached.buffer.max.bytes", "log.cleaner.backoff.ms"),
            *("log.cleaner.delete.retention.ms", "log.cleaner.io.buffer.size", "log.flush.interval.messages"),
            *(
                "log.cleaner.max.compaction.lag.ms",
                "log.cleaner.min.compaction.lag.ms",
                "log.flush.interval.ms",
            ),
            *("log.index.interval.bytes", "log.index.size.max.bytes", "log.local.retention.bytes"),
            *("log.message.timestamp.after.max.ms", "log.message.timestamp.before.max.ms"),
            *("log.message.timestamp.type", "log.retention.bytes", "log.retention.ms", "log.roll.jitter.ms"),
            *("log.roll.ms", "log.segment.bytes", "log.segment.delete.delay.ms", "log.local.retention.ms"),
            *(
                "max.connection.creation.rate",
                "max.connections",
                "max.connections.per.ip",
                "message.max.bytes",
            ),
            *("remote.fetch.max.wait.ms", "remote.list.offsets.request.timeout.ms"),
            *("remote.log.index.file.cache.total.size.bytes", "remote.log.manager.copy.max.bytes.per.second"),
            *("remote.log.manager.fetch.max.bytes.per.second", "leader.replication.throttled.rate"),
            *("follower.replication.throttled.rate", "replica.alter.log.dirs.io.max.bytes.per.second"),
            *("sasl.enabled.mechanisms", "sasl.jaas.config", "sasl.kerberos.kinit.cmd"),
            *("sasl.kerberos.min.time.before.relogin", "sasl.kerberos.principal.to.local.rules"),
            *("sasl.kerberos.service.name", "sasl.login.refresh.buffer.seconds"),
            *("sasl.login.refresh.min.period.seconds", "sasl.mechanism.inter.broker.protocol"),
            *("config.providers", "principal.builder.class", "metric.reporters", "num.partitions", "node.id"),
        ),
        VALUES,
    ),
    **dict.fromkeys(
        ("num.recovery.threads.per.data.dir", "num.replica.fetchers"), ("-1", "0", "1", "x", "600000")
    ),
    # How many the broker under test has by its file is not what Muster, which has none, goes by.
    **dict.fromkeys(("num.network.threads", "num.io.threads"), ("-1", "0", "x")),
    **dict.fromkeys(
        (
            *("background.threads", "remote.log.reader.threads"),
            *("remote.log.manager.copier.thread.pool.size", "remote.log.manager.follower.thread.pool.size"),
            "remote.log.manager.expiration.thread.pool.size",
        ),
        ("-1", "0", "x", "600000"),
    ),
    **dict.fromkeys(
        (
            *("log.cleaner.io.buffer.load.factor", "log.cleaner.io.max.bytes.per.second"),
            *("sasl.kerberos.ticket.renew.jitter", "sasl.kerberos.ticket.renew.window.factor"),
            *("sasl.login.refresh.window.factor", "sasl.login.refresh.window.jitter"),
        ),
        ("0.5", "1", "-1", "x", ""),
    ),
    "compression.type": ("zstd", "none", "producer", ""),
    "cordoned.log.dirs": ("", "/elsewhere", "a,b", "*", "*,/elsewhere"),
    "log.cleaner.dedupe.buffer.size": ("1048576", "-1", "x", "1000000000"),
    "log.cleaner.min.cleanable.ratio": ("0.5", "1.5", "x", ""),
    "log.cleaner.threads": ("-1", "0", "1", "2", "3", "x"),
    "log.cleanup.policy": ("compact", "compact,delete", "x", ""),
    "max.connections.per.ip.overrides": ("", "127.0.0.1:5", "x", "a,b", "a b:1"),
    SET_BY_KAFKA_ITSELF: ("1", "-1", "x"),
}


@scenario("6 IncrementalAlterConfigs: every setting of the broker", choices=("1", "all"))
async def values_of_the_brokers_settings_are_checked(run: Run, scope: str) -> None:
    for name, values in CHECKED.items():
        for value in values:
            request = incremental(
                BROKER, "" if scope == "all" else scope, (name, SET, value), validate_only=True
            )
            await ask(run, request, 1, f"{name}={value}")
