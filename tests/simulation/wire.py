"""A client's connection: requests as frames, in their order, in one piece or two; answers in the order they left.

What breaks breaks the connection, and with it all that was on its way: a client whose request is not answered in
time hangs up, unless an older one is unanswered, behind which it has to wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any, Final, Protocol

from protocol.framing import encode_request
from tests.simulation.socket_end import SocketEnd, WireCall
from tests.simulation.timeline import Signal, Timeline

if TYPE_CHECKING:
    from tests.simulation.server import Server

LOST: Final = None
"""What a client gets whose connection broke, or who waited too long."""

CUT_SHARE: Final = 0.1
"""Of the frames that come in two pieces."""


class Path(Protocol):
    """How quick and how sound the network is."""

    def delay_ms(self) -> int: ...
    def blocked_ms(self) -> int: ...
    def holds_up_answers(self, client_id: str) -> bool: ...


class Wire:
    """Both directions between one client and one life of the daemon."""

    def __init__(
        self, client_id: str, server: Server, timeline: Timeline, random: Random, path: Path
    ) -> None:
        self.is_open = True
        self.blocked_ms = path.blocked_ms
        self._client_id = client_id
        self._server = server
        self._timeline = timeline
        self._random = random
        self._path = path
        self._delay_ms = path.delay_ms
        self._is_cut = False  # An answer has not come through, so none behind it can.
        self._up_ms = self._down_ms = 0  # When what was sent last arrives.
        self._numbers = count()
        self._in_flight: deque[tuple[WireCall, Signal]] = deque()
        self._end: SocketEnd | None = None
        self._up(self._connect)

    def _up(self, action: Callable[[], None]) -> None:
        self._up_ms = max(self._up_ms, self._timeline.now_ms + self._delay_ms())
        self._timeline.at(self._up_ms, action)

    def _connect(self) -> None:
        self._end = self._server.connect(self)
        if self._end is None:
            self.on_lost()

    # What the client does.

    def send(self, request: Any, version: int, answer: Signal) -> WireCall:
        """Ask; `answer` is set when that has arrived, or is LOST."""
        call = WireCall(request, version, self._client_id, self._server.witness, self._answered, lambda: None)
        call.correlation_id = next(self._numbers)
        self._in_flight.append((call, answer))
        frame = self._frame(call)
        if self._random.random() < CUT_SHARE:
            cut = self._random.randrange(1, len(frame))
            self._up(partial(self._arrive, frame[:cut], None))
            frame = frame[cut:]
        self._up(partial(self._arrive, frame, call))
        return call

    def send_in_part(self, request: Any, version: int) -> None:
        """The connection breaks in the middle of a request."""
        call = WireCall(request, version, self._client_id, self._server.witness, lambda _: None, lambda: None)
        frame = self._frame(call)
        self._up(partial(self._arrive, frame[: self._random.randrange(len(frame))], None))
        self.close()

    def _frame(self, call: WireCall) -> bytes:
        return encode_request(call.request, call.api_version, call.correlation_id, self._client_id)

    def _arrive(self, data: bytes, call: WireCall | None) -> None:
        if self._end is not None:
            self._end.arrived(data, call)

    def is_first(self, call: WireCall) -> bool:
        """Whether no older request is unanswered."""
        return bool(self._in_flight) and self._in_flight[0][0] is call

    def close(self) -> None:
        """Hang up."""
        if self.is_open:
            self._lose_all()
            self._up(self._hang_up)

    def _hang_up(self) -> None:
        if self._end is not None:
            self._end.ended()

    # What happens to it.

    def on_lost(self) -> None:
        """The daemon has died, or there is none; the client notices that a while later."""
        for call, _ in self._in_flight:
            call.hang_up()
        self._timeline.after(self._delay_ms(), self._lose_all)

    def _lose_all(self) -> None:
        self.is_open = False
        lost, self._in_flight = self._in_flight, deque()
        for call, answer in lost:
            call.hang_up()
            answer.set(LOST)

    def _answered(self, response: Any) -> None:
        """An answer has left the daemon."""
        self._is_cut = self._is_cut or self._path.holds_up_answers(self._client_id)
        if self._is_cut:
            return
        self._down_ms = max(self._down_ms, self._timeline.now_ms + self._delay_ms())
        self._timeline.at(self._down_ms, partial(self._received, response))

    def _received(self, response: Any) -> None:
        if self.is_open:
            _, answer = self._in_flight.popleft()
            answer.set(response)
