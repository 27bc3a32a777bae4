"""An OffsetCommit that a connection sends again with other offsets: it is known by its bytes, and not decoded."""

from __future__ import annotations

from copy import deepcopy

from coordinator.offsets.recommit import Recommit
from coordinator.runtime.group_runner import GroupRunner
from coordinator.server.pending import Pending
from coordinator.server.remembered import HEAD_BYTES, REST_AT
from coordinator.shard.shard import Shard
from protocol.codec.codec import encode
from protocol.codec.template import Template
from protocol.framing import response_halves
from protocol.messages.offset_commit import OffsetCommitRequest


class CommitAgain:
    """One request, its answer, and what it leads to; `api_table.Again`."""

    __slots__ = ("_after", "_before", "_head", "_recommit", "_rest", "_runner", "_shard")

    def __init__(
        self, runner: GroupRunner, shard: Shard, recommit: Recommit, head: bytes, rest: Template
    ) -> None:
        self._runner, self._shard = runner, shard
        self._recommit = recommit
        self._head, self._rest = head, rest
        self._before, self._after = response_halves(recommit.response, recommit.api_version)

    def numbers_in(self, data: bytes | bytearray, start: int, stop: int) -> tuple[int, ...] | None:
        if not data.startswith(self._head, start):  # The size is in it.
            return None
        return self._rest.read(bytes(data[start + REST_AT : stop]))

    def may_come(self, now_ms: int) -> bool:
        runner = self._runner
        if runner.shard is not self._shard or not runner.has_room:  # Another life of it.
            return False
        return self._recommit.may_be_stored(now_ms)

    def handle(self, numbers: tuple[int, ...], pending: Pending) -> None:
        before, after = self._before, self._after
        self._runner.commit_again(
            self._recommit, numbers, pending, lambda: pending.reply_frame(before, after)
        )


def commit_again_of(
    runner: GroupRunner, request: OffsetCommitRequest, api_version: int, frame: bytes
) -> CommitAgain | None:
    """`frame` is that of `request`; None if it does not lend itself to that."""
    shard = runner.shard
    if shard is None or (recommit := shard.recommit_of(request, api_version)) is None:
        return None
    rest = _rest_of(request, api_version, frame)
    if rest is None:
        return None
    return CommitAgain(runner, shard, recommit, frame[:HEAD_BYTES], rest)


def _rest_of(request: OffsetCommitRequest, api_version: int, frame: bytes) -> Template | None:
    """What follows the correlation id; None if there is in it what we would not have written."""
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
