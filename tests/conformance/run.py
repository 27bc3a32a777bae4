"""One play of a scenario against one broker: its actors, what they saw, and what was expected of it.

Everything a script awaits through `answer`, `parked` or `saw` goes into the transcript, in the script's
order. An expectation that is not met is noted and the script goes on, so that one run shows all there is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from coordinator.topics.names import GROUP_METADATA_TOPIC
from protocol.codec.codec import spec
from protocol.framing import encode_request
from protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from protocol.messages.offset_fetch import OffsetFetchRequest
from tests.conformance.answers import Answer
from tests.conformance.comparison import UNORDERED_WHEN_ALL, Entry
from tests.conformance.connection import CORRELATION_ID, Connection
from tests.conformance.logins import Login, log_in, plain
from tests.conformance.registry import Ending
from tests.conformance.restarts import Lane, Restarts
from tests.conformance.secured import PASSWORDS, SASL_LISTENER

ANSWER_TIMEOUT_S: Final = 30.0
PARKED_FOR_S: Final = 0.15  # A request without an answer for so long is parked: answers take milliseconds.
ASKED_MEANWHILE: Final = 2
"""A broker that is slow for a moment may take the first of them before a request of a new connection."""
POLL_S: Final = 0.02
OBSERVER: Final = "observer"
DESCRIBE_VERSION: Final = 6
OF_LEADERS: Final = frozenset({0, 1, 2, 21, 23})
"""The API keys that leaders of partitions answer: of Produce, Fetch, ListOffsets, DeleteRecords and epochs."""
PARKED: Final = "parked: no answer yet"
CLOSED: Final = "the connection was closed"


@dataclass(frozen=True, slots=True)
class Asked:
    """A request under way: what it is called in the transcript, and where its answer will be."""

    what: str
    request: Any
    reply: asyncio.Task[Any]

    @property
    def unordered(self) -> frozenset[tuple[str, str]]:
        """The lists in the answer whose order depends on what was asked."""
        if not isinstance(self.request, OffsetFetchRequest):
            return frozenset()
        asks_for_all = self.request.topics is None or any(
            group.topics is None for group in self.request.groups
        )
        return UNORDERED_WHEN_ALL if asks_for_all else frozenset()


@dataclass
class Run:
    """What a script gets. `group` and `name` are fresh; `topic_ids` are those of the target's topics."""

    name: str
    bootstrap: str
    topic_ids: dict[str, bytes]
    restarts: Restarts | None = None  # The broker's; only for scenarios that restart it.
    ending: Ending | None = None  # How that restart ends the broker.
    transcript: list[Entry] = field(default_factory=list)
    unmet: list[str] = field(default_factory=list)
    surplus: set[str] = field(default_factory=set)  # What answers held beside their messages.
    was_ended_amid: bool = False  # The broker ended while lanes of requests were under way.
    asked: int = 0
    questions: set[tuple[int, int]] = field(default_factory=set)
    """API keys and versions of what was asked on connections that are closed by now."""
    other_bootstraps: dict[str, str] = field(default_factory=dict)
    """The addresses of the broker's listeners beside PLAINTEXT, by name."""
    leaders: str | None = None
    """Where partitions have their leaders, if that is not where groups have their coordinator."""
    offsets_topic: str = GROUP_METADATA_TOPIC
    """The topic in which the coordinator keeps its groups."""
    _logins: dict[str, Login] = field(default_factory=dict)
    # By actor, and whether they go to leaders of partitions.
    _connections: dict[tuple[str, bool], list[Connection]] = field(default_factory=dict)
    # Keyed by the id() of the message, which the answer keeps alive.
    _answers: dict[int, Answer] = field(default_factory=dict)

    @property
    def group(self) -> str:
        """The group that this run is about."""
        return self.name

    @property
    def bootstraps(self) -> tuple[str, ...]:
        """All addresses of the broker."""
        return (self.bootstrap, *self.other_bootstraps.values())

    # Requests and their answers.

    async def send(self, actor: str, request: Any, version: int, note: str = "") -> Asked:
        """Send on a connection of `actor` that waits for nothing; `what` came back is another step."""
        connection = await self.free_connection(actor, spec(type(request)).api_key)
        return Asked(self._what(actor, request, version, note), request, connection.send(request, version))

    async def send_from(
        self, actor: str, client_id: str | None, request: Any, version: int, note: str
    ) -> Asked:
        """Send as `send` does, with another client id than the actor's name."""
        key = spec(type(request)).api_key
        assert key is not None
        connection = await self.free_connection(actor, key)
        frame = encode_request(request, version, CORRELATION_ID, client_id)
        what = self._what(actor, request, version, note)
        return Asked(what, request, connection.send_frame(frame, key, version))

    async def send_frame(self, actor: str, frame: bytes, key: int, version: int, what: str) -> Asked:
        """Send a frame whose bytes our own codec would not write."""
        connection = await self.free_connection(actor, key)
        reply = connection.send_frame(frame, key, version)
        return Asked(f"{actor}: {what}", None, reply)

    async def answer(self, asked: Asked, error: int | None = None, **expected: Any) -> Any:
        """The answer, which goes into the transcript; `error` and other fields of it are checked."""
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                reply = await asyncio.shield(asked.reply)
        except ConnectionError:
            reply = CLOSED
        except TimeoutError:
            raise TimeoutError(f"{asked.what}: no answer within {ANSWER_TIMEOUT_S:.0f} s") from None
        self.transcript.append(Entry(asked.what, reply, asked.unordered, self._body_of(reply)))
        if error is not None:
            expected["error_code"] = error
        self._check(asked.what, reply, expected)
        return reply

    async def parked(self, asked: Asked, for_s: float = PARKED_FOR_S) -> None:
        """Expect that there is no answer yet, although whatever was asked later is answered."""
        await asyncio.wait([asked.reply], timeout=for_s)
        for _ in range(ASKED_MEANWHILE):
            await self.look()
        self.saw(asked.what, asked.reply.result() if asked.reply.done() else PARKED)
        self.expect(not asked.reply.done(), f"{asked.what}: should be parked")

    async def answer_if_any(self, asked: Asked, within_s: float = 1.0) -> Any:
        """The answer to a request that a broker may leave open, or None after `within_s` without one."""
        await asyncio.wait([asked.reply], timeout=within_s)
        if asked.reply.done():
            return await self.answer(asked)
        self.saw(asked.what, PARKED)
        return None

    async def unanswered(self, asked: Asked) -> None:
        """Expect that this request was never answered, and hang up on it."""
        await self.parked(asked)
        asked.reply.cancel()

    # The transcript and what it should say.

    def saw(self, what: str, seen: Any) -> None:
        """Put something into the transcript."""
        self.transcript.append(Entry(what, seen))

    def expect(self, holds: bool, promise: str) -> None:
        """Note `promise` as broken unless it holds."""
        if not holds:
            self.unmet.append(promise)

    def _check(self, what: str, reply: Any, expected: dict[str, Any]) -> None:
        for name, value in expected.items():
            got = getattr(reply, name, "(no such field)")
            self.expect(got == value, f"{what}: {name} should be {value!r}, is {got!r}")

    @asynccontextmanager
    async def taking(self, at_least_s: float, at_most_s: float) -> AsyncIterator[None]:
        """Expect the block to take that long; the time that it took stays out of the transcript."""
        start = time.monotonic()
        yield
        took = time.monotonic() - start
        self.expect(
            at_least_s <= took <= at_most_s, f"should take {at_least_s} to {at_most_s} s, took {took:.2f}"
        )

    # Looking at the group from outside.

    async def look(self) -> DescribedGroup:
        """The group by DescribeGroups, kept out of the transcript."""
        return _only_group(await self._described())

    async def _described(self) -> DescribeGroupsResponse:
        connection = await self.free_connection(OBSERVER)
        request = DescribeGroupsRequest(groups=[self.group])
        response = await connection.send(request, DESCRIBE_VERSION)
        assert isinstance(response, DescribeGroupsResponse)
        return response

    async def describe(self, state: str | None = None) -> DescribedGroup:
        """Enter the group by DescribeGroups into the transcript."""
        response = await self._described()
        described = _only_group(response)
        self.transcript.append(Entry("the group described", described, body=self._body_of(response)))
        if state is not None:
            got = described.group_state
            self.expect(got == state, f"the group should be {state}, is {got}")
        return described

    async def until(self, state: str, members: int | None = None, timeout_s: float = 15.0) -> None:
        """Wait for the group to be in `state`, with so many members if that is given."""
        deadline = time.monotonic() + timeout_s
        while True:
            described = await self.look()
            if described.group_state == state and members in (None, len(described.members)):
                return
            if time.monotonic() > deadline:
                count = len(described.members)
                wanted = f"{state} with {members} members"
                raise TimeoutError(
                    f"not {wanted} within {timeout_s} s, but {described.group_state} with {count}"
                )
            await asyncio.sleep(POLL_S)

    # Connections.

    async def free_connection(self, actor: str, api_key: int | None = None) -> Connection:
        """A connection of `actor` that waits for nothing: to leaders for their APIs, else to the coordinator."""
        goes_to_leader = self.leaders is not None and api_key in OF_LEADERS
        pool = self._connections.setdefault((actor, goes_to_leader), [])
        for connection in pool:
            if not connection.is_busy:
                return connection
        pool.append(await self._open(actor, self.leaders if goes_to_leader else None))
        return pool[-1]

    async def _open(self, actor: str, leaders: str | None) -> Connection:
        login = self._logins.get(actor)
        if login is None:
            return await Connection.open(leaders or self.bootstrap, actor, self._take)
        connection = await self.stranger(actor)
        await log_in(connection, login.tokens(), login.mechanism)
        return connection

    async def stranger(self, name: str = "stranger", listener: str = SASL_LISTENER) -> Connection:
        """A new connection on a SASL listener on which nothing was said yet; the script has to close it."""
        assert listener in self.other_bootstraps, "the configuration has no such listener"
        return await Connection.open(self.other_bootstraps[listener], name, self._take)

    def logs_in(self, actor: str, login: Login | None = None) -> None:
        """Have `actor` come through the SASL listener from now on, by `login`, or as PLAIN's user of its name."""
        self.hang_up(actor)
        self._logins[actor] = login or Login("PLAIN", lambda: plain(actor, PASSWORDS[actor]))

    def _take(self, answer: Answer) -> None:
        self._answers[id(answer.message)] = answer
        if answer.surplus:
            self.surplus.add(f"{answer.name}: {answer.surplus}")

    def _body_of(self, message: Any) -> bytes | None:
        """The bytes that `message` arrived as, or None for a word that stands for the lack of an answer."""
        answer = self._answers.get(id(message))
        return None if answer is None else answer.body

    async def restarted(self) -> None:
        """Restart the broker; every actor has to connect again."""
        restarts = self._the_restart()
        self.close()
        await restarts.restarted()

    async def restarted_just_now(self) -> None:
        """Restart the broker; return as soon as it accepts a connection, when it may still be loading."""
        restarts = self._the_restart()
        self.close()
        await restarts.restarted_just_now()

    async def ended_amid(self, *lanes: Lane) -> None:
        """Restart the broker with requests under way at the very end: each lane is run until it is cut off.

        A lane sends one request after the other for ever, and calls what it is given after each answer.
        """
        restarts = self._the_restart()
        await restarts.amid(lanes)
        self.was_ended_amid = True
        self.close()

    def _the_restart(self) -> Restarts:
        assert self.restarts is not None, f"{self.name} is not entered with restarts"
        restarts, self.restarts = self.restarts, None
        return restarts

    def give_up_restart(self) -> None:
        """Let the other scripts restart without this one, which broke off before its restart."""
        if self.restarts is not None:
            self.restarts.give_up()

    def hang_up(self, actor: str) -> None:
        """Close all connections of `actor`."""
        for goes_to_leader in (False, True):
            for connection in self._connections.pop((actor, goes_to_leader), []):
                self.questions |= connection.questions
                connection.close()

    def close(self) -> None:
        """Close all connections of all actors."""
        for actor, _ in list(self._connections):
            self.hang_up(actor)

    def forget_answers(self) -> None:
        """Let go of what was received: a run of thousands of cases holds many megabytes otherwise."""
        self.transcript.clear()
        self._answers.clear()

    def _what(self, actor: str, request: Any, version: int, note: str) -> str:
        self.asked += 1
        name = type(request).__name__.removesuffix("Request")
        assert spec(type(request)).kind == "request"
        return f"{actor}: {name} v{version}{f' ({note})' if note else ''}"


def _only_group(response: DescribeGroupsResponse) -> DescribedGroup:
    (described,) = response.groups
    assert isinstance(described, DescribedGroup)
    return described
