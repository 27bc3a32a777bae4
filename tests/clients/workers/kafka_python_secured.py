"""kafka-python over secured listeners: the outcome of each cell."""

from __future__ import annotations

import time
from typing import Any

from kafka import (
    ConsumerRebalanceListener,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    OffsetAndMetadata,
    TopicPartition,
)
from kafka.errors import KafkaError
from kafka.net.sasl.oauth import AbstractTokenProvider

from harness.reporting import Config
from tests.clients.workers.secured import (
    MEMBER,
    NOTHING,
    SERVED,
    Cell,
    Outcome,
    Stay,
    shown,
    walk_cells,
)


class Provider(AbstractTokenProvider):
    def __init__(self, cell: Cell) -> None:
        self._cell = cell

    def token(self) -> str:
        return self._cell.token()[0]


def _settings(cell: Cell) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap_servers": cell.bootstrap,
        "security_protocol": cell.protocol,
        "bootstrap_timeout_ms": int(cell.bootstrap_s * 1000),
    }
    if cell.has_tls:
        settings["ssl_cafile"] = cell.authority
    if cell.certificate is not None:
        settings |= {"ssl_certfile": cell.certificate, "ssl_keyfile": cell.certificate}
    if cell.token_url is not None:
        settings |= {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": Provider(cell)}
    elif cell.mechanism is not None:
        login = {"sasl_plain_username": cell.user, "sasl_plain_password": cell.password}
        settings |= {"sasl_mechanism": cell.mechanism, **login}
    return settings


def _of(error: KafkaError) -> Outcome:
    return Outcome(type(error).__name__, shown(error))


def connects(cell: Cell) -> Outcome:
    try:
        admin = KafkaAdminClient(**_settings(cell))
        admin.list_topics()
        admin.close()
    except KafkaError as error:
        return _of(error)
    return Outcome(SERVED)


def writes(cell: Cell) -> Outcome:
    producer = KafkaProducer(**_settings(cell))
    try:
        producer.send(cell.topic, b"x").get(cell.waits_s)
    except KafkaError as error:
        return _of(error)
    finally:
        producer.close()
    return Outcome(SERVED)


def _consumer(cell: Cell) -> KafkaConsumer:
    return KafkaConsumer(**_settings(cell), group_id=cell.group, **MEMBER)


def reads(cell: Cell) -> Outcome:
    """The first error that a poll raises, or that the group is joined."""
    consumer = _consumer(cell)
    consumer.subscribe([cell.topic])
    deadline_s = time.monotonic() + cell.waits_s
    try:
        while time.monotonic() < deadline_s:
            consumer.poll(timeout_ms=100)
            if consumer.assignment():
                return Outcome(SERVED)
        return Outcome(NOTHING)
    except KafkaError as error:
        return _of(error)
    finally:
        consumer.close()


class Counts(ConsumerRebalanceListener):
    def __init__(self, stay: Stay) -> None:
        self._stay = stay

    def on_partitions_revoked(self, revoked: object) -> None:
        """Nothing is counted: another assignment follows."""

    def on_partitions_assigned(self, assigned: object) -> None:
        self._stay.assigned()


def stays(cell: Cell) -> Outcome:
    stay = Stay(cell)
    consumer = _consumer(cell)
    consumer.subscribe([cell.topic], listener=Counts(stay))
    where = {TopicPartition(cell.topic, 0): OffsetAndMetadata(1, "", -1)}
    while stay.goes_on():
        try:
            consumer.poll(timeout_ms=200)
            consumer.commit(where)
            stay.committed()
        except KafkaError as error:
            stay.failed(type(error).__name__)
    consumer.close()
    return stay.outcome()


def secured(config: Config) -> None:
    walk_cells(config, {"connects": connects, "writes": writes, "reads": reads, "stays": stays})
