"""What happens in a simulation, line by line, to find out why a seed fails: the witness passes on what it sees."""

from __future__ import annotations

from collections.abc import Callable

from coordinator.effects import Event, PreparedCommitReceived, RequestReceived, Result, TimerFired
from tests.simulation.timeline import Timeline

TEXT_MAX_CHARS = 200


class Story:
    """Hands a line to `write` for every event of every shard, and for every life of the server."""

    def __init__(self, timeline: Timeline, write: Callable[[str], None]) -> None:
        self._timeline = timeline
        self._write = write

    def on_server(self, happened: str) -> None:
        self._write(f"{self._now()}  --- the server {happened}")

    def on_event(self, event: Event, result: Result) -> None:
        self._write(f"{self._now()}  {_short(event)}")
        for reply in result.replies:
            self._write(f"{'':>11}-> {_cut(reply.response)}")
        for one in result.history:
            self._write(f"{'':>11}{one.group_id}: {one.from_state} to {one.to_state}, {one.cause.reason}")

    def _now(self) -> str:
        return f"{self._timeline.now_ms:>9,}"


def _short(event: Event) -> str:
    match event:
        case RequestReceived(request, context):
            return f"{context.client_id} v{context.api_version}: {_cut(request)}"
        case PreparedCommitReceived(commit, offsets):
            return f"prepared, offsets {offsets}: {_cut(commit.request)}"
        case TimerFired(key, _):
            return f"timer {key}"
    return _cut(event)


def _cut(thing: object) -> str:
    text = str(thing).replace("throttle_time_ms=0, ", "")
    return text if len(text) <= TEXT_MAX_CHARS else f"{text[:TEXT_MAX_CHARS]}..."
