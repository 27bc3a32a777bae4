"""One node and one shard of the log on Kafka: when it may write, when it may answer, and how it lets go.

Advice (which node is to own the shard) may be wrong, late, or given to two nodes at once: it only says when to
begin. What decides is the log. A node owns the shard once its claim is acknowledged, the log is read up to there,
no other producer can write any more, and every earlier owner's lease is over. It writes under the claim's
producer epoch, one batch at a time; a batch of unknown outcome is sent again, the same bytes, until its outcome is
known. It answers without writing while its lease runs, which begins with each request that proves it the newest.

Everything here is a function of events and of the time, on the node's own clock. Sockets, records and the groups
themselves are not known here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from coordinator.backing.advice import Advice
from coordinator.backing.appender import Appender
from coordinator.backing.claims import Claim, ClaimBook, ClaimKind
from coordinator.backing.events import (
    Advised,
    Appended,
    AppendError,
    AppendFailed,
    AskEpoch,
    Drop,
    EpochFailed,
    EpochGiven,
    Followed,
    ForeignBatch,
    LogLost,
    OutgoingBatch,
    OwnershipAction,
    OwnershipEvent,
    Retire,
    Send,
    Serve,
    Tick,
    WriteWanted,
    Written,
)
from coordinator.backing.lease import Lease
from coordinator.backing.states import (
    ACTIVE,
    CATCHING_UP,
    CLAIMED,
    CLAIMING,
    FOLLOWING,
    INITIATING,
    RELEASING,
    SEALING,
    TRANSITIONS,
    WAITING,
    OwnershipState,
    OwnershipTrigger,
)

PROOFS_IN_LEASE: Final = 8
"""So many come in the time of a lease at least, where as many Fetches do: some may be lost."""


@dataclass(frozen=True, slots=True)
class OwnershipTiming:
    """How long a node waits for what."""

    lease_ms: int = 3_000
    """For so long after it sent what proves it the newest owner, it answers without another proof."""
    patience_ms: int = 1_000
    """For so long an owner that is told to let go is given, before the next claims over its head."""
    reclaim_ms: int = 10_000
    """After losing to another node: advice that is not renewed within this is taken for good."""
    retry_ms: int = 100
    keep_alive_ms: int = 600_000
    """An owner that has nothing to write says after so long that it is there: the partition's leader forgets
    producers (`producer.id.expiration.ms`, a day), and what it has forgotten it does not fence."""
    epoch_life_ms: int = 43_200_000
    """An epoch without a proof for so long is not used again: half of what the leader remembers it for."""


class Ownership:
    """`handle` takes an event and returns what is to be done, in that order."""

    def __init__(self, node_id: int, timing: OwnershipTiming) -> None:
        self.state: OwnershipState = FOLLOWING
        self.book = ClaimBook()
        self.lease = Lease(timing.lease_ms, timing.epoch_life_ms)
        self._node_id = node_id
        self._timing = timing
        self._actions: list[OwnershipAction] = []
        self._advice = Advice()
        # What was read.
        self._position = 0
        self._is_caught_up = False
        self._leader_epoch = self._read_epoch = -1  # Of who answers, and of who was given the newest batch.
        self._said_epoch = -1  # That in which this node said again that it is the owner.
        # The claim, and what is written under it.
        self._known_ids: frozenset[int] = frozenset()  # Producer ids in the log when the epoch was asked for.
        self.appender = Appender()
        self._claim = Claim(ClaimKind.CLAIMED, node_id, timing.lease_ms)
        self._claim_offset = -1
        self._acked_ms = 0
        self._waited_until_ms = 0
        self._again_at_ms: int | None = None  # When the same is asked or sent again.
        self._acked_end = 0
        self._last_write_ms = 0

    # Questions.

    def may_answer(self, now_ms: int) -> bool:
        """Whether the owner may answer, without writing, from the state that it has."""
        return self.state is ACTIVE and self.lease.is_running(now_ms)

    def can_write(self, now_ms: int) -> bool:
        """Whether the owner may hand over the next batch."""
        return self.state is ACTIVE and self.appender.in_flight is None and not self.lease.is_outlived(now_ms)

    @property
    def _open_at_ms(self) -> int:
        is_taken = self.book.is_taken_by_other(self._node_id)
        return self._advice.open_at_ms(self._timing.patience_ms if is_taken else 0)

    @property
    def wake_ms(self) -> int | None:
        """When `Tick` is to come, if nothing else does before; None: not for anything now known."""
        due = [] if self._again_at_ms is None else [self._again_at_ms]
        if self.state is FOLLOWING:
            due += [self._open_at_ms] if self._advice.is_wanted and self._is_caught_up else []
        else:
            due.append(self.lease.outlived_at_ms)
        if self.state is WAITING:
            due.append(self._waited_until_ms)
        if self.state is ACTIVE and self.appender.in_flight is None:
            due.append(self._last_write_ms + self._timing.keep_alive_ms)
        return min(due, default=None)

    # Events.

    def handle(self, event: OwnershipEvent, now_ms: int) -> list[OwnershipAction]:
        """Take in what happened; return what is to be done about it."""
        if self.state is not FOLLOWING and self.lease.is_outlived(now_ms):
            self._reopen(now_ms)
        HANDLERS[type(event)](self, event, now_ms)
        while self._step(now_ms):
            pass
        actions, self._actions = self._actions, []
        return actions

    def _on_followed(self, event: Followed, now_ms: int) -> None:
        self._leader_epoch = max(self._leader_epoch, event.leader_epoch)
        for batch in event.batches:
            self._read_epoch = max(self._read_epoch, batch.leader_epoch)
            if batch.claim is not None:
                self.book.take(batch.base_offset, batch.writer, batch.claim)
            elif self.state in CLAIMED and batch.base_offset > self._claim_offset:
                is_foreign = self.book.is_foreign(batch.writer, self.appender.writer, self._claim_offset)
                self._actions += [ForeignBatch(batch)] if is_foreign else []
        self._position = event.next_offset
        is_whole = event.next_offset >= event.high_watermark
        self._is_caught_up |= is_whole
        # An answer that does not reach the end may lack another's claim. One whose end is below what this node has
        # written comes from a leader of the past. A new one may not have heard yet how far the one before came:
        # it has, when it shows a batch of its own.
        is_known = event.high_watermark >= self._acked_end and event.leader_epoch == self._read_epoch
        if is_whole and is_known and self.state in CLAIMED:
            self.lease.prove(event.sent_ms)

    def _on_epoch_given(self, event: EpochGiven, now_ms: int) -> None:
        if self.state is not INITIATING or event.asked_ms != self.lease.proven_ms:
            return  # An answer to what is no longer asked; the epoch is never used.
        self.appender.begin(event.writer)
        self._again_at_ms = None
        self._seal_or_claim(now_ms)

    def _on_epoch_failed(self, _: EpochFailed, now_ms: int) -> None:
        if self.state is INITIATING:
            self._again_at_ms = now_ms + self._timing.retry_ms

    def _on_appended(self, event: Appended, now_ms: int) -> None:
        if not self.appender.is_on_its_way(event.number):
            return  # Another attempt at what is known by now.
        batch, self._again_at_ms = self.appender.settle(), None
        if self.state is SEALING:
            self.book.take(event.base_offset, batch.writer, batch.content)
            self._seal_or_claim(now_ms)
        elif event.base_offset < self._acked_end:  # The log has lost what it had acknowledged.
            self._reopen(now_ms)
        else:
            self._acked_end = event.base_offset + batch.record_count
            self.lease.prove(event.sent_ms)
            self._last_write_ms = now_ms
            self._on_acknowledged(batch, event.base_offset, now_ms)

    def _on_acknowledged(self, batch: OutgoingBatch, base_offset: int, now_ms: int) -> None:
        if self.state is CLAIMING:
            self._claim_offset, self._acked_ms = base_offset, now_ms
            self._move(OwnershipTrigger.CLAIM_ACKED)
        elif not isinstance(batch.content, Claim):
            self._actions.append(Written(batch.number, self._acked_end))
        elif batch.content.kind is ClaimKind.RELEASED:
            self._let_go(OwnershipTrigger.ENDED)

    def _on_append_failed(self, event: AppendFailed, now_ms: int) -> None:
        if not self.appender.is_on_its_way(event.number):
            return
        match event.error:
            case AppendError.RETRIABLE:
                self._again_at_ms = now_ms + self._timing.retry_ms
            case AppendError.FENCED:
                self._lose(now_ms)
            case AppendError.OUT_OF_SEQUENCE:
                self._distrust(now_ms)

    def _on_write_wanted(self, event: WriteWanted, now_ms: int) -> None:
        assert self.can_write(now_ms), f"a write while {self.state}"
        self._send(self.appender.write(event.content, event.record_count), now_ms)

    def _on_log_lost(self, _: LogLost, now_ms: int) -> None:
        """What was known of it may be of a log that is no more: read it as if for the first time."""
        is_dropped = self.state in (ACTIVE, RELEASING)
        if self.state is not FOLLOWING:
            self._let_go(OwnershipTrigger.ENDED)
        if not is_dropped:
            self._drop()
        self.book = ClaimBook()
        self._leader_epoch = self._read_epoch = self._said_epoch = -1

    # Steps: what is due in each state.

    def _step(self, now_ms: int) -> bool:
        """Do the next thing that is due; return whether the state is another now."""
        before = self.state
        if before in CLAIMED and self.book.is_overtaken(self.appender.writer, self._claim_offset):
            self._lose(now_ms)
        elif self._again_at_ms is not None and now_ms >= self._again_at_ms:
            self._again(now_ms)
        elif before in UNWANTED and not self._advice.is_wanted:
            UNWANTED[before](self, now_ms)
        elif before in STEPS:
            STEPS[before](self, now_ms)
        return self.state is not before

    def _again(self, now_ms: int) -> None:
        self._again_at_ms = None
        if self.state is INITIATING:
            self._ask_epoch(now_ms)
        elif self.appender.in_flight is not None:
            self._send(self.appender.in_flight, now_ms)

    def _when_following(self, now_ms: int) -> None:
        if self._advice.is_wanted and self._is_caught_up and now_ms >= self._open_at_ms:
            self._move(OwnershipTrigger.OPENED)
            self._ask_epoch(now_ms)

    def _when_catching_up(self, now_ms: int) -> None:
        """Look at what was in the log before the claim, of which this node may have known less when it claimed."""
        if self._position <= self._claim_offset:
            return
        producer_id, epoch = self.appender.writer
        is_alone = not self.book.unsealed(apart_from=producer_id)
        if not is_alone or self.book.highest_epoch(producer_id) != epoch:
            self._reopen(now_ms)
            return
        previous, wait_ms = self.book.previous, 0
        if previous is not None and not previous.claim.ends_waiting:
            if previous.lease_ms > self._claim.lease_ms:
                self._reopen(now_ms)  # Whoever claims next has to wait for that one, too.
                return
            wait_ms = with_drift(previous.lease_ms)
        self._waited_until_ms = self._acked_ms + wait_ms
        self._move(OwnershipTrigger.CAUGHT_UP)

    def _when_waiting(self, now_ms: int) -> None:
        if now_ms >= self._waited_until_ms:
            self._move(OwnershipTrigger.WAITED)
            self._actions.append(Serve())

    def _when_claim_due(self, now_ms: int) -> None:
        """Say again who owns the shard, or that nobody does: once what is on its way has come."""
        due_ms = self._last_write_ms + self._timing.keep_alive_ms if self.state is ACTIVE else now_ms
        if self._leader_epoch > max(self._read_epoch, self._said_epoch):
            due_ms = now_ms  # Until the new leader shows a batch of its own, nothing that is read is a proof.
        if self.appender.in_flight is None and now_ms >= due_ms:
            self._said_epoch = self._leader_epoch
            self._send(self.appender.write(self._claim, 1), now_ms)

    # What is asked and sent.

    def _ask_epoch(self, now_ms: int) -> None:
        self.lease.begin(now_ms)
        self._known_ids = frozenset(self.book.unsealed())
        self._actions.append(AskEpoch(now_ms))

    def _seal_or_claim(self, now_ms: int) -> None:
        producer_id = self.appender.writer.producer_id
        unsealed = self.book.unsealed(apart_from=producer_id)
        if self.book.is_sealed(producer_id) or not self._known_ids.issuperset(unsealed):
            self._distrust(now_ms)
            return
        if unsealed:
            if self.state is INITIATING:
                self._move(OwnershipTrigger.SEALS_WANTED)
            seal = Claim(ClaimKind.SEALED, self._node_id, self._timing.lease_ms)
            self._send(self.appender.seal(unsealed[0], seal), now_ms)
            return
        self._move(OwnershipTrigger.SEALED)
        lease_ms = self.book.carried_lease_ms(self._timing.lease_ms)
        self._claim = Claim(ClaimKind.CLAIMED, self._node_id, lease_ms)
        self._send(self.appender.write(self._claim, 1), now_ms)

    def _distrust(self, now_ms: int) -> None:
        """The epoch may be of a producer id of the past, or the log not what it was taken for: ask again.

        An id that was in the log when this node asked is older than the one that it was given, and may be sealed.
        One that came since may be the newer, which no node could claim any more if it were sealed. Not at once:
        it may go wrong again, and an id has no more than 32,767 epochs.
        """
        self._let_go(OwnershipTrigger.REOPENED)
        self._again_at_ms = now_ms + self._timing.retry_ms

    def _send(self, batch: OutgoingBatch, now_ms: int) -> None:
        self._actions.append(Send(batch, now_ms))

    # Ends.

    def _retire(self, now_ms: int) -> None:
        """Let go, as another node is to own the shard: once what is on its way has come, the log says so."""
        was_active = self.state is ACTIVE
        self._claim = Claim(ClaimKind.RELEASED, self._node_id, self._claim.lease_ms, was_active)
        self._move(OwnershipTrigger.UNWANTED)
        if was_active:
            self._actions.append(Retire())

    def _lose(self, now_ms: int) -> None:
        """Another node was there first, or shuts out our producer id: leave it to newer advice."""
        self._let_go(OwnershipTrigger.ENDED)
        self._advice.block(now_ms + self._timing.reclaim_ms)

    def _reopen(self, now_ms: int) -> None:
        """Begin anew with the next epoch: the one way out of whatever was wrong."""
        self._let_go(OwnershipTrigger.REOPENED)
        self._ask_epoch(now_ms)

    def _let_go(self, trigger: OwnershipTrigger) -> None:
        if self.state in (ACTIVE, RELEASING):
            self._drop()
        self.appender.forget()
        self._again_at_ms = None
        self._acked_end, self._claim_offset = 0, -1
        self._move(trigger)

    def _drop(self) -> None:
        self._actions.append(Drop())
        self._position, self._is_caught_up = 0, False

    def _move(self, trigger: OwnershipTrigger) -> None:
        """Move along TRANSITIONS; the only code that assigns `state`."""
        self.state = TRANSITIONS[self.state, trigger]


def heeds_silence(ownership: Ownership, now_ms: int) -> bool:
    """Whether it counts that there was nothing new to read: not where a node knows all and owns nothing.

    An owner is proven by it, but at every write of anybody that would be more often than leases need.
    """
    if ownership.state is ACTIVE:
        return now_ms - ownership.lease.proven_ms >= ownership._timing.lease_ms // PROOFS_IN_LEASE
    return ownership.state is not FOLLOWING or not ownership._is_caught_up


def with_drift(lease_ms: int) -> int:
    """How long a lease may last by another node's clock: clocks run alike within a thousandth."""
    return lease_ms + lease_ms // 1_000 + 1


HANDLERS: Final[dict[type, Callable[[Ownership, Any, int], None]]] = {
    Advised: lambda ownership, event, now_ms: ownership._advice.take(event.is_wanted, now_ms),
    Followed: Ownership._on_followed,
    EpochGiven: Ownership._on_epoch_given,
    EpochFailed: Ownership._on_epoch_failed,
    Appended: Ownership._on_appended,
    AppendFailed: Ownership._on_append_failed,
    WriteWanted: Ownership._on_write_wanted,
    LogLost: Ownership._on_log_lost,
    Tick: lambda _, __, ___: None,  # It is the time, which `_step` looks at.
}

UNWANTED: Final[dict[OwnershipState, Callable[[Ownership, int], None]]] = {
    INITIATING: lambda ownership, _: ownership._let_go(OwnershipTrigger.ENDED),
    SEALING: lambda ownership, _: ownership._let_go(OwnershipTrigger.ENDED),
    # A claim that is on its way has to have its outcome first: it may be in the log.
    CATCHING_UP: Ownership._retire,
    WAITING: Ownership._retire,
    ACTIVE: Ownership._retire,
}
"""What a node does that is not to own the shard any more."""

STEPS: Final[dict[OwnershipState, Callable[[Ownership, int], None]]] = {
    FOLLOWING: Ownership._when_following,
    CATCHING_UP: Ownership._when_catching_up,
    WAITING: Ownership._when_waiting,
    ACTIVE: Ownership._when_claim_due,
    RELEASING: Ownership._when_claim_due,
}
"""What it does as far as it is the time; in the other states it waits for an answer."""
