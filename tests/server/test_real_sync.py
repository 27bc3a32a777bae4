"""An answer leaves after the calls that make it true, each of them really made of the system.

Groups and topics run without threads here, so the order is theirs; `test_watched_daemon.py` sees a whole daemon
from outside.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coordinator.effects import RequestContext
from coordinator.groups.partitioning import partition_for
from harness.doubles.fake_pending import FakePending
from harness.doubles.system_calls import SystemCalls, atomically
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from storage.files import Files
from storage.log.config import LogConfig
from tests.server.asking import GROUP, TOPIC, commit, committed
from tests.server.crash_world import SHARDS, CrashWorld
from tests.topics.requests import produce_request
from tests.topics.world import batch

SHARD_LOG = f"__consumer_offsets-{partition_for(GROUP, SHARDS)}/00000000000000000000.log"
JOURNAL = "muster-journal/00000000000000000001.journal"
TOPIC_LOG = "t-0/00000000000000000000.log"
ANSWER = "the answer"


class NotingPending(FakePending):
    """Notes its answer among the calls."""

    calls: SystemCalls

    def reply(self, response: Any) -> None:
        self.calls.note(ANSWER)
        super().reply(response)


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SystemCalls:
    return SystemCalls(tmp_path, monkeypatch)


def world_of(directory: Path, is_synced: bool) -> CrashWorld:
    world = CrashWorld(directory, Files(), is_synced)
    world.topic(TOPIC)
    for runner in world.runners:
        runner.log.config = LogConfig(is_compacted=True)
    return world


def commit_noted(world: CrashWorld, calls: SystemCalls, offset: int) -> list[str]:
    """The calls of one commit that goes well."""
    pending = NotingPending(8)
    pending.calls = calls
    calls.taken()
    context = RequestContext(pending, 8, "client", "/127.0.0.1", "u" * 22)
    world.runners[partition_for(GROUP, SHARDS)].request(commit(offset), context)
    world.settle()
    assert committed(pending.answer) == 0
    return calls.taken()


def ask_noted(world: CrashWorld, calls: SystemCalls, request: Any, version: int) -> tuple[Any, list[str]]:
    """The answer of a topic's API, and the calls up to it and behind it."""
    pending = NotingPending(version)
    pending.calls = calls
    calls.taken()
    world.hand_over(request, pending)
    world.settle()
    return pending.answer, calls.taken()


def test_the_first_commit_of_a_shard_is_answered_when_its_bytes_and_names_are_synced(
    tmp_path: Path, calls: SystemCalls
) -> None:
    found = commit_noted(world_of(tmp_path, True), calls, 1)
    begun = found.index("mkdir muster-journal")
    assert found[begun : found.index(ANSWER) + 1] == [
        "mkdir muster-journal",
        "fsync .",
        f"create {JOURNAL}",
        f"ftruncate {JOURNAL}",
        f"pwritev {JOURNAL}",
        f"fdatasync {JOURNAL}",
        "fsync muster-journal",
        f"pwritev {JOURNAL}",
        f"fdatasync {JOURNAL}",
        ANSWER,
    ]


def test_a_commit_is_one_write_one_sync_and_then_the_answer(tmp_path: Path, calls: SystemCalls) -> None:
    world = world_of(tmp_path, True)
    commit_noted(world, calls, 1)
    for offset in range(2, 6):
        found = commit_noted(world, calls, offset)
        assert found == [f"pwritev {JOURNAL}", f"fdatasync {JOURNAL}", ANSWER, f"pwritev {SHARD_LOG}"]


def test_under_the_os_policy_a_commit_awaits_its_write_and_no_sync(
    tmp_path: Path, calls: SystemCalls
) -> None:
    world = world_of(tmp_path, False)
    commit_noted(world, calls, 1)
    assert commit_noted(world, calls, 2) == [f"pwritev {JOURNAL}", ANSWER, f"pwritev {SHARD_LOG}"]


def test_a_produce_with_all_acks_is_answered_as_its_policy_says(tmp_path: Path, calls: SystemCalls) -> None:
    for is_synced, sync in ((True, [f"fdatasync {TOPIC_LOG}"]), (False, [])):
        world = world_of(tmp_path / str(is_synced), is_synced)
        world.topic("t")
        world._shrink_segments()
        for _ in range(2):
            answer, found = ask_noted(world, calls, produce_request(batch(b"v"), "t"), 9)
        assert answer.responses[0].partition_responses[0].error_code == 0
        local = [call.replace(f"{is_synced}/", "") for call in found]
        assert local == [f"pwritev {TOPIC_LOG}", *sync, ANSWER]


def test_a_new_topic_is_on_the_disk_when_it_is_answered_for(tmp_path: Path, calls: SystemCalls) -> None:
    world = world_of(tmp_path, True)
    topic = CreatableTopic(name="t", num_partitions=2, replication_factor=1)
    answer, found = ask_noted(world, calls, CreateTopicsRequest(topics=[topic], timeout_ms=1000), 7)
    assert answer.topics[0].error_code == 0
    assert found == [*atomically("topics.json"), ANSWER]


def test_a_deleted_topic_is_off_the_disk_when_it_is_answered_for(tmp_path: Path, calls: SystemCalls) -> None:
    world = world_of(tmp_path, True)
    world.topic("t")
    ask_noted(world, calls, produce_request(batch(b"v"), "t"), 9)
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000)
    answer, found = ask_noted(world, calls, request, 6)
    assert answer.responses[0].error_code == 0
    before = found[: found.index(ANSWER)]
    assert before[: len(atomically("topics.json"))] == atomically("topics.json")
