"""Shards that are opened and closed while a node runs: who is answered what, and when a log is let go."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.effects import MarkersWanted
from coordinator.runtime.background import want_markers
from coordinator.runtime.outages import TRY_AGAIN_MS
from coordinator.runtime.shard_states import ACTIVE, CLOSED, ELSEWHERE, LOADING
from coordinator.topics.names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from coordinator.topics.placement import NO_LEADER, Node, Placement
from coordinator.upkeep.local_shards import LocalShards
from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.list_transactions import ListTransactionsRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from protocol.records.control import Marker
from tests.simulation.call import Call
from tests.simulation.disk import BROKEN, NO_ROOM, SimulatedLog
from tests.simulation.stage import OTHER, G, Stage

OWN, ELSE = 1, 2
GROUPS, TRANSACTIONS = (GROUP_METADATA_TOPIC, 0), (TRANSACTION_STATE_TOPIC, 0)
NOT_COORDINATOR = ErrorCode.NOT_COORDINATOR


class MovingStage(Stage):
    """A node whose shards a test moves away and back; `closed` are those that were reported closed."""

    def __init__(self) -> None:
        super().__init__()
        runtime = self.server.runtime
        assert runtime is not None
        self.runtime = runtime
        self.placement = Placement(Node(OWN, lambda _: ("localhost", 9092)))
        self.closed: list[tuple[str, int]] = []
        shards = LocalShards(runtime, self.placement)
        shards.on_closed.append(lambda topic, partition: self.closed.append((topic, partition)))

    def move(self, node_id: int, shard: tuple[str, int] = GROUPS) -> None:
        self.placement.place(*shard, node_id)

    def move_away_and_back(self) -> None:
        self.move(ELSE)
        self.run()
        self.move(OWN)
        self.run()


@pytest.fixture
def stage() -> MovingStage:
    return MovingStage()


def error_of(call: Call) -> ErrorCode | None:
    """The error that the request was answered with, None without an answer."""
    answer = call.answer
    if answer is None:
        return None
    if isinstance(call.request, OffsetCommitRequest):
        return ErrorCode(answer.topics[0].partitions[0].error_code)
    return ErrorCode(answer.error_code)


def fetched(stage: Stage, group_id: str = OTHER) -> int:
    topic = OffsetFetchRequestTopic(name="orders", partition_indexes=[0])
    answer = stage.ask(OffsetFetchRequest(group_id=group_id, topics=[topic]), 7)
    assert answer.error_code == ErrorCode.NONE
    return int(answer.topics[0].partitions[0].committed_offset)


# Closing.


@pytest.mark.parametrize("node_id", [ELSE, NO_LEADER])
def test_all_that_is_parked_and_all_that_comes_is_answered_not_coordinator(
    stage: MovingStage, node_id: int
) -> None:
    (joined,) = stage.stable(None)
    parked = stage.join()
    assert parked.answer is None
    stage.move(node_id)
    assert error_of(parked) is NOT_COORDINATOR
    assert stage.heartbeat(joined) is NOT_COORDINATOR
    assert error_of(stage.commit(1)) is NOT_COORDINATOR
    assert error_of(stage.join()) is NOT_COORDINATOR
    assert stage.described().error_code == NOT_COORDINATOR


def test_what_waits_for_the_disk_is_answered_at_once_and_the_log_let_go_when_it_is_idle(
    stage: MovingStage,
) -> None:
    """What was being flushed may count all the same: its client does not know."""
    stage.hold_disk()
    held = stage.commit(5)
    assert held.answer is None
    stage.move(ELSE)
    assert error_of(held) is NOT_COORDINATOR
    stage.run(10_000)
    assert stage.closed == []
    stage.release_disk()
    assert stage.closed == [GROUPS]
    stage.move(OWN)
    stage.run()
    assert fetched(stage) == 5


def test_a_flush_that_fails_meanwhile_ends_the_wait_too(stage: MovingStage) -> None:
    stage.commit(4)
    stage.hold_disk()
    stage.commit(5)
    stage.move(ELSE)
    stage.release_disk(BROKEN)
    assert (stage.closed, stage.runner.state) == ([GROUPS], ELSEWHERE)
    stage.move(OWN)
    stage.run()
    assert (fetched(stage), stage.runner.state) == (4, ACTIVE)


def test_what_was_gathered_in_this_turn_is_dropped(stage: MovingStage) -> None:
    stage.commit(4)
    gathered = stage.commit(5, runs=False)
    while gathered.answer is None and not stage.runner._open_batch._count:
        stage.timeline.step()
    stage.move(ELSE)
    assert error_of(gathered) is NOT_COORDINATOR
    stage.run()
    stage.move(OWN)
    stage.run()
    assert fetched(stage) == 4


def test_a_shard_that_is_being_loaded_is_let_go_when_its_load_has_ended(stage: MovingStage) -> None:
    stage.commit(5)
    stage.disk.loading_ms = 500
    stage.move(ELSE)
    stage.move(OWN)
    stage.run(100)
    assert (stage.runner.state, stage.closed) == (LOADING, [GROUPS])
    stage.move(ELSE)
    stage.run(300)
    assert stage.closed == [GROUPS]
    stage.run(200)
    assert (stage.runner.state, stage.closed) == (ELSEWHERE, [GROUPS, GROUPS])


def test_a_log_that_is_being_cut_back_is_let_go_when_that_has_ended(stage: MovingStage) -> None:
    """Else the cut would take away what the next leader has appended by then."""
    stage.disk.loading_ms = 500
    stage.hold_disk()
    stage.commit(5)
    stage.release_disk(BROKEN)
    assert stage.runner.state is LOADING
    stage.move(ELSE)
    stage.run(300)
    assert stage.closed == []
    stage.run(300)
    assert (stage.runner.state, stage.closed) == (ELSEWHERE, [GROUPS])


class BehindLog(SimulatedLog):
    """A log of which something is in the journal alone, until it is cut back and the disk takes it."""

    is_written_behind = True
    has_behind = True

    def want_written(self) -> None:
        """What is behind is written when it is cut back."""

    def fail_back(self) -> None:
        super().fail_back()
        if self._disk.is_full:
            self.failure = NO_ROOM
            raise NO_ROOM
        self.has_behind = False


def failed_behind(stage: MovingStage) -> None:
    """Let the shard's log fail with something behind it."""
    log: Any = stage.runner.log
    log.__class__ = BehindLog
    stage.hold_disk()
    stage.commit(5)
    stage.release_disk(NO_ROOM if stage.disk.is_full else BROKEN)


def test_a_log_that_is_written_behind_by_its_cutting_back_is_let_go(stage: MovingStage) -> None:
    stage.disk.loading_ms = 500
    failed_behind(stage)
    assert stage.runner.state is LOADING
    stage.move(ELSE)
    stage.run(300)
    assert stage.closed == []
    stage.run(300)
    assert (stage.runner.state, stage.closed) == (ELSEWHERE, [GROUPS])


def test_a_log_that_cannot_be_written_behind_is_let_go_once_it_can(stage: MovingStage) -> None:
    """Until then nobody else may use it, and nobody but its last leader can write it."""
    stage.disk.is_full = True
    failed_behind(stage)
    stage.move(ELSE)
    stage.run(30_000)
    assert stage.closed == []
    stage.disk.is_full = False
    stage.run(10_000)
    assert (stage.runner.state, stage.closed) == (ELSEWHERE, [GROUPS])
    stage.move(OWN)
    stage.run()
    assert (stage.runner.state, stage.closed) == (ACTIVE, [GROUPS])


def test_a_flush_of_a_former_epoch_is_waited_for_as_well(stage: MovingStage) -> None:
    """A bug ended the epoch, so the loop has forgotten the flush, which a thread still carries out."""
    stage.hold_disk()
    stage.commit(5)
    stage.runner.durable_log.fail(ZeroDivisionError("ours"))
    stage.run()
    assert stage.runner.state is ACTIVE
    stage.move(ELSE)
    stage.run()
    assert stage.closed == []
    stage.release_disk()
    assert stage.closed == [GROUPS]


def test_no_timer_of_a_closed_shard_is_left(stage: MovingStage) -> None:
    stage.stable(None)
    stage.hold_disk()
    stage.commit(5)
    stage.move(ELSE, TRANSACTIONS)
    stage.move(ELSE)
    assert stage.runtime.wheel.next_deadline_ms() is None


def test_a_shard_is_closed_while_the_disk_is_full(stage: MovingStage) -> None:
    stage.commit(4)
    stage.hold_disk()
    stage.commit(5)
    stage.disk.is_full = True
    stage.release_disk(NO_ROOM)
    stage.move(ELSE)
    stage.run()
    assert stage.closed == [GROUPS]
    stage.disk.is_full = False
    stage.run(5_000)  # The log hears that there is space, and leaves it at that.
    assert stage.runner.state is ELSEWHERE
    stage.move(OWN)
    stage.run()
    assert fetched(stage) == 4
    assert error_of(stage.commit(6)) is ErrorCode.NONE


def test_of_several_moves_the_last_counts(stage: MovingStage) -> None:
    stage.hold_disk()
    stage.commit(5)
    for node_id in (ELSE, OWN, ELSE, OWN):
        stage.move(node_id)
    stage.run()
    assert (stage.closed, stage.runner.state) == ([], ELSEWHERE)
    stage.release_disk()
    assert (stage.closed, stage.runner.state) == ([], ACTIVE), "nobody else may open it"
    assert fetched(stage) == 5


def test_a_node_stops_while_it_closes_a_shard(stage: MovingStage) -> None:
    stage.hold_disk()
    stage.commit(5)
    stage.move(ELSE)
    for runner in (*stage.runtime.runners, *stage.runtime.transaction_runners):
        runner.stop()
    stage.release_disk()
    stage.move(OWN)
    stage.run()
    assert stage.runner.state is CLOSED


def test_a_shard_that_is_closed_already_is_reported_again(stage: MovingStage) -> None:
    """Whoever places it elsewhere hears in any case that it is free: it may never have been opened here."""
    stage.move(ELSE)
    stage.move(NO_LEADER)
    assert stage.closed == [GROUPS, GROUPS]


# Opening.


def test_a_shard_that_is_opened_loads_first(stage: MovingStage) -> None:
    (joined,) = stage.stable(None)
    stage.commit(5)
    stage.move(ELSE)
    stage.run()
    stage.disk.loading_ms = 500
    stage.move(OWN)
    assert stage.heartbeat(joined) is ErrorCode.NONE
    assert error_of(stage.commit(6)) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    stage.run(500)
    assert fetched(stage) == 5
    assert stage.heartbeat(joined) is ErrorCode.NONE
    assert error_of(stage.commit(7)) is ErrorCode.NONE


def test_what_is_cut_when_a_shard_is_opened(stage: MovingStage) -> None:
    """A marker that was staged behind a flush, and that nobody has written."""
    stage.hold_disk()
    stage.commit(5)
    marker = Marker(producer_id=7, producer_epoch=0, coordinator_epoch=0, is_commit=True)
    outcomes: list[ErrorCode] = []
    stage.server.runners[0].write_marker(marker, outcomes.append)
    stage.move(ELSE)
    assert outcomes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    stage.release_disk()
    log = stage.runner.log
    before = (log.next_offset, log.durable_offset)
    stage.move(OWN)
    stage.run()
    assert (before, log.next_offset, log.durable_offset) == ((2, 1), 1, 1)
    assert error_of(stage.commit(6)) is ErrorCode.NONE


def test_members_get_full_sessions_where_their_shard_is_opened(stage: MovingStage) -> None:
    (joined,) = stage.stable(None)
    stage.run(9_000)
    stage.move_away_and_back()
    stage.run(9_000)
    assert stage.heartbeat(joined) is ErrorCode.NONE


def test_a_topic_that_goes_while_a_shard_is_elsewhere_is_left_to_the_load(stage: MovingStage) -> None:
    """Its event is not kept: else it would take the offsets of a topic that has come again since."""
    stage.commit(5)
    stage.move(ELSE)
    stage.run()
    topic_id = stage.server.topics.topic_id("orders")
    assert topic_id is not None
    stage.runner.topic_deleted("orders", topic_id)
    stage.move(OWN)
    stage.run()
    assert fetched(stage) == 5


def test_a_node_loads_at_its_start_what_it_leads_alone() -> None:
    stage = Stage()
    runtime = stage.server.runtime
    assert runtime is not None
    placement = Placement(Node(OWN, lambda _: ("localhost", 9092)))
    placement.place(*GROUPS, ELSE)
    groups = [stage.server._new_runner(log) for log in stage.server.logs]
    LocalShards(runtime, placement).open(groups, [])
    stage.run()
    states = [groups[0].state]
    placement.place(*GROUPS, OWN)
    stage.run()
    assert [*states, groups[0].state] == [ELSEWHERE, ACTIVE]


def test_what_a_former_life_left_behind_is_written_before_another_node_may_lead() -> None:
    """A start that cannot write what its journal has of a shard must not say that the shard is free."""
    stage = Stage()
    runtime = stage.server.runtime
    assert runtime is not None
    placement = Placement(Node(OWN, lambda _: ("localhost", 9092)))
    placement.place(*GROUPS, ELSE)
    groups = [stage.server._new_runner(log) for log in stage.server.logs]
    log: Any = groups[0].log
    log.__class__, log.failure = BehindLog, BROKEN
    closed: list[tuple[str, int]] = []
    shards = LocalShards(runtime, placement)
    shards.on_closed.append(lambda topic, partition: closed.append((topic, partition)))
    shards.open(groups, [])
    placement.place(*GROUPS, ELSE)
    assert closed == []
    stage.run(TRY_AGAIN_MS + 500)
    assert closed == [GROUPS]


# What is asked of all shards.


def test_groups_of_shards_elsewhere_are_not_listed(stage: MovingStage) -> None:
    stage.stable(None)
    listed = stage.ask(ListGroupsRequest(), 4)
    assert (listed.error_code, [each.group_id for each in listed.groups]) == (0, [G])
    stage.move(ELSE)
    listed = stage.ask(ListGroupsRequest(), 4)
    assert (listed.error_code, listed.groups) == (0, [])


def test_transactions_of_a_shard_elsewhere_are_refused_and_not_listed(stage: MovingStage) -> None:
    init = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000)
    producer = stage.ask(init, 4)
    assert producer.error_code == 0
    assert len(stage.ask(ListTransactionsRequest(), 0).transaction_states) == 1
    stage.move(ELSE, TRANSACTIONS)
    ids = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
    add = AddOffsetsToTxnRequest(transactional_id="t", group_id=G, **ids)
    end = EndTxnRequest(transactional_id="t", committed=True, **ids)
    for request, version in ((init, 4), (add, 3), (end, 3)):
        assert stage.ask(request, version).error_code == NOT_COORDINATOR
    (described,) = stage.ask(DescribeTransactionsRequest(transactional_ids=["t"]), 0).transaction_states
    assert described.error_code == NOT_COORDINATOR
    listed = stage.ask(ListTransactionsRequest(), 0)
    assert (listed.error_code, listed.transaction_states) == (0, [])
    assert error_of(stage.commit(5)) is ErrorCode.NONE, "groups are placed apart"


def test_a_marker_for_a_shard_elsewhere_is_to_be_tried_again(stage: MovingStage) -> None:
    stage.move(ELSE)
    outcomes: list[Any] = []
    runner = stage.server.runners[0]
    runner.write_marker(
        Marker(producer_id=7, producer_epoch=0, coordinator_epoch=0, is_commit=True), outcomes.append
    )
    assert outcomes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_markers_of_a_shard_that_was_closed_are_not_wanted_any_more(stage: MovingStage) -> None:
    asked: list[Any] = []
    stage.runtime.write_markers = lambda wanted, done, is_wanted: asked.append((done, is_wanted))
    runner = stage.runtime.transaction_runners[0]
    marker = Marker(producer_id=7, producer_epoch=0, coordinator_epoch=0, is_commit=True)
    want_markers(runner, runner._host, runner.durable_log.epoch, MarkersWanted(marker, (), "t"))
    ((_, is_wanted),) = asked
    assert is_wanted()
    stage.move(ELSE, TRANSACTIONS)
    assert not is_wanted()
