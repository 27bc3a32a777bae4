"""A request that names several things is split over the shards that own them, and its answers put together.

Where many are named, or there are many, they do not hold the loop until all are answered: a thousand are asked
about in one turn, and the rest in the next ones, after whatever else has come; and a large answer is put together
and encoded on a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Final, Protocol, TypeAlias

from coordinator.effects import RequestContext
from coordinator.runtime.shard_runner import ShardRunner
from coordinator.server.pending import Gather, Pending
from protocol.errors import ErrorCode

MAX_PER_TURN: Final = 1_000
"""Groups or transactions handled in one turn: listing so many takes 2 ms, describing them 8."""

MAX_ENCODED_ON_LOOP: Final = 5_000
"""The most things in an answer that is encoded on the loop: that takes 7 ms."""

Piece: TypeAlias = tuple[int, Callable[[], None]]
"""How many things a piece of work is about, and the work."""

_NOT_REPORTED: Final = frozenset({ErrorCode.NONE, ErrorCode.NOT_COORDINATOR})


class Turns(Protocol):
    """The event loop, as splitting uses it."""

    def soon(self, action: Callable[[], None]) -> object:
        """Have `action` called in a later turn, when sockets have been looked at."""

    def run_aside(self, work: Callable[[], object], done: Callable[[Any], None]) -> None:
        """Do `work` on a thread, and call `done` with its future on the loop."""


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """How a request is split: the owner of what is named at a position, and a shard's request from positions.

    `answers_of` finds the answers in a shard's response, and `merge` makes the whole response from all of them.
    """

    owner_of: Callable[[int], ShardRunner[Any]]
    part: Callable[[list[int]], Any]
    answers_of: Callable[[Any], list[Any]]
    merge: Callable[[list[Any]], Any]


def context_of(pending: Pending, reply_to: Any, new_uuid: str = "") -> RequestContext:
    """The context of a request, as the core sees it; its answer goes to `reply_to`."""
    return RequestContext(reply_to, pending.api_version, pending.client_id, pending.client_host, new_uuid)


def split(count: int, plan: SplitPlan, pending: Pending, turns: Turns) -> None:
    """Ask each shard for its share of the `count` things that are named."""
    if not count:
        pending.reply(plan.merge([]))
        return
    firsts = range(0, count, MAX_PER_TURN)
    # No functions with names: as C they would be cycles with what they close over, and that holds the connection.
    gather = Gather(
        len(firsts),
        lambda pieces: reply(pending, count, lambda: plan.merge([*chain.from_iterable(pieces)]), turns),
    )
    ranges = [range(first, min(first + MAX_PER_TURN, count)) for first in firsts]
    in_turns(
        (
            (len(positions), partial(_ask_owners, positions, plan, pending, gather.part(index), turns))
            for index, positions in enumerate(ranges)
        ),
        turns,
    )


def _ask_owners(positions: range, plan: SplitPlan, pending: Pending, whole: Any, turns: Turns) -> None:
    """Ask for what is named at `positions`; the answers go to `whole` in that order."""
    by_shard: dict[ShardRunner[Any], list[int]] = {}
    for position in positions:
        by_shard.setdefault(plan.owner_of(position), []).append(position)
    shares = list(by_shard.values())
    gather = Gather(
        len(shares),
        lambda responses: whole.reply(_in_order(shares, [plan.answers_of(each) for each in responses])),
    )
    for index, (runner, share) in enumerate(by_shard.items()):
        runner.request(plan.part(share), context_of(pending, gather.part(index)))


def _in_order(shares: list[list[int]], answers: list[list[Any]]) -> list[Any]:
    """The answers to all shares, in the order in which they were asked for."""
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
    """Ask every shard the same; `merge` gets all their responses, in the order of the shards."""
    gather = Gather(len(runners), merge)
    in_turns(
        (
            (_size(runner), partial(_ask, runner, request, pending, gather.part(index), turns))
            for index, runner in enumerate(runners)
        ),
        turns,
    )


def _size(runner: ShardRunner[Any]) -> int:
    return 0 if runner.shard is None else int(runner.shard.size)


def _ask(runner: ShardRunner[Any], request: Any, pending: Pending, reply_to: Any, turns: Turns) -> None:
    runner.request(request, context_of(pending, reply_to))


def in_turns(pieces: Iterator[Piece], turns: Turns) -> None:
    """Do the pieces in order, in turns of the loop with up to MAX_PER_TURN things each, or one piece."""
    count = 0
    for size, work in pieces:
        work()
        count += size
        if count >= MAX_PER_TURN:
            turns.soon(partial(in_turns, pieces, turns))
            return


def reply(pending: Pending, count: int, make: Callable[[], Any], turns: Turns) -> None:
    """Answer with the response that `make` makes, with `count` things in it; a large one on a thread."""
    if count <= MAX_ENCODED_ON_LOOP:
        pending.reply(make())
    else:
        pending.reply_aside(make, turns.run_aside)


def first_error(responses: Sequence[Any]) -> ErrorCode:
    """The first error of the shards is that of the whole answer, as where one is loading (docs/kafka.md 2.3).

    A shard whose log cannot be read (NOT_COORDINATOR) has nothing to report, and leaves the others theirs.
    """
    errors = (ErrorCode(response.error_code) for response in responses)
    return next((error for error in errors if error not in _NOT_REPORTED), ErrorCode.NONE)
