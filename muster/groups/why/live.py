"""What a rebalance waits for, as a Muster itself says it: who has joined, who is heard, and until when.

It is the answer of `/api/v1/group`, that a command asked for over HTTP or the daemon has at hand.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from muster.groups.why.namesakes import NONE, Namesakes
from muster.groups.why.waiting import MissingMember, Waiting
from muster.groups.why.words import member_name

_IS_BUSY: Final = "heartbeats"
"""What is said of a member whose poll loop is busy: it knows of the rebalance and has not joined again."""


@dataclass(frozen=True, slots=True)
class LivingGroup:
    """The document, and when it was true, in ms since 1970."""

    document: dict[str, Any]
    at_ms: int


def waiting_from(group: dict[str, Any], known: Waiting, now_ms: int, namesakes: Namesakes = NONE) -> Waiting:
    """What the group waits for, by the document; as it is `known` by Kafka's protocol where that is more.

    Raises KeyError, TypeError and ValueError for another document.
    """
    waiting = group["waiting"]
    if waiting is None:
        return known
    members = {each["member"]: each for each in group["members"]}
    ends_in_ms, since_ms = waiting["ends_in_ms"], group["since_ms"]
    known_missing = {each.member_id: each for each in known.missing}
    missing = [
        _missing(each, known_missing.get(each["member"]), members.get(each["member"], {}), namesakes)
        for each in waiting["missing"]
    ]
    joined = (_name(members[each], namesakes) if each in members else each for each in waiting["joined"])
    return Waiting(
        str(group["state"]),
        known.since_ms if since_ms is None else now_ms - int(since_ms),
        None if ends_in_ms is None else now_ms + int(ends_in_ms),
        tuple(sorted(joined)),
        tuple(sorted(missing, key=lambda each: (each.member, each.member_id))),
        is_certain=True,
    )


def _missing(
    each: dict[str, Any], known: MissingMember | None, described: dict[str, Any], namesakes: Namesakes
) -> MissingMember:
    """A member that is waited for; which partitions it is about, Kafka's protocol says."""
    member = known or MissingMember(_name(each, namesakes), member_id=each["member"])
    is_said = bool(member.gives_up or member.awaits or member.is_away)
    ends_in_ms = each["ends_in_ms"]
    return replace(
        member,
        heard_ms=each["heard_ms"],
        says=None if is_said else str(each["says"]),
        ends_in_ms=None if ends_in_ms is None else int(ends_in_ms),
        poll_interval_ms=described.get("rebalance_timeout_ms") if each["is"] == _IS_BUSY else None,
    )


def _name(each: dict[str, Any], namesakes: Namesakes) -> str:
    client = (each["client"] or None, each["host"] or None)
    return namesakes.told_apart(member_name(each["instance"], *client, each["member"]), each["member"])
