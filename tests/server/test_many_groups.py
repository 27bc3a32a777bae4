"""Very many groups: listing and describing them leaves the loop to others in between, and loses none of them."""

from __future__ import annotations

import select
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coordinator.groups.partitioning import partition_for
from coordinator.groups.record_codec import encode_record
from coordinator.server.api_counts import ApiCounts
from coordinator.server.pending import Pending
from coordinator.server.splitting import (
    MAX_ENCODED_ON_LOOP,
    MAX_PER_PIECE,
    SplitPlan,
    in_turns,
    reply,
    split,
)
from coordinator.topics.catalogue import CatalogueEntry, write_catalogue
from harness.daemon import MusterDaemon
from harness.processes import wait_until
from harness.wire import WireClient
from protocol.errors import ErrorCode
from protocol.framing import response_frame
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from protocol.records.records import Record, encode_batch
from storage.directory.log_directory import LogDirectory
from storage.files import Files
from storage.log.config import LogConfig
from tests.log.directories import OFFSETS, OFFSETS_ID, TIME_MS, TOPIC, TOPIC_ID, commit

SHARDS = 50
GROUPS = 12_000
NAMES = [f"group-{number:05d}" for number in range(GROUPS)]
ROUNDS = 5
DEADLINE_S = 30
BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


class Loop:
    """A loop whose turns a test counts, and a thread that works when it is let."""

    def __init__(self) -> None:
        self.later: deque[Callable[[], None]] = deque()
        self.aside: list[tuple[Callable[[], object], Callable[[Any], None]]] = []

    def wall_ms(self) -> int:
        return 0

    def soon(self, action: Callable[[], None]) -> None:
        self.later.append(action)

    def run_aside(self, work: Callable[[], object], done: Callable[[Any], None]) -> None:
        self.aside.append((work, done))


@pytest.mark.parametrize("size", [1, 300, MAX_PER_PIECE, 5 * MAX_PER_PIECE])
def test_a_turn_is_about_a_bounded_number_and_one_piece_at_most_beyond(size: int) -> None:
    loop, done = Loop(), [0]
    turns: list[int] = []
    count = 6 * MAX_PER_PIECE // size + 1

    def work() -> None:
        done[0] += size

    in_turns(iter([(size, work)] * count), loop)
    while True:
        turns.append(done[0] - sum(turns))
        if not loop.later:
            break
        loop.later.popleft()()
    assert sum(turns) == count * size
    assert max(turns) < MAX_PER_PIECE + size


def _itself(part: object) -> object:
    return part


class Asked:
    """What is to be answered: says how it was."""

    def __init__(self) -> None:
        self.answers: list[object] = []

    def reply(self, response: object) -> None:
        self.answers.append(response)

    def reply_aside(self, make: Callable[[], object], run: Any) -> None:
        run(make, lambda future: self.answers.append(future.result()))


class Owner:
    """The runner of a shard that answers at once, with a member for each thing that a group has."""

    def __init__(self, done: list[int], size: int) -> None:
        self._done, self._size = done, size

    def request(self, positions: list[int], context: Any) -> None:
        self._done += positions
        answers = [SimpleNamespace(position=position, size=self._size) for position in positions]
        context.reply_to.reply(answers)


@pytest.mark.parametrize("at_once", [1, 10, MAX_PER_PIECE])
def test_groups_that_may_be_large_are_handled_fewer_at_a_time_and_in_order(at_once: int) -> None:
    loop, asked, done = Loop(), Asked(), list[int]()
    asked_by: Any = SimpleNamespace(
        api_version=0, client_id="c", client_host="h", describes=None, part=_itself, reply=asked.reply
    )
    owner: Any = Owner(done, 1)
    plan = SplitPlan(
        lambda _: owner, lambda part: part, lambda each: each, list, at_once, lambda each: each.size
    )
    split(30, plan, asked_by, loop)
    assert len(done) == min(at_once, 30)
    while loop.later:
        loop.later.popleft()()
    (answer,) = asked.answers
    assert isinstance(answer, list)
    assert [each.position for each in answer] == list(range(30)) == done


def test_an_answer_of_few_groups_with_many_members_is_put_together_on_a_thread() -> None:
    loop, asked = Loop(), Asked()
    asked_by: Any = SimpleNamespace(
        api_version=0,
        client_id="c",
        client_host="h",
        describes=None,
        part=_itself,
        reply=asked.reply,
        reply_aside=asked.reply_aside,
    )
    owner: Any = Owner([], MAX_ENCODED_ON_LOOP)
    plan = SplitPlan(
        lambda _: owner, lambda part: part, lambda each: each, list, size_of=lambda each: each.size
    )
    split(1, plan, asked_by, loop)
    assert len(asked.answers) == 1
    split(2, plan, asked_by, loop)
    assert len(asked.answers) == len(loop.aside) == 1


def test_a_large_answer_is_put_together_on_a_thread_and_a_small_one_is_not() -> None:
    loop, asked = Loop(), Asked()
    reply(asked, MAX_ENCODED_ON_LOOP, lambda: "small", loop)  # type: ignore[arg-type]
    reply(asked, MAX_ENCODED_ON_LOOP + 1, lambda: "large", loop)  # type: ignore[arg-type]
    assert asked.answers == ["small"]
    ((work, done),) = loop.aside
    future: Future[object] = Future()
    future.set_result(work())
    done(future)
    assert asked.answers == ["small", "large"]


class Client:
    """The connection of one request, which keeps the chunks of its answer."""

    client_host, listener_name, is_open = "/127.0.0.1", "PLAINTEXT", True

    def __init__(self) -> None:
        self.chunks: list[bytes] = []

    def on_answered(self, pending: Pending) -> None:
        assert pending.chunks is not None
        self.chunks += map(bytes, pending.chunks)


def test_a_large_answer_is_few_chunks_when_it_comes_back_from_the_thread() -> None:
    """The event loop joins them: half a million would take it a tenth of a second."""
    client, loop = Client(), Loop()
    answer = ListGroupsResponse(
        groups=[ListedGroup(group_id=f"g-{number}", protocol_type="") for number in range(30_000)]
    )
    api: Any = SimpleNamespace(name="ListGroups", pipelines=False, counts=ApiCounts(16))
    pending = Pending(cast(Any, client), api, 4, 7, "test")
    pending.reply_aside(lambda: answer, loop.run_aside)
    ((work, done),) = loop.aside
    future: Future[object] = Future()
    future.set_result(work())
    assert client.chunks == []
    done(future)
    assert len(client.chunks) < 30
    assert b"".join(client.chunks) == b"".join(response_frame(7, answer, 4))


# A daemon that has them.


def fill(path: Path) -> None:
    """A directory with a committed offset of every group."""
    files = Files()
    directory = LogDirectory.open(path, files, node_id=1)
    offsets = CatalogueEntry(OFFSETS, OFFSETS_ID, SHARDS, {"cleanup.policy": "compact"})
    write_catalogue(files, path, [offsets, CatalogueEntry(TOPIC, TOPIC_ID, 1, {})])
    directory.open_log(TOPIC, 0, LogConfig(), topic_id=TOPIC_ID).make_directory()
    by_shard: dict[int, list[Record]] = {}
    for name in NAMES:
        record = Record(*encode_record(commit(name, 0, 5)), TIME_MS)
        by_shard.setdefault(partition_for(name, SHARDS), []).append(record)
    for shard, records in by_shard.items():
        log = directory.open_log(OFFSETS, shard, LogConfig(), topic_id=OFFSETS_ID)
        log.append(encode_batch(records), wall_ms=TIME_MS)
        log.flush()
    assert directory.close() == []


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MusterDaemon]:
    # Offsets of long ago are not to expire meanwhile.
    daemon = MusterDaemon(tmp_path_factory.mktemp("many"), {"offsets.retention.minutes": str(2**31 - 1)})
    fill(daemon.log_dir)
    with daemon:
        yield daemon


@pytest.mark.parametrize(
    "request_and_version",
    [(ListGroupsRequest(), 5), (DescribeGroupsRequest(groups=NAMES[::-1]), 6)],
    ids=["ListGroups", "DescribeGroups"],
)
def test_others_are_served_while_many_groups_are_listed(
    daemon: MusterDaemon, request_and_version: tuple[Any, int]
) -> None:
    """A heartbeat that is sent behind such a request, on another connection, is answered before it."""
    request, version = request_and_version
    with WireClient(daemon.bootstrap) as asker, WireClient(daemon.bootstrap) as member:
        wait_until(lambda: not asker.ask(ListGroupsRequest(), 5).error_code, "groups are loaded", DEADLINE_S)
        overtaken = 0
        for _ in range(ROUNDS):
            asker.send(request, version)
            assert member.ask(BEAT, 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID
            overtaken += not select.select([asker.socket], [], [], 0)[0]
            groups = asker.receive().groups
        assert overtaken > ROUNDS // 2
        found = [group.group_id for group in groups]
        expected = request.groups if isinstance(request, DescribeGroupsRequest) else NAMES
        assert (found if expected is not NAMES else sorted(found)) == expected
