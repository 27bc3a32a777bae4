"""Why a group changes: every kind of cause, as data, and a single cause with the client behind it.

The slugs go to the topic of the group history, where programs count by them: a slug never changes its meaning
and is never removed. Slugs that older versions wrote under another name are in RENAMED_SLUGS, and readers of
the topic show the present name. The texts are for people and may be improved. `docs/history.md` lists slugs,
texts and former slugs, and a test compares.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, unique
from typing import Final, NamedTuple, Protocol

REASON_MAX_CHARS: Final = 255
"""Number of characters kept of the reason a client sends; the Java client cuts its reasons to the same length."""

REASONS_MAX: Final = 5
"""Reasons that are shown, where several members leave at once for different ones: 40 characters for each."""

NAMED_WITH_REASON_MAX: Final = 3
"""Members that are named with the reason they give, where several leave at once for different ones."""


@unique
class CauseKind(Enum):
    """A kind of cause: its slug, and the text with which the reason shown to people begins."""

    # A member joined, left, or changed its protocols: these call for a rebalance, or happen within one.
    MEMBER_JOINED = "member_joined", "member joined"
    MEMBER_LEFT = "member_left", "member left"
    REMOVED_BY_ADMIN = "removed_by_admin", "removed by admin"
    SESSION_EXPIRED = "session_expired", "session expired"
    NEW_MEMBER_JOIN_TIMEOUT = "new_member_join_timeout", "new member's join timed out (5 min)"
    PENDING_MEMBER_LEFT = "pending_member_left", "pending member left"
    PENDING_MEMBER_EXPIRED = "pending_member_expired", "pending member id not used in time"
    GROUP_MAX_SIZE_REACHED = "group_max_size_reached", "group max size reached, member rejected"
    MEMBER_METADATA_CHANGED = "member_metadata_changed", "member metadata changed"
    LEADER_REJOINED = "leader_rejoined", "leader rejoined"
    PARTITION_COUNTS_CHANGED = "partition_counts_changed", "partition counts changed"
    STATIC_MEMBER_REPLACED = "static_member_replaced", "static member replaced"
    STATIC_MEMBER_NOT_STORED = "static_member_not_stored", "static member's new id not stored"
    SYNC_TIMEOUT = "sync_timeout", "sync timeout"
    TOPICS_CHANGED = "topics_changed", "topics changed"
    EXPRESSION_RESOLVED = "expression_resolved", "topics that an expression matches changed"
    REVOCATION_TIMEOUT = "revocation_timeout", "partitions not given up in time"
    REJOIN_TIMEOUT = "rejoin_timeout", "classic member did not join again in time"
    STATIC_MEMBER_AWAY = "static_member_away", "static member left for now"
    ASSIGNMENT_NOT_STORED = "assignment_not_stored", "assignment not stored"
    GROUP_OVER_MAX_SIZE = "group_over_max_size", "group is over its maximum size"
    # The ends of a phase.
    ALL_MEMBERS_JOINED = "all_members_joined", "all members joined"
    INITIAL_DELAY_OVER = "initial_delay_over", "initial rebalance delay over"
    REBALANCE_TIMEOUT = "rebalance_timeout", "rebalance timeout"
    JOIN_PHASE_EXTENDED = "join_phase_extended", "no members rejoined, join phase extended"
    ASSIGNMENT_STORED = "assignment_stored", "leader's assignment stored"
    ASSIGNMENT_COMPUTED = "assignment_computed", "assignment computed"
    MEMBERS_RECONCILED = "members_reconciled", "all members have what they are to have"
    GROUP_EMPTIED = "group_emptied", "no members remain"
    # The group as a whole.
    COORDINATOR_RESTARTED = "coordinator_restarted", "coordinator restarted"
    GROUP_DELETED = "group_deleted", "group deleted by admin"
    OFFSETS_EXPIRED = "offsets_expired", "offsets expired"
    GROUP_NOT_STORED = "group_not_stored", "group not stored"
    GROUP_UPGRADED = (
        "group_upgraded",
        "first member of the consumer protocol joined, group is classic no longer",
    )
    GROUP_DOWNGRADED = "group_downgraded", "last member of the consumer protocol gone, group is classic again"
    # Only of what `muster observe` infers from the records of another coordinator.
    MEMBER_GONE = "member_gone", "member left or expired"
    CAUSE_UNKNOWN = "cause_unknown", "cause not known"
    GROUP_REMOVED = "group_removed", "group deleted or expired"
    GENERATIONS_MISSING = "generations_missing", "generations are missing"
    RECORD_NOT_READ = "record_not_read", "a record of the group could not be read"
    # The history itself.
    EVENTS_DROPPED = "events_dropped", "events were dropped"

    def __init__(self, slug: str, text: str) -> None:
        self.slug = slug
        self.text = text


EXPIRIES: Final = frozenset(
    (
        CauseKind.SESSION_EXPIRED,
        CauseKind.NEW_MEMBER_JOIN_TIMEOUT,
        CauseKind.SYNC_TIMEOUT,
        CauseKind.REBALANCE_TIMEOUT,
        CauseKind.REVOCATION_TIMEOUT,
        CauseKind.REJOIN_TIMEOUT,
    )
)
"""Causes by which members are removed that did not ask for it."""

DEPARTURES: Final = EXPIRIES | {CauseKind.MEMBER_LEFT, CauseKind.STATIC_MEMBER_AWAY}
"""The causes by which a member goes of its own, or is late."""

ONLY_OBSERVED: Final = frozenset(
    (
        CauseKind.MEMBER_GONE,
        CauseKind.CAUSE_UNKNOWN,
        CauseKind.GROUP_REMOVED,
        CauseKind.GENERATIONS_MISSING,
        CauseKind.RECORD_NOT_READ,
    )
)
"""Causes of events that `muster observe` infers from records; no coordinator of ours has them."""

RENAMED_SLUGS: Final = {
    "group_over_size": CauseKind.GROUP_OVER_MAX_SIZE.slug,
    "join_extended": CauseKind.JOIN_PHASE_EXTENDED.slug,
    "member_turned_away": CauseKind.GROUP_MAX_SIZE_REACHED.slug,
    "metadata_changed": CauseKind.MEMBER_METADATA_CHANGED.slug,
    "new_member_expired": CauseKind.NEW_MEMBER_JOIN_TIMEOUT.slug,
    "nobody_left": CauseKind.GROUP_EMPTIED.slug,
    "partitions_changed": CauseKind.PARTITION_COUNTS_CHANGED.slug,
}
"""Maps each former slug, which events on the topic may still have, to the present slug."""


def current_slug(slug: str) -> str:
    """Return the present name of a slug that was read; an unknown slug (of a later version, say) is kept."""
    return RENAMED_SLUGS.get(slug, slug)


class CausingMember(Protocol):
    """What a cause says of the member behind it; a member of any kind of group has it."""

    @property
    def member_id(self) -> str:
        """The id by which the coordinator knows the member."""

    @property
    def group_instance_id(self) -> str | None:
        """The id that a static member keeps over restarts (KIP-345); None for a dynamic one."""

    @property
    def origin(self) -> tuple[str, str]:
        """Client id and host of the process that is this member now."""

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long the coordinator waits for it in a rebalance; negative where that is not known."""


NO_OFFSETS_LEFT: Final = "there were none left"
"""The detail of `offsets_expired` where the group had nothing committed when the sweep came."""


class Cause(NamedTuple):
    """One cause of a change, for people: its kind and, where one is behind it, the member or client."""

    kind: CauseKind
    detail: str | None = None
    client_reason: str | None = None
    member_id: str | None = None
    group_instance_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None
    removed: tuple[str, ...] = ()  # Ids of the members that this cause removed from the group.
    rebalance_timeout_ms: int | None = None  # Of the member.
    session_timeout_ms: int | None = None
    session_left_ms: int | None = None  # How much of the member's session is left.

    @classmethod
    def by(
        cls,
        member: CausingMember,
        kind: CauseKind,
        detail: str | None = None,
        client_reason: str | None = None,
        removed: tuple[str, ...] = (),
        client: tuple[str, str] | None = None,
    ) -> Cause:
        """Return a cause that `member` is behind; of `client_reason` (KIP-800), REASON_MAX_CHARS are kept.

        `client` is its client id and host, by default those of the process that is the member now.
        """
        return cls(
            kind,
            detail,
            client_reason[:REASON_MAX_CHARS] if client_reason else None,
            member.member_id,
            member.group_instance_id,
            *(client or member.origin),
            removed,
            member.rebalance_timeout_ms if member.rebalance_timeout_ms >= 0 else None,
        )

    def in_session(self, timeout_ms: int, left_ms: int | None) -> Cause:
        """Return the cause with its member's session timeout, and how much of the session is left, if known."""
        left_ms = None if left_ms is None else min(max(left_ms, 0), timeout_ms)
        return self._replace(session_timeout_ms=timeout_ms, session_left_ms=left_ms)

    @property
    def reason(self) -> str:
        """The whole cause as one line of text: its kind, the detail, and the client's own reason."""
        return ": ".join(part for part in (self.kind.text, self.detail, self.client_reason) if part)


def counted(count: int, noun: str) -> str:
    """Return the count with its noun, in the plural where due: "1 member", "2 members"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def combined(causes: Sequence[Cause]) -> Cause:
    """Return one cause for all that one request did: the first that removed a member, with the count of all.

    Its `client_reason` is the one that they share, or each with those that gave it.
    """
    first = next((cause for cause in causes if cause.removed), causes[0])
    if len(causes) == 1:
        return first
    return first._replace(
        detail=", ".join(filter(None, (first.detail, f"{len(causes)} at once"))),
        client_reason=_reasons([cause for cause in causes if cause.removed] or causes),
        removed=tuple(member_id for cause in causes for member_id in cause.removed),
    )


def _reasons(causes: Sequence[Cause]) -> str | None:
    members: dict[str | None, list[str]] = {}
    for cause in causes:
        who = cause.group_instance_id or cause.client_id or cause.member_id or ""
        members.setdefault(cause.client_reason, []).append(who)
    if len(members) == 1:
        return causes[0].client_reason
    shown = list(members.items())[:REASONS_MAX]
    left = len(members) - len(shown)
    share = REASON_MAX_CHARS // (len(shown) + bool(left)) - len(", ")
    reasons = [_reason_of(who, reason, share) for reason, who in shown]
    return ", ".join([*reasons, counted(left, "more reason")] if left else reasons)


def _reason_of(members: list[str], reason: str | None, most: int) -> str:
    """A reason with those that gave it, no longer than that is; half of the room is the reason's."""
    who = listed(members[:NAMED_WITH_REASON_MAX], len(members))
    if len(who) > most // 2 and len(members) > 1:
        who = counted(len(members), "member")
    who = cut(who, most // 2)
    return f"{cut(reason or 'none', most - len(f' ({who})'))} ({who})"


def cut(text: str, most: int) -> str:
    """Return the text; a longer one than `most` characters is cut to them and ends in "…"."""
    return text if len(text) <= most else text[: most - 1] + "…"


def listed(first: Sequence[str], count: int) -> str:
    """Return the first few of `count` names as a list in words: "a, b and c", "a, b and 3 more"."""
    shown = [*first, f"{count - len(first)} more"] if count > len(first) else first
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
