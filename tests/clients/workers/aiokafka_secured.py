"""aiokafka over secured listeners: the outcome of each cell."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.abc import AbstractTokenProvider
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaConnectionError, KafkaError
from aiokafka.helpers import create_ssl_context

from harness.reporting import Config
from tests.clients.workers.secured import (
    MEMBER,
    NOTHING,
    SERVED,
    Cell,
    Outcome,
    Play,
    Stay,
    shown,
    walk_cells,
)


class Logged(logging.Handler):
    """What the library logged of the cell that is played on a thread: the only place where it says the cause."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._said: defaultdict[int | None, list[str]] = defaultdict(list)

    def emit(self, record: logging.LogRecord) -> None:
        self._said[record.thread].append(record.getMessage())

    def taken(self) -> str:
        """What was said on this thread since the last time."""
        return "\n".join(self._said.pop(threading.get_ident(), []))


LOGGED = Logged()


class Provider(AbstractTokenProvider):
    def __init__(self, cell: Cell) -> None:
        self._cell = cell

    async def token(self) -> str:
        return (await asyncio.to_thread(self._cell.token))[0]


def _settings(cell: Cell) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap_servers": cell.bootstrap,
        "security_protocol": cell.protocol,
        "request_timeout_ms": int(cell.waits_s * 1000),
    }
    if cell.has_tls:
        settings["ssl_context"] = create_ssl_context(
            cafile=cell.authority, certfile=cell.certificate, keyfile=cell.certificate
        )
    if cell.token_url is not None:
        settings |= {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": Provider(cell)}
    elif cell.mechanism is not None:
        login = {"sasl_plain_username": cell.user, "sasl_plain_password": cell.password}
        settings |= {"sasl_mechanism": cell.mechanism, **login}
    return settings


def _of(error: KafkaError) -> Outcome:
    return Outcome(type(error).__name__, shown(error))


async def connects(cell: Cell) -> Outcome:
    admin = AIOKafkaAdminClient(**_settings(cell))
    LOGGED.taken()
    try:
        await admin.start()
        await admin.list_topics()
    except KafkaError as error:
        return Outcome(type(error).__name__, shown(f"{error}\n{LOGGED.taken()}"))
    finally:
        await admin.close()
    return Outcome(SERVED)


async def writes(cell: Cell) -> Outcome:
    async with AIOKafkaProducer(**_settings(cell)) as producer:
        try:
            await producer.send_and_wait(cell.topic, b"x")
        except KafkaError as error:
            return _of(error)
    return Outcome(SERVED)


def _consumer(cell: Cell) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(**_settings(cell), group_id=cell.group, **MEMBER)


async def reads(cell: Cell) -> Outcome:
    """The first error that a poll raises, or that the group is joined."""
    consumer = _consumer(cell)
    consumer.subscribe([cell.topic])
    try:
        await consumer.start()
        async with asyncio.timeout(cell.waits_s):
            while not consumer.assignment():
                await consumer.getmany(timeout_ms=100)
    except KafkaError as error:
        return _of(error)
    except TimeoutError:
        return Outcome(NOTHING)
    finally:
        await consumer.stop()
    return Outcome(SERVED)


class Counts(ConsumerRebalanceListener):
    def __init__(self, stay: Stay) -> None:
        self._stay = stay

    async def on_partitions_revoked(self, revoked: object) -> None:
        """Nothing is counted: another assignment follows."""

    async def on_partitions_assigned(self, assigned: object) -> None:
        self._stay.assigned()


async def stays(cell: Cell) -> Outcome:
    stay = Stay(cell)
    consumer = _consumer(cell)
    consumer.subscribe([cell.topic], listener=Counts(stay))
    await consumer.start()
    where = {TopicPartition(cell.topic, 0): 1}
    while await asyncio.to_thread(stay.goes_on):
        try:
            await consumer.getmany(timeout_ms=100)
            await consumer.commit(where)
            stay.committed()
        except KafkaError as error:
            stay.failed(type(error).__name__)
    # Where a session ends in this moment, stop() says so of a fetch, or that it cancelled one.
    with suppress(KafkaConnectionError, asyncio.CancelledError):
        await consumer.stop()
    return stay.outcome()


def _on_a_loop(play: Callable[[Cell], Awaitable[Outcome]]) -> Play:
    async def run(cell: Cell) -> Outcome:
        return await play(cell)

    return lambda cell: asyncio.run(run(cell))


def secured(config: Config) -> None:
    logging.getLogger("aiokafka").addHandler(LOGGED)
    plays = {"connects": connects, "writes": writes, "reads": reads, "stays": stays}
    walk_cells(config, {name: _on_a_loop(play) for name, play in plays.items()})
