"""Stands in for the runtime: its loop, its clock and its threads, for real runners, partitions and their logs.

Time is `time_ms` and `wall`, which a test sets. Work for threads is queued and runs in `settle`, in order, so a
test decides how far the disk has come when it looks at the answers. The logs are real ones on a
sound or a faulty disk, or in memory. `RunnerWorld` has one runner, whose turns and flushes end by hand.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from coordinator.effects import Event, HistoryRow, MarkersWanted, Records, RequestContext, outcome_of
from coordinator.runtime.clock import Clock
from coordinator.runtime.loading import load_shard
from coordinator.runtime.shard_runner import ShardRunner
from coordinator.runtime.shard_states import ACTIVE
from harness.doubles.inline_workers import InlineWorkers
from harness.doubles.manual_timers import ManualTimers
from harness.doubles.memory_log import MemoryLog
from storage.files import OnFlushed, StorageError
from storage.log.durable_log import DurableLog, LogHost
from storage.log.partition_log import PartitionLog

WALL_MS = 1_700_000_000_000
COMMIT_TIMEOUT_MS = 5_000
BROKEN = StorageError("sync", Path("__consumer_offsets-0"), "Input/output error", 5)

T = TypeVar("T")
R = TypeVar("R", bound=ShardRunner[Any])


class Asker:
    """Keeps the responses to one request."""

    def __init__(self) -> None:
        self.answers: list[Any] = []

    def reply(self, response: Any) -> None:
        self.answers.append(response)

    @property
    def answer(self) -> Any:
        (answer,) = self.answers
        return answer


class RuntimeWorld(ManualTimers):
    """A double of the runtime, as runners and partitions call it."""

    load_buffer_bytes = 1 << 20

    def __init__(self) -> None:
        super().__init__()
        self.wall = WALL_MS
        self.queue: deque[Callable[[], None]] = deque()
        self.history: list[HistoryRow] = []
        self.dirty: dict[ShardRunner[Any], None] = {}
        self.commits: dict[str, int] = {}
        self.flush_count = 0
        self.sliced = 0  # Works that were asked for in slices.
        self.no_room: list[StorageError] = []  # The errors of the logs that wait for disk space.
        self.tried_later: list[DurableLog] = []  # Logs that wait until the disk works again.
        self._without_space: dict[DurableLog, None] = {}
        self.log_host = LogHost(
            now_ms=self.now_ms,
            set_timer=self.set_timer,
            schedule_flush=self.schedule_flush,
            wait_for_disk_space=self.wait_for_disk_space,
            try_later=self.tried_later.append,
        )

    # What runners and partitions call.

    def wall_ms(self) -> int:
        return self.wall

    def record_history(self, rows: tuple[HistoryRow, ...]) -> None:
        self.history += rows

    def send(self, reply_to: Any, response: Any) -> None:
        reply_to.reply(response)

    def send_all(self, answers: Sequence[tuple[Any, Any, bool]]) -> None:
        for reply_to, response, _ in answers:
            reply_to.reply(response)

    def do(self, action: Callable[[], None]) -> None:
        action()

    def soon(self, action: Callable[[], None]) -> None:
        self.queue.append(action)

    def on_dirty(self, runner: ShardRunner[Any]) -> None:
        self.dirty[runner] = None

    def count_records(self, event: Event, records: Records) -> None:
        """Nobody counts."""

    def on_gathered(self, weight: int) -> None:
        """Nothing is handled ahead of the turn's end."""

    def schedule_flush(self, log: PartitionLog, done: OnFlushed) -> None:
        """Flush `log` on a thread, as a `Flusher` does."""

        def flush() -> None:
            self.flush_count += 1
            error = None
            try:
                log.flush()
            except StorageError as failure:
                error = failure
            self.queue.append(lambda: done(error))

        self.queue.append(flush)

    def submit(self, work: Callable[[], T], done: Callable[[Future[T]], None]) -> None:
        """Do `work` on a thread, as `Workers` do."""
        self.queue.append(lambda: InlineWorkers().submit(work, done))

    def run_aside(self, work: Callable[[], object], done: Callable[[Any], None]) -> None:
        self.submit(work, done)

    def run_in_slices(self, steps: Generator[str, bool, object], done: Callable[[Any], None]) -> None:
        self.sliced += 1
        self.submit(partial(outcome_of, steps), done)

    def reload(self, runner: ShardRunner[Any]) -> None:
        self.queue.append(lambda: self.read_shard(runner, cut_back=True))

    def wait_for_disk_space(self, log: DurableLog, error: StorageError) -> None:
        self.no_room.append(error)
        self._without_space[log] = None

    def write_markers(
        self, wanted: MarkersWanted, done: Callable[[], None], is_wanted: Callable[[], bool]
    ) -> None:
        raise AssertionError(f"a shard of groups wants no markers: {wanted}")

    # What tests call.

    def read_shard(self, runner: ShardRunner[Any], *, cut_back: bool) -> None:
        """Do the loader's work: cut the log back if `cut_back`, replay it, and start the runner."""
        kind = runner.kind
        partition, partition_log = runner.partition, runner.log
        runner.start(load_shard(kind, partition, partition_log, Clock(), self.load_buffer_bytes, cut_back))

    def end_turn(self) -> None:
        """End the loop's turn: write what the turn gathered as batches and flush them."""
        dirty, self.dirty = self.dirty, {}
        for runner in dirty:
            runner.end_turn()

    def settle(self) -> None:
        """End turns and run the queued work of threads until nothing is left."""
        while self.queue or self.dirty:
            self.end_turn()
            while self.queue:
                self.queue.popleft()()

    def try_again(self) -> None:
        """Let all logs that wait for the disk try again."""
        waiting = [*self._without_space, *self.tried_later]
        self._without_space.clear()
        self.tried_later.clear()
        for log in waiting:
            log.try_again()
        self.settle()


class RunnerWorld(RuntimeWorld, Generic[R]):
    """One runner on a log in memory. A test ends its flushes; a reload is recorded, and done by `load`."""

    runner: R

    def __init__(self, max_batch_bytes: int = 1 << 20) -> None:
        super().__init__()
        self.log = MemoryLog(max_batch_bytes)
        self.flushes: list[OnFlushed] = []
        self.reloads = 0
        self.advanced = 0
        self.restart()

    def new_runner(self) -> R:
        """A runner on `durable_log`, which has no owner yet."""
        raise NotImplementedError

    def restart(self) -> None:
        """Replace the runner by a new one on the same log, as a restart of the process does."""
        self.durable_log = DurableLog(cast(PartitionLog, self.log), self.log_host)
        self.durable_log.listeners.append(self._on_advanced)
        self.runner = self.new_runner()
        self.load()

    def schedule_flush(self, log: PartitionLog, done: OnFlushed) -> None:
        self.flushes.append(done)

    def reload(self, runner: ShardRunner[Any]) -> None:
        self.reloads += 1

    def _on_advanced(self) -> None:
        self.advanced += 1

    # What tests call.

    def load(self) -> None:
        """Do the loader's work: fail the runner if it serves, cut the log back, replay it, start again."""
        if self.runner.state is ACTIVE:
            self.durable_log.fail(BROKEN)
        self.read_shard(self.runner, cut_back=True)

    def ask(self, request: Any, version: int, client_id: str = "client") -> Asker:
        """Hand `request` to the shard without ending the turn; return the `Asker` that will have the answer."""
        asker = Asker()
        context = RequestContext(asker, version, client_id, "/127.0.0.1", "u" * 22)
        self.runner.request(request, context)
        return asker

    def end_flush(self, error: StorageError | None = None) -> None:
        """End the oldest flush under way, with `error` or well, and the turn in which its outcome arrives."""
        if error is None:
            self.log.flush()
        else:
            self.log.failure = error
        self.flushes.pop(0)(error)
        self.end_turn()

    def flush(self, error: StorageError | None = None) -> None:
        """End the turn and its flush, with `error` or well."""
        self.end_turn()
        self.end_flush(error)

    def answer(self, request: Any, version: int, client_id: str = "client") -> Any:
        """Hand `request` to the shard, fire timers and flush until nothing is left to do; return the answer."""
        asker = self.ask(request, version, client_id)
        self.fire_due()
        self.end_turn()
        while self.flushes:
            self.end_flush()
        return asker.answer
