"""One node and one shard: the shell around `Ownership`, with a model of a shard, which counts by keys.

It reads the log without end, appends what the owner has gathered, one batch at a time, and holds each reply until
what it says is durable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from coordinator.backing import events
from coordinator.backing.appender import NO_WRITER
from coordinator.backing.claims import Claim, ClaimKind, PlacedClaim
from coordinator.backing.events import AppendError, OutgoingBatch
from coordinator.backing.ownership import Ownership
from coordinator.backing.states import (
    ACTIVE,
    CATCHING_UP,
    CLAIMED,
    CLAIMING,
    FOLLOWING,
    INITIATING,
    OwnershipState,
)
from tests.simulation.backing.clients import NOT_COORDINATOR, Request
from tests.simulation.backing.epochs import EPOCH_MAX
from tests.simulation.backing.log import Answer, Commit, Poll
from tests.simulation.backing.node import Node
from tests.simulation.backing.world import World

APPEND_TIMEOUT_MS: Final = 1_500
EPOCH_MS: Final = (0, 0, 0, 0, 0, 20, 1_400, 4_000)
LAST_EPOCH_MS: Final = (0, 1_400, 4_000)
"""How long the coordinator takes besides; the next answer after the last epoch has another producer id."""
NO_CLAIM: Final = Claim(ClaimKind.CLAIMED, -1, 0)
NIGHT_POLLS_MS: Final = (60_000, 3_600_000, 3 * 3_600_000)


@dataclass(slots=True)
class Held:
    """What waits for one batch."""

    commits: list[Request] = field(default_factory=list)
    reads: list[tuple[Request, int]] = field(default_factory=list)

    def requests(self) -> list[Request]:
        return [*self.commits, *(request for request, _ in self.reads)]


class ShardNode:
    """`handle` is the only way to its Ownership."""

    def __init__(self, node: Node, index: int, world: World) -> None:
        self.node = node
        self.index = index
        self.log = world.logs[index]
        self._world = world
        self._watch = world.watch
        self._marks = world.marks
        self._batches_max = world.random.choice((1, 2, 100))
        self._fetches = 0  # The newest; only its answer counts.
        self._epochs_asked = 0
        self.forget()

    def forget(self) -> None:
        """All that is in memory, as at a start."""
        self.ownership = Ownership(self.node.node_id, self.node.timing)
        self.is_wanted = False
        self.living: dict[str, int] | None = None
        self._followed: dict[str, int] = {}
        self._position = 0
        self._fetches += 1
        self.gathered = Held()
        self.in_flight: tuple[OutgoingBatch, Held] | None = None
        self._wake_ms: int | None = None
        self._last_sent: OutgoingBatch | None = None
        self._claim_offset = -1
        self._has_lapsed = False
        self._acked_end = 0
        self._old_proof_ms = -1  # When the Fetch was sent that a leader of the past answered.

    def begin(self) -> None:
        self._fetch()

    # What it may say.

    @property
    def may_answer(self) -> bool:
        return self.ownership.may_answer(self.node.now_ms)

    @property
    def is_tainted(self) -> bool:
        """Whether its lease may rest on what a leader of the past said, or on a clock that stood still."""
        now_ms = self.node.now_ms
        return now_ms < max(self.node.tainted_until_ms, self._old_proof_ms + self.node.timing.lease_ms)

    @property
    def producer_id(self) -> int:
        """Under which it sent its last batch; -1 before there is one."""
        return -1 if self._last_sent is None else self._last_sent.writer.producer_id

    @property
    def claim_offset(self) -> int:
        """Where the claim is under which it serves."""
        return self._claim_offset

    # Requests.

    def on_request(self, request: Request) -> None:
        if not self.may_answer:
            self._has_lapsed |= self.ownership.state is ACTIVE
            self._refuse([request])
            return
        if self._has_lapsed:
            self._has_lapsed = False
            self._marks.reach("lease_came_back")
        assert self.living is not None
        if request.value is not None:
            self.living[request.key] = request.value
            self.gathered.commits.append(request)
            self._hand_over()
            self._arm()
            return
        value = self.living.get(request.key, 0)
        if self.gathered.commits:
            self.gathered.reads.append((request, value))
        elif self.in_flight is not None:
            self.in_flight[1].reads.append((request, value))
        else:
            self._watch.on_spoken(self)
            self._reply(request, value)

    def _refuse(self, requests: Sequence[Request]) -> None:
        for request in requests:
            self._reply(request, NOT_COORDINATOR)

    def _reply(self, request: Request, outcome: int) -> None:
        request.answers += 1
        if request.answers > 1:
            self._watch.violated(f"{request} is answered twice")
        if outcome != NOT_COORDINATOR:
            self._watch.on_answered(self, request, outcome)
        self._world.timeline.after(
            self._world.random.randint(1, 5), partial(request.on_answer, self.node, outcome)
        )

    # Events and actions.

    def advise(self, is_wanted: bool) -> None:
        self.is_wanted = is_wanted
        if not is_wanted and self.ownership.state is CLAIMING:
            self._marks.reach("unwanted_while_claiming")
        self.handle(events.Advised(is_wanted))

    def handle(self, event: events.OwnershipEvent) -> None:
        before = self.ownership.state
        self._note_outlived(before)
        proven_ms = self.ownership.lease.proven_ms
        is_answer = before is INITIATING and type(event) is events.EpochGiven and event.asked_ms == proven_ms
        self._do(event)
        if is_answer and self.ownership.state is INITIATING:
            self._marks.reach("asked_again")
        if before is CATCHING_UP and self.ownership.state is INITIATING and self.ownership.book.unsealed():
            self._marks.reach("reopened_unsealed")
        self._hand_over()
        self._arm()

    def _do(self, event: events.OwnershipEvent) -> None:
        before = self.ownership.state
        actions = self.ownership.handle(event, self.node.now_ms)
        if self._world.tell is not None:
            self._tell(event, before, actions)
        for action in actions:
            ACTIONS[type(action)](self, action)

    def _tell(self, event: object, before: OwnershipState, actions: Sequence[object]) -> None:
        if actions or before is not self.ownership.state:
            moved = f"{before.name} -> {self.ownership.state.name}"
            self._world.say(f"node {self.node.node_id}, {self.log.name}: {event}: {moved} {actions}")

    def _hand_over(self) -> None:
        if self.gathered.commits and self.ownership.can_write(self.node.now_ms):
            records = tuple((request.key, request.value) for request in self.gathered.commits)
            self._do(events.WriteWanted(records, len(records)))

    def _arm(self) -> None:
        wake_ms = self.ownership.wake_ms
        if wake_ms != self._wake_ms:
            self._wake_ms = wake_ms
            if wake_ms is not None:
                self.node.at(wake_ms, partial(self._on_timer, wake_ms))

    def _on_timer(self, wake_ms: int) -> None:
        if wake_ms == self._wake_ms:
            self._wake_ms = None
            self.handle(events.Tick())

    def _ask_epoch(self, action: events.AskEpoch) -> None:
        carry = self._world.network.carry
        self._epochs_asked += 1

        def asked() -> None:
            writer = self._world.epochs[self.index].init(self._world.timeline.now_ms)
            event = events.EpochGiven(writer, action.asked_ms) if writer else events.EpochFailed()
            is_last = writer is not None and writer.epoch == EPOCH_MAX
            slow_ms = self._world.random.choice(LAST_EPOCH_MS if is_last else EPOCH_MS)
            self._world.timeline.after(slow_ms, partial(self.node_guarded, carry, event))

        late_ms = self._world.random.choice((1_500, 6_000))
        self.node_guarded(partial(self._world.timeline.after, late_ms), events.EpochFailed())
        carry(asked)

    def node_guarded(self, schedule: Callable[[Any], object], event: events.OwnershipEvent) -> None:
        self.node.guarded(schedule, partial(self.handle, event))

    def _send(self, action: events.Send) -> None:
        batch, sent_ms = action
        self._note_sent(batch)
        if not isinstance(batch.content, Claim) and self._is_new(batch):
            self.in_flight, self.gathered = (batch, self.gathered), Held()
        carry = self._world.network.carry
        branch = self.log.leader_for(self.node.node_id, for_reading=False)
        incarnation = self.node.incarnation

        def answered(outcome: AppendError | int) -> None:
            event: events.OwnershipEvent
            if isinstance(outcome, int):
                event = events.Appended(batch.number, outcome, sent_ms)
            else:
                event = events.AppendFailed(batch.number, outcome, sent_ms)
            carry(lambda: self.node.arrive(partial(self.handle, event), incarnation))

        late = events.AppendFailed(batch.number, AppendError.RETRIABLE, sent_ms)
        self.node_guarded(partial(self._world.timeline.after, APPEND_TIMEOUT_MS), late)
        carry(lambda: self.log.produce(branch, batch, answered))

    def _is_new(self, batch: OutgoingBatch) -> bool:
        """Whether it is not sent again. What waits for another is given up."""
        if self.in_flight is None:
            return True
        sent, held = self.in_flight
        if sent.number == batch.number:
            return False
        self._refuse(held.requests())
        return True

    def _serve(self, _: events.Serve) -> None:
        latest = self.ownership.book.latest or PlacedClaim(-1, NO_WRITER, NO_CLAIM, 0)
        self._claim_offset, self._acked_end = latest.offset, latest.offset + 1
        self._has_lapsed = False
        self.living = dict(self._followed)
        previous = self.ownership.book.previous
        if previous is not None:
            self._marks.reach("no_wait" if previous.claim.ends_waiting else "waited")
        self._watch.on_served(self, latest)

    def _written(self, action: events.Written) -> None:
        assert self.in_flight is not None
        (batch, held), self.in_flight = self.in_flight, None
        self._acked_end = action.end_offset
        self._watch.on_written(self, batch, action)
        for request in held.commits:
            assert request.value is not None
            self._reply(request, request.value)
        for request, value in held.reads:
            self._reply(request, value)

    def _retire(self, _: events.Retire) -> None:
        self._refuse(self.gathered.requests())
        self.gathered = Held()

    def _drop(self, _: events.Drop) -> None:
        self._refuse([*self.gathered.requests(), *(self.in_flight[1].requests() if self.in_flight else ())])
        self.gathered, self.in_flight, self.living = Held(), None, None
        self._followed, self._position = {}, 0
        self._fetch()

    def _foreign(self, action: events.ForeignBatch) -> None:
        self._watch.violated(f"node {self.node.node_id} reads {action.batch} behind its claim")

    # Reading.

    def _fetch(self) -> None:
        self._fetches += 1
        random, number, sent_ms = self._world.random, self._fetches, self.node.now_ms
        carry, incarnation = self._world.network.carry, self.node.incarnation
        branch = self.log.leader_for(self.node.node_id, for_reading=True)
        is_slow = self.node.reads_slowly_until_ms > self._world.timeline.now_ms

        def answer(found: Answer, is_old: bool) -> None:
            batches = tuple(each.followed() for each in found.batches)
            followed = events.Followed(
                batches, found.next_offset, found.high_watermark, sent_ms, found.leader_epoch
            )
            commits = [commit for each in found.batches for commit in each.commits]
            arrived = partial(self._on_fetched, number, followed, commits, is_old)
            slow_ms = random.randrange(3_000) if is_slow else 0
            self._world.timeline.after(slow_ms, lambda: carry(lambda: self.node.arrive(arrived, incarnation)))

        poll = Poll(self._position, 1 if is_slow else random.choice((self._batches_max, 100)), answer)
        carry(lambda: self.log.fetch(branch, poll, 500))
        self.node.after(random.choice((1_500, 5_000, 30_000)), partial(self._fetch_again, number))

    def _fetch_again(self, number: int) -> None:
        if number == self._fetches:
            self._fetch()

    def _on_fetched(
        self, number: int, followed: events.Followed, commits: Sequence[Commit], is_old: bool
    ) -> None:
        if number != self._fetches:
            return
        self._fetches += 1
        number = self._fetches
        self._followed.update(commits)
        self._position = followed.next_offset
        may_be_taken = self.ownership.state in CLAIMED and followed.high_watermark >= self._acked_end
        if is_old and may_be_taken:
            self._old_proof_ms = max(self._old_proof_ms, followed.sent_ms)
            self._marks.reach("old_watermark_heard")
        self.handle(followed)
        if self._world.network.is_night and self.ownership.state in (FOLLOWING, ACTIVE):
            self.node.after(self._world.random.choice(NIGHT_POLLS_MS), partial(self._fetch_again, number))
        else:
            self._fetch_again(number)

    # Marks.

    def note_expiry(self) -> None:
        """The node goes on: the leader may have forgotten the producer that it has."""
        sent = self._last_sent
        if sent is not None and self.ownership.state is not FOLLOWING:
            entry = self.log.leader.entry_of(sent.writer.producer_id, self._world.timeline.now_ms)
            if entry is None:
                self._marks.reach("entry_expired")

    def _note_outlived(self, before: OwnershipState) -> None:
        if before in CLAIMED and self.ownership.lease.is_outlived(self.node.now_ms):
            self._marks.reach("epoch_outlived")

    def _note_sent(self, batch: OutgoingBatch) -> None:
        self._last_sent = batch
        if not isinstance(batch.content, Claim):
            return
        if batch.content.kind is ClaimKind.SEALED:
            self._marks.reach("seal_written")
        elif self.ownership.state is ACTIVE:
            self._marks.reach("keep_alive_written")


ACTIONS: Final[dict[type, Callable[[ShardNode, Any], None]]] = {
    events.AskEpoch: ShardNode._ask_epoch,
    events.Send: ShardNode._send,
    events.Serve: ShardNode._serve,
    events.Retire: ShardNode._retire,
    events.Written: ShardNode._written,
    events.Drop: ShardNode._drop,
    events.ForeignBatch: ShardNode._foreign,
}
