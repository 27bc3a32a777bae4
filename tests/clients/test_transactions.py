"""Transactions of every client library: commit, abort, offsets, fencing by a second life, abort by timeout."""

from __future__ import annotations

from harness.observer import Observer, unique
from tests.clients.fleet import Fleet

RECORDS = 10
STEPS = ("commit", "abort", "offsets", "fencing", "timeout")


def test_every_step_of_a_transaction_works(family: str, quick_fleet: Fleet, watcher: Observer) -> None:
    source = watcher.create_topic("source", 1)
    watcher.write(source, map(str, range(RECORDS)), 0)
    worker = quick_fleet.start(
        family,
        "transactions",
        topic=watcher.create_topic("transacted", 1),
        source=source,
        records=RECORDS,
        group=unique("transacting"),
        transactional_id=unique("walker"),
    )
    worker.finish()
    assert tuple(event["step"] for event in worker.of("step")) == STEPS
