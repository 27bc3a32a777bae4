"""More of what can go wrong, or change: topics, settings, the network. Each is given the simulation, and draws the
rest."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tests.simulation.cuts import EVERY_CLIENT, Way
from tests.simulation.parameters import UNLIMITED
from tests.simulation.timeline import Origin

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

PARTITIONS_MAX: Final = 8


def grow_a_topic(simulation: Simulation) -> None:
    """Leaders notice, and join again."""
    topics = simulation.topics
    if topics.names:
        name = simulation.random.choice(topics.names)
        count = topics.partition_count(name) or 0
        topics.grow(name, min(count + simulation.random.randint(1, 2), PARTITIONS_MAX))
        simulation.witness.marks.reach("topic_grown")


def delete_a_topic(simulation: Simulation) -> None:
    """And have it made again, at once or later, under another id and with other partitions.

    The daemon itself deletes it, so nothing happens while it is dead or stopped. It may die just then: its shards
    find out when they are loaded.
    """
    random, server = simulation.random, simulation.server
    if not simulation.topics.names:
        return
    name = random.choice(simulation.topics.names)
    dies = random.random() < 0.2
    later_ms = random.choice((0, 10, 2_000, 20_000))

    def delete() -> None:
        if simulation.topics.partition_count(name) is None or simulation.disk.is_sound:
            return
        simulation.witness.on_topic_deleted(name)
        topic_id = simulation.topics.delete(name)
        if dies:
            server.crash()
            simulation.timeline.after(1_000, simulation.start_again)
        for runner in server.runners:
            runner.topic_deleted(name, topic_id)
        simulation.timeline.after(later_ms, lambda: make_a_topic(simulation, name))

    server.loop.run_at(simulation.timeline.now_ms, Origin.SOCKET, delete)


def make_a_topic(simulation: Simulation, name: str) -> None:
    """A topic that was deleted is there again."""
    if simulation.topics.partition_count(name) is None:
        simulation.topics.make(name, simulation.random.randint(1, 4))


def restart_with_a_smaller_maximum(simulation: Simulation) -> None:
    """Groups may be larger than that when they are loaded (3.31). Only once, and not where one is set."""
    server = simulation.server
    if (
        server.runtime is not None
        and not simulation.disk.is_sound
        and server.settings.group_max_size == UNLIMITED
    ):
        server.crash()
        server.settings = replace(server.settings, group_max_size=simulation.random.choice((1, 2, 4)))
        simulation.timeline.after(50, simulation.start_again)


def cut_the_network(simulation: Simulation) -> None:
    """One client, or every client, is not heard for a while, or hears nothing, or both."""
    random = simulation.random
    running = simulation.running()
    client_ids = [random.choice(running).profile.client_id] if running else []
    client_id = random.choice((*client_ids, *client_ids, EVERY_CLIENT))
    way = random.choice((*Way, Way.BOTH))
    simulation.network.cuts.cut(client_id, way)
    cut_ms = random.choice((3_000, 15_000, 45_000, 90_000))
    simulation.timeline.after(cut_ms, lambda: simulation.network.cuts.mend(client_id, way))
