"""What is between nodes and Kafka: messages that are late, lost, doubled and out of order."""

from __future__ import annotations

from random import Random

from tests.simulation.timeline import Action, Timeline


class Network:
    """Carries each message on its own."""

    def __init__(self, timeline: Timeline, random: Random) -> None:
        self.is_night = False
        self._timeline = timeline
        self._random = random
        self._faults = random.choice((0.0, 0.01, 0.05))
        """How often a message is lost, and how often it comes twice."""
        self._delays = random.choice((0.01, 0.05, 0.2))
        self._peaceful_from_ms: int | None = None

    def carry(self, arrive: Action) -> None:
        """Have the message arrive: once, or twice, or not at all."""
        if self._peaceful_from_ms is not None:
            self._timeline.after(1, arrive)
            return
        draw = self._random.random()
        if draw < self._faults:
            return
        self._late(arrive)
        if draw > 1 - self._faults:
            self._late(arrive)

    def _late(self, arrive: Action) -> None:
        self._timeline.after(self._delay_ms(), lambda: self._arrive(arrive))

    def _delay_ms(self) -> int:
        random, draw = self._random, self._random.random()
        if draw < self._delays / 50:
            return random.randrange(600_000 if self.is_night else 60_000)
        if draw < self._delays:
            return random.randrange(2_000)
        return random.randint(1, 5)

    def _arrive(self, arrive: Action) -> None:
        """After some seconds of peace the network has forgotten what it still had."""
        peaceful_from_ms = self._peaceful_from_ms
        if peaceful_from_ms is None or self._timeline.now_ms < peaceful_from_ms + 3_000:
            arrive()

    def make_peace(self) -> None:
        self.is_night = False
        self._peaceful_from_ms = self._timeline.now_ms
