"""What an answer promises, held against what the durable log says at the moment it leaves.

A commit that was acknowledged is on the log, and no later answer may have forgotten it; an assignment is on the
log as it is answered, and gives no partition to two; what was deleted is behind a tombstone. Knows no sessions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from protocol.consumer import decode_assignment
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_delete import OffsetDeleteRequest
from protocol.messages.offset_fetch import OffsetFetchRequest
from protocol.messages.sync_group import SyncGroupRequest
from tests.simulation.log_facts import NO_OFFSET, LogFacts, OffsetKey
from tests.simulation.profile import TOPIC_IDS_SINCE

if TYPE_CHECKING:
    from tests.simulation.call import Call


class Promises:
    """`require(holds, promise)` is called with each one."""

    def __init__(self, facts: LogFacts, require: Callable[[bool, str], None]) -> None:
        self.name_of: Callable[[bytes], str] = lambda topic_id: ""
        """What the topic with this id is called, or was."""
        self._facts = facts
        self._require = require
        self._incarnations: dict[str, int] = defaultdict(int)
        self._owners: dict[tuple[str, int, int], dict[tuple[str, int], str]] = defaultdict(dict)
        self._acked: dict[OffsetKey, int] = {}  # Where in the log the last acknowledged commit lies.
        self._floors: dict[int, dict[OffsetKey, int]] = {}  # By OffsetFetch under way: what it may not miss.
        self._held: dict[
            int, set[tuple[OffsetKey, int]]
        ] = {}  # By OffsetFetch under way: what was undecided.
        self._void_below: dict[
            tuple[str, str], int
        ] = {}  # Offsets of a topic that has gone, by group and topic.
        self._void_at_read: dict[
            int, dict[tuple[str, str], int]
        ] = {}  # By OffsetFetch under way, by topic id.
        self._ended_before: dict[
            int, dict[str, int]
        ] = {}  # By DeleteGroups under way: tombstones there were.

    def on_group_ended(self, group_id: str) -> None:
        """Generations of this group begin again."""
        self._incarnations[group_id] += 1

    def on_read(self, call: Call) -> None:
        """What was acknowledged before a request was read, its answer has to know."""
        if isinstance(call.request, OffsetFetchRequest):
            group_ids = {group.group_id for group in call.request.groups} or {call.request.group_id}
            self._floors[id(call)] = {key: at for key, at in self._acked.items() if key[0] in group_ids}
            self._void_at_read[id(call)] = (
                dict(self._void_below) if call.api_version >= TOPIC_IDS_SINCE else {}
            )
            if call.request.require_stable:
                self._held[id(call)] = self._undecided()
        elif isinstance(call.request, DeleteGroupsRequest):
            self._ended_before[id(call)] = dict(self._facts.was_ended)

    def on_topic_deleted(self, topic: str, positions: dict[str, int]) -> None:
        """What was committed for it counts no more: of each group what lies below such a place in the log."""
        for group_id, position in positions.items():
            self._void_below[group_id, topic] = position

    def on_read_again(self, group_ids: set[str], end: int) -> None:
        """A shard of these groups was read from its log, which ends there: what lay behind has never been."""
        for (group_id, topic), position in self._void_below.items():
            if group_id in group_ids:
                self._void_below[group_id, topic] = min(position, end)

    def _undecided(self) -> set[tuple[OffsetKey, int]]:
        """What transactions hold, as the log says, each with its place there."""
        return {(key, at) for held in self._facts.held.values() for key, (_, at) in held.items()}

    def on_answer(self, call: Call, response: Any) -> None:
        match call.request:
            case OffsetCommitRequest():
                self._on_commit_answer(call.request, response)
            case OffsetFetchRequest() if response.error_code == ErrorCode.NONE:
                self._on_fetch_answer(call, response)
            case DeleteGroupsRequest():
                self._on_delete_answer(call, response)
            case OffsetDeleteRequest() if response.error_code == ErrorCode.NONE:
                self._on_offset_delete_answer(call.request, response)

    def _on_commit_answer(self, request: OffsetCommitRequest, response: Any) -> None:
        for topic, answered in zip(request.topics, response.topics, strict=True):
            for partition, answer in zip(topic.partitions, answered.partitions, strict=True):
                if answer.error_code:
                    continue
                name = topic.name or self.name_of(topic.topic_id)
                key = (request.group_id, name, partition.partition_index)
                where = self._facts.was_committed[key].get(partition.committed_offset)
                self._require(where is not None, f"commit {key} {partition.committed_offset} is not durable")
                self._acked[key] = max(self._acked.get(key, -1), -1 if where is None else where)

    def on_transaction_committed(self, held: dict[OffsetKey, int]) -> None:
        """All of it counts from now on, but for what a tombstone took along meanwhile."""
        for key, offset in held.items():
            where = self._facts.was_committed[key].get(offset, -1)
            was_held = self._facts.was_held[key].get(offset, 0)
            is_deleted = self._facts.was_deleted.get(key, -1) > was_held
            self._require(
                where >= 0 or is_deleted, f"{key} {offset} of a committed transaction is not durable"
            )
            self._acked[key] = max(self._acked.get(key, -1), where)

    def on_assignment(self, request: SyncGroupRequest, assignment: bytes) -> None:
        """A member of a classic group has been given its partitions."""
        group_id, generation_id = request.group_id, request.generation_id
        durable = self._facts.was_assigned[group_id, generation_id].get(request.member_id)
        member = f"{request.member_id} of {group_id}, generation {generation_id}"
        self._require(durable == assignment, f"{member} was given an assignment that is not durable")
        owners = self._owners[group_id, self._incarnations[group_id], generation_id]
        owner = request.group_instance_id or request.member_id
        for topic_partitions in decode_assignment(assignment).assigned_partitions if assignment else ():
            for partition in topic_partitions.partitions:
                key = (topic_partitions.topic, partition)
                other = owners.setdefault(key, owner)
                self._require(other == owner, f"{member}: {key} has two owners, {other} and {owner}")

    def _on_fetch_answer(self, call: Call, response: Any) -> None:
        floors = self._floors.pop(id(call), {})
        void = self._void_at_read.pop(id(call), {})
        still_held = {key for key, _ in self._held.pop(id(call), set()) & self._undecided()}
        for key, partition in self._fetched(call, response):
            if partition.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT:
                promise = f"{key} is called unstable, and no transaction held it"
                self._require(call.request.require_stable and key in self._facts.was_held, promise)
            if partition.error_code:
                continue
            self._require(key not in still_held, f"{key} is called stable, and a transaction holds it (O13)")
            floor = floors.get(key, NO_OFFSET)
            if floor < self._void_below.get(key[:2], 0):
                floor = NO_OFFSET
            if partition.committed_offset == NO_OFFSET:
                where = self._facts.was_deleted.get(key, -1)
            else:
                where = self._facts.was_committed[key].get(partition.committed_offset, -2)
                self._require(where >= void.get(key[:2], -2), f"{key} is from the topic's former life (O12)")
            if where < floor:
                said = f"{key} is {partition.committed_offset} from {where}"
                self._require(False, f"{said}, acknowledged was {floor}")

    def _fetched(self, call: Call, response: Any) -> Iterator[tuple[OffsetKey, Any]]:
        groups = [(group.group_id, group.topics) for group in response.groups if not group.error_code]
        for group_id, topics in groups or [(call.request.group_id, response.topics)]:
            for topic in topics:
                name = topic.name or self.name_of(topic.topic_id)
                for partition in topic.partitions:
                    yield (group_id, name, partition.partition_index), partition

    def _on_delete_answer(self, call: Call, response: Any) -> None:
        """Whatever is there of a deleted group came later than its tombstone."""
        ended_before = self._ended_before.pop(id(call), {})
        for result in response.results:
            if result.error_code:
                continue
            group_id = result.group_id
            ended = self._facts.was_ended.get(group_id, -1)
            self._require(
                ended > ended_before.get(group_id, -1), f"{group_id}: no tombstone for its deletion"
            )
            left = [k for k, (_, where) in self._facts.offsets.items() if k[0] == group_id and where < ended]
            self._require(not left, f"{group_id} was deleted, and {left} are on the log")

    def _on_offset_delete_answer(self, request: OffsetDeleteRequest, response: Any) -> None:
        for topic in response.topics:
            for partition in topic.partitions:
                key = (request.group_id, topic.name, partition.partition_index)
                committed = self._facts.offsets.get(key, (0, -1))[1]
                # A commit that was already on its way may have followed.
                gone = bool(partition.error_code) or committed <= self._facts.was_deleted.get(key, -1)
                self._require(gone, f"{key} was deleted and is on the log")
