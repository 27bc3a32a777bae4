"""One request on its way through the daemon."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from protocol.codec.codec import spec
from protocol.framing import decode_response
from protocol.messages.offset_commit import OffsetCommitResponse

if TYPE_CHECKING:
    from tests.simulation.witness import Witness


class Call:
    """Stands in for `server.pending.Pending`, of a request that comes alone, without a connection.

    `on_answer` gets the answer as it leaves the daemon, `on_lost` is called when its connection broke: one of the
    two, once, or neither if the client hangs up before.
    """

    is_ordered = False
    """Whether it has its place behind others of its connection."""
    is_guarded = False
    describes = None
    """Which topics its client may know of: all, as no rights are asked for here."""
    meter = None
    """What it takes of quotas: there are none."""

    def __init__(
        self,
        request: Any,
        api_version: int,
        client_id: str,
        witness: Witness,
        on_answer: Callable[[Any], None],
        on_lost: Callable[[], None],
    ) -> None:
        self.request = request
        self.api_version = api_version
        self.client_id = client_id
        self.client_host = "/10.0.0.1"
        self.is_open = True
        self.answer: Any = None
        self.witness = witness
        self._on_answer = on_answer
        self._on_lost = on_lost

    def part(self, part: Any) -> Any:
        """What answers of single shards go to: nothing has to be put into them."""
        return part

    def reply(self, response: Any) -> None:
        """The daemon has made the answer, which leaves at once."""
        self.witness.on_made(self, response)
        self.leave(response)

    def reply_frame(self, before: bytes, after: bytes) -> None:
        """An answer that is framed but for its correlation id."""
        frame = before + bytes(4) + after
        self.reply(decode_response(OffsetCommitResponse, self.api_version, frame[4:])[1])

    def leave(self, response: Any) -> None:
        """The answer is out of the daemon."""
        self.witness.on_answer(self, response)
        self.answer = response
        if self.is_open:
            self._on_answer(response)

    def hang_up(self) -> None:
        """The client waits no longer. The daemon may still do what it was asked."""
        self.is_open = False

    def lose(self) -> None:
        """The connection broke."""
        if self.is_open and self.answer is None:
            self.is_open = False
            self._on_lost()


def api_key_of(call: Call) -> int:
    """Which API is asked."""
    key = spec(type(call.request)).api_key
    assert key is not None, "a request has an API key"
    return key
