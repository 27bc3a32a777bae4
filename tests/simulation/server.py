"""The daemon as the simulation runs it: the real runtime, shards, timing wheel and clock, in virtual time.

What is not real is what would make a run unrepeatable or slow: the event loop, the disk and the sockets. A
server can be stopped and go on, and can die at any moment and be started again on what its logs hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from coordinator.clock import Clock
from coordinator.effects import Event, Result
from coordinator.group_runner import GroupRunner
from coordinator.group_shards import group_shards
from coordinator.groups.group_settings import GroupSettings
from coordinator.groups.heartbeat import Beat
from coordinator.groups.partitioning import partition_for
from coordinator.groups.shard import Shard
from coordinator.runtime import Runtime
from coordinator.server.group_apis import GroupApis
from coordinator.server.remembered import Recalled
from coordinator.transaction_verifier import TransactionVerifier
from protocol.codec import spec
from protocol.errors import ErrorCode
from protocol.framing import decode_response, encode_request
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from protocol.records import Codec
from tests.groups.driver import Topics
from tests.simulation.disk import Disk, SimulatedLog
from tests.simulation.timeline import Origin, ProcessLoop, Timeline
from tests.simulation.witness import ALIVE, Witness

COMMIT_TIMEOUT_MS = 5_000
MAX_BATCH_BYTES = 1 << 20


class Call:
    """One request on its way through the daemon; stands in for `server.pending.Pending`.

    `on_answer` is told the answer as it leaves the daemon, `on_lost` that its connection broke: one of the two,
    once, or neither if whoever asked hangs up before.
    """

    def __init__(
        self,
        request: Any,
        api_version: int,
        client_id: str,
        witness: Witness,
        on_answer: Callable[[Any], None],
        on_lost: Callable[[], None],
    ) -> None:
        self.request = request
        self.api_version = api_version
        self.client_id = client_id
        self.client_host = "/10.0.0.1"
        self.is_open = True
        self.answer: Any = None
        self._witness = witness
        self._on_answer = on_answer
        self._on_lost = on_lost

    def reply(self, response: Any) -> None:
        self._witness.on_answer(self, response)
        self.answer = response
        if self.is_open:
            self._on_answer(response)

    def reply_frame(self, before: bytes, after: bytes) -> None:
        """An answer that is framed but for its correlation id."""
        frame = before + bytes(4) + after
        self.reply(decode_response(OffsetCommitResponse, self.api_version, frame[4:])[1])

    def hang_up(self) -> None:
        """The client waits no longer. The daemon may still do what it was asked."""
        self.is_open = False

    def lose(self) -> None:
        """The connection broke."""
        if self.is_open and self.answer is None:
            self.is_open = False
            self._on_lost()


class WatchedShard(Shard):
    """A shard that shows everything it does to the witness; a bug that ends a life is one of its finds."""

    def __init__(self, witness: Witness, partition: int, settings: GroupSettings, topics: Topics) -> None:
        super().__init__(partition, settings, topics)
        self._witness = witness

    def handle(self, event: Event, now_ms: int) -> Result:
        before = self._witness.before(self, event, now_ms)
        try:
            result = super().handle(event, now_ms)
        except Exception as error:
            self._witness.violated(f"a bug: {error!r} on {event}")
            raise
        self._witness.after(self, event, result, before, now_ms)
        return result

    def beat_of(self, request: HeartbeatRequest) -> Beat:
        beat = super().beat_of(request)

        def heard(now_ms: int) -> ErrorCode:
            error = beat(now_ms)
            if error in ALIVE:
                self._witness.heard(request.group_id, request.member_id, now_ms)
            return error

        return heard

    def loaded(self, now_ms: int, wall_ms: int) -> Result:
        result = super().loaded(now_ms, wall_ms)
        self._witness.on_loaded(self, now_ms)
        return result


class Server:
    """One coordinator, life after life."""

    def __init__(
        self,
        timeline: Timeline,
        random: Random,
        disk: Disk,
        settings: GroupSettings,
        topics: Topics,
        partitions: int,
        group_ids: Sequence[str],
        witness: Witness,
    ) -> None:
        self.timeline = timeline
        self.settings = settings
        self.topics = topics
        self.group_ids = group_ids
        self.witness = witness
        witness.server = self
        self.loop = ProcessLoop(timeline, lambda: 1)
        self.runtime: Runtime | None = None
        self.logs = [SimulatedLog(partition, disk, witness.on_durable) for partition in range(partitions)]
        self.unread: list[tuple[int, Call]] = []  # In the sockets, and since when.
        self._random = random
        self._disk = disk
        self._open_calls: list[Call] = []
        self._handlers: dict[int, Any] = {}
        self._recalled: dict[str, Recalled] = {}  # By client.
        self.transactions: TransactionVerifier | None = None  # Who ends them, if there are any.

    # Lives.

    def start(self) -> None:
        """Start a process on what the logs hold."""
        self.loop = ProcessLoop(self.timeline, self._disk.load_ms)
        clock = Clock(
            lambda: self.timeline.now_ms * 1_000_000,
            lambda: (self.timeline.now_ms + self.timeline.wall_offset_ms) * 1_000_000,
        )
        flusher = self._disk.new_flusher(self.loop)
        self.runtime = Runtime(
            clock,
            flusher,  # type: ignore[arg-type]
            lambda _: None,
            1 << 20,
            self.loop,  # type: ignore[arg-type]
            self._disk.probe_room,
        )
        self._apis = GroupApis(self.runtime, lambda: self._random.getrandbits(32), self.transactions)
        self._handlers = self._apis.handlers()
        self._recalled = {}  # Connections are new, too.
        self.runtime.open_shards([self._new_runner(log) for log in self.logs])

    def crash(self) -> None:
        """The process dies between two steps; connections are gone, the logs keep what had reached the disk."""
        self.loop.is_dead = True
        self.runtime = None
        self.unread.clear()
        calls, self._open_calls = self._open_calls, []
        for call in calls:
            call.lose()
        for log in self.logs:
            log.crash(self._random.randint(0, len(log.staged)), swaps=self._random.random() < 0.5)
        self.witness.on_crash(self.logs)

    def stop_for(self, stop_ms: int) -> None:
        """The process does not run for so long (SIGSTOP, a paused VM)."""
        if self.runtime is None or self.loop.is_stopped:
            return
        loop = self.loop
        loop.stop()
        self.timeline.after(stop_ms, lambda: self._go_on(loop))

    def _go_on(self, loop: ProcessLoop) -> None:
        if not loop.is_dead:
            loop.go_on()

    def clean(self, took_ms: int, delete_retention_ms: int) -> None:
        """Compact some of every log: read now, swapped when the cleaner is through."""
        if self.runtime is None:
            return
        wall_ms = self.timeline.now_ms + self.timeline.wall_offset_ms
        for log in self.logs:
            count = self._random.randrange(len(log.durable) or 1)  # Never the last: that segment is written.
            if log.clean(count, wall_ms, delete_retention_ms):
                self.loop.run_at(self.timeline.now_ms + took_ms, Origin.THREAD, log.swap)

    # Requests.

    def deliver(self, call: Call) -> None:
        """A request has come to the sockets of the process, if there is one."""
        if self.runtime is None:
            call.lose()
            return
        self._open_calls.append(call)
        arrived = (self.timeline.now_ms, call)
        self.unread.append(arrived)
        self.witness.on_arrival(call)
        self.loop.run_at(self.timeline.now_ms, Origin.SOCKET, lambda: self._read(arrived))

    def _read(self, arrived: tuple[int, Call]) -> None:
        self.unread.remove(arrived)
        call = arrived[1]
        self.witness.on_read(call)
        if not self._comes_again(call):
            api_key = spec(type(call.request)).api_key
            assert api_key is not None, f"no request: {call.request}"
            self._handlers[api_key](call.request, call)
        if len(self._open_calls) > 200:
            self._open_calls = [each for each in self._open_calls if each.is_open and each.answer is None]

    def _comes_again(self, call: Call) -> bool:
        """Whether the call is a commit known by its bytes, as connections know it; then it is on its way."""
        if not isinstance(call.request, OffsetCommitRequest):
            return False
        runner, request, version = self.runner_for(call.request.group_id), call.request, call.api_version
        recalled = self._recalled.setdefault(call.client_id, Recalled())
        frame = encode_request(request, version, 0, call.client_id)
        numbers = recalled.numbers_in(frame, 0, len(frame), self._now_ms())
        if numbers is None:
            recalled.learn(self._apis.recall_commit, request, version, frame)
            return False
        assert runner.shard is not None
        self.witness.on_commit_again(runner.shard, call, self._now_ms())
        recalled.handle(numbers, call)  # type: ignore[arg-type]
        return True

    def _now_ms(self) -> int:
        assert self.runtime is not None
        return self.runtime.now_ms()

    # Parts.

    def runner_for(self, group_id: str) -> GroupRunner:
        assert self.runtime is not None
        return self.runtime.runner_for(group_id)

    def groups_of(self, partition: int) -> set[str]:
        """Of the groups that are simulated, those that live in `partition`."""
        return {each for each in self.group_ids if partition_for(each, len(self.logs)) == partition}

    @property
    def runners(self) -> list[GroupRunner]:
        return [] if self.runtime is None else self.runtime.runners

    def _new_shard(self, partition: int) -> Shard:
        return WatchedShard(self.witness, partition, self.settings, self.topics)

    def _new_runner(self, log: SimulatedLog) -> GroupRunner:
        assert self.runtime is not None
        return GroupRunner(
            group_shards(self._new_shard),
            log.partition,
            log,  # type: ignore[arg-type]
            self.runtime,
            lambda: None,
            max_batch_bytes=MAX_BATCH_BYTES,
            codec=Codec.NONE,
            commit_timeout_ms=COMMIT_TIMEOUT_MS,
        )
