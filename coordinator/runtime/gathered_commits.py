"""The prepared commits of one shard that came in this turn: handled together, each an event of its own.

Hundreds of clients commit at once, and what surrounds a commit costs as much as the commit: clocks are read, an
answer is put into the queue of the log, one more callback is called back. So the commits of a turn are gathered;
at its end, or before any other event of the shard, the runner has them handled, one after the other, and their
answers wait for the disk as one. Until then none of them is answered, so if the log fails all of them are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from coordinator.effects import PreparedCommitReceived, Records, Reply
from coordinator.runtime.shard_kind import ShardCore
from protocol.errors import ErrorCode
from storage.log.durable_log import DurableLog

MOST_WEIGHT: Final = 3_200
"""Of the commits that are gathered by all shards in a turn: what is beyond is handled within the turn's share,
which sees what it takes. Of commits of one partition this is some 190, or 4 ms."""

COMMIT_WEIGHT: Final = 16
"""What a commit costs beside its partitions, in partitions of 1.2 us."""


class PendingRequest(NamedTuple):
    """An unanswered request, kept because an error response depends on its request and version."""

    reply_to: Any
    request: Any
    api_version: int


class GatheringHost(Protocol):
    """What is needed of the runtime."""

    def now_ms(self) -> int: ...
    def on_dirty(self, runner: Any) -> None: ...
    def on_gathered(self, weight: int) -> None: ...
    @property
    def commits(self) -> dict[str, int]:
        """Offsets committed by group, since this was last taken; counted here where the commit was prepared."""

    def send_all(self, answers: Sequence[tuple[Any, Any, bool]]) -> None: ...


class GatheringRunner(Protocol):
    """The shard's runner, which carries out what the events ask for."""

    @property
    def shard(self) -> ShardCore | None:
        """The shard; None once its life has ended."""

    @property
    def position(self) -> int:
        """The offset that the next record gets."""

    def append(self, records: Records, wall_ms: int) -> ErrorCode:
        """Gather and replay `records`; return RECORD_LIST_TOO_LARGE, doing neither, if they fit no batch."""

    def fail_on(self, error: Exception, event: object) -> None:
        """End the log's epoch, after an error of the disk or a bug."""

    def fail_one(self, pending: PendingRequest, error: ErrorCode) -> None:
        """Answer a request with `error`."""


class GatheredCommits:
    """The commits of `runner`'s shard that are not handled yet."""

    __slots__ = ("_durable_log", "_host", "_runner", "waiting")

    def __init__(self, runner: GatheringRunner, host: GatheringHost, durable_log: DurableLog) -> None:
        self._runner, self._host, self._durable_log = runner, host, durable_log
        self.waiting: list[PreparedCommitReceived] = []

    def add(self, commit: PreparedCommitReceived) -> None:
        """Have a prepared commit handled at the end of the turn, or ahead of any other event of the shard, or once
        the shards have gathered MOST_WEIGHT.

        The caller has checked that it is current and that the shard may write. So it is until then, as only events
        change what that depends on; that its topic exists is what it would have found when it came.
        """
        if not self.waiting:
            self._host.on_dirty(self._runner)
        self.waiting.append(commit)
        self._host.on_gathered(COMMIT_WEIGHT + commit.commit.count)

    def handle(self) -> None:
        """Handle all that wait; where there are none nothing is done."""
        commits, runner = self.waiting, self._runner
        if not commits:
            return
        shard = runner.shard
        assert shard is not None, "what ends a shard's life has `fail` called"
        now_ms = self._host.now_ms()
        counts = self._host.commits
        answers: list[Reply] = []
        refused: list[int] = []
        try:
            for index, commit in enumerate(commits):
                result = shard.handle(
                    commit, now_ms
                )  # It asks for records and one reply, and for nothing else.
                if runner.append(result[0], commit.wall_ms):
                    refused.append(index)
                else:
                    answers += result[1]
                    group_id, count = commit.commit.request.group_id, commit.commit.count
                    counts[group_id] = counts.get(group_id, 0) + count
        except Exception as error:  # The disk's or a bug, as in the runner. It has `fail` called.
            runner.fail_on(error, commits)
            return
        self.waiting = []
        for index in reversed(refused):
            runner.fail_one(_pending(commits.pop(index)), ErrorCode.RECORD_LIST_TOO_LARGE)
        if answers:
            done = partial(_answer, runner.fail_one, self._host.send_all, commits, answers)
            self._durable_log.when_durable(runner.position, done, now_ms)

    def fail(self, error: ErrorCode) -> None:
        """Answer all that wait with `error`: what would have stored them is no more."""
        commits, self.waiting = self.waiting, []
        for commit in commits:
            self._runner.fail_one(_pending(commit), error)


def _pending(received: PreparedCommitReceived) -> PendingRequest:
    commit = received.commit
    return PendingRequest(received.reply_to, commit.request, commit.api_version)


def _answer(
    fail_one: Callable[[PendingRequest, ErrorCode], None],
    send_all: Callable[[Sequence[tuple[Any, Any, bool]]], None],
    commits: list[PreparedCommitReceived],
    answers: list[Reply],
    error: ErrorCode,
) -> None:
    """Answer the commits of one turn, now that they are durable; with `error` if they are not."""
    if not error:
        send_all(answers)
        return
    for commit in commits:
        fail_one(_pending(commit), error)
