"""One shard of the log on Kafka: the shell around `Ownership`, which reads, sends and asks as that says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import structlog

from coordinator.backing import events
from coordinator.backing.claims import NO_HEIR, Claim, ClaimKind, Endpoint
from coordinator.backing.events import AppendError, OutgoingBatch
from coordinator.backing.kafka.claim_records import claim_record
from coordinator.backing.kafka.cluster import BackingError
from coordinator.backing.kafka.complaints import Complaints
from coordinator.backing.kafka.epochs import Epochs
from coordinator.backing.kafka.fetched import Fetched, FetchedBatch, UntakenBatchError
from coordinator.backing.kafka.sender import Appending, Outcome, Sender
from coordinator.backing.kafka.strays import Strays
from coordinator.backing.ownership import Ownership, heeds_silence
from coordinator.backing.states import ACTIVE, RELEASING
from coordinator.runtime.clock import boot_ms
from coordinator.runtime.tasks import spawn
from protocol.records.batch import BatchProducer, set_producer
from protocol.records.records import encode_batch

log = structlog.get_logger(__name__)


class ShardHost(Protocol):
    """What has the state that a log stands for."""

    def follow(self, batch: FetchedBatch) -> None:
        """Take in a batch that another owner wrote. Where that raises, `drop` follows: all is read anew."""

    def serve(self) -> None:
        """All that was written before is followed: answer and write from now on."""

    def retire(self) -> None:
        """Answer nothing new. What waits for a batch that was sent is told by `written`."""

    def written(self, number: int, end_offset: int) -> None:
        """The batch that `write` returned the number of is durable."""

    def after_event(self) -> None:
        """Something has happened: it may be that more can be written, or answered, than before."""

    def heal(self, keys: Collection[bytes]) -> None:
        """Write again what is stored under these keys: others wrote there, which was not followed."""

    def drop(self) -> None:
        """Answer all that still waits with NOT_COORDINATOR and forget everything: the log is read anew."""


@dataclass(frozen=True, slots=True)
class Ports:
    """What a driver asks of the cluster."""

    sender: Sender
    epochs: Epochs
    wall_ms: Callable[[], int]
    node_id: int
    endpoints: tuple[Endpoint, ...] = ()
    """Where clients find this node, said with every claim."""


class ShardDriver:
    """`advise` says whether this node is to own the shard; `write` appends while it does."""

    def __init__(self, partition: int, ownership: Ownership, host: ShardHost, ports: Ports) -> None:
        self.partition = partition
        self.ownership = ownership
        self._host = host
        self._ports = ports
        self._position = self._begin = 0
        self._strays = Strays(partition)
        self._encoded: tuple[int, bytes] = (-1, b"")  # The batch on its way: the same bytes each time.
        self._unfollowed: Sequence[FetchedBatch] = ()  # What the newest Fetch brought while this node serves.
        self._first_sent_ms = 0
        self._timer: asyncio.TimerHandle | None = None
        # An epoch is asked for again ten times a second.
        self._complaints = Complaints(log, "no producer epoch for a shard", partition=partition)
        self._asking: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self._told: Claim | None = None
        self._heir_id = NO_HEIR
        self.on_moved: Callable[[int], None] = lambda partition: None
        """Called with the partition when `owner` is another."""
        self.may_inherit: Callable[[], bool] = lambda: True
        """Whether this node owns what another one released for it, before it is advised to."""
        self.was_read = False
        """Whether the log was read to its end once, so that `owner` is of the present."""
        self.on_state: Callable[[], None] = lambda: None
        """Called when the state of this node's ownership is another, or the log was read for the first time."""
        self.on_appended: Callable[[float], None] = lambda took_s: None
        """Called with the seconds from when a batch was first sent until it is known to be there."""

    # What the shard's host may do.

    @property
    def may_answer(self) -> bool:
        """Whether to answer, without writing, from the state that the host has."""
        return not self._is_closed and self.ownership.may_answer(boot_ms())

    @property
    def can_write(self) -> bool:
        """Whether `write` may be called."""
        return not self._is_closed and self.ownership.can_write(boot_ms())

    @property
    def owner(self) -> Claim | None:
        """The claim of the node that has the shard, as far as the log is read; None if none has."""
        latest = self.ownership.book.latest
        return None if latest is None or latest.claim.kind is not ClaimKind.CLAIMED else latest.claim

    @property
    def owner_id(self) -> int | None:
        """The id of that node."""
        owner = self.owner
        return None if owner is None else owner.node_id

    def advise(self, is_wanted: bool, heir_id: int = NO_HEIR) -> None:
        """Whether this node is to own the shard, as newest advice has it; if not, who is, if that is known.

        A release names that one, which need not hear of it by the group of nodes then.
        """
        self._heir_id = NO_HEIR if is_wanted else heir_id
        self._handle(events.Advised(is_wanted))

    def write(self, batch: bytearray, record_count: int) -> int:
        """Append a batch, which gets its producer here; return its number, by which `written` speaks of it."""
        self._handle(events.WriteWanted(batch, record_count))
        return self._encoded[0]

    async def close(self) -> None:
        """Do nothing more, whatever is on its way."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for task in self._asking:
            task.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)

    # What is read.

    @property
    def foreign_batches(self) -> int:
        """How many batches were found that no owner of the shard has written."""
        return self._strays.count

    @property
    def position(self) -> int:
        """The next offset to read."""
        return self._position

    def heeds_silence(self, now_ms: int) -> bool:
        """Whether an answer to a Fetch says something to it even if there is nothing new."""
        return heeds_silence(self.ownership, now_ms) or not self.was_read

    def on_fetched(self, read: Fetched) -> None:
        """The answer to a Fetch at `position`. Raises UntakenBatchError, and has begun anew then."""
        if self.ownership.state in (ACTIVE, RELEASING):
            self._unfollowed = read.batches
        else:
            self._unfollowed = ()
            self._follow(read)
        self._position = read.next_offset
        self._ports.sender.on_fetched(self.partition, read)
        self._handle(read.followed())
        if read.is_whole and not self.was_read:
            self.was_read = True
            self.on_state()

    def _follow(self, read: Fetched) -> None:
        offset = read.position

        def follow(batch: FetchedBatch) -> None:
            nonlocal offset
            offset = batch.header.base_offset
            self._host.follow(batch)

        try:
            self._strays.follow(read.batches, follow, self.ownership.appender.writer)
        except Exception as error:  # What was taken of it, and before it, cannot be taken a second time.
            self._handle(events.LogLost())
            raise UntakenBatchError(
                f"the batch at offset {offset} cannot be taken, and all is read anew: "
                f"{type(error).__name__}: {error}"
            ) from error

    def on_position_gone(self, log_start_offset: int, high_watermark: int) -> None:
        """The log has lost what was read of it, or its beginning: what it is now is read from where it begins."""
        log.error(
            "the log on Kafka is not where it was left",
            partition=self.partition,
            position=self._position,
            log_start_offset=log_start_offset,
            high_watermark=high_watermark,
        )
        self._begin = max(0, log_start_offset)  # Kafka says -1 where it does not say.
        self._handle(events.LogLost())

    # Events and actions.

    def _handle(self, event: events.OwnershipEvent) -> None:
        """Carry out what an event leads to. A shard that fails at it is read anew, as after any other surprise."""
        if self._is_closed:
            return
        try:
            self._carry_out(event)
        except Exception:  # A bug of ours; the log says what the state was.
            log.exception("a shard on Kafka failed, and is read anew", partition=self.partition)
            self._carry_out(events.LogLost())

    def _carry_out(self, event: events.OwnershipEvent) -> None:
        before = self.ownership.state
        actions = self.ownership.handle(event, boot_ms())
        if self.ownership.state is not before:
            is_news = ACTIVE in (before, self.ownership.state)
            (log.info if is_news else log.debug)(
                "ownership of a shard",
                partition=self.partition,
                state=self.ownership.state.name,
                before=before.name,
            )
            self.on_state()
        for action in actions:
            ACTIONS[type(action)](self, action)
        self._host.after_event()
        self._arm()
        if (owner := self.owner) != self._told:
            self._told = owner
            self.on_moved(self.partition)
            if owner is None and self._is_heir and self.may_inherit():
                self.advise(True)

    @property
    def _is_heir(self) -> bool:
        latest = self.ownership.book.latest
        return latest is not None and latest.claim.heir_id == self._ports.node_id

    def _arm(self) -> None:
        """Be there when something is due. The loop's clock may stand still while the machine sleeps: then late."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        wake_ms = self.ownership.wake_ms
        if wake_ms is not None:
            delay_s = max(0, wake_ms - boot_ms()) / 1_000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._handle, events.Tick())

    def _ask_epoch(self, action: events.AskEpoch) -> None:
        task = spawn(self._asked_epoch(action.asked_ms))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _asked_epoch(self, asked_ms: int) -> None:
        try:
            writer = await self._ports.epochs.next_epoch(self.partition)
        except BackingError as error:
            self._complaints.say(str(error))
            self._handle(events.EpochFailed())
        else:
            self._complaints.over()
            self._handle(events.EpochGiven(writer, asked_ms))

    def _send(self, action: events.Send) -> None:
        batch, sent_ms = action

        def done(outcome: Outcome) -> None:
            if isinstance(outcome, AppendError):
                self._handle(events.AppendFailed(batch.number, outcome, sent_ms))
            else:
                if batch.number == self._encoded[0]:
                    self.on_appended((boot_ms() - self._first_sent_ms) / 1000)
                self._handle(events.Appended(batch.number, outcome, sent_ms))

        def is_wanted() -> bool:
            return self.ownership.appender.is_on_its_way(batch.number)

        self._ports.sender.send(self.partition, Appending(self._bytes_of(batch), done, is_wanted))

    def _bytes_of(self, batch: OutgoingBatch) -> bytes:
        if self._encoded[0] != batch.number:
            content: Any = batch.content
            if isinstance(content, Claim):
                heir_id = self._heir_id if content.kind is ClaimKind.RELEASED else NO_HEIR
                claim = replace(content, endpoints=self._ports.endpoints, heir_id=heir_id)
                content = encode_batch([claim_record(claim, batch.writer, self._ports.wall_ms())])
            set_producer(content, BatchProducer(*batch.writer, batch.base_sequence))
            self._encoded, self._first_sent_ms = (batch.number, bytes(content)), boot_ms()
        return self._encoded[1]

    def _serve(self, _: events.Serve) -> None:
        self._host.serve()
        self._heal()

    def _heal(self) -> None:
        if self.ownership.state is ACTIVE and (keys := self._strays.take_keys()):
            self._host.heal(keys)

    def _drop(self, _: events.Drop) -> None:
        self._host.drop()
        self._strays.forget()
        self._position = self._begin

    def _foreign(self, action: events.ForeignBatch) -> None:
        """A batch behind this node's own claim."""
        offset = action.batch.base_offset
        for batch in self._unfollowed:
            if batch.header.base_offset == offset:
                self._strays.add(batch)
        self._heal()


ACTIONS: Final[dict[type, Callable[[ShardDriver, Any], None]]] = {
    events.AskEpoch: ShardDriver._ask_epoch,
    events.Send: ShardDriver._send,
    events.Serve: ShardDriver._serve,
    events.Retire: lambda driver, _: driver._host.retire(),
    events.Written: lambda driver, action: driver._host.written(action.number, action.end_offset),
    events.Drop: ShardDriver._drop,
    events.ForeignBatch: ShardDriver._foreign,
}
