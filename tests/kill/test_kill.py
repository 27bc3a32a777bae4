"""`kill -9` under load: what was acknowledged is there after the restart, and a Stable group carries on.

After a kill the newest commits are in the journal alone. Once a daemon was stopped in good order there is no
journal, and Kafka's own dump tool finds all that was acknowledged in the segments.

pytest tests/kill                 # 20 rounds, and 3 that end with the dump tool
make soak-kill                    # 200 rounds of both (MUSTER_KILL_ROUNDS)
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import java_tools
from harness.daemon import MusterDaemon
from harness.processes import wait_until
from harness.wire import WireClient
from muster.log.places import open_source
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from storage.check.journal import end_of_segments, go_on
from storage.journal.files import DIRECTORY
from tests.kill.committer import TOPIC

ROUNDS = int(os.environ.get("MUSTER_KILL_ROUNDS", "20"))
DUMPED_ROUNDS = int(os.environ.get("MUSTER_KILL_ROUNDS", "3"))
LEAST_IN_FLIGHT_SHARE = 0.9
LEAST_ALONE_SHARE = 0.3
"""Least share of kills after which commits were in the journal alone: they are for the 15 ms before they go on,
and on a busy machine the committer often stands still for longer. Without a journal it would be none."""
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}
DUMPED = re.compile(
    r'"group":"(killed-\d+)","topic":"killed","partition":0\}\} payload: '
    r'\{"version":"?\d+"?,"data":\{"offset":(\d+)'
)
ROUND_TIMEOUT_S = 30


@pytest.mark.timeout(60 + ROUNDS * ROUND_TIMEOUT_S)
def test_a_kill_loses_no_acknowledged_commit_and_costs_no_rebalance(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    daemon = MusterDaemon(tmp_path / "daemon", SETTINGS)
    with daemon:
        create_topic(daemon.bootstrap)
        rounds = [one_round(daemon, tmp_path / "members.json") for _ in range(ROUNDS)]
    in_flight = sum(1 for outcome in rounds if outcome["in_flight"])
    alone = sum(outcome["is_alone"] for outcome in rounds)
    acknowledged = sum(outcome["count"] for outcome in rounds)
    record_property(
        "figure",
        f"{ROUNDS} kills, {in_flight} of them with a commit in flight, {alone} with some in the journal alone; "
        f"{acknowledged} commits acknowledged, none lost",
    )
    assert in_flight >= LEAST_IN_FLIGHT_SHARE * ROUNDS
    assert alone >= LEAST_ALONE_SHARE * ROUNDS


@pytest.mark.usefixtures("java")
@pytest.mark.timeout(120 + ROUNDS * ROUND_TIMEOUT_S)
def test_kafkas_dump_tool_finds_what_was_acknowledged_after_the_next_clean_stop(tmp_path: Path) -> None:
    daemon = MusterDaemon(tmp_path / "daemon", SETTINGS)
    with daemon:
        create_topic(daemon.bootstrap)
        rounds = [one_round(daemon, tmp_path / "members.json") for _ in range(DUMPED_ROUNDS)]
        while not any(outcome["is_alone"] for outcome in rounds) and len(rounds) < ROUNDS:
            rounds.append(one_round(daemon, tmp_path / "members.json"))  # No kill came within the 15 ms.
        assert daemon.terminate() == 0
    assert not (daemon.log_dir / DIRECTORY).exists()
    assert any(outcome["is_alone"] for outcome in rounds)
    last, dumped = rounds[-1], newest_by_kafkas_tool(daemon.log_dir)
    assert dumped.keys() == last["acknowledged"].keys()
    for group, offset in dumped.items():
        assert offset in {last["acknowledged"][group], last["in_flight"].get(group)}, group


def newest_by_kafkas_tool(log_dir: Path) -> dict[str, int]:
    """The newest commit of each group as Kafka's dump tool reads them, which finds nothing wrong."""
    segments = [path for path in sorted(log_dir.glob("__consumer_offsets-*/*.log")) if path.stat().st_size]
    command = [java_tools.java(), "-cp", java_tools.classpath(), "org.apache.kafka.tools.DumpLogSegments"]
    command += ["--offsets-decoder", "--print-data-log", "--files", ",".join(map(str, segments))]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    assert "isvalid: true" in shown
    assert "isvalid: false" not in shown
    return {group: int(offset) for group, offset in DUMPED.findall(shown)}


def is_in_journal_alone(log_dir: Path) -> bool:
    """Whether a start finds commits in the journal that the segments lack; all of it continues them."""
    source = open_source(log_dir)
    assert source.journal.refusals == []
    return any(
        path.suffix == ".journal"
        for place in source.offsets_places()
        for path, _ in go_on(source.journal, str(place), end_of_segments(source.files, place.directory))
    )


def create_topic(bootstrap: str) -> None:
    topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
    with WireClient(bootstrap) as client:
        assert client.ask(CreateTopicsRequest(topics=[topic]), 5).topics[0].error_code == 0


def one_round(daemon: MusterDaemon, state_file: Path) -> dict[str, Any]:
    """Commit until a kill at a random moment; restart; hold what is there against what was acknowledged."""
    committer = subprocess.Popen(
        [sys.executable, "-m", "tests.kill.committer", daemon.bootstrap, str(state_file)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert committer.stdout is not None
    assert committer.stdout.readline() == "committing\n"
    time.sleep(random.uniform(0.01, 0.3))  # The moment of the kill is meant to be any.
    daemon.kill()
    outcome: dict[str, Any] = json.loads(committer.communicate(timeout=ROUND_TIMEOUT_S)[0])
    outcome["is_alone"] = is_in_journal_alone(daemon.log_dir)
    daemon.start()
    with WireClient(daemon.bootstrap) as client:
        hold_against(client, outcome)
    return outcome


def hold_against(client: WireClient, outcome: dict[str, Any]) -> None:
    for member in outcome["members"]:
        group = member["group"]
        allowed = {outcome["acknowledged"][group], outcome["in_flight"].get(group)}
        assert committed_offset(client, group) in allowed, f"{group}: {allowed}"
        beat = HeartbeatRequest(
            group_id=group, generation_id=member["generation"], member_id=member["member"]
        )
        assert client.ask(beat, 4).error_code == 0
        described = client.ask(DescribeGroupsRequest(groups=[group]), 5).groups[0]
        assert described.group_state == "Stable"
        assert [each.member_id for each in described.members] == [member["member"]]
        assert described.members[0].member_assignment == group.encode()


def committed_offset(client: WireClient, group_id: str) -> int:
    """The group's offset as soon as its shard has been loaded (until then the answer is 14)."""
    topic = OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=[topic])])

    def fetched() -> Any:
        group = client.ask(request, 8).groups[0]
        assert group.error_code in (0, 14), group
        return group if group.error_code == 0 else None

    group = wait_until(fetched, f"{group_id} is loaded", ROUND_TIMEOUT_S)
    return int(group.topics[0].partitions[0].committed_offset)
