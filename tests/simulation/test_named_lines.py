"""The lines of docs/kafka.md that one healthy broker cannot be brought to, each played in the simulation.

Here a test commands the disk: it holds, fails or hangs. A shard that is lost - in Kafka because
another broker leads it now, here because its disk failed - is read again, under the next life of its runner:
what Kafka calls an epoch. Time is virtual, and every step is watched by the witness.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from coordinator.groups.classic.states import PREPARING_REBALANCE
from coordinator.groups.group_settings import NEW_MEMBER_JOIN_TIMEOUT_MS
from coordinator.groups.record_codec import decode_record
from coordinator.runtime.outages import TRY_AGAIN_MS
from coordinator.runtime.shard_states import ShardState
from coordinator.server.find_coordinator import FindCoordinator
from coordinator.topics.names import GROUP_METADATA_TOPIC
from coordinator.topics.placement import Node, Placement
from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.records.records import parse_header, read_records
from tests.simulation.call import Call
from tests.simulation.disk import BROKEN
from tests.simulation.server import COMMIT_TIMEOUT_MS
from tests.simulation.simulation import quiet_logs
from tests.simulation.stage import OTHER, SESSION_MS, G, Stage


def committed(call: Call) -> ErrorCode:
    return ErrorCode(call.answer.topics[0].partitions[0].error_code)


@pytest.fixture
def stage() -> Iterator[Stage]:
    with quiet_logs():
        yield Stage()


def test_3_27_a_new_member_parked_in_join_for_five_minutes_is_removed(stage: Stage) -> None:
    (leader,) = stage.stable(None, rebalance_ms=NEW_MEMBER_JOIN_TIMEOUT_MS * 2)
    newcomer = stage.join()
    parked_since_ms = stage.timeline.now_ms
    while newcomer.answer is None:  # The leader lives, and takes its time.
        assert stage.heartbeat(leader) is ErrorCode.REBALANCE_IN_PROGRESS
        stage.run(3_000)
    assert newcomer.answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    waited_ms = stage.timeline.now_ms - parked_since_ms
    assert NEW_MEMBER_JOIN_TIMEOUT_MS <= waited_ms < NEW_MEMBER_JOIN_TIMEOUT_MS + 5_000
    assert stage.group().members.keys() == {leader.member_id}


def test_3_38_a_new_id_that_cannot_be_stored_leaves_the_old_one_as_it_was(stage: Stage) -> None:
    (before,) = stage.stable("one")
    stage.hold_disk()
    returning = stage.join(instance_id="one")
    assert [returning.answer] == [None], "not given before it is stored"
    stage.run(COMMIT_TIMEOUT_MS)
    assert (returning.answer.error_code, returning.answer.member_id) == (15, "")
    assert stage.heartbeat(before) is ErrorCode.NONE


def test_3_38_the_old_id_is_back_when_the_disk_failed(stage: Stage) -> None:
    (before,) = stage.stable("one")
    stage.hold_disk()
    returning = stage.join(instance_id="one")
    stage.release_disk(BROKEN)
    assert returning.answer.error_code == ErrorCode.NOT_COORDINATOR
    assert stage.group().static_members == {"one": before.member_id}
    assert stage.heartbeat(before) is ErrorCode.NONE


def test_3_49_an_assignment_that_is_not_stored_is_given_to_no_member(stage: Stage) -> None:
    leader, follower = stage.joined(2)
    stage.hold_disk()
    syncs = [stage.sync(follower), stage.sync(leader)]
    stage.run(COMMIT_TIMEOUT_MS)
    assert [(call.answer.error_code, call.answer.assignment) for call in syncs] == [(15, b"")] * 2
    assert stage.group().state is PREPARING_REBALANCE


def test_3_50_the_store_of_a_generation_that_has_passed_changes_nothing(stage: Stage) -> None:
    (leader,) = stage.joined(1)
    stage.hold_disk()
    storing = stage.sync(leader)
    newcomer = stage.join()
    assert storing.answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    stage.release_disk()
    assert stage.group().state is PREPARING_REBALANCE
    assert newcomer.answer is None


def test_3_69_while_loading_heartbeats_are_fine_syncs_join_again_and_all_else_waits(stage: Stage) -> None:
    """SyncGroup is the one difference from Kafka 4: Java's classic client takes 14 there for fatal."""
    (leader,) = stage.stable(None)
    stage.disk.loading_ms = 1_000
    stage.server.crash()
    stage.server.start()
    assert stage.heartbeat(leader) is ErrorCode.NONE
    assert stage.sync(leader).answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert stage.join(leader.member_id).answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert committed(stage.commit(1)) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert stage.described().error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    stage.run(1_000)
    assert stage.heartbeat(leader) is ErrorCode.NONE
    assert stage.described().group_state == "Stable"


def test_3_70_all_that_wait_on_a_shard_that_is_lost_get_16(stage: Stage) -> None:
    (leader,) = stage.stable(None)
    joining = stage.join()  # The leader has yet to join again.
    other_leader, other_follower = stage.joined(2, OTHER)
    syncing = stage.sync(other_follower, OTHER)
    stage.hold_disk()
    storing = stage.sync(other_leader, OTHER)
    writing = stage.commit(1, "solo")
    stage.disk.loading_ms = 1_000
    stage.release_disk(BROKEN)
    errors = [call.answer.error_code for call in (joining, syncing, storing)] + [committed(writing)]
    assert errors == [ErrorCode.NOT_COORDINATOR] * 4
    assert stage.runner.shard is None, "groups, sessions and rebalances are gone with it"
    stage.run(SESSION_MS)
    assert stage.heartbeat(leader) is ErrorCode.NONE, "a full session from the load on, not from before"


def test_3_71_a_shard_that_cannot_be_read_answers_16_until_it_can(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a client that looks for its coordinator is sent here all the while: there is no other."""
    (leader,) = stage.stable(None)
    log = stage.server.logs[0]
    with monkeypatch.context() as broken:
        broken.setattr(log, "batches", _unreadable)
        stage.server.crash()
        stage.server.start()
        stage.run()
        assert stage.runner.state is ShardState.FAILED
        assert stage.heartbeat(leader) is ErrorCode.NOT_COORDINATOR
        assert stage.join().answer.error_code == ErrorCode.NOT_COORDINATOR
        assert stage.described().error_code == ErrorCode.NOT_COORDINATOR
        assert coordinator_of(G) == (7, "localhost", 9092)
    stage.run(TRY_AGAIN_MS)
    assert stage.heartbeat(leader) is ErrorCode.NONE


def test_3_72_news_of_a_life_that_has_ended_is_ignored(stage: Stage) -> None:
    """A flush, and timers, that belong to the shard as it was before it was lost and read again."""
    (leader,) = stage.stable(None)
    stage.hold_disk()
    stage.commit(1)
    (stale,) = stage.disk.waiting
    stage.disk.waiting.clear()
    stage.runner.durable_log.fail(BROKEN)
    stage.run()
    later = stage.commit(2)
    stale(None)
    stage.run()
    assert later.answer is None, "the flush that ended was not its own"
    stage.run(SESSION_MS - 1_000)
    assert leader.member_id in stage.group().members, "its session began again with the load"
    stage.release_disk()


def test_3_73_a_coordinator_that_stops_takes_nothing_on_and_fails_who_is_parked(stage: Stage) -> None:
    (leader,) = stage.stable(None)
    joining = stage.join()
    stage.hold_disk()
    writing = stage.commit(1)
    assert stage.server.runtime is not None
    stage.server.runtime.stop()
    stage.run()
    assert joining.answer.error_code == ErrorCode.NOT_COORDINATOR
    assert committed(writing) is ErrorCode.NONE, "what was appended is flushed, and acknowledged"
    assert stage.heartbeat(leader) is ErrorCode.NOT_COORDINATOR
    assert stage.join().answer.error_code == ErrorCode.NOT_COORDINATOR


def test_3_85_two_groups_in_a_batch_that_fails_are_both_as_they_were(stage: Stage) -> None:
    before = [stage.commit(1, G), stage.commit(1, OTHER)]
    stage.hold_disk()
    together = [stage.commit(2, G, runs=False), stage.commit(2, OTHER, runs=False)]
    stage.run()
    (batch,) = stage.server.logs[0].staged
    assert parse_header(batch).record_count == 2
    stage.release_disk(BROKEN)
    assert [committed(call) for call in before + together] == [0, 0, 16, 16]
    assert stage.runner.shard is not None
    kept = [stage.runner.shard.offsets.get(group_id, "orders", 0) for group_id in (G, OTHER)]
    assert [offset and offset.offset for offset in kept] == [1, 1]


def test_3_86_answers_leave_in_the_order_of_the_log(stage: Stage) -> None:
    """Whichever client asked, for whichever group, and however the commits fell into batches."""
    answered: list[int] = []
    stage.hold_disk()
    for offset in range(20):
        group_id = Random(offset).choice((G, OTHER, "solo"))
        stage.commit(offset, group_id, runs=offset % 3 == 0, then=answered.append)
    while stage.disk.waiting:
        stage.release_disk()
    assert answered == list(range(20))
    log = stage.server.logs[0].durable
    in_log = [decode_record(r.key, r.value) for data in log for r in read_records(data, parse_header(data))]
    values = [record.value for record in in_log if record is not None]
    assert [value.offset for value in values if value is not None] == answered
    assert None not in values


def test_3_88_a_write_that_takes_longer_than_its_timeout_is_answered_15(stage: Stage) -> None:
    stage.hold_disk()
    writing = stage.commit(1)
    stage.run(COMMIT_TIMEOUT_MS - 100)
    assert writing.answer is None
    stage.run(100)
    assert committed(writing) is ErrorCode.COORDINATOR_NOT_AVAILABLE


def _unreadable(*_: int) -> Iterator[Any]:
    raise BROKEN


def coordinator_of(group_id: str) -> tuple[int, str, int]:
    """Where FindCoordinator sends a client."""
    answers: list[Any] = []
    asked = SimpleNamespace(api_version=4, listener="PLAINTEXT", reply=answers.append)
    placement = Placement(Node(7, lambda _: ("localhost", 9092)))
    find = FindCoordinator(placement, {GROUP_METADATA_TOPIC: 1})
    find(FindCoordinatorRequest(coordinator_keys=[group_id]), asked)  # type: ignore[arg-type]
    (found,) = answers[0].coordinators
    return found.node_id, found.host, found.port
