"""A request that names several things is split over the shards that own them, and its answers put together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from coordinator.effects import RequestContext
from coordinator.server.pending import Gather, Pending
from coordinator.shard_runner import ShardRunner


def context_of(pending: Pending, reply_to: Any, wall_ms: int, new_uuid: str = "") -> RequestContext:
    """What the core may know of a request; its answer goes to `reply_to`."""
    return RequestContext(
        reply_to, pending.api_version, pending.client_id, pending.client_host, wall_ms, new_uuid
    )


def split(
    runners: Sequence[ShardRunner[Any]],
    pending: Pending,
    wall_ms: int,
    part: Callable[[list[int]], Any],
    answers_of: Callable[[Any], list[Any]],
    merge: Callable[[list[Any]], Any],
) -> None:
    """Ask each shard for its share at once; `runners` are the owners of what is named, one after the other.

    `part` makes a shard's request from positions in that list, `answers_of` finds the answers in a response.
    """
    by_shard: dict[ShardRunner[Any], list[int]] = {}
    for position, runner in enumerate(runners):
        by_shard.setdefault(runner, []).append(position)
    if not by_shard:
        pending.reply(merge([]))
        return

    def put_together(responses: list[Any]) -> None:
        answers: list[Any] = [None] * len(runners)
        for positions, response in zip(by_shard.values(), responses, strict=True):
            for position, answer in zip(positions, answers_of(response), strict=True):
                answers[position] = answer
        pending.reply(merge(answers))

    gather = Gather(len(by_shard), put_together)
    for index, (runner, positions) in enumerate(list(by_shard.items())):
        runner.request(part(positions), context_of(pending, gather.part(index), wall_ms))
