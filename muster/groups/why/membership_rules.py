"""The rules of `why` for members that come and go."""

from __future__ import annotations

from typing import Final

from coordinator.groups.causes import CauseKind
from muster.groups.why import conditions as when
from muster.groups.why import evidence as ev
from muster.groups.why import reported
from muster.groups.why.client_texts import Said
from muster.groups.why.rule import Rule

_POLL_LOOP: Final = (
    "fewer records per poll on {who} (max.poll.records), or a longer max.poll.interval.ms there"
)
_FIND_CRASH: Final = (
    "look for a crash, a kill, a long pause or a lost network on {who}; if it only pauses, a longer "
    "session.timeout.ms hides it"
)
AS_PLANNED: Final = "none, if that was intended"
STATIC: Final = (
    "give members an own group.instance.id each: a restart within session.timeout.ms is then no rebalance"
)
FLAPPING: Final = (
    "see why {who} comes and goes (its own log; restarts by a supervisor); until then stop it, for each "
    "round costs all members a rebalance"
)

_K = CauseKind

JOINS: Final = (
    Rule(
        _K.MEMBER_JOINED,
        "joined_flapping",
        "{who} came back once more: it flaps",
        (ev.comings_and_goings, ev.departure, ev.poll_interval),
        FLAPPING,
        when.is_flapping,
        same_client=True,
    ),
    Rule(
        _K.MEMBER_JOINED,
        "joined_rolling_restart",
        "{who} came back, as one of several members that are restarted one after the other",
        (ev.rolled, ev.departure),
        STATIC,
        when.is_rolled,
        is_guess=True,
        same_client=True,
    ),
    Rule(
        _K.MEMBER_JOINED,
        "joined_after_poll_timeout",
        "{who} came back; it had left since its poll loop did not call poll() in time",
        (ev.departure, ev.poll_interval),
        _POLL_LOOP,
        when.came_back_after(_K.MEMBER_LEFT, Said.POLL_TIMEOUT),
        same_client=True,
    ),
    Rule(
        _K.MEMBER_JOINED,
        "joined_after_close",
        "{who} came back after it had been closed: a restart",
        (ev.departure,),
        STATIC,
        when.came_back_after(_K.MEMBER_LEFT, Said.CLOSED),
        same_client=True,
    ),
    Rule(
        _K.MEMBER_JOINED,
        "joined_after_expiry",
        "{who} came back; its session had expired",
        (ev.departure,),
        _FIND_CRASH,
        when.came_back_after(_K.SESSION_EXPIRED),
        same_client=True,
    ),
    Rule(
        _K.MEMBER_JOINED,
        "joined_after_departure",
        "{who} came back",
        (ev.departure, ev.poll_interval),
        "see what `muster groups why` says of the time when it went (--at)",
        when.came_back,
        same_client=True,
    ),
    Rule(
        _K.MEMBER_JOINED,
        "joined_first",
        "{who} joined, the first member of an empty group",
        (ev.said_otherwise,),
        AS_PLANNED,
        when.is_alone,
    ),
    Rule(
        _K.MEMBER_JOINED,
        "joined_started",
        "{who} and others joined an empty group: a deployment was started",
        (ev.joined,),
        AS_PLANNED,
        when.was_empty,
        is_guess=True,
    ),
    Rule(
        _K.MEMBER_JOINED,
        "joined_scaled_out",
        "{who} and others joined: a deployment was scaled out",
        (ev.joined,),
        "none, if that was intended; start new members together, and one rebalance serves all",
        when.several_joined,
        is_guess=True,
    ),
    Rule(_K.MEMBER_JOINED, "joined", "{who} joined", (ev.said_otherwise,), AS_PLANNED),
)

DEPARTURES: Final = (
    Rule(
        _K.MEMBER_LEFT,
        "left_poll_timeout",
        "{who} left: its poll loop did not call poll() in time",
        (ev.said, reported.polls, ev.session, ev.poll_interval),
        _POLL_LOOP,
        when.said(Said.POLL_TIMEOUT),
    ),
    Rule(
        _K.MEMBER_LEFT,
        "left_by_admin",
        "an administrator removed {who}",
        (ev.admins_reason, ev.removed),
        "a member that still runs comes back at once; stop it first",
        when.said(Said.REMOVED_BY_ADMIN),
    ),
    Rule(
        _K.MEMBER_LEFT,
        "left_reported_slow_polls",
        "{who} left: its poll loop did not call poll() in time",
        (reported.polls, ev.said_nothing_of_it, ev.session, ev.poll_interval),
        _POLL_LOOP,
        reported.polled_too_slowly,
        is_guess=True,
    ),
    Rule(
        _K.MEMBER_LEFT,
        "left_rolling_restart",
        "{who} left, as one of several members that are restarted one after the other",
        (ev.said, ev.rolled),
        STATIC,
        when.is_rolling,
        is_guess=True,
    ),
    Rule(
        _K.MEMBER_LEFT,
        "left_flapping",
        "{who} left once more: it flaps",
        (ev.comings_and_goings, ev.said_otherwise, reported.polls, ev.session, ev.poll_interval),
        FLAPPING,
        when.is_flapping,
        same_client=True,
    ),
    Rule(
        _K.MEMBER_LEFT,
        "left_several",
        "{who} and others left: a deployment was scaled in or stopped",
        (ev.said_otherwise, ev.removed),
        AS_PLANNED,
        when.several_left,
        is_guess=True,
    ),
    Rule(
        _K.MEMBER_LEFT,
        "left_closed",
        "{who} left: its consumer was closed",
        (ev.said,),
        "none, if that was intended; for restarts, " + STATIC,
        when.said(Said.CLOSED),
    ),
    Rule(
        _K.MEMBER_LEFT,
        "left_unsubscribed",
        "{who} left: its application unsubscribed from all topics",
        (ev.said,),
        AS_PLANNED,
        when.said(Said.UNSUBSCRIBED),
    ),
    Rule(
        _K.MEMBER_LEFT,
        "left_for_a_reason",
        "{who} left",
        (ev.said_otherwise, ev.session),
        "the reason is the application's own: look there",
        when.gave_reason,
    ),
    Rule(
        _K.MEMBER_LEFT,
        "left_without_a_reason",
        "{who} left",
        (ev.said_nothing, reported.polls, ev.session, ev.poll_interval),
        "if {who} was not meant to stop, look in its own log for max.poll.interval.ms",
    ),
    Rule(
        _K.SESSION_EXPIRED,
        "expired_flapping",
        "the session of {who} expired once more: it flaps",
        (ev.comings_and_goings, ev.session_timeout, ev.no_farewell),
        FLAPPING,
        when.is_flapping,
        same_client=True,
    ),
    Rule(
        _K.SESSION_EXPIRED,
        "expired_static",
        "static member {who} was away for longer than its session",
        (ev.session_timeout, reported.heartbeats, ev.departure, ev.no_farewell, ev.together),
        "bring it back, or set session.timeout.ms to more than its restarts take",
        when.is_static,
    ),
    Rule(
        _K.SESSION_EXPIRED,
        "expired",
        "the session of {who} expired",
        (ev.session_timeout, reported.heartbeats, ev.no_farewell, ev.together),
        _FIND_CRASH,
    ),
    Rule(
        _K.REMOVED_BY_ADMIN,
        "removed_by_admin",
        "an administrator removed static member {who}",
        (ev.particulars, ev.said_otherwise),
        "a member that still runs comes back at once; stop it first",
    ),
    Rule(
        _K.NEW_MEMBER_JOIN_TIMEOUT,
        "new_member_join_timeout",
        "{who} waited for the end of its first JoinGroup for five minutes, Kafka's limit for new members",
        (ev.poll_interval,),
        "see which member holds the join phase up: a max.poll.interval.ms of more than five minutes makes this "
        "possible",
    ),
    Rule(
        _K.PENDING_MEMBER_LEFT,
        "pending_member_left",
        "a client gave back the member id that it had been given and had not used",
        (),
        "none: it was closed while it joined",
    ),
    Rule(
        _K.PENDING_MEMBER_EXPIRED,
        "pending_member_expired",
        "a client was given a member id, did not join with it in time, and was waited for",
        (ev.particulars,),
        "look for a client that dies or is cut off while it starts",
    ),
    Rule(
        _K.STATIC_MEMBER_AWAY,
        "static_member_away",
        "static member {who} left for now: its place and its partitions are kept until its session is over",
        (ev.away, reported.polls, ev.poll_interval),
        "none, if it is back within its session timeout; its partitions are not read until then",
    ),
    Rule(
        _K.GROUP_MAX_SIZE_REACHED,
        "group_max_size_reached",
        "the group is full (group.max.size), and {who} was rejected",
        (ev.particulars,),
        "fewer members, or a larger group.max.size; a rejected client fails with GROUP_MAX_SIZE_REACHED",
    ),
    Rule(
        _K.GROUP_OVER_MAX_SIZE,
        "group_over_max_size",
        "the group has more members than group.max.size allows since a restart",
        (),
        "fewer members, or a larger group.max.size: the last to rejoin are rejected",
    ),
)
