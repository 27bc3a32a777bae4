"""confluent-kafka (librdkafka) over secured listeners: the outcome of each cell."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from harness.reporting import Config
from tests.clients.workers.secured import NOTHING, SERVED, Cell, Outcome, Stay, shown, walk_cells

LIE_S = 3600
"""How long a token is said to be good for that is not: librdkafka shows none that has expired."""


def _settings(cell: Cell, errors: list[KafkaError]) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap.servers": cell.bootstrap,
        "security.protocol": cell.protocol,
        "error_cb": errors.append,
        "log_level": 0,
        "reconnect.backoff.max.ms": 1000,
        "socket.connection.setup.timeout.ms": int(cell.waits_s * 1000),
    }
    if cell.has_tls:
        settings["ssl.ca.location"] = cell.authority
    if cell.certificate is not None:
        settings |= {"ssl.certificate.location": cell.certificate, "ssl.key.location": cell.certificate}
    if cell.token_url is not None:
        settings |= {"sasl.mechanisms": "OAUTHBEARER", **_bearer(cell)}
    elif cell.mechanism is not None:
        login = {"sasl.username": cell.user, "sasl.password": cell.password}
        settings |= {"sasl.mechanisms": cell.mechanism, **login}
    return settings


def _bearer(cell: Cell) -> dict[str, Any]:
    """The issuer, which librdkafka asks itself; a token that has expired is shown as if it had not."""
    token, lasts_s = cell.token()
    if lasts_s < 0:
        return {"oauth_cb": lambda _: (token, time.time() + LIE_S)}
    return {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": cell.token_url,
        "sasl.oauthbearer.client.id": "client",
        "sasl.oauthbearer.client.secret": "secret",
    }


def _of(error: KafkaError) -> Outcome:
    return Outcome(error.name(), shown(error.str()))


def connects(cell: Cell) -> Outcome:
    """The first event that says why there is no connection."""
    errors: list[KafkaError] = []
    admin = AdminClient(_settings(cell, errors))
    listing, deadline_s = admin.list_topics, time.monotonic() + cell.waits_s
    while time.monotonic() < deadline_s:
        admin.poll(0.05)
        if errors:
            return _of(errors[0])
        try:
            listing(timeout=0.5)
        except KafkaException:
            continue
        return Outcome(SERVED)
    return Outcome(NOTHING)


def writes(cell: Cell) -> Outcome:
    delivered: list[KafkaError | None] = []
    producer = Producer(_settings(cell, []))
    producer.poll(0.1)
    producer.produce(cell.topic, b"x", on_delivery=lambda error, _: delivered.append(error))
    producer.flush(cell.waits_s)
    (error,) = delivered
    return Outcome(SERVED) if error is None else _of(error)


def _consumer(cell: Cell, errors: list[KafkaError]) -> Consumer:
    newer = {"group.protocol": "consumer"}
    classic = {"session.timeout.ms": 10_000, "heartbeat.interval.ms": 500}
    return Consumer(
        {
            **_settings(cell, errors),
            "group.id": cell.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 100,
            **(newer if cell.group_protocol == "consumer" else classic),
        }
    )


def reads(cell: Cell) -> Outcome:
    """The first error that a poll returns, or that the group is joined."""
    consumer = _consumer(cell, [])
    consumer.subscribe([cell.topic])
    deadline_s = time.monotonic() + cell.waits_s
    try:
        while time.monotonic() < deadline_s:
            message = consumer.poll(0.1)
            error = None if message is None else message.error()
            if error is not None:
                return _of(error)
            if consumer.assignment():
                return Outcome(SERVED)
        return Outcome(NOTHING)
    finally:
        consumer.close()


def stays(cell: Cell) -> Outcome:
    stay = Stay(cell)
    consumer = _consumer(cell, [])

    def assigned(_: Consumer, partitions: list[TopicPartition]) -> None:
        stay.assigned()

    consumer.subscribe([cell.topic], on_assign=assigned)
    where = [TopicPartition(cell.topic, 0, 1)]
    while stay.goes_on():
        consumer.poll(0.1)
        try:
            consumer.commit(offsets=where, asynchronous=False)
            stay.committed()
        except KafkaException as error:
            stay.failed(error.args[0].name())
    consumer.close()
    return stay.outcome()


def secured(config: Config) -> None:
    walk_cells(config, {"connects": connects, "writes": writes, "reads": reads, "stays": stays})
