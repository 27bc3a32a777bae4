"""`muster groups why` on a daemon whose clients behave in a certain way: what it says, compared whole.

Each script is one row of the rules, or a few, played by real clients as processes of their own. Times, spans and
the names of group and topic differ from run to run, and are replaced.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness import java_tools
from harness.observer import Observer
from harness.processes import ServerProcess, wait_until
from harness.wire import WireClient
from muster.groups.history import NO_HISTORY
from muster.groups.why.client_texts import Said
from protocol.consumer import ConsumerProtocolSubscription, encode_subscription
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tests.clients.fleet import DEADLINE_S, ROOT, Fleet, Worker
from tests.clients.groups import Group

POLL_MS = 6_500
"""Of slow poll loops: no less than a session, as librdkafka wants it."""

SILENT_MS = 20_000
RANGE: dict[str, object] = {"assignor": "range"}
CLIENT_CLASSES = re.compile(r"org/apache/kafka/clients/(consumer/internals|admin)/.*\.class")
HEARTBEAT_VERSION = 3
JOIN_VERSION = 7  # It is handed an id first, and gives no reason.

_SPAN = r"\d+(\.\d)? m?s\b|\d+ min( \d+ s)?"
_REPLACED = (
    (r"\d\d:\d\d:\d\d", "TIME"),
    (_SPAN, "SPAN"),
    (r"\d+% of its session", "N% of its session"),
    (r"generation \d+ to \d+", "generation N to M"),
    (r"generation \d+", "generation N"),
    (r"epoch \d+", "epoch N"),
    (r"orders-\d", "orders-N"),  # Who has which follows from the ids that members make up.
    (r"app-\d at 127.0.0.1 (came last|was waited for)", r"app-N at 127.0.0.1 \1"),
)


def texts() -> dict[str, list[str]]:
    """What is to be said in each script, by its name."""
    found: dict[str, list[str]] = {}
    for section in Path(__file__).with_name("why_texts.txt").read_text().split("# ")[1:]:
        script, *lines = section.strip().splitlines()
        found[script] = lines
    return found


EXPECTED = texts()


@pytest.fixture
def group(quick_fleet: Fleet, watcher: Observer) -> Group:
    return Group(quick_fleet, watcher)


@pytest.fixture
def anywhere(quick_broker: ServerProcess) -> Why:
    """For what a cluster without a history answers, too."""
    return Why(quick_broker.bootstrap)


@pytest.fixture
def why(target: str, anywhere: Why) -> Why:
    if target == "kafka":
        pytest.skip("Kafka keeps no history of its groups")
    return anywhere


class Why:
    """Asks as users do, and reads the answer as they do."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._last = ""

    def run(self, group: str, *options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "muster", "groups", "why", group, "--bootstrap", self._bootstrap]
        return subprocess.run([*command, *options], cwd=ROOT, capture_output=True, text=True, timeout=60)

    def says(
        self,
        group: Group,
        rule: str,
        *,
        is_over: bool = True,
        sees: str | None = None,
        meanwhile: Callable[[], object] = lambda: None,
    ) -> list[str]:
        """The lines about `group`, once the last rebalance is explained by `rule`, and over if it is to be.

        `sees` is the rule of an event after it that has to be there too; `meanwhile` is called before each look.
        """

        def explained() -> dict[str, Any] | None:
            meanwhile()
            ran = self.run(group.name, "--json")
            self._last = ran.stdout + ran.stderr
            if ran.returncode:
                return None
            answer: dict[str, Any] = json.loads(ran.stdout)
            is_seen = sees is None or sees in [each["rule"] for each in answer["since"]]
            return answer if _rule(answer) == rule and answer["is_over"] is is_over and is_seen else None

        try:
            answer = wait_until(explained, f"{rule} of {group.name}", DEADLINE_S)
        except TimeoutError as error:
            raise AssertionError(f"{error}\n{self._last}") from None
        assert answer is not None
        return [normal(line, group) for line in answer["text"]]


def _rule(answer: dict[str, Any]) -> str | None:
    return None if answer["why"] is None else str(answer["why"]["rule"])


def normal(line: str, group: Group) -> str:
    """The line without what differs from run to run."""
    line = line.replace(group.name, "billing").replace(group.topic, "orders")
    for pattern, replacement in _REPLACED:
        line = re.sub(pattern, replacement, line)
    return line


def members(group: Group, family: str, count: int, **config: object) -> list[Worker]:
    """Members app-1, app-2, ... that share the topic; they join one after the other, so the first one leads."""
    started: list[Worker] = []
    for number in range(1, count + 1):
        named = config | {"instance_id": f"i-{number}"} if config.get("static") else config
        started.append(group.start(family, client_id=f"app-{number}", **RANGE | named))
        group.await_shared(*started)
    return started


def test_a_member_that_is_closed(java: Path, group: Group, why: Why) -> None:
    first, second = members(group, "java", 2)
    second.stop()
    group.await_shared(first)
    assert why.says(group, "left_closed") == EXPECTED["a_member_that_is_closed"]


def test_a_crash(group: Group, why: Why) -> None:
    first, second = members(group, "confluent", 2)
    second.kill()
    group.await_shared(first)
    assert why.says(group, "expired") == EXPECTED["a_crash"]


def test_a_slow_poll_loop(java: Path, group: Group, why: Why) -> None:
    slow_poll_loop(group, "java")
    assert why.says(group, "left_poll_timeout") == EXPECTED["a_slow_poll_loop"]


def test_a_slow_poll_loop_of_a_client_that_gives_no_reason(group: Group, why: Why) -> None:
    slow_poll_loop(group, "confluent")
    assert (
        why.says(group, "left_without_a_reason")
        == EXPECTED["a_slow_poll_loop_of_a_client_that_gives_no_reason"]
    )


def slow_poll_loop(group: Group, family: str) -> None:
    """Two members, and a third that takes records and does not come back for more."""
    started = members(group, family, 2, max_poll_interval_ms=POLL_MS)
    slow = group.start(family, client_id="app-3", assignor="range", holds=True, max_poll_interval_ms=POLL_MS)
    group.await_shared(*started, slow)
    group.write()
    slow.wait_for_event("holding")


def test_a_closed_member_of_the_consumer_protocol(group: Group, why: Why) -> None:
    first, second = members(group, "confluent", 2, protocol="consumer")
    second.stop()
    group.await_shared(first)
    assert why.says(group, "left_without_a_reason") == EXPECTED["a_closed_member_of_the_consumer_protocol"]


def test_a_crash_of_a_member_of_the_consumer_protocol(group: Group, why: Why) -> None:
    first, second = members(group, "confluent", 2, protocol="consumer")
    second.kill()
    group.await_shared(first)
    assert why.says(group, "expired") == EXPECTED["a_crash_of_a_member_of_the_consumer_protocol"]


def test_new_partitions(java: Path, group: Group, why: Why) -> None:
    first, second = members(group, "java", 2, metadata_max_age_ms=1_000)
    group.grow(8)
    group.await_shared(first, second)
    assert why.says(group, "partitions_and_said") == EXPECTED["new_partitions"]


def test_new_partitions_of_a_consumer_group(group: Group, why: Why) -> None:
    """The assignor that moves none of the former ones."""
    first, second = members(group, "confluent", 2, protocol="consumer", assignor="uniform")
    group.grow(8)
    group.await_shared(first, second)
    assert why.says(group, "topics_changed") == EXPECTED["new_partitions_of_a_consumer_group"]


def test_a_deployment_that_is_scaled_out(group: Group, why: Why) -> None:
    (first,) = members(group, "confluent", 1, session_timeout_ms=30_000)
    first.pause()  # It holds the join phase open until both others are in.
    second = group.start("confluent", client_id="app-2", **RANGE)
    wait_until(lambda: len(group.member_ids()) == 2, "app-2 joins", DEADLINE_S)
    third = group.start("confluent", client_id="app-3", **RANGE)
    wait_until(lambda: len(group.member_ids()) == 3, "app-3 joins", DEADLINE_S)
    first.resume()
    group.await_shared(first, second, third)
    assert why.says(group, "joined_scaled_out") == EXPECTED["a_deployment_that_is_scaled_out"]


def test_a_static_restart(group: Group, why: Why) -> None:
    config: dict[str, Any] = {"static": True, "session_timeout_ms": 30_000}
    first, second = members(group, "confluent", 2, **config)
    second.kill()
    again = group.start("confluent", client_id="app-2", instance_id="i-2", **RANGE | config)
    group.await_shared(first, again)
    assert why.says(group, "joined", sees="static_restart") == EXPECTED["a_static_restart"]


def test_a_flapping_member(group: Group, why: Why) -> None:
    first, second = members(group, "confluent", 2)
    for _ in range(2):
        second.stop()
        group.await_shared(first)
        second = group.start("confluent", client_id="app-2", assignor="range")
        group.await_shared(first, second)
    assert why.says(group, "joined_flapping") == EXPECTED["a_flapping_member"]


def test_a_rolling_restart(group: Group, why: Why) -> None:
    running = members(group, "confluent", 3)
    for number in range(3):
        running[number].stop()
        group.await_shared(*running[:number], *running[number + 1 :])
        running[number] = group.start("confluent", client_id=f"app-{number + 1}", assignor="range")
        group.await_shared(*running)
    assert why.says(group, "joined_rolling_restart") == EXPECTED["a_rolling_restart"]


def test_a_member_that_never_syncs(group: Group, why: Why, quick_broker: ServerProcess) -> None:
    (first,) = members(group, "confluent", 1, max_poll_interval_ms=POLL_MS)
    with WireClient(quick_broker.bootstrap) as silent:
        beat = join_without_sync(silent, group)
        assert why.says(group, "never_synced", meanwhile=beat) == EXPECTED["a_member_that_never_syncs"]
    group.await_shared(first)


def join_without_sync(client: WireClient, group: Group) -> Callable[[], object]:
    """Join as a consumer would, be answered, and leave it at that; returns what sends a heartbeat."""
    subscription = ConsumerProtocolSubscription(topics=[group.topic])
    protocol = JoinGroupRequestProtocol(name="range", metadata=encode_subscription(subscription))
    request = JoinGroupRequest(
        group_id=group.name,
        session_timeout_ms=SILENT_MS,
        rebalance_timeout_ms=POLL_MS,
        member_id="",
        protocol_type="consumer",
        protocols=[protocol],
    )
    handed = client.ask(request, JOIN_VERSION)
    answer = client.ask(replace(request, member_id=handed.member_id), JOIN_VERSION)
    assert answer.error_code == ErrorCode.NONE
    heartbeat = HeartbeatRequest(
        group_id=group.name, generation_id=answer.generation_id, member_id=answer.member_id
    )
    return lambda: client.ask(heartbeat, HEARTBEAT_VERSION)


def test_a_coordinator_that_restarted(why: Why, own_quick_broker: ServerProcess, tmp_path: Path) -> None:
    fleet = Fleet(own_quick_broker.bootstrap, tmp_path)
    try:
        group = Group(fleet, Observer(own_quick_broker.bootstrap))
        first, second = members(group, "confluent", 2, session_timeout_ms=30_000)
        own_quick_broker.restart()
        group.reconnect()
        group.await_shared(first, second)
        lines = Why(own_quick_broker.bootstrap).says(group, "joined", sees="coordinator_restarted_stable")
        assert lines == EXPECTED["a_coordinator_that_restarted"]
    finally:
        fleet.close()


def test_a_rebalance_that_waits_for_a_member(target: str, group: Group, anywhere: Why) -> None:
    sleeper, _ = members(group, "confluent", 2, session_timeout_ms=30_000)
    sleeper.pause()
    group.start("confluent", client_id="app-3", **RANGE, session_timeout_ms=30_000)
    group.await_state("PREPARING_REBALANCING")
    if target == "muster":
        assert (
            anywhere.says(group, "joined", is_over=False) == EXPECTED["a_rebalance_that_waits_for_a_member"]
        )
    else:
        assert without_history(anywhere, group) == EXPECTED["a_rebalance_that_waits_on_kafka"]
    sleeper.resume()


def test_a_consumer_group_that_waits_for_a_member(target: str, group: Group, anywhere: Why) -> None:
    """A member that hangs in its poll loop heartbeats, and gives nothing up."""
    (stuck,) = members(group, "confluent", 1, protocol="consumer", holds=True)
    group.write()
    stuck.wait_for_event("holding")
    group.start("confluent", client_id="app-2", protocol="consumer")
    wait_until(lambda: '"Reconciling"' in anywhere.run(group.name, "--json").stdout, "it waits", DEADLINE_S)
    if target == "muster":
        assert anywhere.says(group, "joined", is_over=False) == EXPECTED["a_consumer_group_that_waits"]
    else:
        assert without_history(anywhere, group) == EXPECTED["a_consumer_group_that_waits_on_kafka"]


def test_each_reason_is_one_that_javas_client_has(java: Path) -> None:
    """Its classes have their texts as constants, cut where a value is put in."""
    jar = java_tools.kafka_jars() / f"kafka-clients-{java_tools.KAFKA_VERSION}.jar"
    with zipfile.ZipFile(jar) as classes:
        texts = b"".join(classes.read(name) for name in classes.namelist() if CLIENT_CLASSES.match(name))
    assert [said.name for said in Said if said.value.encode() not in texts] == []


def without_history(why: Why, group: Group) -> list[str]:
    """The lines about a group that rebalances on a cluster that keeps no history."""
    ran = why.run(group.name)
    assert (ran.returncode, ran.stderr) == (0, f"{NO_HISTORY}\n")
    return [normal(line, group) for line in ran.stdout.splitlines()]


def test_a_group_that_is_not_there(target: str, anywhere: Why) -> None:
    ran = anywhere.run("no-such-group")
    no_group = "there is no group no-such-group"
    why = no_group if target == "muster" else f"{NO_HISTORY}, and {no_group}"
    assert (ran.returncode, ran.stdout, ran.stderr) == (1, "", f"muster: {why}\n")


def test_a_time_that_is_none(anywhere: Why) -> None:
    ran = anywhere.run("billing", "--at", "yesterday")
    assert (ran.returncode, ran.stdout) == (2, "")
