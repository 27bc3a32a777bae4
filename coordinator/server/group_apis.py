"""The group APIs' way from a connection to the shards and back.

One group's request goes to the shard that owns it. A request that names several groups is split by
shard and its answers are put together again in the order that was asked. Knows no group rules.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import chain
from typing import Any, Final, Protocol

from coordinator.data.transaction_verifier import TransactionVerifier
from coordinator.effects import PreparedCommitReceived, RequestContext, new_tuple
from coordinator.groups.classic.heartbeat import Heartbeat
from coordinator.groups.consumer.describe import DescribedMembers
from coordinator.groups.consumer.request_checks import refusal_of
from coordinator.groups.consumer.steady import SteadyHeartbeat
from coordinator.offsets.transactional_commit import TransactionalCommit, adds_partition, verification_answer
from coordinator.runtime.group_runner import GroupRunner
from coordinator.runtime.shard_runner import ShardRunner
from coordinator.runtime.shard_states import ShardState
from coordinator.server.api_counts import ApiCounts
from coordinator.server.api_table import Handler
from coordinator.server.pending import Pending
from coordinator.server.prepared import Prepare, Prepared, template_of_commit
from coordinator.server.random_uuids import random_uuid
from coordinator.server.splitting import (
    MAX_ENCODED_ON_LOOP,
    SplitPlan,
    Turns,
    ask_all,
    context_of,
    first_error,
    reply,
    split,
)
from coordinator.shard.shard import STOCK, Shard
from coordinator.topics.names import GROUP_METADATA_TOPIC
from protocol.error_responses import error_response
from protocol.errors import ErrorCode
from protocol.framing import EncodedResponse
from protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from protocol.topic_partition import TopicPartition

LARGE_AT_ONCE: Final = 10
"""Groups that are described, or whose offsets are fetched, at a time: each may have thousands of either."""

ITEMS_OF_A_MEMBER: Final = 4
"""A described member of a consumer group, with both assignments, is encoded in the time of so many groups."""


class GroupRuntime(Turns, Protocol):
    """The runtime, as these handlers see it."""

    @property
    def runners(self) -> Sequence[GroupRunner]:
        """The runners of all shards of groups, in the order of their partitions."""

    @property
    def now_ms(self) -> Callable[[], int]:
        """The monotonic clock."""

    @property
    def wall_ms(self) -> Callable[[], int]:
        """The time of day."""

    def runner_for(self, group_id: str) -> GroupRunner:
        """The runner of the shard that owns `group_id`."""

    def join(self, request: JoinGroupRequest, context: RequestContext) -> None:
        """Handle a JoinGroup that carries a member id behind the other requests of this turn."""


class GroupApis:
    """The handlers of the group APIs, for the API table; `runtime` has the shards."""

    def __init__(
        self,
        runtime: GroupRuntime,
        has_consumer_groups: Callable[[], bool] = lambda: True,
        new_uuid: Callable[[], object] = random_uuid,
        verifier: TransactionVerifier | None = None,
        assignors: Collection[str] = STOCK.assignors,
    ) -> None:
        """`has_consumer_groups` says whether groups of the consumer protocol are served now.

        `new_uuid` makes the random part of member ids; without a `verifier` TxnOffsetCommit is not served.
        """
        self._has_consumer_groups = has_consumer_groups
        self._assignors = assignors  # Of consumer groups, by their names.
        self._runtime = runtime
        self._verifier = verifier
        self._new_uuid = new_uuid
        self.counts = {key: ApiCounts(key) for key in (8, 12, 68)}
        """Counts of the APIs whose requests are prepared, by API key."""
        self._heartbeat_answers: dict[int, dict[ErrorCode, EncodedResponse]] = {}  # By API version.

    def handlers(self) -> dict[int, Handler]:
        transactional: dict[int, Handler] = {} if self._verifier is None else {28: self.txn_offset_commit}
        return transactional | {
            8: self.route,  # OffsetCommit
            9: self.offset_fetch,
            11: self.join_group,
            12: self.heartbeat,
            13: self.route,  # LeaveGroup
            14: self.route,  # SyncGroup
            15: self.describe_groups,
            16: self.list_groups,
            42: self.delete_groups,
            47: self.route,  # OffsetDelete
            68: self.consumer_group_heartbeat,
            69: self.consumer_group_describe,
        }

    def prepare(self) -> dict[int, Prepare]:
        """Return, by API key, the functions that prepare requests which clients repeat."""
        return {8: self.prepare_commit, 12: self.prepare_heartbeat, 68: self.prepare_consumer_heartbeat}

    # One group.

    def route(self, request: Any, pending: Pending) -> None:
        """Hand the request to the shard of `request.group_id`."""
        self._runtime.runner_for(request.group_id).request(request, context_of(pending, pending))

    def join_group(self, request: JoinGroupRequest, pending: Pending) -> None:
        """JoinGroup (key 11): a member that has its id joins behind those that ask for one in the same turn."""
        if request.member_id:
            self._runtime.join(request, context_of(pending, pending))
        else:
            context = context_of(pending, pending, str(self._new_uuid()))
            self._runtime.runner_for(request.group_id).request(request, context)

    def consumer_group_heartbeat(self, request: ConsumerGroupHeartbeatRequest, pending: Pending) -> None:
        """ConsumerGroupHeartbeat (key 68): up to version 0 a member that joins may have its id made here.

        As in Kafka its fields are looked at first, and then whether the group's shard can be asked.
        """
        if not self._has_consumer_groups():
            pending.reply(error_response(request, ErrorCode.UNSUPPORTED_VERSION, pending.api_version))
            return
        runner = self._runtime.runner_for(request.group_id)
        if runner.shard is None or not runner.may_write:  # Else the shard looks itself.
            refusal = refusal_of(request, pending.api_version, self._assignors)
            if refusal is not None:
                pending.reply(refusal)
                return
        context = context_of(pending, pending, "" if request.member_id else str(self._new_uuid()))
        runner.request(request, context)

    def heartbeat(self, request: HeartbeatRequest, pending: Pending) -> None:
        """Heartbeat (key 12): a classic group's answer reveals nothing stored, and never waits for the disk."""
        runner = self._runtime.runner_for(request.group_id)
        shard = runner.shard
        if runner.may_answer or (shard is not None and not shard.prepares_heartbeats(request.group_id)):
            self.route(request, pending)
            return
        error = _prepare_heartbeat(runner, request)(self._runtime.now_ms())
        pending.reply(HeartbeatResponse(error_code=error))

    def prepare_heartbeat(self, request: HeartbeatRequest, version: int, frame: bytes) -> Prepared | None:
        """Prepare heartbeats equal to `request`, with answers encoded before; None if the shard is not loaded.

        Group and member are looked up each time, so it is out of date only once the shard has been loaded again,
        or the group has become a consumer group.
        """
        runner, now_ms = self._runtime.runner_for(request.group_id), self._runtime.now_ms
        shard, group_id = runner.shard, request.group_id
        if shard is None or not shard.prepares_heartbeats(group_id):
            return None
        heartbeat, answers = shard.prepare_heartbeat(request), self._answers_of(version)
        # No functions with names: as C they would be cycles with what they close over.
        prepared = Prepared(
            frame,
            lambda: runner.shard is shard and shard.prepares_heartbeats(group_id),
            lambda _, pending: pending.reply(answers[heartbeat(now_ms())]),
            answer=lambda at_ms: (
                answers[heartbeat(at_ms)]
                if runner.shard is shard and shard.prepares_heartbeats(group_id)
                else None
            ),
        )
        return _asked_each_time(runner, request, prepared)

    def prepare_consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, version: int, frame: bytes
    ) -> Prepared | None:
        """Prepare heartbeats that say nothing new; None if their member is not there.

        Its answer shows what is stored, so it is sent at once only if all that the shard had seen when this was
        prepared is durable.
        """
        runner, now_ms = self._runtime.runner_for(request.group_id), self._runtime.now_ms
        has_consumer_groups = self._has_consumer_groups
        shard, seen = runner.shard, runner.position
        steady = None if shard is None else shard.prepare_steady(request)
        if steady is None:
            return None
        answer, durable_log = self._encoded_steady(steady, version), runner.durable_log

        def is_shown() -> bool:
            is_served = runner.shard is shard and has_consumer_groups()
            return is_served and durable_log.durable_offset >= seen

        prepared = Prepared(
            frame,
            lambda: is_shown() and steady.holds(now_ms()),
            lambda _, pending: _reply_steady(pending, answer, steady, now_ms()),
            answer=lambda at_ms: answer if is_shown() and steady.beat(at_ms) else None,
        )
        return _asked_each_time(runner, request, prepared)

    def prepare_commit(self, request: OffsetCommitRequest, version: int, frame: bytes) -> Prepared | None:
        """Prepare commits of the same partitions as `request`; None if they have to be decoded.

        A prepared commit is current while the same shard, not loaded again, would store all of the partitions.
        """
        runner, wall_ms = self._runtime.runner_for(request.group_id), self._runtime.wall_ms
        shard = runner.shard
        commit = None if shard is None else shard.prepare_commit(request, version)
        template = None if commit is None else template_of_commit(request, version, frame)
        if commit is None or template is None:
            return None
        commit.response.count = self.counts[8].encoded()
        prepared = Prepared(
            frame,
            lambda: runner.shard is shard and runner.may_write and commit.is_current(),
            lambda offsets, pending: runner.gathered.add(
                new_tuple(PreparedCommitReceived, (commit, offsets, pending, wall_ms()))
            ),
            template=template,
        )
        return _asked_each_time(runner, request, prepared)

    def _encoded_steady(self, steady: SteadyHeartbeat, version: int) -> EncodedResponse:
        return EncodedResponse(steady.response, version, self.counts[68].encoded())

    def _answers_of(self, version: int) -> dict[ErrorCode, EncodedResponse]:
        """Return the Heartbeat responses of one version by error code, each encoded once."""
        answers = self._heartbeat_answers.get(version)
        if answers is None:
            counts = self.counts[12]
            answers = self._heartbeat_answers[version] = {
                error: EncodedResponse(HeartbeatResponse(error_code=error), version, counts.encoded(error))
                for error in ErrorCode
            }
        return answers

    def txn_offset_commit(self, request: TxnOffsetCommitRequest, pending: Pending) -> None:
        """Hand the request to the shard of the group, once the transaction coordinator has verified it."""
        runner = self._runtime.runner_for(request.group_id)
        context = context_of(pending, pending)
        shard = runner.shard
        verification = None if shard is None else shard.begin_verification(request)
        if verification is None:
            runner.request(TransactionalCommit(request), context)
            return
        partition = TopicPartition(GROUP_METADATA_TOPIC, runner.partition)

        def verified(outcome: dict[TopicPartition, ErrorCode]) -> None:
            error = verification_answer(outcome[partition], pending.api_version)
            runner.request(TransactionalCommit(request, error, verification), context)

        assert self._verifier is not None
        self._verifier.verify(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            [partition],
            adds_partition(pending.api_version),
            verified,
        )

    # Several groups.

    def offset_fetch(self, request: OffsetFetchRequest, pending: Pending) -> None:
        """OffsetFetch (key 9): the offsets of one group up to v7, of several from v8 (KIP-709)."""
        if pending.api_version < 8:
            self.route(request, pending)
            return

        def part(positions: list[int]) -> OffsetFetchRequest:
            groups = [request.groups[position] for position in positions]
            return OffsetFetchRequest(groups=groups, require_stable=request.require_stable)

        def merge(groups: list[Any]) -> OffsetFetchResponse:
            return OffsetFetchResponse(groups=groups)

        runtime = self._runtime
        plan = SplitPlan(
            lambda position: runtime.runner_for(request.groups[position].group_id),
            part,
            lambda response: response.groups,
            merge,
            at_once=LARGE_AT_ONCE,
        )
        split(len(request.groups), plan, pending, runtime)

    def describe_groups(self, request: DescribeGroupsRequest, pending: Pending) -> None:
        def part(positions: list[int]) -> DescribeGroupsRequest:
            return DescribeGroupsRequest(
                groups=[request.groups[position] for position in positions],
                include_authorized_operations=request.include_authorized_operations,
            )

        def merge(groups: list[Any]) -> DescribeGroupsResponse:
            return DescribeGroupsResponse(groups=groups)

        self._describe(request.groups, part, merge, lambda group: 1 + len(group.members), pending)

    def consumer_group_describe(self, request: ConsumerGroupDescribeRequest, pending: Pending) -> None:
        """ConsumerGroupDescribe (key 69)."""
        if not self._has_consumer_groups():
            pending.reply(error_response(request, ErrorCode.UNSUPPORTED_VERSION, pending.api_version))
            return

        def part(positions: list[int]) -> ConsumerGroupDescribeRequest:
            return ConsumerGroupDescribeRequest(
                group_ids=[request.group_ids[position] for position in positions],
                include_authorized_operations=request.include_authorized_operations,
            )

        def merge(groups: list[Any]) -> ConsumerGroupDescribeResponse:
            return ConsumerGroupDescribeResponse(groups=groups)

        self._describe(request.group_ids, part, merge, _described_size, pending)

    def _describe(
        self,
        group_ids: Sequence[str],
        part: Callable[[list[int]], Any],
        merge: Callable[[list[Any]], Any],
        size_of: Callable[[Any], int],
        pending: Pending,
    ) -> None:
        """Have the shards describe groups, of which each may have thousands of members."""
        runtime = self._runtime
        plan = SplitPlan(
            lambda position: runtime.runner_for(group_ids[position]),
            part,
            lambda response: response.groups,
            merge,
            at_once=LARGE_AT_ONCE,
            size_of=size_of,
        )
        split(len(group_ids), plan, pending, runtime)

    def delete_groups(self, request: DeleteGroupsRequest, pending: Pending) -> None:
        """DeleteGroups (key 42): a group that is named twice is answered once, as in Kafka."""
        names = list(dict.fromkeys(request.groups_names))

        def part(positions: list[int]) -> DeleteGroupsRequest:
            return DeleteGroupsRequest(groups_names=[names[position] for position in positions])

        def merge(results: list[Any]) -> DeleteGroupsResponse:
            return DeleteGroupsResponse(results=results)

        runtime = self._runtime
        plan = SplitPlan(
            lambda position: runtime.runner_for(names[position]),
            part,
            lambda response: response.results,
            merge,
            at_once=1,
        )
        split(len(names), plan, pending, runtime)

    def list_groups(self, request: ListGroupsRequest, pending: Pending) -> None:
        """ListGroups (key 16): the groups of all shards, or an error without groups."""

        def merge(responses: list[ListGroupsResponse]) -> None:
            error = first_error(responses)
            lists = [] if error else [each.groups for each in responses]
            count = sum(map(len, lists))
            reply(
                pending,
                count,
                lambda: ListGroupsResponse(error_code=error, groups=[*chain.from_iterable(lists)]),
                runtime,
            )

        runtime = self._runtime
        ask_all(runtime.runners, request, pending, merge, runtime)


def _described_size(group: Any) -> int:
    """Size of a consumer group's description; one whose members are yet to be described is encoded on a thread."""
    # Any: compiled, what a message calls a list has to be one.
    if isinstance(group.members, DescribedMembers):
        return MAX_ENCODED_ON_LOOP + 1
    return 1 + len(group.members) * ITEMS_OF_A_MEMBER


def _reply_steady(pending: Pending, answer: EncodedResponse, steady: SteadyHeartbeat, now_ms: int) -> None:
    moved = steady.beat(now_ms)
    assert moved, "what holds can be handled"
    pending.reply(answer)


def _asked_each_time(runner: ShardRunner[Shard], request: Any, prepared: Prepared) -> Prepared:
    """What was prepared; where other nodes may take the shard, each request asks whether it is still led here."""
    if runner.may_answer is None:
        return prepared
    return prepared.while_allowed(lambda: not runner.refusal(request))


def _prepare_heartbeat(runner: ShardRunner[Shard], request: HeartbeatRequest) -> Heartbeat:
    if runner.shard is not None:
        return runner.shard.prepare_heartbeat(request)
    is_loading = runner.state is ShardState.LOADING
    error = ErrorCode.NONE if is_loading else ErrorCode.NOT_COORDINATOR  # docs/kafka.md 3.69
    return lambda now_ms: error
