"""Splits a request for several groups or transactions over the shards that own them, and merges the answers.

A request for many does not block the loop until all are answered: they are handled by the piece, as many as a turn
has time for, and between turns other requests are served; and a large answer is merged and encoded on a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Final, Protocol, TypeAlias

from coordinator.effects import RequestContext, new_tuple
from coordinator.runtime.shard_runner import ShardRunner
from coordinator.server.pending import Gather, Pending
from protocol.errors import ErrorCode

MAX_PER_PIECE: Final = 250
"""Groups or transactions handled at a time: describing so many takes 2 ms. A turn does what it has time for."""

MAX_ENCODED_ON_LOOP: Final = 5_000
"""The most groups or transactions in an answer that is encoded on the loop: that takes 7 ms."""

Piece: TypeAlias = tuple[int, Callable[[], None]]
"""A piece of work: how many groups or transactions it handles, and the function that does it."""

_NOT_REPORTED: Final = frozenset({ErrorCode.NONE, ErrorCode.NOT_COORDINATOR})


class Turns(Protocol):
    """The parts of the event loop that splitting uses."""

    def soon(self, action: Callable[[], None]) -> object:
        """Call `action` behind all that was put off before, in a later turn or where one has time left."""

    def run_aside(self, work: Callable[[], object], done: Callable[[Any], None]) -> None:
        """Do `work` on a thread, then call `done` on the loop with the finished future."""


class Owner(Protocol):
    """The runner of a shard, to which its share of a request goes."""

    def request(self, request: Any, context: RequestContext) -> None:
        """Handle the request; it is answered through `context.reply_to`."""


def _one(answer: Any) -> int:
    return 1


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """How a request is split by the positions of its groups or transactions.

    `owner_of` returns the shard runner for a position, `part` makes the request for a shard from its positions,
    `answers_of` returns the answers in a shard's response, and `merge` makes the whole response from all answers.
    `at_once` groups or transactions are handled at a time, fewer where one of them may be large; `size_of` says
    how many things an answer lists.
    """

    owner_of: Callable[[int], Owner]
    part: Callable[[list[int]], Any]
    answers_of: Callable[[Any], list[Any]]
    merge: Callable[[list[Any]], Any]
    at_once: int = MAX_PER_PIECE
    size_of: Callable[[Any], int] = _one


def context_of(pending: Pending, reply_to: Any, new_uuid: str = "") -> RequestContext:
    """Return the context of a request for the core; the answer goes to `reply_to`."""
    client = (pending.client_id, pending.client_host, new_uuid, pending.describes)
    fields = (reply_to, pending.api_version, *client)
    return new_tuple(RequestContext, fields)


def split(count: int, plan: SplitPlan, pending: Pending, turns: Turns) -> None:
    """Answer a request that names `count` groups or transactions: ask each shard for its share, and merge."""
    if not count:
        pending.reply(plan.merge([]))
        return
    firsts = range(0, count, plan.at_once)
    # Lambdas: compiled named functions form cycles with their closures, which would keep the connection alive.
    gather = Gather(
        len(firsts),
        lambda pieces: _merge([*chain.from_iterable(pieces)], plan, pending, turns),
    )
    ranges = [range(first, min(first + plan.at_once, count)) for first in firsts]
    weight = MAX_PER_PIECE // plan.at_once
    in_turns(
        (
            (
                weight * len(positions),
                partial(_ask_owners, positions, plan, pending, gather.part(index), turns),
            )
            for index, positions in enumerate(ranges)
        ),
        turns,
    )


def _merge(answers: list[Any], plan: SplitPlan, pending: Pending, turns: Turns) -> None:
    reply(pending, sum(map(plan.size_of, answers)), lambda: plan.merge(answers), turns)


def _ask_owners(positions: range, plan: SplitPlan, pending: Pending, whole: Any, turns: Turns) -> None:
    """Ask the shards for the groups or transactions at `positions`; `whole` gets the answers in that order."""
    by_shard: dict[Owner, list[int]] = {}
    for position in positions:
        by_shard.setdefault(plan.owner_of(position), []).append(position)
    shares = list(by_shard.values())
    gather = Gather(
        len(shares),
        lambda responses: whole.reply(_in_order(shares, [plan.answers_of(each) for each in responses])),
    )
    for index, (runner, share) in enumerate(by_shard.items()):
        runner.request(plan.part(share), context_of(pending, pending.part(gather.part(index))))


def _in_order(shares: list[list[int]], answers: list[list[Any]]) -> list[Any]:
    """Return the answers to all shares in the order of their positions in the request."""
    placed: dict[int, Any] = {}
    for positions, share in zip(shares, answers, strict=True):
        placed.update(zip(positions, share, strict=True))
    return [placed[position] for position in sorted(placed)]


def ask_all(
    runners: Sequence[ShardRunner[Any]],
    request: Any,
    pending: Pending,
    merge: Callable[[list[Any]], None],
    turns: Turns,
) -> None:
    """Send every shard the same request; `merge` is called with all responses, in the order of the shards."""
    gather = Gather(len(runners), merge)
    in_turns(
        (
            (_size(runner), partial(_ask, runner, request, pending, pending.part(gather.part(index)), turns))
            for index, runner in enumerate(runners)
        ),
        turns,
    )


def _size(runner: ShardRunner[Any]) -> int:
    return 0 if runner.shard is None else int(runner.shard.size)


def _ask(runner: ShardRunner[Any], request: Any, pending: Pending, reply_to: Any, turns: Turns) -> None:
    runner.request(request, context_of(pending, reply_to))


def in_turns(pieces: Iterator[Piece], turns: Turns) -> None:
    """Do the pieces in order; once MAX_PER_PIECE groups or transactions are handled, go on in a later turn."""
    count = 0
    for size, work in pieces:
        work()
        count += size
        if count >= MAX_PER_PIECE:
            turns.soon(partial(in_turns, pieces, turns))
            return


def reply(pending: Pending, count: int, make: Callable[[], Any], turns: Turns) -> None:
    """Answer with the response that `make` returns; with many (`count`) items it is made on a thread."""
    if count <= MAX_ENCODED_ON_LOOP:
        pending.reply(make())
    else:
        pending.reply_aside(make, turns.run_aside)


def first_error(responses: Sequence[Any]) -> ErrorCode:
    """Return the first error in the shards' responses, or NONE: it is the whole answer's (docs/kafka.md 2.3).

    NOT_COORDINATOR does not count: a shard whose log cannot be read does not keep the others from answering.
    """
    errors = (ErrorCode(response.error_code) for response in responses)
    return next((error for error in errors if error not in _NOT_REPORTED), ErrorCode.NONE)
