"""The rules of `why` for other causes than that members come and go: subscriptions, topics, timeouts."""

from __future__ import annotations

from typing import Final

from coordinator.groups.causes import CauseKind
from muster.groups.why import conditions as when
from muster.groups.why import evidence as ev
from muster.groups.why import reported
from muster.groups.why.client_texts import Said
from muster.groups.why.rule import Rule

_K = CauseKind
_NEW_PARTITIONS: Final = "none: without it no member would read the new partitions"

CHANGES: Final = (
    Rule(
        _K.MEMBER_METADATA_CHANGED,
        "changed_revoke_first",
        "{who} gave up partitions and joined again: the second half of a cooperative rebalance (KIP-429)",
        (ev.said,),
        "none: only partitions that move stop being read",
        when.said(Said.REVOKE_FIRST),
    ),
    Rule(
        _K.MEMBER_METADATA_CHANGED,
        "changed_metadata",
        "{who} leads the group and saw its topics change",
        (ev.said,),
        "none, if topics were made or grew; else see what changes them",
        when.said(Said.METADATA_CHANGED),
    ),
    Rule(
        _K.MEMBER_METADATA_CHANGED,
        "changed_subscription",
        "{who} subscribes to something else",
        (ev.said,),
        "subscribe once, to all topics: each change is a rebalance of all members",
        when.said(Said.SUBSCRIPTION_CHANGED, Said.ASSIGNMENT_MISMATCH),
    ),
    Rule(
        _K.MEMBER_METADATA_CHANGED,
        "changed_enforced",
        "the application of {who} asked for a rebalance (enforceRebalance)",
        (ev.said,),
        "if that is not intended, look where it calls enforceRebalance",
        when.said(Said.ENFORCED),
    ),
    Rule(
        _K.MEMBER_METADATA_CHANGED,
        "changed_new_protocol",
        "{who} subscribes to something else",
        (),
        "subscribe once, to all topics; but members keep what stays theirs",
        when.is_of_consumer_group,
    ),
    Rule(
        _K.MEMBER_METADATA_CHANGED,
        "changed",
        "{who} joined again with another subscription, other assignors, or other partitions that it owns",
        (ev.said_otherwise,),
        "none, if it was deployed anew or the group's assignor is a cooperative one",
    ),
    Rule(
        _K.LEADER_REJOINED,
        "leader_saw_change",
        "{who} leads the group and saw its topics change",
        (ev.said,),
        "none, if topics were made, grew or were deleted; else see what changes them",
        when.said(Said.METADATA_CHANGED),
    ),
    Rule(
        _K.LEADER_REJOINED,
        "leader_enforced",
        "the application of {who} asked for a rebalance (enforceRebalance)",
        (ev.said,),
        "if that is not intended, look where it calls enforceRebalance",
        when.said(Said.ENFORCED),
    ),
    Rule(
        _K.LEADER_REJOINED,
        "leader_for_a_reason",
        "{who}, which leads the group, joined again",
        (ev.said_otherwise,),
        "look in its own log",
        when.gave_reason,
    ),
    Rule(
        _K.LEADER_REJOINED,
        "leader_rejoined",
        "{who}, which leads the group, joined again with nothing changed that the coordinator can see",
        (),
        "look in its own log: a leader does so when an assignment failed, or its topics changed for it alone",
    ),
    Rule(
        _K.PARTITION_COUNTS_CHANGED,
        "partitions_and_said",
        "topics have other partition counts, and {who}, which leads the group, joined again for that",
        (ev.particulars, ev.said),
        _NEW_PARTITIONS,
        when.said(Said.METADATA_CHANGED),
    ),
    Rule(
        _K.PARTITION_COUNTS_CHANGED,
        "partitions_assigned",
        "its topics have more partitions than its generation before was assigned",
        (ev.particulars,),
        _NEW_PARTITIONS,
        when.names_no_member,
    ),
    Rule(
        _K.PARTITION_COUNTS_CHANGED,
        "partitions_changed",
        "topics have other partition counts, and {who}, which leads the group, joined again",
        (ev.particulars, ev.said_otherwise),
        _NEW_PARTITIONS,
        is_guess=True,
    ),
    Rule(
        _K.TOPICS_CHANGED,
        "topics_changed",
        "topics of the group were made, grew, moved or were deleted",
        (ev.particulars,),
        _NEW_PARTITIONS,
    ),
    Rule(
        _K.EXPRESSION_RESOLVED,
        "expression_resolved",
        "an expression that members subscribe by matches other topics now",
        (ev.particulars,),
        "none, if these topics are meant; else a narrower expression",
    ),
    Rule(
        _K.STATIC_MEMBER_REPLACED,
        "static_restart",
        "static member {who} came back under a new member id and was given its old place",
        (),
        "none: a restart that is no rebalance is what static membership is for",
        when.is_no_rebalance,
    ),
    Rule(
        _K.STATIC_MEMBER_REPLACED,
        "static_member_changed",
        "static member {who} came back and offers something else than before",
        (),
        "none, if it was deployed with another subscription or other assignors",
    ),
    Rule(
        _K.STATIC_MEMBER_NOT_STORED,
        "static_member_not_stored",
        "the new id of static member {who} could not be written to the log, so its former process carries on",
        (ev.particulars,),
        "look in the coordinator's log and at its disk",
    ),
)


TIMEOUTS: Final = (
    Rule(
        _K.REBALANCE_TIMEOUT,
        "rejoin_late",
        "{who} did not join again within the rebalance timeout",
        (ev.heartbeats, reported.rebalances, ev.poll_interval, ev.particulars),
        "its poll loop is stuck or slow: fewer records per poll there; a shorter max.poll.interval.ms lets "
        "the others go on sooner",
        when.names_a_member,
    ),
    Rule(
        _K.REBALANCE_TIMEOUT,
        "pending_id_late",
        "a member id that was handed out was not used, and the join phase waited for it",
        (ev.particulars,),
        "look for a client that dies or is cut off while it starts",
    ),
    Rule(
        _K.SYNC_TIMEOUT,
        "never_synced",
        "{who} joined, and then sent no SyncGroup within the rebalance timeout",
        (ev.heartbeats, reported.rebalances, ev.poll_interval, ev.removed, ev.particulars),
        "look at {who}: it hangs between JoinGroup and SyncGroup, as in a rebalance listener or an assignor, or "
        "does not poll",
    ),
    Rule(
        _K.REVOCATION_TIMEOUT,
        "revocation_late",
        "{who} did not give up its partitions within its rebalance timeout",
        (ev.heartbeats, reported.rebalances, ev.poll_interval, ev.removed),
        "its poll loop or its rebalance listener is stuck or slow: fewer records per poll there",
    ),
    Rule(
        _K.REJOIN_TIMEOUT,
        "classic_rejoin_late",
        "{who}, of the classic protocol, did not join again in time",
        (ev.heartbeats, reported.rebalances, ev.poll_interval, ev.removed),
        "its poll loop is stuck or slow: fewer records per poll there",
    ),
    Rule(
        _K.JOIN_PHASE_EXTENDED,
        "join_phase_extended",
        "no member joined again, and only static members are left, so they are waited for once more",
        (ev.poll_interval, ev.particulars),
        "see whether they run: they heartbeat but do not poll",
    ),
)

PHASES: Final = (
    Rule(_K.ALL_MEMBERS_JOINED, "all_members_joined", "all members had joined", (ev.particulars,)),
    Rule(
        _K.INITIAL_DELAY_OVER,
        "initial_delay_over",
        "the initial delay of an empty group was over",
        (ev.particulars,),
        "group.initial.rebalance.delay.ms says how long it is",
    ),
    Rule(_K.ASSIGNMENT_STORED, "assignment_stored", "the leader's assignment was stored"),
    Rule(
        _K.ASSIGNMENT_COMPUTED,
        "assignment_computed",
        "the coordinator computed who is to have what",
        (),
        "group.consumer.assignment.interval.ms says how soon after the last time",
    ),
    Rule(
        _K.MEMBERS_RECONCILED,
        "members_reconciled",
        "all members have what they are to have",
        (ev.particulars,),
    ),
    Rule(_K.GROUP_EMPTIED, "group_emptied", "its last member is gone", (ev.particulars,), "start a member"),
)

GROUPS: Final = (
    Rule(
        _K.ASSIGNMENT_NOT_STORED,
        "assignment_not_stored",
        "the leader's assignment could not be written to the log",
        (ev.particulars,),
        "look in the coordinator's log and at its disk",
    ),
    Rule(
        _K.COORDINATOR_RESTARTED,
        "coordinator_restarted_stable",
        "the coordinator restarted and read the group from its log: members carry on as they were",
        (),
        "none: this is no rebalance",
        when.is_settled,
    ),
    Rule(
        _K.COORDINATOR_RESTARTED,
        "coordinator_restarted",
        "the coordinator restarted in the middle of a rebalance, which begins anew",
        (),
        "none, if the restart was intended",
    ),
    Rule(
        _K.GROUP_DELETED,
        "group_deleted",
        "{who} deleted the group",
        (),
        "none, if that was intended: its committed offsets are gone",
    ),
    Rule(
        _K.OFFSETS_EXPIRED,
        "gone_without_offsets",
        "the group was empty and had no committed offsets, so it is gone",
        (),
        "none: an empty group without committed offsets is removed as soon as that is looked at "
        "(offsets.retention.check.interval.ms)",
        when.had_no_offsets,
    ),
    Rule(
        _K.OFFSETS_EXPIRED,
        "offsets_expired",
        "the group was empty and its last offsets have expired, so it is gone",
        (ev.particulars,),
        "offsets.retention.minutes says how long an empty group's offsets are kept",
        when.has_particulars,
    ),
    Rule(
        _K.OFFSETS_EXPIRED,
        "gone_empty",
        "the group was empty and had no committed offsets, or they have expired, so it is gone",
        (),
        "if it had committed, offsets.retention.minutes says how long an empty group's offsets are kept",
    ),
    Rule(
        _K.GROUP_NOT_STORED,
        "group_not_stored",
        "the new group could not be written to the log",
        (ev.particulars,),
        "look in the coordinator's log and at its disk",
    ),
    Rule(
        _K.GROUP_UPGRADED,
        "group_upgraded",
        "{who} joined with the consumer protocol (KIP-848), and the group is of that kind now",
        (),
        "none, if the migration is intended",
    ),
    Rule(
        _K.GROUP_DOWNGRADED,
        "group_downgraded",
        "the last member of the consumer protocol is gone, and the group is classic again",
        (ev.particulars,),
        "none, if the migration back is intended",
    ),
    Rule(
        _K.EVENTS_DROPPED,
        "events_dropped",
        "events are missing here: they came faster than they could be written",
        (ev.particulars,),
        "see the coordinator's log",
    ),
)
