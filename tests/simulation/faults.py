"""What can go wrong, or change. Each is given the simulation, and draws the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from tests.simulation.admin import let_an_admin_work
from tests.simulation.cuts import EVERY_CLIENT, Way
from tests.simulation.parameters import UNLIMITED
from tests.simulation.profile import SUBSCRIPTIONS
from tests.simulation.timeline import Origin, Task

if TYPE_CHECKING:
    from tests.simulation.consumer import Consumer
    from tests.simulation.simulation import Simulation

PARTITIONS_MAX: Final = 8


def crash(simulation: Simulation) -> None:
    """The coordinator dies, at once or within its next flush, and is started again."""
    if simulation.random.random() < 0.5:
        _crash_now(simulation)
    else:
        simulation.disk.during_flush = partial(_crash_now, simulation)


def _crash_now(simulation: Simulation) -> None:
    if simulation.server.runtime is not None and not simulation.disk.is_sound:  # Else there is peace by now.
        simulation.server.crash()
        simulation.timeline.after(
            simulation.random.choice((50, 1_000, 8_000)), partial(start_again, simulation)
        )


def start_again(simulation: Simulation) -> None:
    if simulation.server.runtime is None:
        simulation.server.start()


def restart_cleanly(simulation: Simulation) -> None:
    """The coordinator is stopped, which leaves its logs closed, with snapshots beside them, and started again."""
    server = simulation.server
    if server.runtime is not None and not simulation.disk.is_sound and not server.loop.is_stopped:
        server.stop()
        simulation.timeline.after(
            simulation.random.choice((50, 1_000, 8_000)), partial(start_again, simulation)
        )


def stop_the_server(simulation: Simulation) -> None:
    simulation.server.stop_for(simulation.random.choice((100, 400, 3_000, 20_000, 60_000)))


def break_the_disk(simulation: Simulation) -> None:
    simulation.disk.fail_soon()


def fill_the_disk(simulation: Simulation) -> None:
    """Until there is room again; a coordinator that is killed for it meanwhile is no better off."""
    simulation.disk.is_full = True
    full_ms = simulation.random.choice((200, 3_000, 20_000, 70_000))
    simulation.timeline.after(full_ms, partial(_make_room, simulation))
    if simulation.random.random() < 0.2:
        simulation.timeline.after(simulation.random.randrange(2 * full_ms), partial(crash, simulation))


def _make_room(simulation: Simulation) -> None:
    simulation.disk.is_full = False


def compact_the_logs(simulation: Simulation) -> None:
    took_ms = simulation.random.choice((1, 100, 5_000))
    simulation.server.clean(took_ms, delete_retention_ms=simulation.random.choice((0, 0, 60_000)))
    if simulation.random.random() < 0.2:
        simulation.timeline.after(simulation.random.randrange(2 * took_ms), partial(crash, simulation))


def jump_the_wall_clock(simulation: Simulation) -> None:
    simulation.timeline.wall_offset_ms += simulation.random.choice((-3_600_000, -500, 500, 3_600_000))


def kill_a_client(simulation: Simulation) -> None:
    """It may come back as another process, with the same instance id if it has one."""
    if consumer := _pick(simulation):
        consumer.die()
        if simulation.random.random() < 0.8:
            later_ms = simulation.random.choice((10, 1_000, 15_000))
            simulation.timeline.after(later_ms, lambda: simulation.add(consumer.profile))


def let_one_leave(simulation: Simulation) -> None:
    if consumer := _pick(simulation):
        Task(consumer.leave())
        later_ms = simulation.random.choice((10, 1_000, 15_000))
        simulation.timeline.after(later_ms, lambda: simulation.add(consumer.profile))


def pause_a_client(simulation: Simulation) -> None:
    if consumer := _pick(simulation):
        consumer.pause()
        simulation.paused.append(consumer)
        simulation.timeline.after(simulation.random.choice((500, 5_000, 30_000)), consumer.go_on)


def get_one_stuck(simulation: Simulation) -> None:
    if consumer := _pick(simulation):
        consumer.get_stuck(simulation.timeline.now_ms + simulation.random.choice((2_000, 12_000, 40_000)))


def start_a_twin(simulation: Simulation) -> None:
    """Two processes under one instance id: the older is fenced, whatever it is doing."""
    static = [consumer for consumer in simulation.running() if consumer.profile.instance_id is not None]
    if static:
        simulation.add(simulation.random.choice(static).profile)


def change_a_subscription(simulation: Simulation) -> None:
    consumer = _pick(simulation)
    if consumer is not None and not consumer.profile.is_worker:
        consumer.subscribe(simulation.random.choice(SUBSCRIPTIONS))


def have_one_rejoin(simulation: Simulation) -> None:
    if consumer := _pick(simulation):
        consumer.rejoin()


def _pick(simulation: Simulation) -> Consumer | None:
    running = simulation.running()
    return simulation.random.choice(running) if running else None


def grow_a_topic(simulation: Simulation) -> None:
    """Leaders notice, and join again."""
    topics = simulation.topics
    if topics.names():
        name = simulation.random.choice(topics.names())
        count = topics.partition_count(name) or 0
        topics.grow(name, min(count + simulation.random.randint(1, 2), PARTITIONS_MAX))
        simulation.witness.marks.reach("topic_grown")


def delete_a_topic(simulation: Simulation) -> None:
    """And have it made again, at once or later, under another id and with other partitions.

    The daemon itself deletes it, so nothing happens while it is dead or stopped. It may die just then: its shards
    find out when they are loaded.
    """
    random, server = simulation.random, simulation.server
    if not simulation.topics.names():
        return
    name = random.choice(simulation.topics.names())
    dies = random.random() < 0.2
    later_ms = random.choice((0, 10, 2_000, 20_000))

    def delete() -> None:
        if simulation.topics.partition_count(name) is None or simulation.disk.is_sound:
            return
        simulation.witness.on_topic_deleted(name)
        topic_id = simulation.topics.delete(name)
        if dies:
            server.crash()
            simulation.timeline.after(1_000, partial(start_again, simulation))
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
        simulation.timeline.after(50, partial(start_again, simulation))


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


Fault = Callable[["Simulation"], None]

FAULTS: Final[list[Fault]] = [
    crash,
    crash,
    restart_cleanly,
    stop_the_server,
    break_the_disk,
    fill_the_disk,
    compact_the_logs,
    compact_the_logs,
    jump_the_wall_clock,
    kill_a_client,
    kill_a_client,
    let_one_leave,
    pause_a_client,
    get_one_stuck,
    get_one_stuck,
    start_a_twin,
    change_a_subscription,
    have_one_rejoin,
    let_an_admin_work,
    let_an_admin_work,
    grow_a_topic,
    delete_a_topic,
    cut_the_network,
    restart_with_a_smaller_maximum,
]
