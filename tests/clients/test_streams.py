"""Kafka Streams, the released jar: a word count with exactly_once_v2, killed and restarted, writes each once.

Its group is a classic one, which groups of the new protocol, and consumers of it that err, leave alone.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from harness.messages import key_of, value_of
from harness.observer import Observer, unique
from harness.processes import wait_until
from harness.wire import WireClient
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.backing.node_processes import coordinator_of
from tests.clients import chronicle
from tests.clients.committed import CommittedView
from tests.clients.fleet import DEADLINE_S, Fleet, Worker
from tests.clients.groups import Group

PARTITIONS = 2
WORDS = ("apple", "pear", "plum", "quince", "medlar")
LINES = 300
SEED = 6
LONG_SESSION_MS = "30000"
REFUSAL = (
    "Cannot upgrade classic group {} to consumer group because an unsupported custom assignor is in use. Please "
    "refer to the documentation or switch to a default assignor before re-attempting the upgrade."
)
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
    application = unique("transacting-word-count")

    def start() -> Worker:
        arguments = (application, source, target, str(tmp_path / "state"))
        return quick_fleet.start_java("WordCount", SOURCES, streams_jars, *arguments)

    view = CommittedView(watcher.bootstrap, target, PARTITIONS)
    first = start()
    watcher.write(source, lines[: LINES // 2])
    first.wait_for(lambda: len(view.values()) > expected.total() // 8, "the first counts")
    rest = iter(lines[LINES // 2 :])

    def is_amid_a_transaction() -> bool:
        """Each is open for half a second at most: line by line there are many of them to be looked at in time."""
        watcher.write(source, islice(rest, 1))
        return view.has_open_transaction()

    first.wait_for(is_amid_a_transaction, "a transaction with counts")
    first.kill()
    watcher.write(source, rest)
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


def test_an_application_goes_on_beside_groups_of_the_new_protocol(
    streams_jars: Path, quick_fleet: Fleet, watcher: Observer, tmp_path: Path
) -> None:
    """Such groups come and go, and their consumers try the application's own group: it keeps its generation."""
    source, target = watcher.create_topic("lines", PARTITIONS), watcher.create_topic("counts", PARTITIONS)
    application, view = unique("transacting-word-count"), CommittedView(watcher.bootstrap, target, PARTITIONS)
    arguments = (application, source, target, str(tmp_path / "state"), LONG_SESSION_MS)
    app = quick_fleet.start_java("WordCount", SOURCES, streams_jars, *arguments)

    def count(until: int) -> None:
        """Give it words, and wait for so many counts in all."""
        watcher.write(source, ["apple pear plum"] * 10)
        app.wait_for(lambda: len(view.values()) >= until, f"{until} counts")

    count(30)
    assert watcher.state(application) == "STABLE"
    before = chronicle.generations(watcher, application)
    for number in range(2):
        group = Group(quick_fleet, watcher)
        members = [group.start("confluent", protocol="consumer") for _ in range(2)]
        group.await_shared(*members)
        count(60 + 60 * number)
        group.stop(*members)
        intruder = quick_fleet.start(
            "java", "member", group=application, topics=[source], protocol="consumer"
        )
        is_refused = lambda: "GroupIdNotFoundException" in intruder.story()  # noqa: B023, E731 - called at once.
        intruder.wait_for(is_refused, "the refusal of a Java consumer", may_end=True)
        refused_joins(watcher, application, source)
        count(90 + 60 * number)
    assert chronicle.generations(watcher, application) == before
    assert watcher.state(application) == "STABLE"
    assert app.status is None
    app.terminate()
    counts = sorted(int(value) for value in view.read_to_the_end())
    assert counts == sorted([*range(1, 51)] * 3), "each count once"
    view.close()


def refused_joins(watcher: Observer, application: str, source: str) -> None:
    """A join of the new protocol is refused, and what is no join is none of a consumer group."""
    for epoch, said in (
        (0, REFUSAL),
        (1, "Group {} is not a consumer group."),
        (-1, "Group {} is not a consumer group."),
    ):
        request = ConsumerGroupHeartbeatRequest(
            group_id=application,
            member_id="intruder",
            member_epoch=epoch,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=[source],
            topic_partitions=[],
        )
        found = coordinator_of(watcher.bootstrap, application)
        with WireClient(f"{found.host}:{found.port}") as client:
            answer = client.ask(request, 1)
        seen = (answer.error_code, answer.error_message)
        assert seen == (ErrorCode.GROUP_ID_NOT_FOUND, said.format(application))
