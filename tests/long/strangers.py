"""Strangers by the thousand: a process that keeps so many connections open at a daemon, to no use.

Each is one of KINDS, in turns. One that is closed comes again after a while. Behind TLS all but two kinds shake
hands first. `python -m tests.long.strangers PORT COUNT --tls AUTHORITY` runs until its stdin is closed, and then
prints its counts.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import json
import os
import selectors
import socket
import ssl
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Generator
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from protocol.codec.primitives import encode_uvarint
from protocol.framing import encode_request
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest

SIZE: Final = Struct(">i")
READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
OPENING_MAX: Final = 256
"""Connections that are being opened at a time: a longer queue would be the system's to drop."""
CLAIMED_BYTES, SENT_BYTES = 512 << 10, 1 << 10
BETWEEN_BYTES_S: Final = 1.0
BETWEEN_VERSIONS_S: Final = 2.5
HANDSHAKE: Final = encode_request(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1, 7, "s")
FIRST: Final = encode_request(SaslAuthenticateRequest(auth_bytes=b"n,,n=alice,r=" + b"x" * 24), 2, 8, "s")
LONG_FIRST: Final = encode_request(
    SaslAuthenticateRequest(auth_bytes=b"n,,n=alice,r=" + b"x" * 524_000), 2, 8, "s"
)


class Wait(NamedTuple):
    """What a stranger waits for: its socket, or a time, whichever comes first."""

    events: int
    seconds: float | None = None


Course: TypeAlias = Generator[Wait, int, None]
"""A stranger's life; it is sent what its socket is ready for, 0 if the time is over."""


def api_versions(version: int) -> bytes:
    """An ApiVersions request of a version that need not exist: its header without tagged fields, and no body."""
    body = Struct(">hhihx").pack(18, version, 7, -1)
    return SIZE.pack(len(body)) + body


def tagged_versions(count: int) -> bytes:
    """The same with so many empty tagged fields in its header."""
    tags = encode_uvarint(count) + b"".join(encode_uvarint(tag) + b"\0" for tag in range(count))
    body = Struct(">hhih").pack(18, 99, 7, -1) + tags
    return SIZE.pack(len(body)) + body


TAGGED: Final = tagged_versions(128_000)


class Stranger:
    """One connection."""

    def __init__(self, port: int, context: ssl.SSLContext | None, kind: str) -> None:
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.is_open = False
        self._port = port
        self._context = context
        self._kind = kind

    def course(self) -> Course:
        """Connect, and be of one's kind until the end."""
        self.socket.connect_ex(("127.0.0.1", self._port))
        yield Wait(WRITE)
        if error := self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(error, os.strerror(error))
        self.is_open = True
        if self._context is not None and self._kind not in BEFORE_TLS:
            yield from self._shake_hands(self._context)
        yield from ALL[self._kind](self)

    def _shake_hands(self, context: ssl.SSLContext) -> Course:
        wrapped = context.wrap_socket(self.socket, do_handshake_on_connect=False)
        self.socket = wrapped
        while True:
            try:
                wrapped.do_handshake()
            except ssl.SSLWantReadError:
                yield Wait(READ)
            except ssl.SSLWantWriteError:
                yield Wait(WRITE)
            else:
                return

    def pause(self, seconds: float | None) -> Course:
        """Wait, or for ever; what is answered is dropped. Raises ConnectionError at the end of the stream."""
        until_s = None if seconds is None else time.monotonic() + seconds
        while True:
            left_s = None if until_s is None else until_s - time.monotonic()
            if left_s is not None and left_s <= 0:
                return
            if (yield Wait(READ, left_s)):
                try:
                    if not self.socket.recv(4096):
                        raise ConnectionError("closed")
                except (BlockingIOError, ssl.SSLWantReadError):
                    continue

    def send(self, data: bytes) -> Course:
        """Send all of it, as it is taken."""
        left = memoryview(data)
        while left:
            try:
                left = left[self.socket.send(left) :]
            except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
                yield Wait(WRITE)

    def hello(self) -> bytes:
        """What this stranger says by the byte: the beginning of TLS, or of a request."""
        if self._context is None:
            return api_versions(3)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        try:
            self._context.wrap_bio(incoming, outgoing).do_handshake()
        except ssl.SSLWantReadError:
            return outgoing.read()
        raise AssertionError("a handshake without an answer")


def silent(stranger: Stranger) -> Course:
    """Says nothing."""
    yield from stranger.pause(None)


def slow(stranger: Stranger) -> Course:
    """Says its hello by the byte."""
    for byte in stranger.hello():
        stranger.socket.send(bytes((byte,)))
        yield from stranger.pause(BETWEEN_BYTES_S)
    yield from stranger.pause(None)


def claiming(stranger: Stranger) -> Course:
    """Announces as much as a stranger may send, and sends little of it."""
    stranger.socket.send(SIZE.pack(CLAIMED_BYTES) + bytes(SENT_BYTES))
    yield from stranger.pause(None)


def asking(stranger: Stranger) -> Course:
    """Asks for versions that there are not, as long as it is answered."""
    while True:
        stranger.socket.send(api_versions(99))
        yield from stranger.pause(BETWEEN_VERSIONS_S)


def half(stranger: Stranger) -> Course:
    """Begins a login by SCRAM, and leaves it at that."""
    stranger.socket.send(HANDSHAKE + FIRST)
    yield from stranger.pause(None)


def keeping(stranger: Stranger) -> Course:
    """Begins a login by SCRAM with the longest nonce that fits, which the daemon has to keep, and leaves it."""
    yield from stranger.send(HANDSHAKE + LONG_FIRST)
    yield from stranger.pause(None)


def tagging(stranger: Stranger) -> Course:
    """Asks for versions that there are not, with as many fields as fit that nobody knows."""
    while True:
        yield from stranger.send(TAGGED)
        yield from stranger.pause(BETWEEN_VERSIONS_S)


KINDS: Final[dict[str, Callable[[Stranger], Course]]] = {
    "silent": silent,
    "slow": slow,
    "claiming": claiming,
    "asking": asking,
    "half": half,
}
LARGE: Final[dict[str, Callable[[Stranger], Course]]] = {"keeping": keeping, "tagging": tagging}
"""Those that send half a megabyte each time."""
ALL: Final = {**KINDS, **LARGE}
BEFORE_TLS: Final = ("silent", "slow")
"""What is done on the bare connection."""


class Crowd:
    """So many strangers, each of which comes again when it was closed."""

    def __init__(
        self, port: int, context: ssl.SSLContext | None, again_s: float, kinds: Collection[str] = KINDS
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._port = port
        self._context = context
        self._again_s = again_s
        self._kinds = itertools.cycle(kinds)
        self._selector = selectors.DefaultSelector()
        self._waiting: list[tuple[float, int, tuple[Stranger, Course] | None]] = []
        self._numbers = itertools.count()
        self._number_of: dict[Stranger, int] = {}  # Of the wait that counts; an older one has passed.
        self._opening = 0
        self._to_open = 0

    def run(self, count: int) -> None:
        """Until stdin is closed."""
        self._to_open = count
        self._selector.register(sys.stdin, READ)
        while True:
            while self._to_open and self._opening < OPENING_MAX:
                self._to_open -= 1
                self._begin()
            now_s = time.monotonic()
            timeout_s = max(0.0, self._waiting[0][0] - now_s) if self._waiting else 1.0
            for key, events in self._selector.select(min(timeout_s, 1.0)):
                if key.data is None:
                    return
                stranger, course = key.data
                self._resume(stranger, course, events)
            self._fire(time.monotonic())

    def _begin(self) -> None:
        stranger = Stranger(self._port, self._context, next(self._kinds))
        self._opening += 1
        self.counts["begun"] += 1
        course = stranger.course()
        self._arm(stranger, course, next(course))

    def _arm(self, stranger: Stranger, course: Course, wait: Wait) -> None:
        number = self._number_of[stranger] = next(self._numbers)
        try:
            self._selector.modify(stranger.socket, wait.events, (stranger, course))
        except KeyError:
            self._selector.register(stranger.socket, wait.events, (stranger, course))
        if wait.seconds is not None:
            heapq.heappush(self._waiting, (time.monotonic() + wait.seconds, number, (stranger, course)))

    def _resume(self, stranger: Stranger, course: Course, events: int) -> None:
        was_open = stranger.is_open
        before = stranger.socket
        descriptor = before.fileno()
        try:
            wait = course.send(events)
        except (OSError, StopIteration) as error:
            self.counts[type(error).__name__] += 1
            self._selector.unregister(descriptor)
            stranger.socket.close()
            del self._number_of[stranger]
            self._opening -= not was_open
            again_s = time.monotonic() + self._again_s
            heapq.heappush(self._waiting, (again_s, next(self._numbers), None))
            return
        if stranger.is_open and not was_open:
            self._opening -= 1
            self.counts["opened"] += 1
        if stranger.socket is not before:  # Wrapped: the same descriptor by another object.
            self._selector.unregister(descriptor)
        self._arm(stranger, course, wait)

    def _fire(self, now_s: float) -> None:
        while self._waiting and self._waiting[0][0] <= now_s:
            _, number, waiting = heapq.heappop(self._waiting)
            if waiting is None:
                self._to_open += 1
            elif self._number_of.get(waiting[0]) == number:
                self._resume(*waiting, 0)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("port", type=int)
    arguments.add_argument("count", type=int)
    arguments.add_argument("--tls", help="the authority's certificate, for a listener with TLS")
    arguments.add_argument("--again-s", type=float, default=1.0)
    arguments.add_argument("--large", action="store_true", help="those too that send much")
    arguments.add_argument("--only", choices=ALL, help="strangers of this kind alone")
    given = arguments.parse_args()
    context = None
    if given.tls:
        context = ssl.create_default_context(cafile=given.tls)
        context.check_hostname = False
    kinds = ALL if given.large else KINDS
    crowd = Crowd(given.port, context, given.again_s, (given.only,) if given.only else kinds)
    crowd.run(given.count)
    print(json.dumps(crowd.counts))


if __name__ == "__main__":
    main()
