"""Requests that clients repeat, handled without being decoded: the idea of prepared statements.

A member sends the same heartbeat again and again: equal bytes, but for the correlation id. A consumer commits the
same partitions with other offsets. So a request that comes a second time is prepared: the next one is matched by
its bytes, and the values that differ are read out of them. Matching skips the decoding and nothing else: whether
what was prepared still holds is checked each time (`is_current`), and the same code handles both kinds.
This knows no groups, and nothing of the order in which a connection answers.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, Final, TypeAlias

from coordinator.server.pending import Pending
from protocol.codec.codec import encode
from protocol.codec.template import Template
from protocol.framing import EncodedResponse
from protocol.messages.offset_commit import OffsetCommitRequest

HEAD_BYTES: Final = 8  # Size, API key, version: what comes before the correlation id.
REST_AT: Final = 12

Answer: TypeAlias = Callable[[int], EncodedResponse | None]
"""Handles, at `now_ms`, a request that is always answered at once, and returns the answer.

Returns None, and has done nothing, if what was prepared no longer holds: the hot path asks with one call."""

Run: TypeAlias = Callable[[tuple[int, ...], Pending], None]
"""Handles a request, given the varying field values that were read out of its bytes."""


class Prepared:
    """One request that was decoded, and the functions that handle the following ones like it."""

    __slots__ = (
        "answer",
        "api_version",
        "client_id",
        "head",
        "is_current",
        "is_immediate",
        "rest",
        "run",
        "size_bytes",
        "template",
    )

    def __init__(
        self,
        frame: bytes,
        is_current: Callable[[], bool],
        run: Run,
        *,
        template: Template | None = None,
        answer: Answer | None = None,
    ) -> None:
        """`frame` begins with its size. Field values may differ where the `template`, of the bytes that follow the
        correlation id, has them; without a template none may. `answer` is given for requests that never wait.
        """
        self.head, self.rest = frame[:HEAD_BYTES], frame[REST_AT:]
        self.size_bytes = len(frame)
        # Of the request that was decoded; `maybe_prepare` knows them.
        self.api_version = 0
        self.client_id = ""
        self.is_current, self.run = is_current, run
        self.template, self.is_immediate = template, answer is not None
        self.answer = answer or _answer_nothing

    def match(self, data: bytes | bytearray, start: int, stop: int) -> tuple[int, ...] | None:
        """Return the varying field values in the frame `data[start:stop]`; None if it is another request."""
        if not data.startswith(self.head, start):  # The size is in it.
            return None
        if self.template is not None:
            return self.template.read(bytes(data[start + REST_AT : stop]))
        return () if data.startswith(self.rest, start + REST_AT) else None

    def has_same_bytes_at(self, data: bytes | bytearray, position: int) -> bool:
        """Whether `data` has the bytes of this whole request at `position`, whatever their correlation id."""
        return data.startswith(self.rest, position + REST_AT) and data.startswith(self.head, position)

    def answer_all(self, data: bytes | bytearray, position: int, now_ms: int) -> tuple[list[bytes], int]:
        """Answer the same requests from `position` on; return the answers' pieces and where the requests end.

        There are no pieces if what was prepared no longer holds.
        """
        pieces: list[bytes] = []
        while self.has_same_bytes_at(data, position):
            encoded = self.answer(now_ms)
            if encoded is None:
                break
            pieces += (encoded.before, bytes(data[position + HEAD_BYTES : position + REST_AT]), encoded.after)
            position += self.size_bytes
        return pieces, position


Prepare: TypeAlias = Callable[[Any, int, bytes], Prepared | None]
"""Prepares a decoded request, given its API version and frame; None if such requests have to be decoded."""


class PreparedRequests:
    """The prepared requests of one connection: the last one of each API."""

    __slots__ = ("_by_api", "_frame_bytes", "immediate", "waiting")

    def __init__(self) -> None:
        self.immediate = NOTHING_PREPARED  # The last prepared request of those that are answered at once,
        self.waiting = NOTHING_PREPARED  # and of those whose answer waits for the disk.
        self._by_api: dict[int, Prepared | None] = {}
        self._frame_bytes: dict[int, int] = {}  # Size of the request that was decoded last, by API.

    def match(
        self, api_key: int, data: bytes | bytearray, start: int, stop: int
    ) -> tuple[Run, tuple[int, ...]] | None:
        """Return the function that handles the frame `data[start:stop]`, and its field values; None: decode it."""
        prepared = self._by_api.get(api_key)
        if prepared is None or (field_values := prepared.match(data, start, stop)) is None:
            return None
        return (prepared.run, field_values) if prepared.is_current() else None

    def maybe_prepare(
        self, api_key: int, prepare: Prepare, request: Any, version: int, frame: bytes, client_id: str = ""
    ) -> None:
        """Prepare `request`, which came in `frame`, if the one before it of this API had the same size.

        To prepare takes longer than to decode, and many clients commit only once.
        """
        is_second = len(frame) == self._frame_bytes.get(api_key)
        self._frame_bytes[api_key] = len(frame)
        prepared = prepare(request, version, frame) if is_second else None
        self._by_api[api_key] = prepared
        if prepared is None:
            return
        prepared.api_version, prepared.client_id = version, client_id
        if prepared.is_immediate:
            self.immediate = prepared
        else:
            self.waiting = prepared


def template_of_commit(request: OffsetCommitRequest, api_version: int, frame: bytes) -> Template | None:
    """Return the template of a commit's bytes after the correlation id, with its offsets as the varying values.

    None if the client encodes the request differently than this codec does.
    """
    body = encode(request, api_version)
    if not frame.endswith(body):
        return None
    lead = frame[REST_AT : len(frame) - len(body)]  # The client id, and tagged fields of the header.
    zeros, ones = (lead + encode(_with_offsets(request, number), api_version) for number in (0, -1))
    return Template(zeros, ones)


def _with_offsets(request: OffsetCommitRequest, offset: int) -> OffsetCommitRequest:
    changed = deepcopy(request)
    for topic in changed.topics:
        for partition in topic.partitions:
            partition.committed_offset = offset
    return changed


def _answer_nothing(now_ms: int) -> EncodedResponse | None:
    raise AssertionError("a request that waits has no answer at once")


def _never() -> bool:
    return False


def _run_nothing(field_values: tuple[int, ...], pending: Pending) -> None:
    raise AssertionError("no request begins like this")


NOTHING_PREPARED = Prepared(b"a size that no frame has", _never, _run_nothing)
