"""What a node's own port does with requests that are not for a coordinator: any broker is asked.

Clients find the cluster there, and send what any broker may answer. Each connection of a client has its own to one
broker, opened when it is first needed. What only the leader of a partition can answer has no leader here.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final, Protocol

import structlog

from coordinator.gateway.allowed import (
    ADD_OFFSETS_TO_TXN,
    ALLOWED,
    API_VERSIONS,
    DESCRIBE_CLUSTER,
    DESCRIBE_LOG_DIRS,
    FIND_COORDINATOR,
    LIST_GROUPS,
    LIST_TRANSACTIONS,
    METADATA,
    OF_GROUPS,
    PRODUCE,
    TXN_OFFSET_COMMIT,
)
from coordinator.gateway.answering import ANSWER_BYTES_MAX
from coordinator.gateway.front import Answered, Front, groups_of
from coordinator.gateway.heads import HEAD, SIZE, acks_of, head_at
from coordinator.runtime.tasks import spawn
from coordinator.server.api_table import Api, Handler
from coordinator.server.connection import Connection
from coordinator.server.decoding import RawRequest
from coordinator.server.pending import Pending
from coordinator.server.prepared import Prepare
from protocol.error_responses import error_response
from protocol.errors import DecodeError, ErrorCode
from protocol.framing import decode_response, encode_request
from protocol.messages import RESPONSES
from protocol.messages.describe_log_dirs import DescribeLogDirsResponse
from protocol.messages.list_transactions import ListTransactionsResponse

log = structlog.get_logger("muster.gateway")

_READ_HERE: Final = frozenset({METADATA, FIND_COORDINATOR, ADD_OFFSETS_TO_TXN, DESCRIBE_CLUSTER})


class ToAnyBroker(Protocol):
    """How connections to brokers are made."""

    @property
    def broker_ids(self) -> list[int]: ...

    async def connect(self, broker_id: int, protocol: Callable[[], asyncio.Protocol]) -> asyncio.Transport:
        """Connect to the broker. Raises OSError."""


class Link:
    """The connection to a broker that belongs to one client's connection: one request at a time."""

    def __init__(self, to_broker: ToAnyBroker) -> None:
        self._to_broker = to_broker
        self._turn = asyncio.Lock()
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._is_closed = False

    async def ask(self, frame: bytes) -> bytes:
        """Send a request and return the answer, without their sizes. Raises OSError, EOFError, DecodeError."""
        async with self._turn:
            if self._writer is None:
                await self._connect()
            assert self._writer is not None
            assert self._reader is not None
            self._writer.write(SIZE.pack(len(frame)) + frame)
            await self._writer.drain()
            (size,) = SIZE.unpack(await self._reader.readexactly(SIZE.size))
            if not 0 < size <= ANSWER_BYTES_MAX:
                raise DecodeError(f"an answer of {size} bytes")
            return await self._reader.readexactly(size)

    async def _connect(self) -> None:
        """To any broker that is there."""
        *others, last = random.sample(broker_ids := self._to_broker.broker_ids, len(broker_ids))
        for broker_id in others:
            with suppress(OSError):
                await self._open(broker_id)
                return
        await self._open(last)

    async def _open(self, broker_id: int) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        transport = await self._to_broker.connect(broker_id, lambda: protocol)
        if self._is_closed:
            transport.abort()
            raise EOFError("the client has gone")
        self._reader, self._writer = reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    def close(self) -> None:
        """End what is asked, too."""
        self._is_closed = True
        if self._writer is not None:
            self._writer.transport.abort()


class OwnPort:
    """The handlers of what a node passes on; `groups` are those of the coordinator's own APIs."""

    def __init__(self, front: Front, to_broker: ToAnyBroker, versions: Mapping[int, tuple[int, int]]) -> None:
        """`versions` are those that all brokers serve, by API key."""
        self._front = front
        self._to_broker = to_broker
        self.versions = {
            key: (max(lowest, own[0]), min(highest, own[1]))
            for key, own in ALLOWED.items()
            for lowest, highest in [versions.get(key, (0, -1))]
            if key not in OF_GROUPS and key not in (API_VERSIONS, LIST_GROUPS)
            if max(lowest, own[0]) <= min(highest, own[1])
        }
        """(lowest, highest) version of what is passed on, by API key."""
        self._links: dict[Any, Link] = {}

    def handlers(self, of_groups: Mapping[int, Handler]) -> dict[int, Handler]:
        """All handlers, by API key: those of the coordinator, for groups that are ours, and those of the rest."""
        handlers: dict[int, Handler] = {
            key: partial(self._of_group, handle) for key, handle in of_groups.items()
        }
        handlers[LIST_GROUPS] = of_groups[LIST_GROUPS]
        handlers[TXN_OFFSET_COMMIT] = self.refuse_transaction
        handlers |= dict.fromkeys(self.versions, self.pass_on)
        handlers |= dict.fromkeys(_READ_HERE, self.read)
        handlers[DESCRIBE_LOG_DIRS] = lambda _, pending: pending.reply(DescribeLogDirsResponse())
        handlers[LIST_TRANSACTIONS] = lambda _, pending: pending.reply(ListTransactionsResponse())
        return handlers

    def prepare(self, of_groups: Mapping[int, Prepare]) -> dict[int, Prepare]:
        """As `handlers`, for what prepares requests that clients repeat."""
        return {key: partial(self._prepare, prepare) for key, prepare in of_groups.items()}

    def cap(self, table: dict[int, Api]) -> None:
        """Have the API table serve the versions that all brokers do, and not decode what is passed on."""
        for key, row in table.items():
            lowest, highest = self.versions.get(key) or ALLOWED.get(key, (row.min_version, row.max_version))
            request_class = RawRequest if row.handle == self.pass_on else row.request_class
            lowest = max(lowest, row.min_version)  # Produce's may be higher than what is reported.
            table[key] = replace(row, min_version=lowest, max_version=highest, request_class=request_class)

    def _of_group(self, handle: Handler, request: Any, pending: Pending) -> None:
        version = pending.api_version
        if all(map(self._front.is_ours, groups_of(request, version))):
            handle(request, pending)
        else:
            pending.reply(error_response(request, ErrorCode.NOT_COORDINATOR, version))

    def _prepare(self, prepare: Prepare, request: Any, version: int, frame: bytes) -> Any:
        return prepare(request, version, frame) if self._front.is_ours(request.group_id) else None

    def refuse_transaction(self, request: Any, pending: Pending) -> None:
        """TxnOffsetCommit (key 28): transactions do not reach the offsets of our groups yet."""
        self._front.on_refused_transaction(request.transactional_id, request.group_id)
        error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        pending.reply(error_response(request, error, pending.api_version))

    def read(self, request: Any, pending: Pending) -> None:
        """What the gateway answers itself, or whose answer it changes."""
        treated = self._front.treat(request, pending.api_version)
        if isinstance(treated, Answered):
            pending.reply(treated.response)
            return
        version = pending.api_version
        frame = encode_request(treated.request, version, pending.correlation_id, pending.client_id)
        rewrite, response_class = treated.rewrite, RESPONSES[_key_of(frame)]

        def answer(frame: bytes) -> None:
            _, response = decode_response(response_class, version, frame)
            pending.reply(rewrite(response))

        spawn(self._ask(frame[SIZE.size :], pending, answer))

    def pass_on(self, request: RawRequest, pending: Pending) -> None:
        """Any other request. What only a leader can do, a broker that is none refuses."""
        name = pending.client_id.encode()
        head = HEAD.pack(request.api_key, pending.api_version, pending.correlation_id, len(name))
        frame = head + name + request.body
        if request.api_key == PRODUCE and not self._is_answered(frame, pending):
            return
        spawn(self._ask(frame, pending, pending.reply_framed))

    def _is_answered(self, frame: bytes, pending: Pending) -> bool:
        """Whether a Produce has an answer; one without is dropped, as its client could not be told of an error."""
        try:
            if acks_of(frame, head_at(frame, 0)) != 0:
                return True
            pending.drop("acks=0: nothing has its leader here")
        except DecodeError as error:
            pending.drop(str(error))
        return False

    async def _ask(self, frame: bytes, pending: Pending, answer: Callable[[bytes], None]) -> None:
        connection = pending.connection
        link = self._links.get(connection)
        if link is None:
            link = self._links[connection] = Link(self._to_broker)
        try:
            got = await link.ask(frame)
            if pending.is_open:
                answer(got)
        except (OSError, EOFError, DecodeError) as error:
            if pending.is_open:
                pending.drop(f"no broker has answered: {str(error) or type(error).__name__}")

    def on_closed(self, connection: Connection) -> None:
        """The client has gone."""
        link = self._links.pop(connection, None)
        if link is not None:
            link.close()


def _key_of(frame: bytes) -> int:
    return int.from_bytes(frame[SIZE.size : SIZE.size + 2], "big")
