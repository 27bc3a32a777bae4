"""Requests that clients repeat, handled without being decoded: the idea of prepared statements.

A member sends the same heartbeat again and again: equal bytes, but for the correlation id. A consumer commits the
same partitions with other offsets. So a request that comes a second time is prepared: the next one is matched by
its bytes, and the values that differ are read out of them. Matching skips the decoding and nothing else: whether
what was prepared still holds is checked each time (`holds`), and the same code handles both kinds.
This knows no groups, and nothing of the order in which a connection answers.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, Final, Protocol, TypeAlias

from coordinator.server.pending import Pending
from protocol.codec.codec import encode
from protocol.codec.template import Template
from protocol.framing import EncodedResponse
from protocol.messages.offset_commit import OffsetCommitRequest

MOST_BYTES: Final = 2048
"""Longest frame that is prepared. A commit becomes rows: 70 times its bytes, and 40 us for each partition."""

FREE_WASTED: Final = 4
"""Prepared requests in a row that may be of no use; from there on twice as many equally long ones have to come
before the next one is prepared, each time."""

MOST_WASTED: Final = FREE_WASTED + 10

HEAD_BYTES: Final = 8  # Size, API key, version: what comes before the correlation id.
REST_AT: Final = 12

Answer: TypeAlias = Callable[[int], EncodedResponse | None]
"""Handles, at `now_ms`, a request that is always answered at once, and returns the answer.

Returns None, and has done nothing, if what was prepared no longer holds: the hot path asks with one call."""

Run: TypeAlias = Callable[[tuple[int, ...], Pending], None]
"""Handles a request, given the varying field values that were read out of its bytes."""


class Versioned(Protocol):
    """What prepared requests hold by: rights, or quotas."""

    version: int
    """Moves with every change."""


class _Unchanged:
    """Stands for what lets requests pass where nothing is asked."""

    __slots__ = ("version",)

    def __init__(self) -> None:
        self.version = 0


UNCHANGED: Final = _Unchanged()


class Prepared:
    """One request that was decoded, and the functions that handle the following ones like it."""

    __slots__ = (
        "answer",
        "api_version",
        "client_id",
        "guard",
        "guarded_at",
        "head",
        "is_current",
        "is_immediate",
        "is_used",
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
        self.is_used = False  # Whether it has handled a request; kept for those that wait for the disk.
        self.is_current, self.run = is_current, run
        self.template, self.is_immediate = template, answer is not None
        self.answer = answer or _answer_nothing
        # Compared on the hot path, in the place of a call.
        self.guard: Versioned = UNCHANGED
        self.guarded_at = UNCHANGED.version

    def while_unchanged(self, guard: Versioned) -> Prepared:
        """Have this be out of date once the version of `guard` moves, besides all else; return itself."""
        version, answer, is_current = guard.version, self.answer, self.is_current
        if self.guard is UNCHANGED:
            self.guard, self.guarded_at = guard, version
            return self
        self.is_current = lambda: guard.version == version and is_current()
        if self.is_immediate:
            self.answer = lambda at_ms: answer(at_ms) if guard.version == version else None
        return self

    def while_allowed(self, is_allowed: Callable[[], bool]) -> Prepared:
        """Have this hold only where `is_allowed` says so at the time, besides all else; return itself."""
        answer, is_current = self.answer, self.is_current
        self.is_current = lambda: is_allowed() and is_current()
        if self.is_immediate:
            self.answer = lambda at_ms: answer(at_ms) if is_allowed() else None
        return self

    def holds(self) -> bool:
        """Whether what was prepared still holds. Where `answer` is called, `guard` is compared before."""
        return self.guard.version == self.guarded_at and self.is_current()

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
            encoded = self.answer(now_ms) if self.guard.version == self.guarded_at else None
            if encoded is None:
                break
            encoded.count.sent += 1
            pieces += (encoded.before, bytes(data[position + HEAD_BYTES : position + REST_AT]), encoded.after)
            position += self.size_bytes
        return pieces, position


Prepare: TypeAlias = Callable[[Any, int, bytes], Prepared | None]
"""Prepares a decoded request, given its API version and frame; None if such requests have to be decoded."""


class Room(Protocol):
    """What the prepared requests of all connections share."""

    def may_prepare(self, frame_bytes: int) -> bool:
        """Count a prepared request of so many bytes; return False if there is no room for it."""

    def forget_prepared(self, frame_bytes: int) -> None:
        """Stop counting as many bytes."""


class PreparedRequests:
    """The prepared requests of one connection: the last one of each API.

    Those that wait for the disk are counted in `room`, as they take many times their bytes.
    """

    __slots__ = (
        "_by_api",
        "_counted_bytes",
        "_frame_bytes",
        "_in_a_row",
        "_room",
        "_wasted",
        "immediate",
        "waiting",
    )

    def __init__(self, room: Room) -> None:
        self._room = room
        self._counted_bytes = 0
        self._in_a_row: dict[int, int] = {}  # Requests decoded behind one of their size, by API;
        self._wasted: dict[int, int] = {}  # and those prepared in a row that handled no other.
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
        if not prepared.holds():
            return None
        prepared.is_used = True
        return prepared.run, field_values

    def maybe_prepare(
        self, api_key: int, prepare: Prepare, request: Any, version: int, frame: bytes, client_id: str = ""
    ) -> None:
        """Prepare `request`, which came in `frame`, if the one before it of this API had the same size.

        To prepare takes longer than to decode, and many clients commit only once. Others send something else at
        one length each time, such as a note that counts on: where it has helped nobody it is tried more seldom.
        """
        size_bytes = len(frame)
        is_same_size = size_bytes == self._frame_bytes.get(api_key)
        self._frame_bytes[api_key] = size_bytes
        last = self._by_api.pop(api_key, None)
        if last is not None and not last.is_immediate:
            self._count_wasted(api_key, 0 if last.is_used else 1)
        self._in_a_row[api_key] = in_a_row = self._in_a_row.get(api_key, 0) + 1 if is_same_size else 0
        if size_bytes > MOST_BYTES or not in_a_row >> max(self._wasted.get(api_key, 0) - FREE_WASTED, 0):
            return
        self._in_a_row[api_key] = 0
        prepared = prepare(request, version, frame)
        if prepared is None or not (prepared.is_immediate or self._takes_room(size_bytes)):
            self._count_wasted(api_key, 1)
            return
        prepared.api_version, prepared.client_id = version, client_id
        self._by_api[api_key] = prepared
        if prepared.is_immediate:
            self.immediate = prepared
            self._wasted[api_key] = 0  # Such a one is cheap; before, its shard was loading, say.
        else:
            self.waiting = prepared

    def forget(self) -> None:
        """Forget all that was prepared: the connection is gone."""
        self._by_api.clear()
        self.immediate = self.waiting = NOTHING_PREPARED
        self._room.forget_prepared(self._counted_bytes)
        self._counted_bytes = 0

    def _count_wasted(self, api_key: int, wasted: int) -> None:
        self._wasted[api_key] = min(self._wasted.get(api_key, 0) + 1, MOST_WASTED) if wasted else 0

    def _takes_room(self, size_bytes: int) -> bool:
        """Count what is about to be `waiting` in the place of what is; False: neither is, from here on."""
        self._room.forget_prepared(self._counted_bytes)
        self.waiting, self._counted_bytes = NOTHING_PREPARED, 0
        if not self._room.may_prepare(size_bytes):
            return False
        self._counted_bytes = size_bytes
        return True


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
