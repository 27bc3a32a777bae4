"""Clients of the shards: writers that count up, one for each key, and readers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, ClassVar, Final

from tests.simulation.backing.node import Node
from tests.simulation.timeline import Timeline

NOT_COORDINATOR: Final = -16
"""Kafka's error, as an outcome; the others are values."""
PATIENCE_MS: Final = 1_500


@dataclass(slots=True, eq=False)
class Request:
    """A read, or a commit of `value`."""

    shard: int
    key: str
    value: int | None
    floor: int
    """What a read has to show at least: the most that was read or acknowledged before it was sent."""
    on_answer: Callable[[Node, int], None] = field(repr=False)
    answers: int = 0


class Client:
    """Sends one request after the other, to whom answered last, or to any node."""

    paces_ms: ClassVar[tuple[int, ...]] = (100, 300, 1_000)

    def __init__(
        self, shard: int, key: str, nodes: Sequence[Node], timeline: Timeline, random: Random
    ) -> None:
        self.shard = shard
        self.key = key
        self._is_quiet = self._is_due = False
        self.acked = 0
        self._nodes = nodes
        self._timeline = timeline
        self._random = random
        self._sent = 0
        self._found = random.choice(nodes)
        self._pace_ms = random.choice(self.paces_ms)

    def value_to_send(self) -> int | None:
        """A reader has none."""
        return None

    def start(self, floor_of: Callable[[int, str], int]) -> None:
        self._floor_of = floor_of
        self._timeline.after(self._random.randrange(500), self._send)

    def set_quiet(self, is_quiet: bool) -> None:
        """Whether it sends nothing for now."""
        self._is_quiet = is_quiet
        if self._is_due and not is_quiet:
            self._is_due = False
            self._timeline.after(self._random.randrange(500), self._send)

    def hurry(self, pace_ms: int) -> None:
        """Send so often from now on, or a little more."""
        self._pace_ms = pace_ms

    def _send(self) -> None:
        if self._is_quiet:
            self._is_due = True
            return
        self._sent += 1
        random, number = self._random, self._sent
        node = self._found if random.random() < 0.6 else random.choice(self._nodes)
        floor = self._floor_of(self.shard, self.key)
        on_answer = partial(self._on_answer, number)
        request = Request(self.shard, self.key, self.value_to_send(), floor, on_answer)
        delay_ms = random.randrange(1_000) if random.random() < 0.01 else random.randint(1, 3)
        if not node.is_down:
            shard: Any = node.shards[self.shard]
            arrived = partial(
                node.arrive, partial(shard.on_request, request), node.incarnation, is_client=True
            )
            self._timeline.after(delay_ms, arrived)
        self._timeline.after(PATIENCE_MS, partial(self._on_answer, number, node, NOT_COORDINATOR))

    def _on_answer(self, number: int, node: Node, outcome: int) -> None:
        """Or none in time."""
        if number != self._sent:
            return
        self._sent += 1
        if outcome == NOT_COORDINATOR:
            self._found = self._random.choice(self._nodes)
        else:
            self._found, self.acked = node, self.acked + 1
        self._timeline.after(self._pause_ms(), self._send)

    def _pause_ms(self) -> int:
        return self._random.randrange(20, self._pace_ms)


class Writer(Client):
    """Never sends a value again: the one before may yet be written, or may not."""

    paces_ms = (300, 1_000, 8_000)
    _value = 0

    def value_to_send(self) -> int:
        self._value += 1
        return self._value
