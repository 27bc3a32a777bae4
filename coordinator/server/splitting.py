"""A request that names several things is split over the shards that own them, and its answers put together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from coordinator.effects import RequestContext
from coordinator.server.pending import Gather, Pending
from coordinator.shard_runner import ShardRunner
from protocol.errors import ErrorCode

_NOT_TOLD: Final = frozenset({ErrorCode.NONE, ErrorCode.NOT_COORDINATOR})


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

    shares = list(by_shard.values())
    # Not a function with a name: as C it would be a cycle with what it closes over, and that holds the connection.
    gather = Gather(
        len(shares),
        lambda responses: pending.reply(merge(_in_order(shares, [answers_of(each) for each in responses]))),
    )
    for index, (runner, positions) in enumerate(by_shard.items()):
        runner.request(part(positions), context_of(pending, gather.part(index), wall_ms))


def _in_order(shares: list[list[int]], answers: list[list[Any]]) -> list[Any]:
    """The answers to all shares, each at the position that it was asked for."""
    placed: dict[int, Any] = {}
    for positions, share in zip(shares, answers, strict=True):
        placed.update(zip(positions, share, strict=True))
    return [placed[position] for position in range(len(placed))]


def ask_all(
    runners: Sequence[ShardRunner[Any]],
    request: Any,
    pending: Pending,
    wall_ms: int,
    put_together: Callable[[list[Any]], None],
) -> None:
    """Ask every shard the same; `put_together` gets all their responses, in the order of the shards."""
    gather = Gather(len(runners), put_together)
    for index, runner in enumerate(runners):
        runner.request(request, context_of(pending, gather.part(index), wall_ms))


def first_error(responses: Sequence[Any]) -> ErrorCode:
    """The first error of the shards is that of the whole answer, as where one is loading (KAFKA.md 2.3).

    A shard whose log cannot be read (NOT_COORDINATOR) has nothing to tell of, and leaves the others theirs.
    """
    errors = (ErrorCode(response.error_code) for response in responses)
    return next((error for error in errors if error not in _NOT_TOLD), ErrorCode.NONE)
