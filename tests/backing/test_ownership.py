"""Each rule by which a node owns a shard of a log on another Kafka, shown by plain calls.

`tests/simulation/backing` plays the same against everything that can go wrong.
"""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.backing import events
from coordinator.backing.claims import SEAL_EPOCH, Claim, ClaimKind, Writer
from coordinator.backing.events import (
    AppendError,
    AskEpoch,
    Drop,
    FollowedBatch,
    Retire,
    Send,
    Serve,
    Written,
)
from coordinator.backing.ownership import Ownership, OwnershipTiming
from coordinator.backing.states import (
    ACTIVE,
    CATCHING_UP,
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

TIMING = OwnershipTiming()
OWN = Writer(7, 3)
OTHER = Writer(7, 2)
OTHER_NODE = 2


def claimed(
    writer: Writer, offset: int, *, node_id: int = OTHER_NODE, lease_ms: int = 3_000
) -> FollowedBatch:
    return FollowedBatch(offset, offset, writer, Claim(ClaimKind.CLAIMED, node_id, lease_ms))


def released(writer: Writer, offset: int, *, was_active: bool) -> FollowedBatch:
    return FollowedBatch(offset, offset, writer, Claim(ClaimKind.RELEASED, OTHER_NODE, 3_000, was_active))


def sealed(producer_id: int, offset: int) -> FollowedBatch:
    claim = Claim(ClaimKind.SEALED, OTHER_NODE, 3_000)
    return FollowedBatch(offset, offset, Writer(producer_id, SEAL_EPOCH), claim)


class Node:
    """A node with a clock, and what it does at each event."""

    def __init__(self) -> None:
        self.ownership = Ownership(1, TIMING)
        self.now_ms = 1_000
        self.end_offset = 0
        self.sent: Any = None

    @property
    def state(self) -> OwnershipState:
        return self.ownership.state

    def handle(self, event: events.OwnershipEvent) -> list[events.OwnershipAction]:
        actions = self.ownership.handle(event, self.now_ms)
        self.sent = next((each.batch for each in actions if isinstance(each, Send)), self.sent)
        return actions

    def follow(self, *batches: FollowedBatch, sent_ms: int | None = None) -> list[events.OwnershipAction]:
        """It reads these, and the end of the log behind them."""
        self.end_offset = max([self.end_offset, *(batch.last_offset + 1 for batch in batches)])
        sent_ms = self.now_ms if sent_ms is None else sent_ms
        return self.handle(events.Followed(batches, self.end_offset, self.end_offset, sent_ms))

    def want(self, is_wanted: bool = True) -> list[events.OwnershipAction]:
        return self.handle(events.Advised(is_wanted))

    def give(self, writer: Writer = OWN) -> list[events.OwnershipAction]:
        return self.handle(events.EpochGiven(writer, self.ownership.lease.proven_ms))

    def acknowledge(self) -> list[events.OwnershipAction]:
        """What was sent last is in the log, at its end."""
        self.end_offset += self.sent.record_count
        base_offset = self.end_offset - self.sent.record_count
        return self.handle(events.Appended(self.sent.number, base_offset, self.now_ms))

    def fail(self, error: AppendError) -> list[events.OwnershipAction]:
        return self.handle(events.AppendFailed(self.sent.number, error, self.now_ms))

    def tick(self, now_ms: int) -> list[events.OwnershipAction]:
        self.now_ms = now_ms
        return self.handle(events.Tick())

    def write(self) -> list[events.OwnershipAction]:
        return self.handle(events.WriteWanted("records", 2))

    # Ways to a state.

    def following(self, *batches: FollowedBatch) -> Node:
        self.follow(*batches)
        return self

    def initiating(self, *batches: FollowedBatch) -> Node:
        self.following(*batches).want()
        if self.state is FOLLOWING:
            self.tick(self.now_ms + TIMING.patience_ms)
        assert self.state is INITIATING
        return self

    def sealing(self) -> Node:
        self.initiating(claimed(Writer(6, 0), 0)).give()
        assert self.state is SEALING
        return self

    def claiming(self, *batches: FollowedBatch) -> Node:
        self.initiating(*batches).give()
        assert self.state is CLAIMING
        return self

    def catching_up(self, *batches: FollowedBatch) -> Node:
        self.claiming(*batches).acknowledge()
        assert self.state is CATCHING_UP
        return self

    def read_own_claim(self) -> list[events.OwnershipAction]:
        assert isinstance(self.sent.content, Claim)
        return self.follow(FollowedBatch(self.end_offset - 1, self.end_offset - 1, OWN, self.sent.content))

    def waiting(self) -> Node:
        self.catching_up(claimed(OTHER, 0)).read_own_claim()
        assert self.state is WAITING
        return self

    def active(self) -> Node:
        self.catching_up().read_own_claim()
        assert self.state is ACTIVE
        return self

    def releasing(self) -> Node:
        self.active().want(False)
        assert self.state is RELEASING
        return self


# When it begins.


def test_it_opens_only_when_it_has_read_to_the_end() -> None:
    node = Node()
    assert node.want() == []
    assert node.handle(events.Followed((), 5, 9, 1_000)) == []
    assert node.ownership.wake_ms is None
    assert node.handle(events.Followed((), 9, 9, 1_000)) == [AskEpoch(1_000)]


def test_it_gives_an_owner_time_to_let_go() -> None:
    node = Node().following(claimed(OTHER, 0))
    assert node.want() == []
    assert node.ownership.wake_ms == 1_000 + TIMING.patience_ms
    assert node.tick(1_999) == []
    assert node.tick(2_000) == [AskEpoch(2_000)]


def test_it_opens_at_once_behind_a_release() -> None:
    node = Node().following(claimed(OTHER, 0))
    node.want()
    assert node.follow(released(OTHER, 1, was_active=False)) == [AskEpoch(1_000)]


def test_an_epoch_that_was_not_given_is_asked_for_again() -> None:
    node = Node().initiating()
    assert node.handle(events.EpochFailed()) == []
    assert node.ownership.wake_ms == 1_000 + TIMING.retry_ms
    assert node.tick(1_100) == [AskEpoch(1_100)]


def test_an_epoch_that_was_asked_for_before_is_not_used() -> None:
    node = Node().initiating()
    node.handle(events.EpochFailed())
    node.tick(1_100)
    assert node.handle(events.EpochGiven(OWN, 1_000)) == []
    assert node.state is INITIATING
    assert node.give() != []


# Claims.


def test_it_claims_under_the_epoch_that_it_was_given() -> None:
    node = Node().initiating(claimed(Writer(7, 0), 0))
    (send,) = node.give()
    assert isinstance(send, Send)
    assert (send.batch.writer, send.batch.base_sequence) == (OWN, 0)
    assert send.batch.content == Claim(ClaimKind.CLAIMED, 1, 3_000)


def test_it_seals_before_it_claims() -> None:
    node = Node().initiating(claimed(Writer(5, 8), 0), claimed(Writer(6, 0), 1))
    for producer_id in (5, 6):
        actions = node.give() if producer_id == 5 else node.acknowledge()
        assert len(actions) == 1
        assert (node.sent.writer, node.sent.base_sequence) == (Writer(producer_id, SEAL_EPOCH), 0)
        assert node.state is SEALING
    node.acknowledge()
    assert node.state is CLAIMING
    assert node.sent.writer == OWN


def test_an_id_that_came_since_it_asked_is_not_sealed() -> None:
    """Of two ids that it did not know of when it asked, it cannot say which is the newer."""
    node = Node().initiating()
    node.follow(claimed(Writer(8, 0), 0))
    assert node.give() == []
    assert node.state is INITIATING
    assert node.tick(node.now_ms + TIMING.retry_ms) == [AskEpoch(node.now_ms)]
    node.give(Writer(8, 1))
    assert node.sent.writer == Writer(8, 1)


def test_an_epoch_of_a_sealed_id_is_not_used() -> None:
    node = Node().initiating()
    node.follow(sealed(OWN.producer_id, 0))
    assert node.give() == []
    assert node.state is INITIATING
    assert node.ownership.wake_ms == node.now_ms + TIMING.retry_ms


def test_its_claim_is_acknowledged_before_it_serves() -> None:
    node = Node()
    assert Serve() not in [*node.claiming().follow(), *node.acknowledge()]
    assert node.state is CATCHING_UP
    assert node.read_own_claim() == [Serve()]
    assert node.ownership.may_answer(node.now_ms)


def test_it_reopens_when_it_finds_an_id_that_is_not_sealed() -> None:
    node = Node().catching_up()
    assert node.follow(claimed(Writer(6, 0), 0), claimed(OWN, 1, node_id=1)) == [AskEpoch(node.now_ms)]
    node.give(Writer(7, 4))
    assert node.state is SEALING


def test_it_reopens_when_a_higher_epoch_has_claimed_before_it() -> None:
    node = Node().claiming()
    node.end_offset = 1
    node.acknowledge()
    assert node.follow(claimed(Writer(7, 9), 0), claimed(OWN, 1, node_id=1)) == [AskEpoch(node.now_ms)]


def test_a_claim_carries_the_longest_lease() -> None:
    """Also that of an owner behind which another has claimed for a shorter one, knowing nothing of it."""
    node = Node().claiming(claimed(Writer(7, 0), 0, lease_ms=9_000), claimed(Writer(7, 1), 1, lease_ms=1_000))
    assert node.sent.content == Claim(ClaimKind.CLAIMED, 1, 9_000)
    node.acknowledge()
    node.read_own_claim()
    assert node.ownership.wake_ms == node.now_ms + 9_010


def test_it_reopens_to_carry_a_lease_that_it_did_not_know_of() -> None:
    node = Node().claiming()
    node.end_offset = 1
    node.acknowledge()
    node.follow(claimed(OTHER, 0, lease_ms=9_000), claimed(OWN, 1, node_id=1))
    assert node.state is INITIATING
    node.give(Writer(7, 4))
    assert node.sent.content.lease_ms == 9_000


# Whom it waits for.


def test_it_waits_out_the_lease_of_the_owner_before_it() -> None:
    node = Node().catching_up(claimed(OTHER, 0))
    acked_ms, node.now_ms = node.now_ms, node.now_ms + 50
    assert node.read_own_claim() == []
    assert node.ownership.wake_ms == acked_ms + 3_004  # A thousandth more, and one.
    assert node.tick(acked_ms + 3_003) == []
    assert not node.ownership.may_answer(node.now_ms)
    assert node.tick(acked_ms + 3_004) == [Serve()]


@pytest.mark.parametrize("was_active", [True, False])
def test_no_wait_behind_the_release_of_an_active_owner(was_active: bool) -> None:
    node = Node().catching_up(claimed(OTHER, 0), released(OTHER, 1, was_active=was_active))
    assert node.read_own_claim() == ([Serve()] if was_active else [])


@pytest.mark.parametrize("was_active", [True, False])
def test_a_release_says_whether_its_owner_was_active(was_active: bool) -> None:
    node = Node().active() if was_active else Node().waiting()
    node.want(False)
    assert node.sent.content == Claim(ClaimKind.RELEASED, 1, 3_000, was_active)


# What proves it the newest.


def test_a_lease_begins_when_the_proof_was_sent() -> None:
    node = Node().active()
    node.now_ms = 2_500
    node.follow(sent_ms=1_800)
    assert node.ownership.may_answer(1_800 + 2_999)
    assert not node.ownership.may_answer(1_800 + 3_000)
    node.follow(sent_ms=1_500)  # An older proof takes nothing away.
    assert node.ownership.may_answer(1_800 + 2_999)


def test_an_acknowledged_batch_is_a_proof() -> None:
    node = Node().active()
    node.write()
    node.handle(events.Appended(node.sent.number, 1, 2_000))
    assert node.ownership.may_answer(4_999)
    assert not node.ownership.may_answer(5_000)


def test_an_answer_that_does_not_reach_the_end_is_no_proof() -> None:
    node = Node().active()
    node.now_ms = 3_000
    node.handle(events.Followed((), 1, 2, 3_000))
    assert not node.ownership.may_answer(4_000)


def test_an_answer_that_ends_below_what_was_written_is_no_proof() -> None:
    node = Node().active()
    node.write()
    node.acknowledge()
    node.now_ms = 3_000
    node.handle(events.Followed((), 1, 1, 3_000))
    assert not node.ownership.may_answer(4_000)


def fetched_of(node: Node, leader_epoch: int, *batches: FollowedBatch) -> list[events.OwnershipAction]:
    """The whole log as the leader of this epoch shows it, asked for now."""
    return node.handle(events.Followed(batches, node.end_offset, node.end_offset, node.now_ms, leader_epoch))


def test_a_new_leader_proves_nothing_before_it_shows_a_batch_of_its_own() -> None:
    """It may not have heard yet that a claim of another, of which the one before it spoke, is kept."""
    node = Node().active()
    node.now_ms = 2_500
    actions = fetched_of(node, 1)
    assert not node.ownership.may_answer(node.now_ms + 2_999)
    assert [each.batch.content for each in actions if isinstance(each, Send)] == [node.sent.content]
    assert node.sent.content.kind is ClaimKind.CLAIMED, "it says again who it is, and sees what comes before"
    node.now_ms = 3_000
    assert fetched_of(node, 1) == [], "once"
    said = node.sent
    node.acknowledge()
    assert node.ownership.may_answer(5_999)
    node.now_ms = 4_000
    fetched_of(node, 1)
    assert not node.ownership.may_answer(6_000), "its batch is not shown yet"
    at = node.end_offset - 1
    fetched_of(node, 1, FollowedBatch(at, at, OWN, said.content, 1))
    assert node.ownership.may_answer(6_999)
    node.now_ms = 5_000
    assert fetched_of(node, 1) == []
    assert node.ownership.may_answer(7_999)
    node.now_ms = 6_000
    assert fetched_of(node, 0) == []
    assert not node.ownership.may_answer(8_000), "a leader of the past proves nothing"


def test_whom_a_new_leader_refuses_was_overtaken() -> None:
    node = Node().active()
    fetched_of(node, 1)
    assert node.fail(AppendError.FENCED) == [Drop()]
    assert node.state is FOLLOWING


def test_a_lease_that_has_lapsed_comes_back() -> None:
    node = Node().active()
    node.now_ms = 60_000
    assert not node.ownership.may_answer(60_000)
    assert node.ownership.can_write(60_000)
    node.follow()
    assert node.ownership.may_answer(60_000)


# What it writes.


def test_it_writes_one_batch_at_a_time() -> None:
    node = Node().active()
    node.write()
    assert (node.sent.base_sequence, node.sent.writer) == (1, OWN)
    assert not node.ownership.can_write(node.now_ms)
    assert node.acknowledge() == [Written(node.sent.number, 3)]
    node.write()
    assert node.sent.base_sequence == 3


def test_a_batch_of_unknown_outcome_is_sent_again_as_it_was() -> None:
    node = Node().active()
    node.write()
    batch = node.sent
    assert node.fail(AppendError.RETRIABLE) == []
    assert not node.ownership.can_write(node.now_ms)
    assert node.tick(node.now_ms + TIMING.retry_ms) == [Send(batch, node.now_ms)]
    assert node.acknowledge() == [Written(batch.number, 3)]
    assert node.handle(events.Appended(batch.number, 1, node.now_ms)) == []  # The first attempt's, late.


def test_it_reopens_when_it_is_out_of_sequence() -> None:
    node = Node().active()
    node.write()
    assert node.fail(AppendError.OUT_OF_SEQUENCE) == [Drop()]
    assert node.state is INITIATING
    assert node.tick(node.now_ms + TIMING.retry_ms - 1) == [], "a claim that is refused may be so again"
    assert node.tick(node.now_ms + 1) == [AskEpoch(node.now_ms)]


def test_it_begins_anew_when_the_log_has_lost_what_it_acknowledged() -> None:
    node = Node().active()
    node.write()
    assert node.handle(events.Appended(node.sent.number, 0, node.now_ms)) == [Drop(), AskEpoch(node.now_ms)]


def test_an_idle_owner_keeps_its_epoch_alive() -> None:
    node = Node().active()
    claim = node.sent.content
    assert node.ownership.wake_ms == 1_000 + TIMING.keep_alive_ms
    node.tick(1_000 + TIMING.keep_alive_ms)
    assert (node.sent.content, node.sent.base_sequence) == (claim, 1)
    assert node.acknowledge() == []


@pytest.mark.parametrize("way", ["active", "waiting", "claiming", "releasing"])
def test_an_outlived_epoch_is_not_used(way: str) -> None:
    node = getattr(Node(), way)()
    late_ms = node.ownership.lease.outlived_at_ms
    assert not node.ownership.can_write(late_ms)
    node.now_ms = late_ms
    actions = node.fail(AppendError.RETRIABLE)
    assert not any(isinstance(action, Send) for action in actions)
    assert node.state is (FOLLOWING if way == "releasing" else INITIATING)


# How it loses.


@pytest.mark.parametrize("way", ["catching_up", "waiting", "active", "releasing"])
def test_it_loses_to_a_claim_behind_its_own(way: str) -> None:
    node = getattr(Node(), way)()
    actions = node.follow(claimed(Writer(7, 4), node.end_offset))
    assert actions == ([Drop()] if way in ("active", "releasing") else [])
    assert node.state is FOLLOWING


def test_it_loses_when_its_id_is_sealed() -> None:
    assert Node().active().follow(sealed(OWN.producer_id, 1)) == [Drop()]


def test_it_loses_when_it_is_fenced() -> None:
    node = Node().active()
    node.write()
    assert node.fail(AppendError.FENCED) == [Drop()]


def test_who_has_lost_waits_for_newer_advice() -> None:
    node = Node().claiming()
    node.fail(AppendError.FENCED)
    assert node.ownership.wake_ms == node.now_ms + TIMING.reclaim_ms
    assert node.tick(node.now_ms + TIMING.reclaim_ms) == [AskEpoch(node.now_ms)]
    node.give()
    node.fail(AppendError.FENCED)
    assert node.want() == [AskEpoch(node.now_ms)]


def test_what_another_writes_behind_its_claim_is_foreign() -> None:
    node = Node().active()
    stranger = FollowedBatch(1, 1, Writer(9, 0), None)
    assert node.follow(stranger) == [events.ForeignBatch(stranger)]


def test_what_a_newer_owner_has_written_is_not_foreign() -> None:
    node = Node().active()
    newer = Writer(7, 4)
    assert node.follow(claimed(newer, 1), FollowedBatch(2, 2, newer, None)) == [Drop()]


# How it lets go.


def test_a_release_is_written_behind_what_is_on_its_way() -> None:
    node = Node().active()
    node.write()
    assert node.want(False) == [Retire()]
    written = node.acknowledge()
    assert written == [Written(2, 3), Send(node.sent, node.now_ms)]
    assert node.sent.content == Claim(ClaimKind.RELEASED, 1, 3_000, was_active=True)
    assert node.acknowledge() == [Drop()]
    assert node.state is FOLLOWING


def test_a_claim_on_its_way_has_its_outcome_before_it_is_released() -> None:
    node = Node().claiming()
    assert node.want(False) == []
    node.acknowledge()
    assert node.state is RELEASING
    assert node.sent.content.kind is ClaimKind.RELEASED


@pytest.mark.parametrize("way", ["initiating", "sealing"])
def test_who_has_not_claimed_just_stops(way: str) -> None:
    node = getattr(Node(), way)()
    assert node.want(False) == []
    assert node.state is FOLLOWING


# The table.

WAYS = {
    FOLLOWING: Node.following,
    INITIATING: Node.initiating,
    SEALING: Node.sealing,
    CLAIMING: Node.claiming,
    CATCHING_UP: Node.catching_up,
    WAITING: Node.waiting,
    ACTIVE: Node.active,
    RELEASING: Node.releasing,
}
assert WAYS.keys() == set(OwnershipState)


@pytest.mark.parametrize("state", OwnershipState)
def test_of_a_log_that_was_lost_nothing_is_known_any_more(state: OwnershipState) -> None:
    """It is read as if for the first time: a claim at an offset that was read before counts again."""
    node = WAYS[state](Node()).following(claimed(Writer(6, 4), 90))
    assert node.handle(events.LogLost()).count(Drop()) == 1
    assert node.state is FOLLOWING
    assert node.ownership.appender.in_flight is None
    assert node.ownership.book.unsealed() == []
    node.end_offset = 0
    node.want()
    assert node.state is FOLLOWING, "it has not read it yet"
    node.follow(claimed(OTHER, 0))
    assert node.ownership.book.unsealed() == [OTHER.producer_id]


@pytest.mark.parametrize("state", OwnershipState)
@pytest.mark.parametrize("trigger", OwnershipTrigger)
def test_a_state_moves_as_the_table_says(state: OwnershipState, trigger: OwnershipTrigger) -> None:
    node = WAYS[state](Node())
    if (state, trigger) in TRANSITIONS:
        node.ownership._move(trigger)
        assert node.state is TRANSITIONS[state, trigger]
    else:
        with pytest.raises(KeyError):
            node.ownership._move(trigger)
