"""What lies between clients and the coordinator: requests come late, twice or never, and so do answers."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from random import Random
from typing import Any, Final

from tests.simulation.call import Call
from tests.simulation.cuts import Cuts, Way
from tests.simulation.server import Server
from tests.simulation.timeline import Scheduled, Signal, Timeline
from tests.simulation.wire import LOST, Wire


class Fate(Enum):
    """What becomes of a request."""

    GOOD = auto()
    LOST = auto()  # It never comes.
    ANSWER_LOST = auto()  # It comes, and soon after its connection breaks.
    TWICE = auto()  # A client that believed it lost has sent it again.


FATES: Final = tuple(Fate)

BLOCKED_SHARE: Final = 0.01
"""Of the answers after which a client does not read for a while."""


class Network:
    """Carries requests to `server`; something happens to `faults` of a hundred, until `is_sound` is set.

    With `keeps_connections` a client has one connection at a time, else each request comes alone.
    """

    def __init__(
        self, timeline: Timeline, random: Random, server: Server, faults: float, *, keeps_connections: bool
    ) -> None:
        self.is_sound = False
        self.keeps_connections = keeps_connections
        self.cuts = Cuts()
        self.faults = faults
        self._timeline = timeline
        self._random = random
        self._server = server

    def port(self, client_id: str) -> Port:
        """A client's way to the coordinator, for one process of it."""
        return WirePort(client_id, self) if self.keeps_connections else Port(client_id, self)

    async def call(self, client_id: str, request: Any, version: int, timeout_ms: int) -> Any:
        """The answer to a client that asks once."""
        port = self.port(client_id)
        answer = await port.call(request, version, timeout_ms)
        port.close()
        return answer

    @property
    def now_ms(self) -> int:
        return self._timeline.now_ms

    async def sleep(self, delay_ms: int) -> None:
        signal = Signal()
        self._timeline.after(delay_ms, signal.set)
        await signal

    # What ports ask.

    def new_call(self, client_id: str, request: Any, version: int, answer: Signal) -> Call:
        """One that comes alone."""
        return Call(
            request,
            version,
            client_id,
            self._server.witness,
            lambda response: self._answer(client_id, answer, response),
            lambda: self.later(lambda: answer.set(LOST)),
        )

    def _answer(self, client_id: str, answer: Signal, response: Any) -> None:
        if not self.holds_up_answers(client_id):
            self.later(lambda: answer.set(response))

    def new_wire(self, client_id: str) -> Wire:
        return Wire(client_id, self._server, self._timeline, self._random, self)

    def deliver(self, call: Call) -> None:
        self.later(lambda: self._server.deliver(call))

    def fate(self, client_id: str) -> Fate:
        """Of the request at hand."""
        if self.cuts.holds_up(client_id, Way.REQUESTS):
            return Fate.LOST
        each = 0 if self.is_sound else self.faults / 3
        return self._random.choices(FATES, (100 - 3 * each, each, each, each))[0]

    def holds_up_answers(self, client_id: str) -> bool:
        return self.cuts.holds_up(client_id, Way.ANSWERS)

    def breaks_in_ms(self) -> int:
        return self._random.choice((1, 30, 1_000))

    def after(self, delay_ms: int, action: Callable[[], object]) -> Scheduled:
        return self._timeline.after(delay_ms, action)

    def later(self, action: Callable[[], object]) -> None:
        self._timeline.after(self.delay_ms(), action)

    def delay_ms(self) -> int:
        """How long something takes from one end to the other."""
        slow = not self.is_sound and self._random.random() < 0.02
        return self._random.choice((200, 1_000, 4_000)) if slow else self._random.randint(0, 8)

    def blocked_ms(self) -> int:
        """How long a client does not take what it is sent; 0 as a rule."""
        if self.is_sound or self._random.random() >= BLOCKED_SHARE:
            return 0
        return self._random.choice((50, 500, 3_000))

    def burst(self) -> int:
        """How many requests a client sends ahead of the one that it waits for."""
        return self._random.choice((0, 0, 1, 3)) if self.keeps_connections else 0


class Port:
    """Each request comes alone: in any order, and nothing of one is known to another."""

    def __init__(self, client_id: str, network: Network) -> None:
        self._client_id = client_id
        self._network = network

    async def call(self, request: Any, version: int, timeout_ms: int, *, once: bool = False) -> Any:
        """The answer, or LOST: then the client cannot know whether the request has come to anything.

        `once` is for one that may not come twice.
        """
        network, answer = self._network, Signal()
        call = network.new_call(self._client_id, request, version, answer)
        fate = network.fate(self._client_id)
        if fate is not Fate.LOST:
            network.deliver(call)
        if fate is Fate.ANSWER_LOST:
            network.after(network.breaks_in_ms(), call.lose)
        if fate is Fate.TWICE and not once:
            network.deliver(network.new_call(self._client_id, request, version, Signal()))

        def give_up() -> None:
            call.hang_up()
            answer.set(LOST)

        given_up = network.after(timeout_ms, give_up)
        response = await answer
        given_up.cancel()
        return response

    def close(self) -> None:
        """The client's process has ended."""


class WirePort(Port):
    """One connection, made again when it has broken; requests share it, and are answered in their order."""

    def __init__(self, client_id: str, network: Network) -> None:
        super().__init__(client_id, network)
        self._wire: Wire | None = None

    async def call(self, request: Any, version: int, timeout_ms: int, *, once: bool = False) -> Any:
        network, answer, fate = self._network, Signal(), self._network.fate(self._client_id)
        wire = self._open_wire()
        if fate is Fate.LOST:
            wire.send_in_part(request, version)
            await network.sleep(min(timeout_ms, network.breaks_in_ms()))
            return LOST
        call = wire.send(request, version, answer)
        if fate is Fate.ANSWER_LOST:
            network.after(network.breaks_in_ms(), wire.close)
        if fate is Fate.TWICE and not once:
            other = network.new_wire(self._client_id)
            other.send(request, version, Signal())
            network.after(timeout_ms, other.close)

        def give_up() -> None:
            if wire.is_first(call):
                wire.close()
            answer.set(LOST)

        given_up = network.after(timeout_ms, give_up)
        response = await answer
        given_up.cancel()
        return response

    def _open_wire(self) -> Wire:
        if self._wire is None or not self._wire.is_open:
            self._wire = self._network.new_wire(self._client_id)
        return self._wire

    def close(self) -> None:
        if self._wire is not None:
            self._wire.close()
