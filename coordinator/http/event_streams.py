"""The clients of the stream of events: each is sent what is appended, and comes back to the offset where it was.

The log is read once for all that are up to date. The newest events stay in memory for those that do not read for a
moment; a client that falls behind those is sent a mark, and goes on from the log once it reads again. So a client
that stalls holds up no other, and holds no memory but what was written to its socket.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Final

import structlog

from coordinator.http.connection import Connection, Stream
from coordinator.http.event_log import FRAMES_BYTES, EventReader, Frame, Frames, beat_frame, gap_frame
from coordinator.http.exchange import HttpProblem, Question, Steps
from coordinator.topics.partition import Partition
from storage.files import StorageError
from storage.log.log_reader import OffsetOutOfRange

log = structlog.get_logger("muster.http")

CLIENTS_MAX: Final = 64
"""Streams of all listeners."""

CATCHING_UP_MAX: Final = 8
"""Clients that read the log for themselves at a time; others wait until one of them has caught up."""

RECENT_MAX: Final = 256
"""Events in memory for clients that do not read for a moment."""

RECENT_BYTES: Final = 4 << 20
"""Bytes of them: an event has 1 KB as a rule."""

BEAT_MS: Final = 10_000
"""Longest silence: what is between, and TCP, see a client that is gone only when something is sent."""

CUT_OFF_MAX: Final = 2 * CLIENTS_MAX
"""Clients that are remembered as cut off while they did not read; they are sent a mark when they come back."""

CLIENTS_AT_ONCE: Final = 8
"""Clients that are written to before others have the loop: some 20 us each."""

BEFORE_ALL: Final = "-1"
"""The id of a stream that began while the topic was empty: a client that comes back with it lacks all."""

INT64_MAX: Final = (1 << 63) - 1


class Client:
    """One stream: its connection, the group that it asks for, and the offset of the next event for it."""

    def __init__(self, streams: EventStreams, connection: Connection, key: bytes | None, offset: int) -> None:
        self._streams = streams
        self.connection = connection
        self.key = key
        self.offset = offset
        self.is_live = False  # It has all that was read so far.
        self.was_live = False  # It is sent a mark if it falls behind.
        self.is_catching_up = False  # Or waits for its turn to.
        self.is_open = True
        self.is_greeted = False  # It has been sent an id to come back with.
        self.sent_ms = 0

    def send(self, data: bytes, next_offset: int, now_ms: int) -> None:
        """Send events up to `next_offset`."""
        self.offset = next_offset
        if data:
            self.connection.write(data)
            self.sent_ms = now_ms

    def on_writable(self) -> None:
        """Go on, at first with the id of where it begins: it may have to come back before its first event."""
        if not self.is_greeted:
            self.is_greeted = True
            self.send(beat_frame(self.offset - 1), self.offset, self._streams.now_ms())
        self._streams.on_writable(self)

    def on_closed(self) -> None:
        self.is_open = False
        self._streams.on_closed(self)


class EventStreams:
    """All streams. Event-loop thread only."""

    def __init__(self, partition: Partition, run: Callable[[Steps], None], now_ms: Callable[[], int]) -> None:
        self._partition = partition
        self._run = run  # Does steps, beside those of requests.
        self.now_ms = now_ms
        self._clients: dict[Client, None] = {}
        self._recent: deque[Frame] = deque()
        self._recent_bytes = 0
        self._recent_from = self._end = 0  # All events between these offsets are in `_recent`.
        self._reader: EventReader | None = None  # None: there are no clients, so nothing is read.
        self._is_reading = False
        self._catching_up = 0
        self._to_catch_up: deque[Client] = deque()
        self._cut_off: deque[tuple[bytes | None, int]] = deque(maxlen=CUT_OFF_MAX)  # Their keys and offsets.

    # Clients come and go.

    def open(self, question: Question, last_id: str, connection: Connection) -> Stream:
        """Begin a stream, behind the event with `last_id` if that is given.

        Raises HttpProblem: a start that is no offset, or too many clients.
        """
        start = self._start(question, last_id)
        if len(self._clients) >= CLIENTS_MAX:
            raise HttpProblem(503, f"There are {CLIENTS_MAX} streams already.", {"Retry-After": "5"})
        group = question.query.get("group")
        if self._reader is None:
            self._begin_to_read()
        assert self._reader is not None, "it was begun"
        client = Client(self, connection, None if group is None else group.encode(), start)
        client.was_live = bool(last_id) and self._was_cut_off(client)
        client.sent_ms = self.now_ms()
        self._clients[client] = None
        return client

    def _start(self, question: Question, last_id: str) -> int:
        """The offset of the first event that is asked for. Raises HttpProblem."""
        if last_id == BEFORE_ALL:
            return 0
        if last_id:
            return _offset(last_id, "The Last-Event-ID") + 1
        text = question.query.get("from", "latest")
        if text == "latest":
            return self._partition.log.written_offset
        return 0 if text == "earliest" else _offset(text, "The parameter from")

    def _was_cut_off(self, client: Client) -> bool:
        """Whether a client that comes back is one that did not read: more was sent than it asks from now."""
        return any(client.key == key and client.offset < offset for key, offset in self._cut_off)

    def _begin_to_read(self) -> None:
        self._recent_from = self._end = self._partition.log.written_offset
        self._reader = EventReader(self._partition, self._recent_from)
        self._partition.durable_log.listeners.append(self._on_advanced)

    def on_closed(self, client: Client) -> None:
        self._clients.pop(client, None)
        if client.connection.is_blocked:
            self._cut_off.append((client.key, client.offset))
        if not self._clients and self._reader is not None:
            self._partition.durable_log.listeners.remove(self._on_advanced)
            self._reader = None
            self._recent.clear()
            self._recent_bytes = 0

    def on_writable(self, client: Client) -> None:
        """Let a client go on that reads again, or has just come."""
        if not (client.is_live or client.is_catching_up):
            client.is_catching_up = True
            self._to_catch_up.append(client)
            self._catch_up_some()

    def on_time(self, now_ms: int) -> None:
        """Show those who were sent nothing for a while that the daemon is there, and notice those that are not."""
        for client in self._clients:
            if now_ms - client.sent_ms >= BEAT_MS and client.is_live and not client.connection.is_blocked:
                client.send(beat_frame(client.offset - 1), client.offset, now_ms)

    # Those that are up to date.

    def _on_advanced(self) -> None:
        if not self._is_reading and self._reader is not None:
            self._is_reading = True
            self._run(self._read_on(self._reader))

    def _read_on(self, reader: EventReader) -> Steps:
        """Read what was appended, and hand it to all who are up to date."""
        try:
            while reader is self._reader:
                frames = yield from reader.read()
                if reader is not self._reader or frames.next_offset == self._end:
                    break
                self._keep(frames)
                yield from self._hand_out(frames)
        except (OffsetOutOfRange, StorageError) as error:
            log.error("events cannot be read", error=str(error))
            for client in tuple(self._clients):
                client.connection.abort()
        finally:
            self._is_reading = False
            if reader is not self._reader:  # Others have come meanwhile, with a reader of their own.
                self._on_advanced()

    def _keep(self, frames: Frames) -> None:
        """Keep the newest events; from here on they are what a client has to have to be up to date."""
        self._end = frames.next_offset
        self._recent += frames.frames
        self._recent_bytes += sum(len(frame.data) for frame in frames.frames)
        while len(self._recent) > RECENT_MAX or self._recent_bytes > RECENT_BYTES:
            gone = self._recent.popleft()
            self._recent_bytes -= len(gone.data)
            self._recent_from = gone.offset + 1

    def _hand_out(self, frames: Frames) -> Generator[None, Any, None]:
        for number, client in enumerate(tuple(self._clients), start=1):
            if client.is_live and client.is_open and client.offset < frames.next_offset:
                if client.connection.is_blocked:
                    client.is_live = False  # It goes on from here once it reads.
                else:
                    data = frames.since(client.offset).of(client.key)
                    client.send(data, frames.next_offset, self.now_ms())
            if number % CLIENTS_AT_ONCE == 0:
                yield None

    # Those that are behind.

    def _catch_up_some(self) -> None:
        while self._to_catch_up and self._catching_up < CATCHING_UP_MAX:
            client = self._to_catch_up.popleft()
            if client.is_open:
                self._catching_up += 1
                self._run(self._catch_up(client))

    def _catch_up(self, client: Client) -> Steps:
        """Send what a client lacks, from memory or from the log, until it has all or does not read."""
        reader: EventReader | None = None
        try:
            while client.is_open and not client.connection.is_blocked:
                if self._is_lost(client):
                    reader = None
                # Beyond the end: what is in the log, and has not been handed out yet.
                if client.offset >= self._end:
                    client.is_live = client.was_live = True
                    return
                if client.offset >= self._recent_from:
                    frames = self._recent_frames(client.offset)
                else:
                    if reader is None:
                        self._mark_slow(client)
                        reader = EventReader(self._partition, client.offset, client.key)
                    try:
                        frames = yield from reader.read()
                    except OffsetOutOfRange:
                        continue  # Retention was faster.
                client.send(frames.of(client.key), frames.next_offset, self.now_ms())
                yield None
        except StorageError as error:
            log.error("events cannot be read", error=str(error))
            client.connection.abort()
        finally:
            client.is_catching_up = False
            self._catching_up -= 1
            self._catch_up_some()

    def _is_lost(self, client: Client) -> bool:
        """Whether what a client asks for is not in the log: it is sent a mark, and goes on with what is."""
        start, end = self._partition.log_start_offset, self._partition.log.written_offset
        if client.offset > end:
            mark = gap_frame(end, client.offset - 1, "not_there", end - 1)
            client.send(mark, end, self.now_ms())
        elif client.offset < start:
            mark = gap_frame(client.offset, start - 1, "deleted", start - 1)
            client.send(mark, start, self.now_ms())
        else:
            return False
        return True

    def _mark_slow(self, client: Client) -> None:
        """Tell a client that was up to date, or was cut off, that it was too slow: what follows is late."""
        if client.was_live:
            client.was_live = False
            mark = gap_frame(client.offset, self._end - 1, "slow")
            client.send(mark, client.offset, self.now_ms())

    def _recent_frames(self, offset: int) -> Frames:
        frames: list[Frame] = []
        size = 0
        for frame in self._recent:
            if frame.offset >= offset and size < FRAMES_BYTES:
                frames.append(frame)
                size += len(frame.data)
        is_whole = size < FRAMES_BYTES or frames[-1] is self._recent[-1]
        return Frames(offset, frames, self._end if is_whole else frames[-1].offset + 1)


def _offset(text: str, what: str) -> int:
    """Return an offset. Raises HttpProblem."""
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= 19 else -1
    if not 0 <= number < INT64_MAX:
        raise HttpProblem(400, f"{what} must be an offset on __group_events.")
    return number
