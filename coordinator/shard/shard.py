"""One partition of the offsets topic: its groups and offsets, and the handler of each event.

It has two kinds of state. Stored state (`stored`, `offsets`) changes in `replay` alone, after each
append and again at start-up. The living groups are built from it once, by `loaded`, and then changed by
handlers; `replay` changes them in one case only: a commit for a group that does not exist creates it (O5).
Nothing here knows a socket, a file or a clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from coordinator.effects import (
    NOTHING,
    Appendable,
    AppendFinished,
    CommitRun,
    CoordinatorRecord,
    Effects,
    Event,
    MarkerReceived,
    MarkersWritten,
    Moment,
    PreparedCommitReceived,
    ProducerAndEpoch,
    RequestContext,
    RequestReceived,
    Result,
    TimerFired,
    TimerKey,
    TopicDeleted,
    WorkFinished,
)
from coordinator.groups.causes import Cause, CauseKind
from coordinator.groups.classic.describe_groups import describe_groups
from coordinator.groups.classic.events import new_row
from coordinator.groups.classic.group import AssignmentStored, Group
from coordinator.groups.classic.heartbeat import Heartbeat, prepare_heartbeat
from coordinator.groups.classic.join_group import GroupCreated, on_group_created
from coordinator.groups.classic.partition_counts import count_partitions
from coordinator.groups.classic.pending_members import on_pending_member_timer
from coordinator.groups.classic.rebalance import on_join_timer, on_sync_timer, prepare_rebalance
from coordinator.groups.classic.session import on_session_timer
from coordinator.groups.classic.states import DEAD, EMPTY
from coordinator.groups.classic.static_membership import StaticMemberStored, on_static_member_stored
from coordinator.groups.classic.stored import StoredGroup, living_group
from coordinator.groups.classic.sync_group import on_assignment_stored
from coordinator.groups.classic.timers import (
    JoinTimer,
    OffsetExpiryTimer,
    SessionTimer,
    SyncTimer,
    arm_session_timers,
)
from coordinator.groups.consumer.computing import Computed, NotComputed
from coordinator.groups.consumer.record_schemas import CONSUMER_GROUP_SCHEMAS
from coordinator.groups.consumer.replay import replay_record
from coordinator.groups.consumer.shard_groups import ConsumerGroups, ConsumerGroupSettings
from coordinator.groups.consumer.steady import SteadyHeartbeat, steady_heartbeat
from coordinator.groups.group_settings import GroupSettings
from coordinator.groups.record_schemas import GroupMetadataKey, GroupMetadataValue
from coordinator.offsets.commit import commit_offsets
from coordinator.offsets.committed import committed_from_record
from coordinator.offsets.delete import (
    TopicOffsetsDeleted,
    delete_offsets,
    delete_offsets_of_deleted_topics,
    delete_topic_offsets,
)
from coordinator.offsets.expiry import OffsetSweep
from coordinator.offsets.fetch import fetch_offsets
from coordinator.offsets.open_transactions import HeldKey
from coordinator.offsets.prepared_commit import PreparedCommit, PreparedOffsets, prepare_commit
from coordinator.offsets.shard_offsets import CommitVerification, ShardOffsets
from coordinator.offsets.topic_offsets import NewestCommits, StoredOffsets, TopicOffsets
from coordinator.offsets.transactional_commit import (
    TransactionalCommit,
    begin_verification,
    commit_in_transaction,
)
from coordinator.shard import classic_requests, consumer_groups
from coordinator.shard.delete_groups import delete_groups
from coordinator.shard.list_groups import list_groups
from coordinator.shard.margins import begin_margin_window, margins
from coordinator.shard.snapshot import StatePart
from coordinator.shard.waiting import WaitingEvents
from coordinator.topic_catalog import TopicCatalog
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_delete import OffsetDeleteRequest
from protocol.messages.offset_fetch import OffsetFetchRequest
from protocol.messages.sync_group import SyncGroupRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from protocol.records.control import Marker

Handler: TypeAlias = Callable[[ShardOffsets, Any, RequestContext, Moment], Result]

Collector: TypeAlias = Callable[[ShardOffsets, Any, RequestContext, Moment, Effects], None]

HANDLERS: Final[dict[type, Handler]] = {
    OffsetCommitRequest: commit_offsets,
    OffsetFetchRequest: fetch_offsets,
    ListGroupsRequest: list_groups,
    DescribeGroupsRequest: describe_groups,
    ConsumerGroupDescribeRequest: consumer_groups.describe,
    OffsetDeleteRequest: delete_offsets,
    TransactionalCommit: commit_in_transaction,
}
"""The handlers of requests that are answered at once, by the request's class: each returns its Result."""

COLLECTORS: Final[dict[type, Collector]] = {
    HeartbeatRequest: classic_requests.heartbeat,
    JoinGroupRequest: classic_requests.join,
    SyncGroupRequest: classic_requests.sync,
    LeaveGroupRequest: classic_requests.leave,
    ConsumerGroupHeartbeatRequest: consumer_groups.heartbeat,
    DeleteGroupsRequest: delete_groups,
}
"""The handlers of requests that change groups, whose effects come from many functions: they are handed Effects."""


GroupTimer: TypeAlias = SessionTimer | JoinTimer | SyncTimer
"""The timers of one group; they do nothing once the group is gone."""

GroupStored: TypeAlias = AssignmentStored | StaticMemberStored
"""The kinds of `Result.then` that are handed back to a group when its append has finished."""

CONSUMER_GROUP_KEYS: Final = tuple(key for key, _ in CONSUMER_GROUP_SCHEMAS.values())

STOCK: Final = ConsumerGroupSettings()

LoadedPart: TypeAlias = NewestCommits | StatePart
"""What a load replays beside records and markers: the newest commits in a log, or a part of a snapshot."""


class Shard:
    """The groups whose ids hash to one partition. Used from one thread; every time is an argument."""

    def __init__(
        self,
        partition: int,
        settings: GroupSettings,
        topics: TopicCatalog,
        consumer_settings: ConsumerGroupSettings = STOCK,
    ) -> None:
        self.partition = partition
        self.settings = settings
        self.topics = topics
        self.stored: dict[str, StoredGroup] = {}
        self.is_loaded = False
        self._state = ShardOffsets(settings, topics, consumer_settings)
        self.groups, self.offsets = self._state.groups, self._state.offsets
        self.consumer_groups = self._state.consumers.groups
        self.verifications = self._state.verifications
        self._suspended = self._state.consumers.suspended
        self._waiting = WaitingEvents(self._suspended)
        self._sweep = OffsetSweep(partition, settings)

    def handle(self, event: Event, now_ms: int) -> Result:
        """Return the effects of `event`; the caller appends and replays its records before the next event."""
        match event:
            case PreparedCommitReceived():  # First, since it takes the least by itself.
                commit: PreparedCommit = event.commit
                return commit.handle(event, now_ms)
            case RequestReceived() | TimerFired() | WorkFinished() | AppendFinished() if (
                self._waiting and self._waiting.takes(event)
            ):
                return NOTHING
            case RequestReceived(request, context, wall_ms):
                handler = HANDLERS.get(type(request))
                if handler is not None:
                    return handler(self._state, request, context, Moment(now_ms, wall_ms))
                effects = Effects()
                COLLECTORS[type(request)](self._state, request, context, Moment(now_ms, wall_ms), effects)
                if self._suspended:
                    self._waiting.begin(event)
                return effects.result()
            case TimerFired(key, wall_ms):
                effects = Effects()
                self._on_timer(key, Moment(now_ms, wall_ms), effects)
                return effects.result()
            case AppendFinished(then, error, wall_ms):
                effects = Effects()
                self._on_append_finished(then, error, Moment(now_ms, wall_ms), effects)
                return effects.result()
            case WorkFinished(Computed() | NotComputed() as computed, _):
                self._waiting.computed(computed)
                return Result(released=computed.group_id)
            case WorkFinished(outcome, wall_ms):
                effects = Effects()
                consumer_groups.on_work_finished(self._state, outcome, Moment(now_ms, wall_ms), effects)
                return effects.result()
            case MarkerReceived(marker, _):
                return Result(marker=marker)
            case MarkersWritten():
                return NOTHING  # Only shards of transactions ask for markers.
            case TopicDeleted(topic, topic_id, _):
                return delete_topic_offsets(self.offsets, topic, topic_id)

    def release(self, group_id: str) -> Event | None:
        """Return the next event of a group that was held back while a target was computed; None for none."""
        return self._waiting.release(group_id)

    def margins(self, group_id: str) -> dict[str, float]:
        """The heartbeat margins of the group's members by member id, of those that were heard of late."""
        return margins(self._state, group_id)

    def begin_margin_window(self, group_id: str) -> None:
        """Let a new window of the group's heartbeat margins begin; the two newest count."""
        begin_margin_window(self._state, group_id)

    @property
    def consumers(self) -> ConsumerGroups:
        """The consumer groups with all that is known of them, for those who look at them."""
        return self._state.consumers

    @property
    def size(self) -> int:
        return len(self.groups) + len(self.consumer_groups)

    def prepares_heartbeats(self, group_id: str) -> bool:
        """Whether a Heartbeat to this group may be prepared: consumer groups show stored state in its answer."""
        return group_id not in self.consumer_groups

    def prepare_heartbeat(self, request: HeartbeatRequest) -> Heartbeat:
        """Return the function that handles a Heartbeat, for callers that build the reply themselves."""
        return prepare_heartbeat(self.groups, request)

    def prepare_steady(self, request: ConsumerGroupHeartbeatRequest) -> SteadyHeartbeat | None:
        """Return the steady heartbeat of a request, for callers that build the reply themselves; None for none."""
        return steady_heartbeat(self._state.consumers, request)

    def prepare_commit(self, request: OffsetCommitRequest, api_version: int) -> PreparedCommit | None:
        """Return the prepared commit of a request, for `PreparedCommitReceived`; None if it is not worth it."""
        return prepare_commit(self._state, request, api_version)

    def begin_verification(self, request: TxnOffsetCommitRequest) -> CommitVerification | None:
        """Register and return a verification by the transaction coordinator; None if the commit needs none."""
        return begin_verification(self._state, request)

    def replay(
        self,
        entry: Appendable | Marker | LoadedPart,
        offset: int,
        producer: ProducerAndEpoch | None = None,
    ) -> None:
        """Apply the entry that the log has at `offset`, in order. Stored state changes here alone.

        An entry is a record, the records of one commit as a run or prepared, or a marker; in a load also the
        newest commits of one group and topic, or a part of a snapshot, which tests compare with a replay of
        each record. Offsets of a `producer`'s transaction are held until its marker comes.
        """
        if isinstance(entry, CoordinatorRecord):
            self._replay_record(entry, offset, producer)
        elif isinstance(entry, PreparedOffsets):
            entry.apply(self.offsets, offset)
        elif isinstance(entry, CommitRun):
            self.offsets.put_run(entry, offset)
            self._ensure_group(entry.group_id)
        elif isinstance(entry, Marker):
            self._end_transaction(entry)
        else:
            assert isinstance(entry, LoadedPart), entry
            self._replay_part(entry)

    def _replay_record(
        self, record: CoordinatorRecord, offset: int, producer: ProducerAndEpoch | None
    ) -> None:
        if producer is not None:
            self.offsets.transactions.begin(*producer)
        key = record.key
        if isinstance(key, GroupMetadataKey):
            self._replay_group(key.group, record.value)
        elif isinstance(key, CONSUMER_GROUP_KEYS):
            replay_record(self.consumer_groups, key, record.value)
        elif record.value is None:
            # In force at once in a transaction too, as in Kafka, whose transactions only commit offsets.
            self.offsets.remove(key.group, key.topic, key.partition)
        else:
            committed = committed_from_record(record.value, offset)
            if producer is None:
                self.offsets.put(key.group, key.topic, key.partition, committed)
            else:
                held = HeldKey(key.group, key.topic, key.partition)
                self.offsets.transactions.hold(producer[0], held, committed)
            self._ensure_group(key.group)

    def _end_transaction(self, marker: Marker) -> None:
        self.offsets.end_transaction(marker)
        for verification in self.verifications:
            verification.is_outdated |= verification.producer_id == marker.producer_id

    def _ensure_group(self, group_id: str) -> None:
        if self.is_loaded and group_id not in self.groups and group_id not in self.consumer_groups:
            self.groups[group_id] = Group(group_id)

    def _replay_part(self, part: LoadedPart) -> None:
        """Replay what a load found, in the log or in a snapshot of what the log says."""
        assert not self.is_loaded, "a living shard replays record by record"
        if isinstance(part, NewestCommits):
            offsets = TopicOffsets.of_newest(part.found)
            if offsets:
                self.offsets.put_all(part.group_id, part.topic, offsets)
        elif isinstance(part, StoredGroup):
            self.stored[part.group_id] = part
        elif isinstance(part, StoredOffsets):
            self.offsets.put_all(*part)
        else:
            self.offsets.transactions = part

    def loaded(self, now_ms: int, wall_ms: int) -> Result:
        """Begin to serve after the log has been read: build the groups, with a full session per member (3.65).

        Takes time in proportion to the members; the shard handles no event before it returns.
        """
        self.is_loaded = True
        at = Moment(now_ms, wall_ms)
        for stored in self.stored.values():
            if stored.group_id not in self.consumer_groups:
                self.groups[stored.group_id] = living_group(stored, now_ms)
        for group_id in (*self.offsets.group_ids(), *self.offsets.transactions.group_ids()):
            if group_id not in self.consumer_groups:
                self.groups.setdefault(group_id, Group(group_id))
        effects = Effects()
        consumer_groups.revive(self._state, at, effects)
        effects.add(delete_offsets_of_deleted_topics(self.offsets, self.topics))
        self._sweep.schedule(now_ms, effects)
        for group in self.groups.values():
            self._revive(group, at, effects)
        return effects.result()

    def resume(self, now_ms: int) -> Result:
        """Begin to write again: give every member a full session from now, as their requests were refused.

        Also removes the offsets of deleted topics, if a full disk prevented that when the shard was loaded.
        """
        effects = Effects()
        effects.add(delete_offsets_of_deleted_topics(self.offsets, self.topics))
        for group in self.groups.values():
            arm_session_timers(group.group_id, group.members.values(), now_ms, effects)
        consumer_groups.begin_sessions(self._state, now_ms, effects)
        return effects.result()

    def _replay_group(self, group_id: str, value: GroupMetadataValue | None) -> None:
        if value is None:
            self.stored.pop(group_id, None)
        else:
            self.stored[group_id] = StoredGroup.from_record(group_id, value)

    def _revive(self, group: Group, at: Moment, effects: Effects) -> None:
        if group.state is EMPTY:
            return
        arm_session_timers(group.group_id, group.members.values(), at.now_ms, effects)
        count_partitions(group, self.topics)
        restarted = new_row(group, at, Cause(CauseKind.COORDINATOR_RESTARTED), came_from=DEAD)
        effects.history.append(restarted)
        if len(group.members) > self.settings.group_max_size:
            prepare_rebalance(group, at, Cause(CauseKind.GROUP_OVER_MAX_SIZE), effects)

    def _on_timer(self, key: TimerKey, at: Moment, effects: Effects) -> None:
        if isinstance(key, OffsetExpiryTimer):
            self._sweep.on_timer(self._state, at, effects)
            return
        if isinstance(key, consumer_groups.ConsumerGroupTimer):
            consumer_groups.on_timer(self._state, key, at, effects)
            return
        assert isinstance(key, GroupTimer), f"no handler for a timer {key!r}"
        group = self.groups.get(key.group_id)
        if group is None:
            return  # Deleted while the timer was in flight.
        match key:
            case SessionTimer(_, member_id) if member_id in group.pending_members:
                on_pending_member_timer(group, member_id, at, effects)
            case SessionTimer(_, member_id):
                on_session_timer(group, member_id, at, effects)
            case JoinTimer():
                on_join_timer(group, at, effects)
            case SyncTimer():
                on_sync_timer(group, at, effects)

    def _on_append_finished(self, then: object, error: ErrorCode, at: Moment, effects: Effects) -> None:
        if isinstance(then, TopicOffsetsDeleted):
            effects.add(delete_topic_offsets(self.offsets, then.topic, then.topic_id))
            return
        if isinstance(then, GroupCreated):
            on_group_created(self.groups, self.stored, then, error, at, effects)
            return
        if isinstance(then, consumer_groups.ConsumerGroupStored):
            consumer_groups.on_stored(self._state, then, error, at, effects)
            return
        assert isinstance(then, GroupStored), f"no handler for the append of {then!r}"
        group = self.groups.get(then.group_id)
        if group is None:
            return
        if isinstance(then, AssignmentStored):
            on_assignment_stored(group, then, error, at, effects)
        else:
            on_static_member_stored(group, then, error, at, effects)
