"""Scripts of clients that behave in a certain way, for what `muster groups why` says of each; on any broker.

A script is played by real clients as processes of their own, on a group and a topic of its own, and ends once the
last rebalance is over. Some are played side by side: most of their time they wait for a session or a poll loop to
end. Times, spans and the names of group and topic differ from run to run, and are replaced in what is said.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from harness.observer import Observer
from harness.processes import wait_until
from harness.wire import WireClient
from protocol.consumer import ConsumerProtocolSubscription, encode_subscription
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tests.clients.fleet import DEADLINE_S, ROOT, Fleet, Worker
from tests.clients.groups import Group

AT_ONCE: Final = 4
POLL_MS: Final = 6_500
"""Of slow poll loops: no less than a session, as librdkafka wants it."""

SILENT_MS: Final = 20_000
RANGE: Final[dict[str, object]] = {"assignor": "range"}
HEARTBEAT_VERSION: Final = 3
JOIN_VERSION: Final = 7  # It is handed an id first, and gives no reason.

_REPLACED: Final = (
    (r"\d\d:\d\d:\d\d", "TIME"),
    (r"\d+(\.\d)? m?s\b|\d+ min( \d+ s)?", "SPAN"),
    (r"\d+% of its session", "N% of its session"),
    (r"in generation \d+ and not in \d+", "in generation N and not in M"),
    (r"generation \d+ to \d+", "generation N to M"),
    (r"generation \d+", "generation N"),
    (r"epoch \d+", "epoch N"),
    (r"orders-\d", "orders-N"),  # Who has which follows from the ids that members make up.
    (r"app-\d at 127.0.0.1 (came last|was waited for)", r"app-N at 127.0.0.1 \1"),
)


class Rule(NamedTuple):
    """The rule of a script's last rebalance, and `sees` that of an event after it, where there is to be one."""

    rule: str
    sees: str | None = None


def texts(path: Path) -> dict[str, list[str]]:
    """What is to be said in each script, by its name."""
    found: dict[str, list[str]] = {}
    for section in path.read_text().split("# ")[1:]:
        script, *lines = section.strip().splitlines()
        found[script] = lines
    return found


class Why:
    """Asks as users do, and reads the answer as they do. `where` are the options that say what is asked."""

    def __init__(self, *where: str) -> None:
        self._where = where

    def run(self, group: str, *options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "muster", "groups", "why", group, *self._where, *options]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)

    def says(self, group: Group, rule: Rule, *, is_over: bool = True) -> list[str]:
        """The lines about `group`, once the last rebalance is explained by `rule`, and over if it is to be."""
        last = ""

        def explained() -> dict[str, Any] | None:
            nonlocal last
            ran = self.run(group.name, "--json")
            last = ran.stdout + ran.stderr
            if ran.returncode:
                return None
            answer: dict[str, Any] = json.loads(ran.stdout)
            is_seen = rule.sees is None or rule.sees in [each["rule"] for each in answer["since"]]
            return answer if _rule(answer) == rule.rule and answer["is_over"] is is_over and is_seen else None

        try:
            answer = wait_until(explained, f"{rule} of {group.name}", DEADLINE_S)
        except TimeoutError as error:
            raise AssertionError(f"{error}\n{last}") from None
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


class Stage:
    """Plays scripts on one broker, AT_ONCE at a time in the order given, and keeps what is said of each."""

    def __init__(self, bootstrap: str, folder: Path, why: Why, rules: Mapping[str, Rule]) -> None:
        self._bootstrap, self._folder, self._why, self._rules = bootstrap, folder, why, rules
        self._pool = ThreadPoolExecutor(AT_ONCE)
        self._played: dict[str, Future[list[str]]] = {}

    def play(self, names: Iterable[str]) -> None:
        """Begin to play scripts; does not wait."""
        for name in names:
            self._played[name] = self._pool.submit(self._perform, name)

    def lines(self, name: str) -> list[str]:
        """What is said of a script. Raises what went wrong with it."""
        return self._played[name].result()

    def close(self) -> None:
        """End what has not begun, and wait for what has."""
        self._pool.shutdown(cancel_futures=True)

    def _perform(self, name: str) -> list[str]:
        folder = self._folder / name
        folder.mkdir()
        fleet = Fleet(self._bootstrap, folder)
        try:
            group = Group(fleet, Observer(self._bootstrap))
            SCRIPTS[name](group)
            return self._why.says(group, self._rules[name])
        finally:
            fleet.close()


def members(group: Group, family: str, count: int, **config: object) -> list[Worker]:
    """Members app-1, app-2, ... that share the topic; they join one after the other, so the first one leads."""
    started: list[Worker] = []
    for number in range(1, count + 1):
        named = config | {"instance_id": f"i-{number}"} if config.get("static") else config
        started.append(group.start(family, client_id=f"app-{number}", **RANGE | named))
        group.await_shared(*started)
    return started


def close(group: Group) -> None:
    first, second = members(group, "java", 2)
    second.stop()
    group.await_shared(first)


def crash(group: Group) -> None:
    first, second = members(group, "confluent", 2)
    second.kill()
    group.await_shared(first)


def slow_poll_loop(group: Group) -> None:
    _slow_poll_loop(group, "java")


def slow_poll_loop_without_a_reason(group: Group) -> None:
    _slow_poll_loop(group, "confluent")


def _slow_poll_loop(group: Group, family: str) -> None:
    """Two members, and a third that takes records and does not come back for more."""
    started = members(group, family, 2, max_poll_interval_ms=POLL_MS)
    slow = group.start(family, client_id="app-3", assignor="range", holds=True, max_poll_interval_ms=POLL_MS)
    group.await_shared(*started, slow)
    group.write()
    slow.wait_for_event("holding")
    _await_members(group, 2)


def close_of_the_consumer_protocol(group: Group) -> None:
    first, second = members(group, "confluent", 2, protocol="consumer")
    second.stop()
    group.await_shared(first)


def first_of_the_consumer_protocol(group: Group) -> None:
    """A member that goes and one that comes: the second has an empty group before it."""
    (first,) = members(group, "confluent", 1, protocol="consumer")
    first.stop()
    _await_members(group, 0)
    group.await_shared(group.start("confluent", client_id="app-2", protocol="consumer"))


def crash_of_the_consumer_protocol(group: Group) -> None:
    first, second = members(group, "confluent", 2, protocol="consumer")
    second.kill()
    group.await_shared(first)


def new_partitions(group: Group) -> None:
    first, second = members(group, "java", 2, metadata_max_age_ms=1_000)
    group.grow(8)
    group.await_shared(first, second)


def new_partitions_of_a_consumer_group(group: Group) -> None:
    """The assignor that moves none of the former ones."""
    first, second = members(group, "confluent", 2, protocol="consumer", assignor="uniform")
    group.grow(8)
    group.await_shared(first, second)


def scaled_out(group: Group) -> None:
    (first,) = members(group, "confluent", 1, session_timeout_ms=60_000)
    second, third = (
        group.start("confluent", client_id=f"app-{number}", waits=True, **RANGE) for number in (2, 3)
    )
    for each in (second, third):
        each.wait_for_event("waiting")  # It is not to be advised to poll more often: what follows is short.
    first.pause()  # It holds the join phase open until both others are in.
    second.go()
    _await_members(group, 2)
    third.go()
    _await_members(group, 3)
    first.resume()
    group.await_shared(first, second, third)


def static_restart(group: Group) -> None:
    config: dict[str, Any] = {"static": True, "session_timeout_ms": 60_000}
    first, second = members(group, "confluent", 2, **config)
    second.kill()
    again = group.start("confluent", client_id="app-2", instance_id="i-2", **RANGE | config)
    group.await_shared(first, again)


def flapping(group: Group) -> None:
    first, second = members(group, "confluent", 2)
    for _ in range(2):
        second.stop()
        group.await_shared(first)
        second = group.start("confluent", client_id="app-2", assignor="range")
        group.await_shared(first, second)


def rolling_restart(group: Group) -> None:
    running = members(group, "confluent", 3)
    for number in range(3):
        running[number].stop()
        group.await_shared(*running[:number], *running[number + 1 :])
        running[number] = group.start("confluent", client_id=f"app-{number + 1}", assignor="range")
        group.await_shared(*running)


def never_syncs(group: Group) -> None:
    """A member joins as a consumer would, and from then on only sends heartbeats, until it is put out."""
    (first,) = members(group, "confluent", 1, max_poll_interval_ms=POLL_MS)
    with WireClient(group.bootstrap) as silent:
        beat = _join_without_sync(silent, group)
        wait_until(lambda: beat() == ErrorCode.UNKNOWN_MEMBER_ID, "the silent member is put out", DEADLINE_S)
    group.await_shared(first)


def _join_without_sync(client: WireClient, group: Group) -> Callable[[], int]:
    """Join, and return what sends a heartbeat and returns its error code."""
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
    return lambda: int(client.ask(heartbeat, HEARTBEAT_VERSION).error_code)


def _await_members(group: Group, count: int) -> None:
    wait_until(lambda: len(group.member_ids()) == count, f"{group.name} has {count} members", DEADLINE_S)


SCRIPTS: Final[Mapping[str, Callable[[Group], None]]] = {
    "a_slow_poll_loop": slow_poll_loop,  # The longest ones first.
    "a_slow_poll_loop_of_a_client_that_gives_no_reason": slow_poll_loop_without_a_reason,
    "a_member_that_is_closed": close,
    "a_member_that_never_syncs": never_syncs,
    "a_crash": crash,
    "a_crash_of_a_member_of_the_consumer_protocol": crash_of_the_consumer_protocol,
    "a_rolling_restart": rolling_restart,
    "a_flapping_member": flapping,
    "new_partitions": new_partitions,
    "new_partitions_of_a_consumer_group": new_partitions_of_a_consumer_group,
    "a_closed_member_of_the_consumer_protocol": close_of_the_consumer_protocol,
    "a_first_member_of_the_consumer_protocol": first_of_the_consumer_protocol,
    "a_deployment_that_is_scaled_out": scaled_out,
    "a_static_restart": static_restart,
}
"""The scripts by their names, in the order in which they begin. A restart of the coordinator disturbs all others,
and is played by itself."""


def chosen(items: Iterable[pytest.Item]) -> list[str]:
    """The scripts that tests of this run are about: `-k` may have chosen a few."""
    names = [item.name for item in items]
    return [script for script in SCRIPTS if any(name.endswith(f"[{script}]") for name in names)]
