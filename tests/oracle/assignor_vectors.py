"""Histories of groups with the targets that Apache Kafka 4.3.1 computed for them (assignor-4.3.1.txt, Rand.java).

S <seed> <assignor> <topic> <id, upper half> <id, lower half> <partitions>;...
J <member> <names>     the member joins; the names are in the order of its request
L <gone> <next>        the member `gone` leaves, then `next` heartbeats
C <member> <names>     the member changes its subscription
...|<member>=<topic>:[<partitions>] ...|...     behind each step: the target of every member
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

VECTORS = Path(__file__).parent / "assignor-4.3.1.txt"

Targets = dict[str, dict[str, list[int]]]


@dataclass(frozen=True, slots=True)
class VectorTopic:
    name: str
    topic_id: bytes
    partition_count: int


@dataclass(frozen=True, slots=True)
class Step:
    """One step: its letter, the members it names, the names subscribed, and all targets after it."""

    kind: str
    members: tuple[str, ...]
    names: tuple[str, ...]
    targets: Targets


@dataclass(frozen=True, slots=True)
class History:
    seed: int
    assignor: str
    topics: tuple[VectorTopic, ...]
    steps: list[Step] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.assignor}-{self.seed}"


def histories(text: str) -> list[History]:
    """Return the histories of a file in the form above."""
    return list(_histories(text))


def _histories(text: str) -> Iterator[History]:
    history = None
    for line in text.splitlines():
        if line.startswith("S "):
            if history is not None:
                yield history
            _, seed, assignor, topics = line.split(" ", 3)
            history = History(int(seed), assignor, tuple(map(_topic, filter(None, topics.split(";")))))
        elif line and not line.startswith("#"):
            assert history is not None, f"a step before its history: {line}"
            history.steps.append(_step(line))
    if history is not None:
        yield history


def _topic(text: str) -> VectorTopic:
    name, upper, lower, partition_count = text.split()
    topic_id = int(upper).to_bytes(8, signed=True) + int(lower).to_bytes(8, signed=True)
    return VectorTopic(name, topic_id, int(partition_count))


def _step(line: str) -> Step:
    said, *targets = line.split("|")
    kind, *words = said.split()
    if kind == "L":
        return Step(kind, tuple(words), (), dict(map(_target, targets)))
    return Step(kind, (words[0],), tuple(words[1].split(",")), dict(map(_target, targets)))


def _target(text: str) -> tuple[str, dict[str, list[int]]]:
    member_id, _, topics = text.partition("=")
    pairs = (topic.split(":") for topic in topics.split())
    return member_id, {
        name: [int(number) for number in numbers.strip("[]").split(",")] for name, numbers in pairs
    }
