"""What a `ShardRunner` runs in, in memory: a log whose flushes end when the test says so, and the world's calls.

Nothing here waits, and no file is touched. A reload is noted and done when the test calls `load`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from coordinator.effects import GroupEvent, MarkersWanted, RequestContext
from coordinator.groups.group_settings import GroupSettings
from coordinator.runtime.clock import Clock
from coordinator.runtime.group_runner import GroupRunner
from coordinator.runtime.group_shards import group_shards
from coordinator.runtime.loading import load_shard
from coordinator.runtime.shard_runner import ShardRunner
from coordinator.shard.shard import Shard
from protocol.records.records import Batch, Codec, parse_header, set_base_offset
from storage.files import StorageError
from storage.log.partition_log import Appended, BatchTooLarge
from storage.producers.producer_state import ProducerState
from tests.groups.driver import Topics

WALL_MS = 1_700_000_000_000
COMMIT_TIMEOUT_MS = 5_000
BROKEN = StorageError("sync", Path("__consumer_offsets-0"), "Input/output error", 5)

Done = Callable[[StorageError | None], None]


class FakeLog:
    """The part of `PartitionLog` that a runner and its loader use."""

    log_start_offset = 0

    def __init__(self, max_batch_bytes: int) -> None:
        self.next_offset = 0
        self.durable_offset = 0
        self.producers = SimpleNamespace(state=ProducerState())
        self.failure: StorageError | None = None
        self.stored: list[bytearray] = []
        self._max_batch_bytes = max_batch_bytes
        self._staged: list[bytearray] = []

    def append(self, batch: bytearray, *, wall_ms: int) -> Appended:
        if self.failure is not None:
            raise self.failure
        if len(batch) > self._max_batch_bytes:
            raise BatchTooLarge(f"{len(batch)} bytes")
        base_offset = self.next_offset
        set_base_offset(batch, base_offset, 0)
        header = parse_header(batch)
        self.producers.state.appended(header, batch, base_offset, wall_ms)
        self.next_offset = header.last_offset + 1
        self._staged.append(batch)
        return Appended(base_offset, self.next_offset - 1)

    def flush(self) -> None:
        self.stored += self._staged
        self._staged, self.durable_offset = [], self.next_offset

    def fail_back(self) -> None:
        self._staged, self.next_offset, self.failure = [], self.durable_offset, None

    def batches(self, start_offset: int, window_bytes: int) -> Iterator[tuple[Batch, memoryview]]:
        for data in self.stored:
            yield parse_header(data), memoryview(data)

    def record_counts(self) -> list[int]:
        """How many records each batch on the disk has."""
        return [parse_header(data).record_count for data in self.stored]


class Asker:
    """Whoever asked: keeps the answers."""

    def __init__(self) -> None:
        self.answers: list[Any] = []

    def reply(self, response: Any) -> None:
        self.answers.append(response)

    @property
    def answer(self) -> Any:
        (answer,) = self.answers
        return answer


class ShardWorld:
    """A runner with one empty shard, loaded; implements `shard_runner.World`."""

    def __init__(
        self,
        max_batch_bytes: int = 1 << 20,
        codec: Codec = Codec.NONE,
        settings: GroupSettings | None = None,
    ) -> None:
        self.settings = settings or GroupSettings(group_initial_rebalance_delay_ms=0)
        self.topics = Topics(orders=4)
        self.log = FakeLog(max_batch_bytes)
        self.time_ms = 1_000
        self.timers: dict[tuple[Any, Any], int] = {}
        self.history: list[GroupEvent] = []
        self.flushes: list[Done] = []
        self.reloads = 0
        self.no_room: list[StorageError] = []
        self.advanced = 0
        self._is_dirty = False
        self.runner = GroupRunner(
            group_shards(lambda partition: Shard(partition, self.settings, self.topics)),
            0,
            self.log,  # type: ignore[arg-type]
            self,
            self._on_durable,
            max_batch_bytes=max_batch_bytes,
            codec=codec,
            commit_timeout_ms=COMMIT_TIMEOUT_MS,
        )
        self.load()

    # What the runner calls.

    def now_ms(self) -> int:
        return self.time_ms

    def wall_ms(self) -> int:
        return WALL_MS

    def set_timer(self, owner: Any, key: Any, deadline_ms: int | None) -> None:
        if deadline_ms is None:
            self.timers.pop((owner, key), None)
        else:
            self.timers[owner, key] = deadline_ms

    def record_history(self, events: tuple[GroupEvent, ...]) -> None:
        self.history += events

    def on_dirty(self, runner: ShardRunner[Any]) -> None:
        self._is_dirty = True

    def schedule_flush(self, log: Any, done: Done) -> None:
        self.flushes.append(done)

    def reload(self, runner: ShardRunner[Any]) -> None:
        self.reloads += 1

    def wait_for_room(self, runner: ShardRunner[Any], error: StorageError) -> None:
        self.no_room.append(error)

    def write_markers(self, wanted: MarkersWanted, done: Callable[[], None]) -> None:
        raise AssertionError(f"a shard of groups wants no markers: {wanted}")

    def _on_durable(self) -> None:
        self.advanced += 1

    # What the test calls.

    def ask(self, request: Any, version: int, client_id: str = "client") -> Asker:
        """Hand `request` to the shard, within a turn that goes on."""
        asker = Asker()
        uuid = "u" * 22
        context = RequestContext(asker, version, client_id, "/127.0.0.1", uuid)
        self.runner.request(request, context)
        return asker

    def end_turn(self) -> None:
        if self._is_dirty:
            self._is_dirty = False
            self.runner.end_turn()

    def end_flush(self, error: StorageError | None = None) -> None:
        """The oldest flush under way ends, and so does the turn in which the loop is told."""
        if error is None:
            self.log.flush()
        else:
            self.log.failure = error
        self.flushes.pop(0)(error)
        self.end_turn()

    def answer(self, request: Any, version: int, client_id: str = "client") -> Any:
        """Ask; fire what is due and flush until nothing is left to do; the answer."""
        asker = self.ask(request, version, client_id)
        self.fire_due()
        self.end_turn()
        while self.flushes:
            self.end_flush()
        return asker.answer

    def fire_due(self) -> None:
        for key in [key for key, deadline_ms in self.timers.items() if deadline_ms <= self.now_ms()]:
            if self.timers.pop(key, None) is None:  # One that fired before it took it back.
                continue
            owner, timer = key
            owner.timer_fired(timer)

    def load(self) -> None:
        """What the runtime does on a thread: cut the log back, replay it, start."""
        kind = self.runner.kind
        self.runner.start(
            load_shard(kind, kind.new_shard(0), self.runner.log, Clock(), 1 << 20, cut_back=True)
        )
