"""One JoinGroup being handled: the request as the core reads it, and the checks that need no group.

The handlers of all kinds of joins (new, pending, known, static) take a `Join`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from coordinator.effects import Effects, Moment, RequestContext, new_tuple
from coordinator.groups.causes import Cause, CauseKind
from coordinator.groups.classic.member import Member, OfferedProtocol, Parked
from coordinator.groups.classic.shard_groups import ShardGroups
from coordinator.groups.group_settings import GroupSettings
from coordinator.topic_catalog import TopicCatalog
from protocol.codec.primitives import MAX_STRING_BYTES
from protocol.error_responses import response_with_error
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

REBALANCE_TIMEOUT_SINCE: Final = 1  # In version 0 the session timeout is used for it (3.10).


@dataclass(slots=True)  # Not frozen: making a frozen one takes three times as long.
class Join:
    """A JoinGroup request, with the client that sent it, the time, and the effects of handling it."""

    request: JoinGroupRequest
    context: RequestContext
    settings: GroupSettings
    at: Moment
    topics: TopicCatalog
    protocols: tuple[OfferedProtocol, ...]
    rebalance_timeout_ms: int
    effects: Effects

    @property
    def parked(self) -> Parked:
        """This request as the member keeps it until it is answered."""
        return Parked(self.context.reply_to, self.context.api_version)

    def refuse(self, error: ErrorCode, member_id: str = "", *, reveals_stored: bool = True) -> None:
        """Answer `error` now, with `member_id` in the response."""
        refusal = response_with_error(JoinGroupResponse, error, self.context.api_version)
        refusal.member_id = member_id
        self.effects.reply(self.context.reply_to, refusal, reveals_stored)

    def new_cause(self, member: Member, kind: CauseKind, detail: str | None = None) -> Cause:
        """Return this join as a cause, with its own client: a static member's may have been another before."""
        client = self.context.client_id, self.context.client_host
        return Cause.by(member, kind, detail, self.request.reason, client=client)

    @property
    def new_member_id_fits(self) -> bool:
        """Whether the id of a new member fits into a string of the protocol; long client ids may not."""
        return len(self.new_member_id().encode()) <= MAX_STRING_BYTES

    def new_member_id(self) -> str:
        """Return a member id as Kafka builds it: instance id or else client id, "-", and a UUID (3.2, 3.7)."""
        instance_id = self.request.group_instance_id
        return f"{self.context.client_id if instance_id is None else instance_id}-{self.context.new_uuid}"


def new_join(
    shard: ShardGroups, request: JoinGroupRequest, context: RequestContext, at: Moment, effects: Effects
) -> Join:
    """Return the `Join` of a request, with fields that its version lacks filled in."""
    protocols = tuple([new_tuple(OfferedProtocol, (p.name, bytes(p.metadata))) for p in request.protocols])
    timeout_ms = rebalance_timeout_ms_of(request, context)
    return Join(request, context, shard.settings, at, shard.topics, protocols, timeout_ms, effects)


def rebalance_timeout_ms_of(request: JoinGroupRequest, context: RequestContext) -> int:
    """Return how long a rebalance may wait for this member; version 0 has but the session's timeout."""
    if context.api_version < REBALANCE_TIMEOUT_SINCE:
        return request.session_timeout_ms
    return request.rebalance_timeout_ms


def join_request_error(request: JoinGroupRequest, settings: GroupSettings) -> ErrorCode:
    """Return the error of a request that is wrong whatever the group's state, or NONE."""
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    shortest_ms, longest_ms = settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms
    if not shortest_ms <= request.session_timeout_ms <= longest_ms:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    return ErrorCode.NONE
