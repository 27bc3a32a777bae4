"""A shard of groups whose log is on Kafka: what follows it while others own it, and the runner that serves it.

A follower replays what others write into a shard of its own, so an owner begins with all that was written, and
loads nothing. While another owns the shard its runner is ELSEWHERE and answers NOT_COORDINATOR.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, Protocol

from coordinator.backing.kafka.fetched import FetchedBatch
from coordinator.backing.kafka.shard_driver import ShardDriver
from coordinator.backing.shards.backed_log import BackedLog
from coordinator.backing.states import CATCHING_UP, WAITING
from coordinator.runtime.group_runner import GroupRunner
from coordinator.runtime.loading import Loaded
from coordinator.runtime.shard_states import ACTIVE, ELSEWHERE, FAILED, LOADING
from coordinator.shard.bulk_replay import BulkReplay
from coordinator.shard.shard import Shard

FINISH_EVERY_RECORDS: Final = 4_000
"""What a follower gathers: it may follow for months, and has to serve within a turn of the loop."""


class ShardFailedError(Exception):
    """A shard that serves has lost its state, by a bug: it has to be read anew."""


class Times(Protocol):
    """The clocks of the runtime, by which shards live."""

    def now_ms(self) -> int: ...
    def wall_ms(self) -> int: ...
    def close_shard(self, runner: GroupRunner, done: Callable[[], None]) -> None:
        """Have a runner serve no more."""


class BackedShard:
    """The host of a `ShardDriver`, given by `attach`; its runner is RELEASED until the driver says to serve."""

    def __init__(self, runner: GroupRunner, backed_log: BackedLog, runtime: Times) -> None:
        self.runner = runner
        self._log = backed_log
        self._runtime = runtime
        self._driver: ShardDriver | None = None
        self._has_lapsed = self._is_serving = False
        self._follow_anew()
        runner.may_answer = self._may_answer
        runner.has_room = lambda: backed_log.room.is_left

    def attach(self, driver: ShardDriver) -> None:
        """The driver that decides on this shard."""
        self._driver = driver

    def _follow_anew(self) -> None:
        self._shard: Shard = self.runner.kind.new_shard(self.runner.partition)
        self._replay = BulkReplay(self._shard)
        self._finished_at = 0

    def _may_answer(self) -> bool:
        """Whether nobody else can have taken the shard by now."""
        assert self._driver is not None
        may_answer = self._driver.may_answer
        self._has_lapsed |= not may_answer
        return may_answer

    # What the driver says.

    def follow(self, batch: FetchedBatch) -> None:
        """Take in a batch that another owner wrote."""
        self._replay.replay_batch(batch.buffer, batch.header)
        if self._replay.records - self._finished_at >= FINISH_EVERY_RECORDS:
            self._replay.finish()
            self._finished_at = self._replay.records

    def serve(self) -> None:
        """Answer and write from now on."""
        assert self._driver is not None
        self._replay.finish()
        self._log.begin(self._driver.position)
        self._has_lapsed, self._is_serving = False, True
        loaded = self._shard.loaded(self._runtime.now_ms(), self._runtime.wall_ms())
        self._take()
        self.runner.start(Loaded(self._shard, loaded, self._replay.records, self._replay.skipped))

    def retire(self) -> None:
        """Answer nothing new. Whether what waits took effect its clients are not told, as in Kafka."""
        self._is_serving = False
        self._close()
        self._log.give_up()

    def written(self, number: int, end_offset: int) -> None:
        """The batch that was sent is kept."""
        del end_offset
        self._log.written(number)

    def heal(self, keys: Collection[bytes]) -> None:
        """Write again what is stored under these keys."""
        if (
            self.runner.state is ACTIVE
        ):  # It may have failed meanwhile: then all is read anew, and found again.
            self.runner.heal(keys)

    def drop(self) -> None:
        """Forget everything: the log is read anew."""
        self._is_serving = False
        self._close()
        self._log.drop()
        self._follow_anew()

    def _close(self) -> None:
        if self.runner.state is not ELSEWHERE:
            self._runtime.close_shard(self.runner, _nothing)

    def _take(self) -> None:
        """Answer that the shard is being loaded, also while an earlier owner may still answer.

        Clients come again, and a heartbeat is answered as if all were well: its member has a whole session then.
        """
        if self.runner.state is ELSEWHERE:
            self.runner.take()

    def after_event(self) -> None:
        """Send what waits, and go on where the lease had lapsed: for that time no member is held to anything.

        Raises ShardFailedError: its driver begins anew then, as with all that it cannot explain.
        """
        assert self._driver is not None
        if self._is_serving and self.runner.state in (LOADING, FAILED):
            raise ShardFailedError(f"partition {self.runner.partition}")
        if not self._is_serving and self._driver.ownership.state in (CATCHING_UP, WAITING):
            self._take()
        elif self.runner.state is LOADING:  # Its claim was lost.
            self._close()
        if self._log.has_work and self._driver.can_write:
            self._log.hand_over()
        if self._has_lapsed and self.runner.state is ACTIVE and self._driver.may_answer:
            self._has_lapsed = False
            self.runner.on_resumed()


class BackedFlusher:
    """In a flusher's place, for logs on Kafka: they are flushed when Kafka has what they were given."""

    def __init__(self) -> None:
        self.hosts: dict[BackedLog, BackedShard] = {}

    def schedule(self, log: BackedLog, done: Callable[..., None]) -> None:
        """Send what is staged in a log, and call `done` when it is kept."""
        log.flush(done)
        self.hosts[log].after_event()

    def close(self) -> None:
        """Nothing: shards are released before."""


def _nothing() -> None:
    """Nobody waits for it."""
