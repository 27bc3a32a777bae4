"""What a rebalance waits for, as a Muster says it over HTTP: who has joined, who is heard, and until when."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from muster.cluster import Cluster
from muster.groups.why.waiting import MissingMember, Waiting
from muster.groups.why.words import member_name
from muster.http_api import NoHttp, find_http


async def waiting_now(cluster: Cluster, group_id: str, known: Waiting) -> Waiting:
    """What the group waits for; as it is `known` by Kafka's protocol where no HTTP says more.

    Raises ClusterError.
    """
    api = await find_http(cluster, await cluster.coordinator(group_id))
    if api is None:
        return known
    try:
        group = await api.get("/api/v1/group", id=group_id)
        return waiting_from(group, known, time.time_ns() // 1_000_000)
    except (NoHttp, KeyError, TypeError, ValueError):
        return known


def waiting_from(group: dict[str, Any], known: Waiting, now_ms: int) -> Waiting:
    """The same, by the answer of `/api/v1/group`.

    Raises KeyError, TypeError and ValueError for another document.
    """
    waiting = group["waiting"]
    if waiting is None:
        return known
    names = {each["member"]: _name(each) for each in group["members"]}
    ends_in_ms, since_ms = waiting["ends_in_ms"], group["since_ms"]
    partitions = {each.member: each for each in known.missing}
    missing = [_missing(each, partitions.get(_name(each))) for each in waiting["missing"]]
    return Waiting(
        str(group["state"]),
        known.since_ms if since_ms is None else now_ms - int(since_ms),
        None if ends_in_ms is None else now_ms + int(ends_in_ms),
        tuple(sorted(names.get(each, each) for each in waiting["joined"])),
        tuple(sorted(missing, key=lambda each: each.member)),
        is_certain=True,
    )


def _missing(each: dict[str, Any], known: MissingMember | None) -> MissingMember:
    """A member that is waited for; which partitions it is about, Kafka's protocol says."""
    member = known or MissingMember(_name(each))
    is_said = bool(member.gives_up or member.awaits or member.is_away)
    ends_in_ms = each["ends_in_ms"]
    return replace(
        member,
        heard_ms=each["heard_ms"],
        says=None if is_said else str(each["says"]),
        ends_in_ms=None if ends_in_ms is None else int(ends_in_ms),
    )


def _name(each: dict[str, Any]) -> str:
    return member_name(each["instance"], each["client"] or None, each["host"] or None, each["member"])
