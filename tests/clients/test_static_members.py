"""Static members (KIP-345): one that restarts within its session goes on where it was, without a rebalance."""

from __future__ import annotations

from harness.observer import Observer
from tests.clients.fleet import Fleet, Worker
from tests.clients.groups import Group, values_seen

# Longer than a restart takes on a busy machine, so that only the restart is tested.
SESSION_TIMEOUT_MS = 30_000


def test_a_restarted_static_member_costs_no_rebalance(family: str, fleet: Fleet, observer: Observer) -> None:
    group = Group(fleet, observer)
    config = {"session_timeout_ms": SESSION_TIMEOUT_MS, "assignor": "range"}
    first, second = (group.start(family, instance_id=instance, **config) for instance in ("one", "two"))
    group.await_shared(first, second)
    group.write()
    group.await_everything_read(first, second)
    group.await_everything_committed(first, second)
    rebalances = len(second.of("owns"))
    generation, ids = group.generations()[-1].number, group.member_ids()
    first.kill()
    restarted = group.start(family, instance_id="one", **config)
    group.await_shared(restarted, second)
    group.write()
    group.await_everything_read(first, restarted, second)
    assert values_seen(restarted), "the restarted member reads its share"
    assert last_share(restarted) == last_share(first)
    assert len(second.of("owns")) == rebalances, second.story()
    # As the coordinator has it: the restarted member got a new id, and that is all that happened.
    assert group.generations()[-1].number == generation
    assert len(group.member_ids() & ids) == 1
    assert len(group.member_ids()) == 2


def last_share(member: Worker) -> list[str]:
    partitions: list[str] = member.of("owns")[-1]["partitions"]
    return partitions
