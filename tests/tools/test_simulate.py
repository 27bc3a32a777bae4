"""A whole simulated directory: the same bytes again, sound to every reader, and true to itself."""

from __future__ import annotations

import filecmp
import json
import shutil
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from coordinator.effects import CoordinatorRecord, GroupEvent
from coordinator.groups.classic.states import STABLE
from coordinator.groups.record_codec import decode_record
from coordinator.groups.record_schemas import OffsetCommitKey
from coordinator.history.events import decode_event
from coordinator.runtime.loading import replay_batches
from coordinator.shard.shard import Shard
from harness.daemon import MusterDaemon
from harness.processes import wait_until
from muster.cli import run as run_muster
from muster.log.offsets import new_shard
from protocol.records.records import iter_records
from storage.files import Files
from storage.log.config import LogConfig
from storage.log.partition_log import PartitionLog
from tools.simulate import command
from tools.simulate.__main__ import run
from tools.simulate.history import Options, Simulated, Simulation, choose
from tools.simulate.population import AUTO, DEAD, SPARSE
from tools.simulate.production import DAY_MS, log_ends

END_MS = 1_767_225_600_000
PARTITIONS = 4
OPTIONS = Options(
    groups=120, days=0.03, end_ms=END_MS, seed=11, partitions=PARTITIONS, commits_max=40_000,
    log_ends_every_ms=900_000,
)  # fmt: skip
ARGUMENTS = [
    "--groups", "120", "--days", "0.03", "--end", "2026-01-01", "--seed", "11",
    "--partitions", "4", "--commits", "40000", "--log-ends", "900",
]  # fmt: skip


@dataclass
class History:
    """What was simulated, and what of it is on the disk: each record with its time."""

    path: Path
    simulation: Simulation
    done: Simulated
    offsets: list[tuple[int, CoordinatorRecord]]
    events: list[GroupEvent]

    @property
    def commits(self) -> dict[tuple[str, str, int], list[tuple[int, int]]]:
        """(time, offset) by group, topic and partition, in the log's order."""
        found = defaultdict(list)
        for when_ms, record in self.offsets:
            if isinstance(record.key, OffsetCommitKey):
                assert record.value is not None
                key = (record.key.group, record.key.topic, record.key.partition)
                found[key].append((when_ms, record.value.offset))
        return found

    def loaded(self) -> list[Shard]:
        """The shards as the daemon's own loader reads them."""
        shards = [new_shard(partition) for partition in range(PARTITIONS)]
        for shard in shards:
            directory = self.path / f"__consumer_offsets-{shard.partition}"
            log = PartitionLog.open(directory, LogConfig(), Files(), shut_down_cleanly=True)
            replay_batches(log.batches(0), shard)
            log.close()
        return shards


def records_of(path: Path, topic: str, partition: int) -> Iterator[Any]:
    """What a log of storage's reads, CRCs checked; it has to find the directory in order."""
    log = PartitionLog.open(path / f"{topic}-{partition}", LogConfig(), Files(), shut_down_cleanly=True)
    for batch, data in log.batches(0):
        yield from iter_records(data, batch)
    log.close()


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    path = tmp_path_factory.mktemp("simulated") / "logs"
    simulation = Simulation(OPTIONS, choose(OPTIONS), path)
    done = simulation.run(lambda _: None)
    offsets = []
    for partition in range(PARTITIONS):
        for record in records_of(path, "__consumer_offsets", partition):
            typed = decode_record(record.key, record.value)
            assert typed is not None
            offsets.append((record.timestamp_ms, typed))
    events = [decode_event(record.value) for record in records_of(path, "__group_events", 0)]
    return History(path, simulation, done, offsets, events)


def test_the_command_writes_the_same_bytes_again(history: History, tmp_path: Path, capsys: Any) -> None:
    assert run([*ARGUMENTS, "--out", str(tmp_path / "again"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["commits"], found["events"]) == (history.done.commits, history.done.events)
    names = sorted(path.relative_to(history.path) for path in history.path.rglob("*") if path.is_file())
    assert names == sorted(
        path.relative_to(tmp_path / "again") for path in (tmp_path / "again").rglob("*") if path.is_file()
    )
    _, different, unreadable = filecmp.cmpfiles(
        history.path, tmp_path / "again", map(str, names), shallow=False
    )
    assert (different, unreadable) == ([], [])


def test_another_seed_is_another_history(history: History, tmp_path: Path) -> None:
    other = replace(OPTIONS, seed=12, log_ends_every_ms=0)
    Simulation(other, choose(other), tmp_path).run(lambda _: None)
    name = "__group_events-0/00000000000000000000.log"
    assert (tmp_path / name).read_bytes() != (history.path / name).read_bytes()


def test_the_directory_is_sound(history: History, capsys: Any) -> None:
    assert run_muster(["log", "verify", str(history.path)]) == 0
    assert "0 errors, 0 notes" in capsys.readouterr().out


def test_the_counts_are_what_was_written(history: History) -> None:
    commits = sum(len(found) for found in history.commits.values())
    assert commits == history.done.commits > 20_000
    assert len(history.offsets) == commits + history.done.group_records
    assert len(history.events) == history.done.events > 0


def test_a_coordinator_that_reads_the_log_has_the_simulated_groups_and_offsets(history: History) -> None:
    simulation, loaded = history.simulation, history.loaded()
    dead = {plan.group_id for plan in simulation.plans if plan.kind == DEAD}
    for shard, found in zip(loaded, simulation.simulated.shards, strict=True):
        assert {name: group for name, group in shard.stored.items() if name not in dead} == found.stored
        assert all(shard.stored[name].members == () for name in dead & shard.stored.keys())
    lanes, topics = simulation.lanes, simulation.choice.topics
    assert np.sum(lanes.committed >= 0) > 50
    for lane in np.flatnonzero(lanes.committed >= 0):
        plan = lanes.plans[lanes.plan[lane]]
        found = loaded[plan.partition].offsets.get(
            plan.group_id, topics.names[lanes.topic[lane]], int(lanes.partition[lane])
        )
        assert found is not None
        assert found.offset == lanes.committed[lane]


def test_commits_are_made_while_a_group_is_stable_and_never_go_back(history: History) -> None:
    turns: dict[str, list[tuple[int, bool]]] = defaultdict(list)
    for event in history.events:
        turns[event.group_id].append((event.wall_ms, event.to_state == STABLE.value))
    plans = {plan.group_id: plan for plan in history.simulation.plans}
    for (group, *_), found in history.commits.items():
        times_ms, offsets = (np.array(column) for column in zip(*found, strict=True))
        assert np.all(np.diff(offsets) >= 0)
        if plans[group].kind == DEAD:
            assert OPTIONS.start_ms - 7 * DAY_MS < times_ms[-1] < OPTIONS.start_ms
            continue
        assert OPTIONS.start_ms <= times_ms[0]
        assert times_ms[-1] < END_MS
        for (begin_ms, is_stable), (end_ms, _) in zip(
            turns[group], [*turns[group][1:], (END_MS, True)], strict=False
        ):
            assert is_stable or not np.any((begin_ms <= times_ms) & (times_ms < end_ms))


def test_auto_commit_beats_every_five_seconds(history: History) -> None:
    groups = history.simulation.choice.groups
    quiet = {event.group_id for event in history.events}
    names = {
        plan.group_id
        for plan in history.simulation.plans
        if plan.kind == AUTO and not groups.changed_only[plan.number] and plan.group_id not in quiet
    }
    beats = [
        np.diff([when for when, _ in found])
        for (group, *_), found in history.commits.items()
        if group in names
    ]
    assert len(beats) > 10
    assert all(np.all(beat == 5_000) for beat in beats)


def test_the_estimate_is_near(history: History) -> None:
    estimated = history.simulation.choice.chosen
    assert history.done.commits == pytest.approx(estimated.commits, rel=0.25)
    size = sum(path.stat().st_size for path in history.path.glob("__*/*.log"))
    assert size == pytest.approx(estimated.bytes, rel=0.35)


def test_a_daemon_serves_it(history: History, tmp_path: Path) -> None:
    """States, offsets and log ends by time, through a stock client."""
    shutil.copytree(history.path, tmp_path / "logs")
    overrides = {
        "offsets.topic.num.partitions": str(PARTITIONS),
        "log.cleaner.enable": "false",
        "offsets.retention.minutes": str(2**31 - 1),
        "log.dirs": str(tmp_path / "logs"),
    }
    daemon = MusterDaemon(tmp_path / "daemon", overrides)
    daemon.start()
    try:
        admin = AdminClient({"bootstrap.servers": daemon.bootstrap})
        stored = [group for shard in history.loaded() for group in shard.stored.values()]
        expected = {group.group_id: "STABLE" if group.members else "EMPTY" for group in stored}
        wait_until(lambda: _states(admin) == expected, "the groups, as the simulated left them", 60)
        _check_offsets(history, admin)
        _check_log_ends(history, admin)
    finally:
        daemon.terminate()


def _states(admin: AdminClient) -> dict[str, str]:
    """The states of the groups that are loaded by now."""
    return {each.group_id: each.state.name for each in admin.list_consumer_groups().result().valid}


def _check_offsets(history: History, admin: AdminClient) -> None:
    (group, topic, partition), found = max(history.commits.items(), key=lambda item: len(item[1]))
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, partition)])
    (answer,) = (future.result() for future in admin.list_consumer_group_offsets([asked]).values())
    assert [where.offset for where in answer.topic_partitions] == [found[-1][1]]


def _check_log_ends(history: History, admin: AdminClient) -> None:
    """Compare log ends of the busiest partition: that of a time, and that of now."""
    lanes, topics = history.simulation.lanes, history.simulation.choice.topics
    busiest = int(np.argmax(lanes.rates))
    where = TopicPartition(topics.names[lanes.topic[busiest]], int(lanes.partition[busiest]))
    then_ms = OPTIONS.start_ms + OPTIONS.log_ends_every_ms
    offsets = []
    for spec in (OffsetSpec.for_timestamp(then_ms - 1_000), OffsetSpec.latest()):
        (answer,) = (future.result() for future in admin.list_offsets({where: spec}).values())
        offsets.append(answer.offset)
    curve = (
        lanes.rates[[busiest]],
        lanes.peak_hours[[busiest]],
        np.array([then_ms, END_MS]),
        OPTIONS.start_ms,
    )
    then, end = log_ends(*curve).tolist()
    assert offsets == [then, end]
    assert lanes.position[busiest] <= end


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--groups", "0"], "--groups is 0"),
        (["--days", "-1"], "--days is -1"),
        (["--days", "1000"], "--days is 1000"),
        (["--sample", "1.5"], "--sample is 1.5"),
        (["--commit-days", "3", "--days", "2"], "--commit-days is 3"),
        (["--end", "yesterday"], "--end yesterday is no ISO date or time"),
        (["--partitions", "0"], "--partitions is 0"),
        (["--log-ends", "-5"], "--log-ends is -5"),
    ],
)
def test_wrong_options_are_refused_in_a_sentence(
    arguments: list[str], sentence: str, tmp_path: Path, capsys: Any
) -> None:
    assert run(["--out", str(tmp_path / "out"), *arguments]) == 1
    found = capsys.readouterr().err
    assert found.startswith(f"simulate: {sentence}")
    assert found.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_history_of_events_alone(tmp_path: Path, capsys: Any) -> None:
    """No commits but those that dead groups have left; and nothing at all where no group may have events."""
    few = ["--groups", "60", "--days", "0.3", "--end", "2026-01-01", "--json"]
    assert run([*few, "--commits", "0", "--sample", "1", "--out", str(tmp_path / "events")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["events"] > 0
    assert found["groups_told"] == 60
    assert sum(path.stat().st_size for path in tmp_path.glob("events/__group_events-0/*.log")) > 0
    assert run([*few, "--events", "0", "--out", str(tmp_path / "nothing")]) == 0
    assert json.loads(capsys.readouterr().out)["events"] == 0
    assert run_muster(["log", "verify", str(tmp_path / "nothing")]) == 0


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "mine").write_text("mine")
    assert run(["--out", str(tmp_path)]) == 1
    assert "it is not empty" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_history_that_the_disk_cannot_hold_is_refused(tmp_path: Path, capsys: Any) -> None:
    wanted = ["--groups", "10000", "--days", "366", "--sample", "1", "--commits", str(10**12)]
    assert run(["--out", str(tmp_path / "out"), *wanted]) == 1
    assert "the disk has" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_command_that_serves_it_is_shown(history: History) -> None:
    found = command.serve_command(OPTIONS, history.path)
    assert found.startswith("muster serve --override log.dirs=")
    assert "log.cleaner.enable=false" in found
    assert any(plan.kind == SPARSE for plan in history.simulation.plans)
