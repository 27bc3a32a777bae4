"""Histories of shards whose logs are on another Kafka: all that can go wrong does, and no promise is broken.

Two or three nodes run the real `Ownership`; the rest is a model: the log, the coordinator of epochs, the network,
clocks, and shards that count by keys. Advice has no sense: any node may be told to own anything at any time. Days
of some seconds have nights of up to eight days between them. At the end the faults are over, and each shard has to
be served by the node that is told to.

`python -m tests.simulation --backing --seed N` shows one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass
from functools import partial
from random import Random
from typing import ClassVar, Final

from coordinator.backing.claims import ClaimBook
from tests.simulation.backing import faults
from tests.simulation.backing.clients import Client, Writer
from tests.simulation.backing.log import Log
from tests.simulation.backing.node import Node
from tests.simulation.backing.shard_node import ShardNode
from tests.simulation.backing.world import KEYS, World
from tests.simulation.simulation import Failure

PEACE_MS: Final = 40_000
"""For so long a claim may be refused or waited for, after the faults are over."""
LOOK_EVERY_MS: Final = 250
STEPS_MAX: Final = 500_000
"""A history that takes more goes round in circles."""


@dataclass(frozen=True, slots=True)
class BackingSummary:
    """What a seed came to."""

    steps: int
    virtual_ms: int
    served: int
    acked: int
    read: int
    marks: frozenset[str]

    def plain(self) -> tuple[int, ...]:
        """The figures alone."""
        return astuple(self)[:-1]


class BackingHistory:
    """`run` plays the whole history, or raises Failure."""

    options: ClassVar[str] = "--backing "

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random = Random(seed)
        shards = random.choice((1, 1, 1, 2))
        self.world = World(random, shards)
        self.timeline = self.world.timeline
        self.nodes = [
            Node(node_id, self.timeline, random) for node_id in range(1, random.choice((2, 3, 3)) + 1)
        ]
        for node in self.nodes:
            node.shards += [ShardNode(node, index, self.world) for index in range(shards)]
        places = [(shard, key) for shard in range(shards) for key in KEYS]
        self.writers = [Writer(*place, self.nodes, self.timeline, random) for place in places]
        readers = [
            Client(shard, random.choice(KEYS), self.nodes, self.timeline, random)
            for shard in range(shards)
            for _ in range(3)
        ]
        self.clients = [*self.writers, *readers]
        self.pace_ms = random.choice((300, 1_000, 3_000))
        """How often something goes wrong."""
        self.is_over = False
        self._steps = 0

    def show(self, write: Callable[[str], None]) -> None:
        """Have what happens be written line by line."""
        self.world.tell = write

    # The course of it.

    def run(self) -> BackingSummary:
        for client in self.clients:
            client.start(self.world.watch.floor_of)
        for log in self.world.logs:
            self.advise(self.random.choice(self.nodes), log)
        for is_last in self._days():
            self._day()
            if not is_last:
                faults.night(self)
        self._make_peace()
        return self._summary()

    def _days(self) -> list[bool]:
        nights = self.random.choice((0, 0, 0, 1, 1, 2))
        return [*[False] * nights, True]

    def _day(self) -> None:
        self.set_night(False)
        self.play(self.random.randrange(10_000, 40_000), faults.FAULTS)

    def play(self, length_ms: int, kinds: tuple[Callable[[BackingHistory], None], ...]) -> None:
        """Let time pass, with faults of these kinds."""
        end_ms = self.timeline.now_ms + length_ms
        while kinds:
            at_ms = self.timeline.now_ms + self.random.randrange(2 * self.pace_ms)
            if at_ms >= end_ms:
                break
            self.run_until(at_ms)
            self.random.choice(kinds)(self)
        self.run_until(end_ms)

    def run_until(self, until_ms: int) -> None:
        is_there = [False]
        self.timeline.at(until_ms, lambda: is_there.append(True))
        violations = self.world.watch.violations
        while not is_there[-1]:
            self.timeline.step()
            self._steps += 1
            if self._steps > STEPS_MAX:
                self.world.watch.violated("it goes round in circles")
            if violations:
                raise self._failure(violations)

    def set_night(self, is_night: bool) -> None:
        """At night nobody asks for anything, and the log is hardly read."""
        self.world.network.is_night = is_night
        for client in self.clients:
            client.set_quiet(is_night)
        if not is_night:
            for node in self.nodes:
                for shard in node.shards:
                    node.after(self.random.randrange(1_000), shard.begin)

    # Advice.

    def advise(self, node: Node, log: Log, is_wanted: bool = True) -> None:
        """Tell one node; it may hear it late."""
        if node.is_down:
            return
        shard = node.shards[self.world.logs.index(log)]
        node.after(self.random.choice((0, 0, 10, 500)), partial(self._hear, shard, is_wanted))
        others = [each for each in self.nodes if each is not node and not each.is_down]
        if is_wanted and any(each.shards[shard.index].is_wanted for each in others):
            self.world.marks.reach("two_told")

    def _hear(self, shard: ShardNode, is_wanted: bool) -> None:
        if not self.is_over:
            shard.advise(is_wanted)

    # The end.

    def _make_peace(self) -> None:
        """No faults from now on; each shard is given to one node."""
        self.is_over = True
        self.set_night(False)
        self.world.network.make_peace()
        for client in self.clients:
            client.hurry(400)
        for log, epochs in zip(self.world.logs, self.world.epochs, strict=True):
            log.is_peaceful = True
            epochs.fail_until(0)
        for node in self.nodes:
            node.reads_slowly_until_ms = 0
            node.start()
            node.go_on(node.incarnation)
        advised = [self.random.choice(self.nodes) for _ in self.world.logs]
        for index in range(len(advised)):
            for node in self.nodes:
                node.shards[index].advise(node is advised[index])
        self._settle(advised)
        self._check_cleaning()

    def _settle(self, advised: list[Node]) -> None:
        end_ms = self.timeline.now_ms + PEACE_MS
        acked = [writer.acked for writer in self.writers]
        self.run_until(self.timeline.now_ms + 5_000)
        while unsettled := self._unsettled(advised, acked):
            if self.timeline.now_ms >= end_ms:
                raise self._failure([f"not in {PEACE_MS} ms: {', '.join(unsettled)}"])
            self.run_until(self.timeline.now_ms + LOOK_EVERY_MS)

    def _unsettled(self, advised: list[Node], acked: list[int]) -> list[str]:
        found = [
            f"node {node.node_id} {'does not serve' if node is wanted else 'serves'} shard {index}"
            for index, wanted in enumerate(advised)
            for node in self.nodes
            if node.shards[index].may_answer is not (node is wanted)
        ]
        pairs = zip(self.writers, acked, strict=True)
        return found + [f"{writer.key} is not written" for writer, before in pairs if writer.acked <= before]

    def _check_cleaning(self) -> None:
        """The log that the cleaner has left says the same as all that was ever written."""
        for log in self.world.logs:
            log.clean()
            whole = [each for each in log.leader.batches if each.end_offset <= log.committed_end]
            state: dict[str, int] = {}
            books = ClaimBook(), ClaimBook()
            for batches, book in zip((log.history, whole), books, strict=True):
                for each in batches:
                    if each.claim:
                        book.take(each.base_offset, each.writer, each.claim)
            for each in whole:
                state.update(each.commits)
            if state != log.folded or books[0].unsealed() != books[1].unsealed():
                raise self._failure([f"{log.name}: {log.folded} is cleaned to {state}"])

    def _failure(self, violations: list[str]) -> Failure:
        broken = "\n".join(violations[:5])
        command = f"python -m tests.simulation {self.options}--seed {self.seed}"
        return Failure(f"{broken}\nat {self.timeline.now_ms} ms; repeat it: {command}")

    def _summary(self) -> BackingSummary:
        watch = self.world.watch
        reached = frozenset(self.world.marks.reached)
        return BackingSummary(
            self._steps, self.timeline.now_ms, watch.served, watch.acked, watch.read, reached
        )
