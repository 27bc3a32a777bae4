"""Names of the properties of Kafka's clients that mean nothing to a tool that neither consumes nor produces."""

from __future__ import annotations

from typing import Final

OF_NO_MEANING: Final = frozenset(
    """
    acks allow.auto.create.topics auto.commit.interval.ms auto.offset.reset batch.size buffer.memory
    check.crcs client.dns.lookup client.rack compression.gzip.level compression.lz4.level
    compression.type compression.zstd.level delivery.timeout.ms enable.auto.commit enable.idempotence
    enable.metrics.push exclude.internal.topics fetch.max.bytes fetch.max.wait.ms fetch.min.bytes
    group.id group.instance.id group.protocol group.remote.assignor heartbeat.interval.ms
    interceptor.classes internal.throw.on.fetch.stable.offset.unsupported isolation.level
    key.deserializer key.serializer linger.ms max.block.ms max.in.flight.requests.per.connection
    max.partition.fetch.bytes max.poll.interval.ms max.poll.records max.request.size metadata.max.idle.ms
    metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy metric.reporters
    metrics.num.samples metrics.recording.level metrics.sample.window.ms partition.assignment.strategy
    partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms partitioner.class
    partitioner.ignore.keys receive.buffer.bytes reconnect.backoff.max.ms reconnect.backoff.ms retries
    retry.backoff.max.ms send.buffer.bytes session.timeout.ms share.acknowledgement.mode
    share.acquire.mode socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms
    transaction.timeout.ms transaction.two.phase.commit.enable transactional.id value.deserializer
    value.serializer
    """.split()  # noqa: SIM905 - a list would have a line for each.
)
"""Of ConsumerConfig, ProducerConfig and AdminClientConfig of Kafka 4.3.1 all that is neither honoured nor about
security, but for two that say where something is: `bootstrap.controllers`, and `config.providers`, by which a
value may stand for a password that is elsewhere."""
