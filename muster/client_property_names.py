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
security, but for `bootstrap.controllers`, which says where something is. `config.providers` is honoured."""

OF_LIBRDKAFKA: Final = frozenset(
    """
    allow.auto.create.topics api.version.fallback.ms api.version.request api.version.request.timeout.ms
    auto.commit.enable broker.address.family broker.address.ttl broker.version.fallback client.software.name
    client.software.version compression.codec compression.level consume.callback.max.messages
    coordinator.query.interval.ms debug delivery.report.only.error dr_cb dr_msg_cb enable.auto.offset.store
    enable.gapless.guarantee enable.metrics.push enable.partition.eof enable.random.seed error_cb
    fetch.error.backoff.ms fetch.message.max.bytes fetch.queue.backoff.ms fetch.wait.max.ms
    group.protocol.type internal.termination.signal log.connection.close log.queue log.thread.name log_cb
    log_level max.in.flight message.copy.max.bytes message.max.bytes message.send.max.retries
    message.timeout.ms msg_order_cmp offset.store.method offset.store.path offset.store.sync.interval.ms
    offset_commit_cb opaque open_cb partitioner produce.offset.report queue.buffering.backpressure.threshold
    queue.buffering.max.kbytes queue.buffering.max.messages queue.buffering.max.ms queued.max.messages.kbytes
    queued.min.messages queuing.strategy rebalance_cb receive.message.max.bytes reconnect.backoff.jitter.ms
    request.required.acks socket.blocking.max.ms socket.keepalive.enable socket.max.fails
    socket.nagle.disable socket.receive.buffer.bytes socket.send.buffer.bytes socket.timeout.ms
    statistics.interval.ms stats_cb sticky.partitioning.linger.ms throttle_cb topic.blacklist
    topic.metadata.propagation.max.ms topic.metadata.refresh.fast.cnt
    topic.metadata.refresh.fast.interval.ms topic.metadata.refresh.interval.ms
    topic.metadata.refresh.sparse
    """.split()  # noqa: SIM905 - a list would have a line for each.
)
"""Of librdkafka's configuration (2.16) what Java's clients do not have, and what is neither honoured nor about
security, nor about code to be loaded (`plugin.library.paths`)."""
