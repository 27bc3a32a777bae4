"""The rules of `why` for what `muster observe` infers from the records of another coordinator."""

from __future__ import annotations

from typing import Final

from coordinator.groups.causes import CauseKind
from muster.groups.why import conditions as when
from muster.groups.why import evidence as ev
from muster.groups.why.membership_rules import FLAPPING, STATIC
from muster.groups.why.rule import Rule

_CLIENTS_LOG: Final = (
    "look in the client's log: a close, a slow poll loop and a lost connection all say so there"
)
_SETTINGS: Final = (ev.session_setting, ev.poll_interval)

OBSERVED: Final = (
    Rule(
        CauseKind.MEMBER_GONE,
        "gone_rolling_restart",
        "{who} left or expired, as one of several members that are restarted one after the other",
        (ev.particulars, ev.rolled),
        STATIC,
        when.is_rolling,
        is_guess=True,
    ),
    Rule(
        CauseKind.MEMBER_GONE,
        "gone_flapping",
        "{who} left or expired once more: it flaps",
        (ev.particulars, ev.comings_and_goings, *_SETTINGS),
        FLAPPING,
        when.is_flapping,
        same_client=True,
    ),
    Rule(
        CauseKind.MEMBER_GONE,
        "gone_several",
        "{who} and others left or expired: a deployment was scaled in or stopped, or what they share failed",
        (ev.particulars, ev.removed, *_SETTINGS),
        _CLIENTS_LOG,
        when.several_removed,
        is_guess=True,
    ),
    Rule(
        CauseKind.MEMBER_GONE,
        "gone_somehow",
        "{who} left or expired: the records of its group do not say which",
        (ev.particulars, *_SETTINGS),
        _CLIENTS_LOG,
    ),
    Rule(
        CauseKind.CAUSE_UNKNOWN,
        "unknown",
        "nothing in the records of the group says why",
        (ev.particulars,),
        "look in the log of the group's coordinator, which names the member and its reason",
    ),
    Rule(
        CauseKind.GROUP_REMOVED,
        "removed_somehow",
        "the group was deleted, or expired with its offsets",
        (),
        "none, if that was intended",
    ),
    Rule(
        CauseKind.GENERATIONS_MISSING,
        "generations_missing",
        "generations are missing before it: their records were compacted away, or never written",
        (ev.particulars,),
        "let `muster observe` follow the log, which sees records before they are compacted",
    ),
    Rule(
        CauseKind.RECORD_NOT_READ,
        "record_not_read",
        "a record of the group could not be read",
        (ev.particulars,),
        "see whether this version of Muster knows the records of that cluster's version",
    ),
)
