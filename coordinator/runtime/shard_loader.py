"""Shards are read from their logs here, on a thread of their own: at the start, and again after a failure.

Each shard serves as soon as it has been read, whatever happens to the others; one that cannot be read does not
serve until its log is tried again. During a load Python switches threads more often than usual, so that requests
do not wait for the loader.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import monotonic
from typing import Any, Final, TypeVar

import structlog

from coordinator.runtime.clock import Clock
from coordinator.runtime.loading import Loaded, load_shard
from coordinator.runtime.shard_runner import ShardRunner
from protocol.errors import DecodeError
from protocol.records.records import CorruptBatch
from storage.files import StorageError
from storage.latencies import Latencies

T = TypeVar("T")

log = structlog.get_logger("muster.runtime")

LOADER_THREADS = 1
"""Number of shards that are read at a time. A second thread only takes turns with the first on the interpreter:
the load takes as long, costs a third more CPU, and requests wait for both."""

LOADING_SWITCH_S = 0.0005
"""Python's thread switch interval, in seconds, while shards load: about as long a request waits for the
loader. With Python's default of 5 ms the median was 7 ms."""

LOAD_BOUNDS_S: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0)

USUAL_SWITCH_S = sys.getswitchinterval()
"""The usual switch interval, read at import: a loader that is dropped half-way leaves the short one set."""


class ShardLoader:
    """Loads shards on a thread. All methods run on the thread of `loop`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, buffer_bytes: int) -> None:
        self._loop = loop
        self._clock = clock
        self._buffer_bytes = buffer_bytes
        self._threads = ThreadPoolExecutor(LOADER_THREADS, thread_name_prefix="shard-loader")
        self._loading: Counter[str] = Counter()  # Number of shards being loaded, by `state_name`.
        self._records: Counter[str] = Counter()  # Number of records read, by `state_name`.
        self._skipped: Counter[str] = Counter()  # Number of these of unknown types.
        self._under_way: set[ShardRunner[Any]] = set()
        self._on_idle: dict[ShardRunner[Any], Callable[[], None]] = {}
        self._is_stopped = False
        self.latencies = Latencies(LOAD_BOUNDS_S)
        """How long each load took, those that failed too."""

    def run(self, work: Callable[[], object], done: Callable[[Any], None]) -> None:
        """Run other `work` that may block on the loader's thread; call `done` with its future on the loop."""
        self._loop.run_in_executor(self._threads, work).add_done_callback(done)

    def open(self, runner: ShardRunner[Any]) -> None:
        """Begin to load `runner`'s shard; a shard on an empty log serves at once."""
        partition_log = runner.log
        if partition_log.failure is None and partition_log.next_offset == partition_log.log_start_offset:
            runner.start(self._reading(runner, cut_back=False)())
        else:
            self.load(runner, cut_back=False)

    def load(self, runner: ShardRunner[Any], *, cut_back: bool) -> None:
        """Begin to load `runner`'s shard; `cut_back` first cuts off the end of its log that is not durable."""
        if self._is_stopped:
            return
        self._loading[runner.kind.state_name] += 1
        self._under_way.add(runner)
        sys.setswitchinterval(LOADING_SWITCH_S)
        reading = partial(_timed, self._reading(runner, cut_back), self.latencies)
        loading = self._loop.run_in_executor(self._threads, reading)
        loading.add_done_callback(lambda done: self._on_loaded(runner, done))

    def _reading(self, runner: ShardRunner[Any], cut_back: bool) -> Callable[[], Loaded[Any]]:
        settings = self._clock, self._buffer_bytes, cut_back
        return partial(load_shard, runner.kind, runner.partition, runner.log, *settings)

    def _on_loaded(self, runner: ShardRunner[Any], done: asyncio.Future[Loaded[Any]]) -> None:
        name = runner.kind.state_name
        self._loading[name] -= 1
        self._under_way.discard(runner)
        if self._is_stopped:
            return
        error = done.exception()
        if error is None:
            self._records[name] += done.result().records
            self._skipped[name] += done.result().skipped
            runner.start(done.result())
        else:
            _report(runner, error)
            runner.on_load_failed(error)
        if not self._loading[name]:
            log.info(f"{name} loaded", records=self._records.pop(name, 0), skipped=self._skipped.pop(name, 0))
        if not self._loading.total():
            sys.setswitchinterval(USUAL_SWITCH_S)
        runner.durable_log.recovery_ended()
        self._report_idle(runner)

    def when_idle(self, runner: ShardRunner[Any], done: Callable[[], None]) -> None:
        """Call `done` once no load of `runner`'s shard is under way, nor the cutting back that precedes it."""
        self._on_idle[runner] = done
        self._report_idle(runner)

    def _report_idle(self, runner: ShardRunner[Any]) -> None:
        if runner not in self._under_way and (done := self._on_idle.pop(runner, None)) is not None:
            done()

    def stop(self) -> None:
        """Start no further load, and wait for the one under way."""
        self._is_stopped = True
        self._threads.shutdown(cancel_futures=True)
        sys.setswitchinterval(USUAL_SWITCH_S)


def _timed(read: Callable[[], T], latencies: Latencies) -> T:
    """Do one load on the loader's only thread, and count how long it takes."""
    began_s = monotonic()
    try:
        return read()
    finally:
        latencies.add(monotonic() - began_s)


def _report(runner: ShardRunner[Any], error: BaseException) -> None:
    is_known = isinstance(error, (StorageError, CorruptBatch, DecodeError))
    trace = None if is_known else error  # A bug of ours, in the replay.
    what = f"{runner.kind.partition_name} cannot be loaded"
    log.error(what, partition=runner.partition, error=str(error), exc_info=trace)
