"""Requests that are known by their bytes pass a guard unseen, until what it goes by changes (F10)."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.server.api_table import Handler, api_table
from coordinator.server.connection import Connection
from coordinator.server.guarding import guarded
from coordinator.server.pending import Pending
from coordinator.server.prepared import Prepared, template_of_commit
from protocol.framing import EncodedResponse, encode_request
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from tests.server.test_connection import LISTENER, FakeServer, FakeTransport
from tests.server.test_repeated_commit import commit

BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
BEATS, COMMITS = EncodedResponse(HeartbeatResponse(), 4), EncodedResponse(OffsetCommitResponse(), 8)


def beat(number: int) -> bytes:
    return encode_request(BEAT, 4, number, "c")


class Gate:
    """A guard that lets all requests pass; the test says when what it goes by has changed."""

    def __init__(self) -> None:
        self.version = 0

    def handle(self, handle: Handler, request: Any, pending: Pending) -> None:
        handle(request, pending)

    def permit(self, request: Any, pending: Pending) -> Gate:
        return self


class Guarded:
    """A connection behind two guards, whose requests are answered at once, decoded or not."""

    def __init__(self) -> None:
        self.inner, self.outer = Gate(), Gate()
        self.decoded = self.unseen = 0
        server = FakeServer()
        table = api_table(
            {8: self._decode(COMMITS), 12: self._decode(BEATS)},
            {8: self._prepare_commit, 12: self._prepare_beat},
        )
        for key in (8, 12):
            server.apis[key] = guarded(guarded(table[key], self.inner), self.outer)
        self.connection = Connection(server, LISTENER.name)
        self.connection.connection_made(FakeTransport())

    def _decode(self, answer: EncodedResponse) -> Handler:
        def handle(request: Any, pending: Pending) -> None:
            self.decoded += 1
            pending.reply(answer)

        return handle

    def _prepare_beat(self, request: Any, version: int, frame: bytes) -> Prepared:
        def answer(at_ms: int) -> EncodedResponse:
            self.unseen += 1
            return BEATS

        return Prepared(frame, lambda: True, _run_nothing, answer=answer)

    def _prepare_commit(self, request: OffsetCommitRequest, version: int, frame: bytes) -> Prepared:
        def run(values: tuple[int, ...], pending: Pending) -> None:
            self.unseen += 1
            pending.reply(COMMITS)

        return Prepared(frame, lambda: True, run, template=template_of_commit(request, version, frame))

    def send(self, *frames: bytes) -> tuple[int, int]:
        """Send what comes in one segment; return how many of it were decoded, and how many were not."""
        self.decoded = self.unseen = 0
        self.connection.data_received(b"".join(frames))
        return self.decoded, self.unseen


def _run_nothing(values: tuple[int, ...], pending: Pending) -> None:
    raise AssertionError("a heartbeat is answered at once")


@pytest.mark.parametrize("which", ["inner", "outer"])
@pytest.mark.parametrize(
    "frames",
    [(beat,), (beat, beat), (commit,), (commit, beat), (beat, commit)],
    ids=["beat", "burst", "commit", "commit-beat", "beat-commit"],
)
def test_nothing_passes_unseen_once_a_guard_has_changed(frames: tuple[Any, ...], which: str) -> None:
    client = Guarded()
    for number in range(3):
        client.send(beat(number))
        client.send(commit(number))
    segment = [frame(3) for frame in frames]
    assert client.send(*segment) == (0, len(segment))
    getattr(client, which).version += 1
    decoded, unseen = client.send(*segment)
    assert decoded >= len({*frames})
    assert decoded + unseen == len(segment)
    client.send(*segment)
    assert client.send(*segment) == (0, len(segment)), "and they are prepared again"
