"""Kafka Streams, the released jar: a word count with exactly_once_v2, killed and restarted, writes each once."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from harness.messages import key_of, value_of
from harness.observer import Observer, unique
from harness.processes import wait_until
from tests.clients.committed import CommittedView
from tests.clients.fleet import DEADLINE_S, Fleet, Worker

PARTITIONS = 2
WORDS = ("apple", "pear", "plum", "quince", "medlar")
LINES = 300
SEED = 6
Record = Callable[[str, object], None]
SOURCES = Path(__file__).parent / "java_streams"


def test_a_word_count_is_right_though_it_is_killed_in_the_middle(
    streams_jars: Path, quick_fleet: Fleet, watcher: Observer, tmp_path: Path, record_property: Record
) -> None:
    """Every update of every count is written exactly once: 1, 2, 3, ... for each word, in this order."""
    chance = random.Random(SEED)
    lines = [" ".join(chance.choices(WORDS, k=4)) for _ in range(LINES)]
    expected = Counter(word for line in lines for word in line.split())
    source, target = watcher.create_topic("lines", PARTITIONS), watcher.create_topic("counts", PARTITIONS)
    application = unique("word-count")

    def start() -> Worker:
        arguments = (application, source, target, str(tmp_path / "state"))
        return quick_fleet.start_java("WordCount", SOURCES, streams_jars, *arguments)

    view = CommittedView(watcher.bootstrap, target, PARTITIONS)
    first = start()
    watcher.write(source, lines[: LINES // 2])
    first.wait_for(lambda: len(view.values()) > expected.total() // 8, "the first counts")
    watcher.write(source, lines[LINES // 2 :])
    first.wait_for(view.has_open_transaction, "a transaction with counts")
    first.kill()
    seen = len(view.values())
    second = start()
    second.wait_for(lambda: len(view.values()) >= expected.total(), "all counts")
    second.terminate()
    view.read_to_the_end()
    counts: dict[str, list[int]] = {word: [] for word in WORDS}
    for records in view.records.values():
        for record in records:
            counts[key_of(record).decode()].append(int(value_of(record)))
    assert counts == {word: list(range(1, expected[word] + 1)) for word in WORDS}
    view.close()
    record_property(
        "figure", f"streams: killed behind {seen} of {expected.total()} counts, each written once"
    )
    wait_until(lambda: watcher.state(application) == "EMPTY", "the application has left", DEADLINE_S)
