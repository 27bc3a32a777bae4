"""What a node's own port does with requests that are not for a coordinator: any broker is asked.

Clients find the cluster there, and send what any broker may answer. Each connection of a client has its own to one
broker, opened when it is first needed. What only the leader of a partition can answer has no leader here.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final, Protocol

from coordinator.gateway.allowed import (
    ADD_OFFSETS_TO_TXN,
    ALLOWED,
    API_VERSIONS,
    DESCRIBE_CLUSTER,
    DESCRIBE_LOG_DIRS,
    DESCRIBE_QUORUM,
    FETCH,
    FIND_COORDINATOR,
    INCREMENTAL_ALTER_CONFIGS,
    LIST_GROUPS,
    LIST_TRANSACTIONS,
    METADATA,
    OF_GROUPS,
    PRODUCE,
    TXN_OFFSET_COMMIT,
    passing,
)
from coordinator.gateway.answering import ANSWER_BYTES_MAX
from coordinator.gateway.connection import CONNECT_TIMEOUT_S, ToBroker
from coordinator.gateway.front import Answered, Front, groups_of
from coordinator.runtime.tasks import spawn
from coordinator.server.api_table import Api, Handler
from coordinator.server.connection import Connection
from coordinator.server.decoding import RawRequest
from coordinator.server.memory_pool import MemoryPool
from coordinator.server.pending import Pending
from coordinator.server.prepared import Prepare
from protocol.error_responses import error_response
from protocol.errors import DecodeError, EncodeError, ErrorCode
from protocol.framing import REQUEST_HEADER, SIZE, decode_response, encode_request
from protocol.messages import RESPONSES
from protocol.messages.describe_log_dirs import DescribeLogDirsResponse, DescribeLogDirsResult
from protocol.messages.list_transactions import ListTransactionsResponse

NO_LOG_DIR: Final = "none"
"""The directory of a node, in which there is nothing. Java's client takes no directory for a refusal."""
ANSWER_TIMEOUT_S: Final = 120.0
"""For a request: administrators give theirs a minute."""

_READ_HERE: Final = frozenset(
    {
        METADATA,
        FIND_COORDINATOR,
        ADD_OFFSETS_TO_TXN,
        INCREMENTAL_ALTER_CONFIGS,
        DESCRIBE_CLUSTER,
        DESCRIBE_QUORUM,
    }
)


class ToAnyBroker(ToBroker, Protocol):
    """The same where any broker will do."""

    @property
    def broker_ids(self) -> list[int]: ...


class Counted:
    """Bytes that one request takes of the memory of all connections."""

    def __init__(self, pool: MemoryPool) -> None:
        self._pool = pool
        self._bytes = 0

    def take(self, size_bytes: int) -> None:
        """Take so much more. Raises OSError if there is no room for it."""
        if self._pool.is_full:
            raise OSError("the memory for requests is full")
        self._pool.take(size_bytes)
        self._bytes += size_bytes

    def release(self) -> None:
        """Give it back."""
        self._pool.release(self._bytes)
        self._bytes = 0


class Link:
    """The connection to a broker that belongs to one client's connection: one request at a time."""

    def __init__(self, to_broker: ToAnyBroker) -> None:
        self._to_broker = to_broker
        self._turn = asyncio.Lock()
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._asking: set[asyncio.Task[None]] = set()

    def begin(self, asking: Coroutine[object, object, None]) -> None:
        """Do what asks a request, until the client has gone."""
        task = spawn(asking)
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def ask(self, frame: bytes, on_size: Callable[[int], None]) -> bytes:
        """Send a request and return the answer, without their sizes; `on_size` hears how large that will be.

        Raises OSError, EOFError, DecodeError.
        """
        async with self._turn, asyncio.timeout(ANSWER_TIMEOUT_S):
            if self._writer is None or self._is_gone:
                await self._connect()
            assert self._writer is not None
            assert self._reader is not None
            self._writer.writelines([SIZE.pack(len(frame)), frame])
            await self._writer.drain()
            (size,) = SIZE.unpack(await self._reader.readexactly(SIZE.size))
            if not 0 < size <= ANSWER_BYTES_MAX:
                raise DecodeError(f"an answer of {size} bytes")
            on_size(size)
            return await self._reader.readexactly(size)

    @property
    def _is_gone(self) -> bool:
        """Whether the broker has closed the connection: it was restarted, or nothing was asked for long."""
        assert self._writer is not None
        assert self._reader is not None
        return self._reader.at_eof() or self._writer.is_closing()

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
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            transport = await self._to_broker.connect(broker_id, lambda: protocol)
        if self._writer is not None:
            self._writer.transport.abort()
        self._reader, self._writer = reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    def close(self) -> None:
        """End what is asked, too."""
        for task in self._asking:
            task.cancel()
        if self._writer is not None:
            self._writer.transport.abort()


class OwnPort:
    """The handlers of what a node passes on; `groups` are those of the coordinator's own APIs."""

    def __init__(
        self,
        front: Front,
        to_broker: ToAnyBroker,
        versions: Mapping[int, tuple[int, int]],
        pool: Callable[[], MemoryPool],
    ) -> None:
        """`versions` are those that all brokers serve, by API key; `pool` has the memory of all connections."""
        self._front = front
        self._to_broker = to_broker
        self._pool = pool
        self.versions = {
            key: passes
            for key, served in versions.items()
            if key not in OF_GROUPS and key not in (API_VERSIONS, LIST_GROUPS)
            if (passes := passing(key, served)) is not None
        }
        """(lowest, highest) version of what is passed on, by API key."""
        self._links: dict[Any, Link] = {}

    def handlers(self, of_groups: Mapping[int, Handler]) -> dict[int, Handler]:
        """All handlers, by API key: those of the coordinator, for groups that are ours, and those of the rest."""
        about_groups = {**of_groups, TXN_OFFSET_COMMIT: self.refuse_transaction}
        handlers: dict[int, Handler] = {
            key: partial(self._of_group, handle) for key, handle in about_groups.items()
        }
        handlers[LIST_GROUPS] = of_groups[LIST_GROUPS]
        handlers |= dict.fromkeys(self.versions, self.pass_on)
        handlers |= dict.fromkeys(_READ_HERE, self.read)
        handlers |= dict.fromkeys((PRODUCE, FETCH), self.refuse_data)
        handlers[DESCRIBE_LOG_DIRS] = lambda _, pending: pending.reply(
            DescribeLogDirsResponse(results=[DescribeLogDirsResult(log_dir=NO_LOG_DIR)])
        )
        handlers[LIST_TRANSACTIONS] = lambda _, pending: pending.reply(ListTransactionsResponse())
        return handlers

    def prepare(self, of_groups: Mapping[int, Prepare]) -> dict[int, Prepare]:
        """As `handlers`, for what prepares requests that clients repeat."""
        return {key: partial(self._prepare, prepare) for key, prepare in of_groups.items()}

    def cap(self, table: dict[int, Api]) -> None:
        """Have the API table serve the versions that all brokers do, and not decode what is passed on."""
        for key, row in table.items():
            lowest, highest = self.versions.get(key) or ALLOWED.get(key, (row.min_version, row.max_version))
            is_raw = row.handle in (self.pass_on, self.refuse_data)
            request_class = RawRequest if is_raw else row.request_class
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

    def refuse_data(self, request: RawRequest, pending: Pending) -> None:
        """Produce and Fetch (keys 0, 1): nothing has its leader here, and no client was told that it has."""
        pending.drop("data goes to the ports of the brokers")

    def read(self, request: Any, pending: Pending) -> None:
        """What the gateway answers itself, or whose answer it changes."""
        treated = self._front.treat(request, pending.api_version)
        if isinstance(treated, Answered):
            pending.reply(treated.response)
            return
        version, rewrite = pending.api_version, treated.rewrite
        frame = encode_request(treated.request, version, pending.correlation_id, pending.client_id)
        response_class = RESPONSES[REQUEST_HEADER.unpack_from(frame, SIZE.size)[0]]

        def answer(frame: bytes) -> None:
            _, response = decode_response(response_class, version, frame)
            pending.reply(rewrite(response))

        self._begin(frame[SIZE.size :], pending, answer)

    def pass_on(self, request: RawRequest, pending: Pending) -> None:
        """Any other request. What only a leader can do, a broker that is none refuses."""
        name = pending.client_id.encode()
        head = REQUEST_HEADER.pack(request.api_key, pending.api_version, pending.correlation_id, len(name))
        self._begin(head + name + request.body, pending, pending.reply_framed)

    def _begin(self, frame: bytes, pending: Pending, answer: Callable[[bytes], None]) -> None:
        """Ask a broker, in a task that ends with the client's connection."""
        if not pending.is_open:
            return
        link = self._links.get(pending.connection)
        if link is None:
            link = self._links[pending.connection] = Link(self._to_broker)
        link.begin(self._ask(link, frame, pending, answer))

    async def _ask(self, link: Link, frame: bytes, pending: Pending, answer: Callable[[bytes], None]) -> None:
        """Ask, answer the client or close its connection; the memory of both is counted meanwhile."""
        counted = Counted(self._pool())
        try:
            counted.take(len(frame))
            got = await link.ask(frame, counted.take)
            if pending.is_open:
                answer(got)
        except (OSError, EOFError, DecodeError, EncodeError, RuntimeError) as error:
            # uvloop raises a RuntimeError where a connection was reset that is written to.
            if pending.is_open:
                pending.drop(f"no broker has answered: {str(error) or type(error).__name__}")
        finally:
            counted.release()

    def on_closed(self, connection: Connection) -> None:
        """The client has gone."""
        link = self._links.pop(connection, None)
        if link is not None:
            link.close()
