"""A log of `__group_events` in memory, for streams of its events."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from coordinator.http.event_streams import EventStreams
from coordinator.http.exchange import Question, Request, split_target
from coordinator.topics.partition import Partition
from protocol.records.batch import Codec, set_base_offset
from protocol.records.records import Record, encode_batch
from storage.log.log_reader import OffsetOutOfRange
from storage.log.segment_read import WouldBlock
from tests.http.doubles import Host


@dataclass
class Range:
    data: bytes
    is_cold: bool

    @property
    def length(self) -> int:
        return len(self.data)

    def read_nowait(self, start: int, length: int) -> bytes | None:
        return None if self.is_cold else self.data[start : start + length]

    def whole(self) -> bytes:
        return self.data


@dataclass
class Log:
    """Batches by their first offset. What is cold can only be read by `find`."""

    batches: list[tuple[int, int, bytes]] = field(default_factory=list)  # First and next offset, and bytes.
    written_offset: int = 0
    log_start_offset: int = 0
    is_cold: bool = False
    waited: int = 0
    finds: int = 0

    def find_nowait(self, offset: int, max_bytes: int) -> Range | None:
        self.finds += 1
        if self.is_cold:
            raise WouldBlock
        return self._find(offset, max_bytes)

    def find(self, offset: int, max_bytes: int) -> Range | None:
        self.waited += 1
        return self._find(offset, max_bytes)

    def _find(self, offset: int, max_bytes: int) -> Range | None:
        if not self.log_start_offset <= offset <= self.written_offset:
            raise OffsetOutOfRange(f"{offset}")
        found = b""
        for _, next_offset, data in self.batches:
            if next_offset > offset and (not found or len(found) + len(data) <= max_bytes):
                found += data
        return Range(found, False) if found else None


@dataclass
class DurableLog:
    listeners: list[Callable[[], None]] = field(default_factory=list)


class Events:
    """The partition, its streams, and clients of these over connections without sockets."""

    def __init__(self) -> None:
        self.log, self.durable_log = Log(), DurableLog()
        self.host = Host(self._handle)
        self.streams = EventStreams(cast(Partition, self), self.host.steps.run, self.host.now_ms)
        self._connection: Any = None

    @property
    def log_start_offset(self) -> int:
        return self.log.log_start_offset

    def _handle(self, request: Request) -> Any:
        query = split_target(request.target)[1]
        last_id = request.headers.get("last-event-id", "")
        return self.streams.open(Question(query), last_id, self._connection)

    def connect(self, query: str = "", last_id: int | None = None) -> tuple[Any, Any]:
        """A client's connection and transport, once it has what there was to be sent."""
        transport = self.join(query, last_id)
        self.settle()
        return transport.connection, transport

    def join(self, query: str = "", last_id: int | None = None) -> Any:
        """The transport of a client that has asked, and of which nothing else was done yet."""
        connection, transport = self.host.connect()
        self._connection = connection
        header = "" if last_id is None else f"Last-Event-ID: {last_id}\r\n"
        connection.data_received(f"GET /?{query} HTTP/1.1\r\nHost: localhost\r\n{header}\r\n".encode())
        return transport

    def append(self, *groups: str, codec: Codec = Codec.NONE, values: list[bytes] | None = None) -> None:
        """Append a batch with an event of each of these groups, and let it be handed out."""
        first = self.log.written_offset
        made = values or [event_of(group, first + number) for number, group in enumerate(groups)]
        records = [Record(group.encode(), value, 0) for group, value in zip(groups, made, strict=True)]
        batch = bytearray(encode_batch(records, codec=codec))
        set_base_offset(batch, first, 0)
        self.log.batches.append((first, first + len(records), bytes(batch)))
        self.log.written_offset += len(records)
        for listener in tuple(self.durable_log.listeners):
            listener()

    def settle(self) -> None:
        """Let all be done that can be."""
        self.host.loop.turn_until_idle()
        while self.host.loop.aside:
            self.host.loop.do_aside()
            self.host.loop.turn_until_idle()

    def delete_up_to(self, offset: int) -> None:
        """As retention does."""
        self.log.log_start_offset = offset
        self.log.batches = [each for each in self.log.batches if each[1] > offset]


def event_of(group: str, number: int) -> bytes:
    return json.dumps({"schema": 1, "group_id": group, "number": number}).encode()


@dataclass(frozen=True)
class Sent:
    """One event of a stream, as a client reads it."""

    kind: str
    data: Any
    event_id: int | None


def sent_to(transport: Any) -> list[Sent]:
    """What a client was sent, behind the head."""
    return parse(bytes(transport.written).partition(b"\r\n\r\n")[2])


def parse(data: bytes) -> list[Sent]:
    """The events in a stream, by the rules of HTML; those without data only move the id."""
    assert data == b"" or data.endswith(b"\n\n"), f"a frame is cut short: {data[-200:]!r}"
    found = []
    last_id: int | None = None
    for block in data.decode().split("\n\n")[:-1]:
        kind, lines = "message", []
        for line in block.split("\n"):
            name, _, value = line.partition(": ")
            if name == "id":
                last_id = int(value)
            elif name == "event":
                kind = value
            elif name == "data":
                lines.append(value)
        if lines:
            found.append(Sent(kind, json.loads("\n".join(lines)), last_id))
    return found


def offsets(transport: Any) -> list[int | None]:
    """The ids of the events of groups."""
    return [each.event_id for each in sent_to(transport) if each.kind == "group"]


def gaps(transport: Any) -> list[dict[str, Any]]:
    return [each.data for each in sent_to(transport) if each.kind == "gap"]
