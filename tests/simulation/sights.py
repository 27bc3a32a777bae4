"""Notices rare events in what the witness sees, and notes their marks; never says that anything is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinator.effects import AppendFinished, Event, RequestReceived, Result, TimerFired, TopicDeleted
from coordinator.groups.classic.group import AssignmentStored, Group
from coordinator.groups.classic.states import COMPLETING_REBALANCE, PREPARING_REBALANCE, STABLE
from coordinator.groups.classic.timers import JoinTimer, OffsetExpiryTimer
from coordinator.offsets.committed import same_topic
from coordinator.shard.shard import Shard
from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_delete import OffsetDeleteRequest
from protocol.messages.offset_fetch import OffsetFetchRequest
from protocol.messages.sync_group import SyncGroupRequest
from tests.simulation.cuts import Cuts, Way
from tests.simulation.marks import CAUSES, Marks
from tests.simulation.profile import CONNECT

if TYPE_CHECKING:
    from tests.simulation.accounts import Before
    from tests.simulation.call import Call
    from tests.simulation.server import Server
    from tests.simulation.witness import Witness

FENCED = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
LOST_SHARD = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.UNKNOWN_SERVER_ERROR)


class Sights:
    """One for a whole simulation."""

    def __init__(self, witness: Witness, marks: Marks) -> None:
        self.cuts = Cuts()
        self._witness = witness
        self._marks = marks
        self._loaded = 0  # Shards in this life.

    @property
    def _server(self) -> Server:
        assert self._witness.server is not None
        return self._witness.server

    # Requests and their answers.

    def on_read(self, call: Call) -> None:
        if isinstance(call.request, OffsetFetchRequest):
            self._look_for_former_topics(call.request)

    def _look_for_former_topics(self, request: OffsetFetchRequest) -> None:
        for group in request.groups:
            shard = self._server.runner_for(group.group_id).shard
            for topic in group.topics or ():
                name = self._server.topics.topic_name(topic.topic_id)
                if shard is None or name is None:
                    continue
                stored = shard.offsets.of_topic(group.group_id, name)
                found = [committed for p in topic.partition_indexes if (committed := stored.get(p))]
                if not all(same_topic(committed.topic_id, topic.topic_id) for committed in found):
                    self._marks.reach("former_topics_offset_hidden")

    def on_answer(self, call: Call, response: Any) -> None:
        if not call.is_open:
            self._marks.reach("answered_after_hang_up")
        cuts, client_id = self.cuts, call.client_id
        if cuts.holds_up(client_id, Way.ANSWERS) and not cuts.holds_up(client_id, Way.REQUESTS):
            self._marks.reach("one_sided_cut_lost_an_answer")
        match call.request:
            case JoinGroupRequest():
                self._on_join_answer(call, response)
            case SyncGroupRequest():
                self._on_sync_answer(call, response)
            case HeartbeatRequest() if self._is_loading(call):
                self._marks.reach("heartbeat_while_loading")
            case OffsetCommitRequest():
                self._on_commit_answer(call, response)
            case OffsetFetchRequest():
                self._on_fetch_answer(response)
            case OffsetDeleteRequest():
                self._on_offset_delete_answer(response)
            case DeleteGroupsRequest() if not all(result.error_code for result in response.results):
                self._marks.reach("group_deleted")
            case InitProducerIdRequest() | AddOffsetsToTxnRequest() | EndTxnRequest() if (
                response.error_code in FENCED
            ):
                self._marks.reach("producer_fenced")

    def _is_loading(self, call: Call) -> bool:
        return self._server.runner_for(call.request.group_id).shard is None

    def _on_join_answer(self, call: Call, response: Any) -> None:
        was_parked = self._witness.deadlines.is_parked(call)
        if response.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED:
            self._marks.reach("join_refused_as_full")
        if was_parked and response.error_code == ErrorCode.FENCED_INSTANCE_ID:
            self._marks.reach("fenced_while_join_parked")
        if was_parked and response.error_code in LOST_SHARD and self._is_loading(call):
            self._marks.reach("shard_failed_while_join_parked")
        if response.skip_assignment:
            self._marks.reach("leader_skips_assignment")

    def _on_sync_answer(self, call: Call, response: Any) -> None:
        was_parked = self._witness.deadlines.is_parked(call)
        if was_parked and response.error_code == ErrorCode.FENCED_INSTANCE_ID:
            self._marks.reach("fenced_while_sync_parked")
        if was_parked and response.error_code in LOST_SHARD and self._is_loading(call):
            self._marks.reach("shard_failed_while_sync_parked")
        if response.error_code == ErrorCode.REBALANCE_IN_PROGRESS and self._is_loading(call):
            self._marks.reach("sync_while_loading")

    def _on_commit_answer(self, call: Call, response: Any) -> None:
        runner = self._server.runner_for(call.request.group_id)
        errors = {partition.error_code for topic in response.topics for partition in topic.partitions}
        if ErrorCode.COORDINATOR_NOT_AVAILABLE in errors and runner.shard is not None:
            self._marks.reach("commit_outwaited_the_disk" if runner.may_write else "commit_without_room")
        if ErrorCode.UNKNOWN_TOPIC_OR_PARTITION in errors:
            self._marks.reach("commit_for_missing_topic")
        if ErrorCode.UNKNOWN_TOPIC_ID in errors:
            self._marks.reach("commit_for_former_topic")

    def _on_fetch_answer(self, response: Any) -> None:
        topics = [topic for group in response.groups for topic in group.topics] or response.topics
        errors = {partition.error_code for topic in topics for partition in topic.partitions}
        if ErrorCode.UNSTABLE_OFFSET_COMMIT in errors:
            self._marks.reach("offset_fetch_unstable")

    def _on_offset_delete_answer(self, response: Any) -> None:
        if response.error_code == ErrorCode.NON_EMPTY_GROUP:
            self._marks.reach("delete_of_busy_groups_offset")
        errors = {partition.error_code for topic in response.topics for partition in topic.partitions}
        if ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC in errors:
            self._marks.reach("delete_of_subscribed_offset")

    # What happens inside a shard.

    def before(self, shard: Shard, event: Event) -> None:
        transactions = shard.offsets.transactions
        match event:
            case TopicDeleted(topic, _, _) if transactions.of_topic(topic):
                self._marks.reach("topic_deleted_with_held_offsets")
            case TimerFired(OffsetExpiryTimer(), _) if transactions.group_ids():
                self._marks.reach("sweep_met_open_transaction")

    def after(self, event: Event, result: Result) -> None:
        for row in result.history:
            if (slug := row.cause.kind.slug) in CAUSES:
                self._marks.reach(slug)
        if result.superseded:
            self._marks.reach("join_superseded")
        match event:
            case TopicDeleted() if result.records:
                self._marks.reach("topic_deleted_with_offsets")
            case TimerFired(OffsetExpiryTimer(), _) if result.records:
                self._marks.reach("offsets_expired_by_sweep")

    def after_group(self, group: Group, before: Before | None, event: Event) -> None:
        """As `after`, of an event that was about one group that is there."""
        if group.protocol_type == CONNECT and group.state is STABLE:
            self._marks.reach("connect_group_stable")
        match event:
            case TimerFired(JoinTimer(), _) if before is not None and before.state is PREPARING_REBALANCE:
                if group.state is PREPARING_REBALANCE and group.initial_delay is not None:
                    self._marks.reach("initial_delay_extended")
            case AppendFinished(AssignmentStored() as stored, ErrorCode.NONE, _) if before is not None:
                current = stored.generation_id == before.generation_id
                if not (current and before.state is COMPLETING_REBALANCE):
                    self._marks.reach("passed_generation_stored")
            case RequestReceived(OffsetCommitRequest() as request, _) if before is not None:
                is_member = request.generation_id_or_member_epoch == before.generation_id
                if before.state is PREPARING_REBALANCE and is_member and request.member_id in before.members:
                    self._marks.reach("commit_from_old_generation")

    # Lives.

    def on_loaded(self, shard: Shard) -> None:
        self._loaded += 1
        if shard.offsets.transactions.group_ids():
            self._marks.reach("loaded_with_open_transaction")
            if self._loaded > len(self._server.logs):
                self._marks.reach("shard_failed_with_open_transaction")
        if list(shard.offsets.offsets_with_topic_id(self._server.topics.was_deleted)):
            self._marks.reach("topic_deletion_found_at_load")
        if self._witness.deadlines.has_parked(JoinGroupRequest):
            self._marks.reach("shard_loaded_while_join_parked")
        for group in shard.groups.values():
            if group.state is PREPARING_REBALANCE:
                self._marks.reach("loaded_over_size")
            if self._witness.ownership.was_answered(group.group_id, group.generation_id + 1):
                self._marks.reach("generation_lost_in_crash")

    def on_crash(self) -> None:
        if any(self._witness.facts.held.values()):
            self._marks.reach("crash_with_open_transaction")
        if self._witness.deadlines.has_parked(JoinGroupRequest):
            self._marks.reach("crash_while_join_parked")
        if self._witness.deadlines.has_parked(SyncGroupRequest):
            self._marks.reach("crash_while_sync_parked")
        if self._loaded < len(self._server.logs):
            self._marks.reach("crash_while_loading")
        self._loaded = 0

    def on_expired(self, client_id: str) -> None:
        if self.cuts.holds_up(client_id, Way.REQUESTS) or self.cuts.holds_up(client_id, Way.ANSWERS):
            self._marks.reach("session_expired_behind_a_cut")

    def on_topic_deleted(self) -> None:
        for runner in self._server.runners:
            if runner.shard is None:
                self._marks.reach("topic_deleted_while_loading")
            elif not runner.may_write:
                self._marks.reach("topic_deleted_without_room")
