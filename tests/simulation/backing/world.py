"""What all parts of a history share."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from tests.simulation.backing.epochs import Epochs
from tests.simulation.backing.log import Log
from tests.simulation.backing.marks import BACKING_MARKS
from tests.simulation.backing.network import Network
from tests.simulation.backing.watch import Watch
from tests.simulation.marks import Marks
from tests.simulation.timeline import Timeline

KEYS: Final = ("a", "b", "c")
"""Of each shard; each has one writer."""


class World:
    """Kafka, the network, and who watches."""

    def __init__(self, random: Random, shards: int) -> None:
        self.random = random
        self.timeline = Timeline()
        self.marks = Marks(BACKING_MARKS)
        self.watch = Watch(self.timeline)
        self.network = Network(self.timeline, random)
        self.logs = [
            Log(f"shard {index}", self.timeline, random, self.marks, self.watch) for index in range(shards)
        ]
        self.epochs = [Epochs(random, self.marks) for _ in range(shards)]
        self.tell: Callable[[str], None] | None = None

    def say(self, happened: str) -> None:
        if self.tell is not None:
            self.tell(f"{self.timeline.now_ms:>13,}  {happened}")
