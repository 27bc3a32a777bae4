"""What lies between clients and the coordinator: requests come late, twice or never, and so do answers."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from random import Random
from typing import Any, Final

from tests.simulation.server import Call, Server
from tests.simulation.timeline import Signal, Timeline

LOST: Final = None
"""What a client hears whose connection broke, or who waited too long."""


class Fate(Enum):
    """What becomes of a request."""

    GOOD = auto()
    LOST = auto()  # It never comes.
    ANSWER_LOST = auto()  # It comes, and soon after its connection breaks.
    TWICE = auto()  # A client that believed it lost has sent it again.


FATES: Final = tuple(Fate)


class Network:
    """Carries requests to `server`; something happens to `faults` of a hundred, until `is_sound` is set."""

    def __init__(self, timeline: Timeline, random: Random, server: Server, faults: float) -> None:
        self.is_sound = False
        self._faults = faults
        self._timeline = timeline
        self._random = random
        self._server = server

    async def call(self, client_id: str, request: Any, version: int, timeout_ms: int) -> Any:
        """The answer, or LOST: then nobody knows whether the request has come to anything."""
        answer = Signal()
        call = self._new_call(client_id, request, version, answer)
        fate = self._random.choices(FATES, self._weights)[0]
        if fate is not Fate.LOST:
            self._send(call)
        if fate is Fate.ANSWER_LOST:
            self._timeline.after(self._random.choice((1, 30, 1_000)), call.lose)
        if fate is Fate.TWICE:
            self._send(self._new_call(client_id, request, version, Signal()))

        def give_up() -> None:
            call.hang_up()
            answer.set(LOST)

        given_up = self._timeline.after(timeout_ms, give_up)
        response = await answer
        given_up.cancel()
        return response

    @property
    def _weights(self) -> tuple[float, ...]:
        each = 0 if self.is_sound else self._faults / 3
        return (100 - 3 * each, each, each, each)

    @property
    def now_ms(self) -> int:
        return self._timeline.now_ms

    async def sleep(self, delay_ms: int) -> None:
        signal = Signal()
        self._timeline.after(delay_ms, signal.set)
        await signal

    def _new_call(self, client_id: str, request: Any, version: int, answer: Signal) -> Call:
        return Call(
            request,
            version,
            client_id,
            self._server.witness,
            lambda response: self._later(lambda: answer.set(response)),
            lambda: self._later(lambda: answer.set(LOST)),
        )

    def _send(self, call: Call) -> None:
        self._later(lambda: self._server.deliver(call))

    def _later(self, action: Callable[[], object]) -> None:
        slow = not self.is_sound and self._random.random() < 0.02
        self._timeline.after(
            self._random.choice((200, 1_000, 4_000)) if slow else self._random.randint(0, 8), action
        )
