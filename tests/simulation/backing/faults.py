"""What goes wrong by day, and in the nights between."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from tests.simulation.backing.log import DAY_MS
from tests.simulation.backing.node import Node
from tests.simulation.timeline import Action

if TYPE_CHECKING:
    from tests.simulation.backing.history import BackingHistory

HOUR_MS: Final = 3_600_000
ALL_LEASES_MS: Final = 20_000
"""In so long another node is the owner."""


def give(history: BackingHistory) -> None:
    """A shard is to go to another node, and each hears that when it does."""
    log, chosen = history.random.choice(history.world.logs), history.random.choice(history.nodes)
    for node in history.nodes:
        if node is chosen or history.random.random() < 0.8:
            history.advise(node, log, node is chosen)


def tell_any(history: BackingHistory) -> None:
    random = history.random
    history.advise(random.choice(history.nodes), random.choice(history.world.logs), random.random() < 0.7)


def tell_and_take_back(history: BackingHistory) -> None:
    """A node is told to own a shard, and at once, or soon, not to."""
    random = history.random
    log, node = random.choice(history.world.logs), random.choice(history.nodes)
    history.advise(node, log)
    later_ms = random.choice((0, 3, 10, 50, 200, 1_500, 4_000))
    history.timeline.after(later_ms, partial(history.advise, node, log, False))


def move_a_leader(history: BackingHistory) -> None:
    history.random.choice(history.world.logs).move([node.node_id for node in history.nodes])


def give_and_move(history: BackingHistory) -> None:
    """The leader changes about when a claim comes."""
    give(history)
    history.timeline.after(
        history.random.randrange(1_200), partial(_by_day, history, partial(move_a_leader, history))
    )


def mislead_an_owner(history: BackingHistory) -> None:
    """An owner hears late, or from a leader of the past, that its shard goes to another; it has no writes."""
    random = history.random
    node = random.choice(owners(history) or history.nodes)
    others = [each for each in history.nodes if each is not node]
    log = random.choice(history.world.logs)
    until_ms = history.timeline.now_ms + 15_000
    kind = random.random()
    if kind < 0.4:
        node.reads_slowly_until_ms = until_ms
    elif kind < 0.7:
        log.move([node.node_id])
    else:
        node.reads_slowly_until_ms = until_ms
        log.dies_at_claim = True
    quiet_ms = random.randrange(300, 3_000)
    for writer in history.writers:
        for at_ms, is_quiet in (quiet_ms, True), (until_ms - history.timeline.now_ms, False):
            history.timeline.after(at_ms, partial(_by_day, history, partial(writer.set_quiet, is_quiet)))
    history.run_until(history.timeline.now_ms + quiet_ms + random.randrange(1_500))
    history.advise(random.choice(others), log)
    history.run_until(until_ms)


def pause_a_node(history: BackingHistory) -> None:
    pause_ms = history.random.choice((1, 100, 1_000, 4_000, 12_000))
    history.random.choice(history.nodes).pause(history.random.randint(1, pause_ms))


def pause_an_owner(history: BackingHistory) -> None:
    """Its shards go to another node meanwhile."""
    random = history.random
    node = random.choice(owners(history) or history.nodes)
    node.pause(random.randint(1_000, 15_000))
    give(history)


def pause_a_claimant(history: BackingHistory) -> None:
    """A node is paused, and perhaps another is told, while it asks for an epoch, or claims."""
    random = history.random
    log, node = random.choice(history.world.logs), random.choice(history.nodes)
    history.advise(node, log)
    pause_ms = random.choice((50, 2_000, 12_000))
    history.timeline.after(random.choice((1, 4, 8, 15, 60, 1_003)), partial(node.pause, pause_ms))
    if random.random() < 0.7:
        history.advise(random.choice(history.nodes), log)


def chain(history: BackingHistory) -> None:
    """While an owner is paused, for less than its lease, one node after the other claims and does not last."""
    random = history.random
    log, paused = random.choice(history.world.logs), random.choice(owners(history) or history.nodes)
    others = [node for node in history.nodes if node is not paused]
    paused.pause(random.randrange(1_500, 6_000))
    at_ms = 0
    for _ in range(random.randint(2, 3)):
        node = random.choice(others)
        history.timeline.after(at_ms, partial(_by_day, history, partial(history.advise, node, log)))
        at_ms += random.choice((10, 200, 1_100))
        end = random.choice((partial(history.advise, node, log, False), partial(_crash, history, node, 1)))
        history.timeline.after(at_ms, partial(_by_day, history, end))
    last = partial(history.advise, random.choice(others), log)
    history.timeline.after(at_ms + 2, partial(_by_day, history, last))
    history.run_until(history.timeline.now_ms + random.randrange(8_000))


def _by_day(history: BackingHistory, action: Action) -> None:
    if not (history.is_over or history.world.network.is_night):
        action()


def crash_a_node(history: BackingHistory) -> None:
    back_ms = history.random.choice((1, 500, 3_000))
    _crash(history, history.random.choice(history.nodes), back_ms)


def _crash(history: BackingHistory, node: Node, back_ms: int) -> None:
    node.crash()
    history.timeline.after(back_ms, partial(_restart, history, node))


def _restart(history: BackingHistory, node: Node) -> None:
    if node.is_down:
        node.start()
        for log in history.world.logs:
            history.advise(node, log, history.random.random() < 0.5)


def clean(history: BackingHistory) -> None:
    for log in history.world.logs:
        log.clean()


def lose_epochs(history: BackingHistory) -> None:
    """There is no transaction coordinator for a while."""
    until_ms = history.timeline.now_ms + history.random.choice((500, 5_000))
    history.random.choice(history.world.epochs).fail_until(until_ms)


FAULTS: Final = (
    *[give] * 6,
    *[give_and_move] * 2,
    *[tell_any] * 3,
    *[tell_and_take_back] * 2,
    *[move_a_leader] * 2,
    *[pause_a_node] * 3,
    *[pause_an_owner] * 2,
    *[pause_a_claimant] * 3,
    *[chain] * 3,
    *[mislead_an_owner] * 2,
    crash_a_node,
    clean,
    lose_epochs,
)

# Nights.


def owners(history: BackingHistory) -> list[Node]:
    return [node for node in history.nodes if any(shard.may_answer for shard in node.shards)]


def night(history: BackingHistory) -> None:
    """Hours or days without requests."""
    history.random.choice((quiet_night, zombie_night, frozen_night))(history)
    history.set_night(False)


def _tell_one(history: BackingHistory, chosen: Node) -> None:
    for log in history.world.logs:
        for node in history.nodes:
            history.advise(node, log, node is chosen)


def quiet_night(history: BackingHistory) -> None:
    random = history.random
    _tell_one(history, random.choice(history.nodes))
    history.run_until(history.timeline.now_ms + random.choice((0, ALL_LEASES_MS)))
    history.set_night(True)
    dawn_ms = history.timeline.now_ms + random.choice((2 * HOUR_MS, 26 * HOUR_MS, 2 * DAY_MS, 8 * DAY_MS))
    for _ in range(random.choice((0, 1, 2))):
        history.run_until(history.timeline.now_ms + random.randrange(HOUR_MS))
        random.choice(history.nodes).pause(random.randrange(2 * DAY_MS))
    history.run_until(dawn_ms)


def _owner_at_work(history: BackingHistory) -> Node:
    """A node that has more to write when it hears of a batch, if there is one before long."""
    for writer in history.writers:
        writer.hurry(50)
    for _ in range(400):
        for node in owners(history):
            if not node.is_paused and any(shard.gathered.commits for shard in node.shards):
                return node
        history.run_until(history.timeline.now_ms + 10)
    return history.random.choice(owners(history) or history.nodes)


def zombie_night(history: BackingHistory) -> None:
    """An owner is paused amid its work; the next takes over, and does not live for long either."""
    random = history.random
    zombie = _owner_at_work(history)
    others = [node for node in history.nodes if node is not zombie]
    wake_ms = history.timeline.now_ms + random.randrange(25 * HOUR_MS, 2 * DAY_MS)
    zombie.pause(wake_ms - history.timeline.now_ms)
    _tell_one(history, random.choice(others))
    history.run_until(history.timeline.now_ms + random.randrange(2_000, ALL_LEASES_MS))
    history.set_night(True)
    for node in others:
        node.go_on(node.incarnation)
        node.pause(wake_ms + random.randrange(60_000) - history.timeline.now_ms)
    history.run_until(wake_ms + random.randrange(5_000))


def _is_shut_out(zombie: Node, owner: Node) -> bool:
    """Whether the owner knows that a producer id of the zombie's is sealed."""
    pairs = zip(zombie.shards, owner.shards, strict=True)
    return any(its.ownership.book.is_sealed(mine.producer_id) for mine, its in pairs)


def frozen_night(history: BackingHistory) -> None:
    """The whole machine of an owner stands still, and its clock with it; another node owns its shards well."""
    random = history.random
    zombie = _owner_at_work(history)
    others = [node for node in history.nodes if node is not zombie]
    zombie.go_on(zombie.incarnation)
    wake_ms = history.timeline.now_ms + random.randrange(25 * HOUR_MS, 2 * DAY_MS)
    zombie.pause(wake_ms - history.timeline.now_ms, is_frozen=True)
    chosen = random.choice(others)
    chosen.go_on(chosen.incarnation)
    _tell_one(history, chosen)
    history.run_until(history.timeline.now_ms + ALL_LEASES_MS)
    history.set_night(True)
    # A seal is remembered for a day, and nobody says it again: there the protocol needs clocks that go on.
    if all(shard.may_answer for shard in chosen.shards) and not _is_shut_out(zombie, chosen):
        history.world.marks.reach("frozen")
        history.run_until(wake_ms)
    else:
        zombie.crash()  # Nothing keeps its epochs from being forgotten.
        zombie.start()
