"""A prepared commit ends as one that is decoded, whatever has happened in between."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from struct import pack
from typing import Any, Concatenate, ParamSpec, cast

import pytest

from coordinator.effects import RequestContext
from coordinator.groups.classic.group import Group
from coordinator.groups.group_settings import GroupSettings
from coordinator.server.api_table import Api, api_table
from coordinator.server.group_apis import GroupApis
from coordinator.server.prepared import Prepared, PreparedRequests
from harness.doubles.runtime_world import BROKEN, COMMIT_TIMEOUT_MS
from harness.doubles.topics import topic_id_of
from protocol.codec.codec import decode
from protocol.codec.primitives import ZERO_UUID
from protocol.errors import ErrorCode
from protocol.framing import EncodedResponse, decode_response, encode_request, response_frame
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from protocol.records.control import Marker
from storage.files import StorageError
from tests.server.joining import join
from tests.server.shard_world import ShardWorld
from tests.server.test_shard_runner import JOIN, SYNC, a_bug, fetched, sync
from tests.server.test_standing_still import FULL

CLIENT_ID = "client"
# Size, API key, version, correlation id, and the client id.
HEADER_BYTES = 4 + 2 + 2 + 4 + 2 + len(CLIENT_ID)
FLEXIBLE_SINCE = 8
VERSIONS = (2, 5, 6, 7, 8, 9, 10)


P = ParamSpec("P")


class Roomy:
    """Room without end."""

    def may_prepare(self, frame_bytes: int) -> bool:
        return True

    def forget_prepared(self, frame_bytes: int) -> None:
        """Nothing is counted."""


class Framed:
    """What a frame is answered to: keeps the framed answers."""

    def __init__(self, correlation_id: int, version: int) -> None:
        self.correlation_id, self.version = correlation_id, version
        self.frames: list[bytes] = []

    def reply(self, response: Any) -> None:
        if isinstance(response, EncodedResponse):
            self.frames.append(response.frame(self.correlation_id))
        else:
            self.frames.append(b"".join(response_frame(self.correlation_id, response, self.version)))


class OneRunner:
    """A runtime with one shard."""

    def __init__(self, world: ShardWorld) -> None:
        self._world = world
        self.now_ms, self.wall_ms = world.now_ms, world.wall_ms

    def runner_for(self, group_id: str) -> Any:
        return self._world.runner


def apis_of(world: ShardWorld) -> GroupApis:
    return GroupApis(cast(Any, OneRunner(world)))


def commit_api(world: ShardWorld) -> Api:
    """The row of OffsetCommit."""
    apis = apis_of(world)
    return api_table(apis.handlers(), apis.prepare())[8]


class Peer:
    """A connection to a world of its own; one that `prepares` matches the next commit by its bytes."""

    def __init__(self, prepares: bool, **world: Any) -> None:
        self.world = ShardWorld(**world)
        self.asked: list[Framed] = []
        self.prepared = 0  # Commits that were not decoded.
        self.is_gathering = False  # The last of them waits for the end of the turn, or for another event.
        self.member: dict[str, Any] = {}  # What a member of the group `m` commits with.
        self._api = commit_api(self.world)
        self._requests, self._prepares = PreparedRequests(Roomy()), prepares

    def send(self, frame: bytes, version: int) -> Framed:
        framed = Framed(len(self.asked), version)
        self.asked.append(framed)
        if (matched := self._requests.match(self._api.key, frame, 0, len(frame))) is not None:
            self.prepared += 1
            self.is_gathering = True
            run, numbers = matched
            run(numbers, cast(Any, framed))
            return framed
        # A flexible header ends with a count of its tags: 0.
        start = HEADER_BYTES + (version >= FLEXIBLE_SINCE)
        self.is_gathering = False
        request = decode(OffsetCommitRequest, version, frame, start)
        if self._prepares:
            assert self._api.prepare is not None
            self._requests.maybe_prepare(self._api.key, self._api.prepare, request, version, frame)
        context = RequestContext(framed, version, CLIENT_ID, "/127.0.0.1")
        self.world.runner.request(request, context)
        return framed

    def send_and_flush(self, frame: bytes, version: int) -> None:
        self.send(frame, version)
        self.flush()

    def load(self) -> None:
        self.flush()
        self.world.load()

    def wait(self) -> None:
        self.world.time_ms += 6_000
        self.world.fire_due()

    def flush(self) -> None:
        self.is_gathering = False
        self.world.end_turn()
        while self.world.flushes:
            self.world.end_flush()

    @property
    def seen(self) -> Any:
        """All of it that a test can compare."""
        shard = self.world.runner.shard
        return [asked.frames for asked in self.asked], self.world.log.stored, shard and shard.offsets


def commit(
    offset: int, version: int = 8, number: int = 0, count: int = 2, note: str = "note", **more: Any
) -> bytes:
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset + index, committed_metadata=note if index else ""
        )
        for index in range(count)
    ]
    name, topic_id = ("", topic_id_of(1)) if version >= 10 else ("orders", ZERO_UUID)
    topics = [OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=partitions)]
    return encode_request(OffsetCommitRequest(topics=topics, **more), version, number, CLIENT_ID)


def pair(**world: Any) -> tuple[Peer, Peer]:
    return Peer(True, **world), Peer(False, **world)


def both(
    peers: tuple[Peer, Peer], step: Callable[Concatenate[Peer, P], object], *given: P.args, **named: P.kwargs
) -> None:
    """Do it to both, and find no difference, unless commits of this turn are not handled yet."""
    for peer in peers:
        step(peer, *given, **named)
    prepared, decoded = peers
    if not prepared.is_gathering:
        assert prepared.seen == decoded.seen


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_prepared_commit_ends_as_a_decoded_one(version: int, count: int) -> None:
    peers = pair()
    for number in range(4):
        frame = commit(1 << 10 * number, version, number, count, group_id="g")
        both(peers, Peer.send_and_flush, frame, version)
    assert peers[0].prepared == 2, "the second taught it"
    assert fetched(peers[0].world) == 1 << 30
    peers[0].world.load()
    assert fetched(peers[0].world) == 1 << 30, "and so says the log"


def test_what_is_not_stored_for_all_is_decoded_each_time() -> None:
    peers = pair()
    for number in range(4):
        frame = commit(number, count=5, group_id="g")  # There are four partitions.
        both(peers, Peer.send_and_flush, frame, 8)
    assert peers[0].prepared == 0


def test_a_retention_of_its_own_is_decoded() -> None:
    peers = pair()
    for number in range(4):
        frame = commit(number, 4, group_id="g", retention_time_ms=5_000)
        both(peers, Peer.send_and_flush, frame, 4)
    assert peers[0].prepared == 0


def test_many_partitions_go_by_columns_and_are_decoded() -> None:
    peers = pair()
    for peer in peers:
        peer.world.topics.grow("orders", 100)
    for number in range(4):
        frame = commit(number, count=100, note="", group_id="g")
        both(peers, Peer.send_and_flush, frame, 8)
    assert peers[0].prepared == 0


def test_tagged_fields_that_are_not_known_are_decoded() -> None:
    peers = pair()
    for number in range(4):
        frame = commit(number, group_id="g")
        size = int.from_bytes(frame[:4], "big") + 2
        tagged = pack(">i", size) + frame[4:-1] + b"\x01\x05\x00"  # One, number 5, empty.
        both(peers, Peer.send_and_flush, tagged, 8)
    assert peers[0].prepared == 0


def taught(**world: Any) -> Peer:
    peer = Peer(True, **world)
    for number in range(2):
        peer.send(commit(number, group_id="g"), 8)
        peer.flush()
    return peer


def error_of(framed: Framed) -> int:
    """What its first partition was answered."""
    (frame,) = framed.frames
    _, response = decode_response(OffsetCommitResponse, framed.version, frame[4:])
    return response.topics[0].partitions[0].error_code


def test_the_answer_waits_for_the_disk_and_reports_its_fault() -> None:
    peer = taught()
    framed = peer.send(commit(7, group_id="g"), 8)
    peer.world.end_turn()
    assert peer.prepared == 1
    assert framed.frames == []
    peer.world.end_flush(BROKEN)
    assert len(framed.frames) == 1
    assert error_of(framed) == ErrorCode.NOT_COORDINATOR
    peer.world.load()
    assert fetched(peer.world) == 1, "as if it had never been"


def test_a_disk_that_hangs_is_reported() -> None:
    peer = taught()
    framed = peer.send(commit(7, group_id="g"), 8)
    peer.world.end_turn()
    peer.world.time_ms += COMMIT_TIMEOUT_MS
    peer.world.fire_due()
    assert error_of(framed) == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_bug_is_answered_and_costs_a_life(monkeypatch: pytest.MonkeyPatch) -> None:
    peer = taught(max_batch_bytes=300)
    waiting = peer.send(commit(7, group_id="g"), 8)
    monkeypatch.setattr(peer.world.log, "append", a_bug)
    framed = peer.send(commit(8, group_id="g"), 8)  # There is no room for it in the batch, so that is cut.
    assert peer.prepared == 2
    peer.world.end_turn()
    assert [error_of(each) for each in (waiting, framed)] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
    assert peer.world.reloads == 1


def test_what_no_batch_can_hold_is_refused() -> None:
    peers = pair(max_batch_bytes=200)
    for number in range(4):
        frame = commit(number, group_id="g")
        both(peers, Peer.send_and_flush, frame, 8)
    assert peers[0].prepared == 0, "what was refused made no group"


def test_on_a_full_disk_and_after_a_load_a_commit_is_decoded() -> None:
    peer = taught()
    peer.send(commit(7, group_id="g"), 8)
    peer.world.end_turn()
    peer.world.end_flush(FULL)
    peer.world.load()
    for offset in (8, 9, 10):  # The second of them is prepared all the same.
        answered = peer.send(commit(offset, group_id="g"), 8)
        assert error_of(answered) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert peer.prepared == 1


def test_a_prepared_one_that_no_batch_can_hold_is_refused() -> None:
    """Its group is there by another commit, so that what is refused can be prepared."""
    peers = pair(max_batch_bytes=300)
    both(peers, Peer.send_and_flush, commit(1, count=1, note="", group_id="g"), 8)
    for number in range(4):
        both(peers, Peer.send_and_flush, commit(number, 8, number, 4, "long" * 20, group_id="g"), 8)
    assert peers[0].prepared > 0
    assert error_of(peers[0].asked[-1]) == ErrorCode.UNKNOWN_SERVER_ERROR


def test_several_refused_in_one_turn_are_answered_once_each() -> None:
    peer = Peer(True, max_batch_bytes=300)
    peer.send_and_flush(commit(1, count=1, note="", group_id="g"), 8)
    for number in range(2):
        peer.send_and_flush(commit(number, 8, number, 4, "long" * 20, group_id="g"), 8)
    refused = [peer.send(commit(number, 8, number, 4, "long" * 20, group_id="g"), 8) for number in range(3)]
    peer.world.end_turn()
    assert peer.prepared >= 3
    assert [error_of(each) for each in refused] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 3


def test_a_disk_that_fails_answers_every_commit_of_a_turn_once() -> None:
    peer = taught()
    waiting = [peer.send(commit(offset, group_id="g"), 8) for offset in (7, 8, 9)]
    peer.world.end_turn()
    peer.world.end_flush(BROKEN)
    assert [error_of(each) for each in waiting] == [ErrorCode.NOT_COORDINATOR] * 3


def test_one_that_was_refused_is_not_answered_again_when_the_disk_fails() -> None:
    peer = Peer(True, max_batch_bytes=400)
    for number in range(2):
        peer.send_and_flush(commit(number, 8, number, 1, "", group_id="g"), 8)
    small, peer._requests = peer._requests, PreparedRequests(Roomy())
    for number in range(2):
        peer.send_and_flush(commit(number, 8, number, 4, "long" * 30, group_id="g"), 8)
    refused = peer.send(commit(7, 8, 7, 4, "long" * 30, group_id="g"), 8)
    peer._requests = small
    stored = peer.send(commit(8, 8, 8, 1, "", group_id="g"), 8)
    assert peer.prepared == 2
    peer.world.end_turn()
    assert (error_of(refused), stored.frames) == (ErrorCode.UNKNOWN_SERVER_ERROR, [])
    peer.world.end_flush(BROKEN)
    assert (error_of(refused), error_of(stored)) == (
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.NOT_COORDINATOR,
    )


def test_commits_of_one_turn_have_the_times_at_which_they_came() -> None:
    """They share a batch: each record has its own distance from the first."""
    peers = pair()
    for peer in peers:
        for number in range(2):
            peer.send_and_flush(commit(number, group_id="g"), 8)
        for offset in (7, 8, 9):
            peer.world.wall += 300
            peer.send(commit(offset, group_id="g"), 8)
    assert peers[0].prepared == 3
    both(peers, Peer.flush)
    both(peers, Peer.load)


@pytest.mark.parametrize("topics", [[], [OffsetCommitRequestTopic(name="orders", partitions=[])]])
def test_a_commit_of_no_partitions_writes_nothing(topics: list[OffsetCommitRequestTopic]) -> None:
    """Prepared, it was a batch without a record, which no start could read."""
    peers = pair()
    both(peers, Peer.send_and_flush, commit(1, group_id="g"), 8)
    stored = list(peers[0].world.log.stored)
    for number in range(4):
        frame = encode_request(OffsetCommitRequest(group_id="g", topics=topics), 8, number, CLIENT_ID)
        both(peers, Peer.send_and_flush, frame, 8)
    assert peers[0].prepared == 0
    assert peers[0].world.log.stored == stored
    both(peers, Peer.load)


def test_a_stop_in_the_turn_of_a_commit_answers_it_when_it_is_durable() -> None:
    peer = taught()
    framed = peer.send(commit(7, group_id="g"), 8)
    peer.world.runner.stop()
    peer.flush()
    assert error_of(framed) == ErrorCode.NONE
    peer.world.restart()
    assert fetched(peer.world) == 7


def test_a_shard_that_goes_to_another_node_answers_the_commits_of_this_turn() -> None:
    peer = taught()
    framed = peer.send(commit(7, group_id="g"), 8)
    peer.world.runner.release()
    assert error_of(framed) == ErrorCode.NOT_COORDINATOR


def test_a_marker_stands_behind_the_commits_of_its_turn_and_waits_for_itself() -> None:
    peer = taught()
    peer.send(commit(7, group_id="g"), 8)
    position = peer.world.runner.position
    done: list[ErrorCode] = []
    peer.world.runner.write_marker(Marker(1, 0, 0, is_commit=True), done.append)
    assert peer.world.runner.position == position + 3, "two records, and the marker"
    waited_for = [each[0] for each in peer.world.durable_log._queue._waiting]
    assert waited_for == [position + 2, position + 3]
    peer.flush()
    assert done == [ErrorCode.NONE]


def test_it_keeps_a_member_alive() -> None:
    peers = pair(settings=GroupSettings(group_initial_rebalance_delay_ms=0))
    for peer in peers:
        joined = member_of(peer)
        for _ in range(6):
            peer.world.time_ms += 6_000
            peer.send(commit(5, group_id="m", **joined), 8)
            peer.flush()
            peer.world.fire_due()
    assert peers[0].prepared == 4
    assert peers[0].seen == peers[1].seen
    assert peers[0].world.runner.shard is not None
    assert peers[0].world.runner.shard.groups["m"].members


def member_of(peer: Peer) -> dict[str, Any]:
    """A group `m` of one member, stable; who commits for it."""
    joined = peer.world.answer(join(), JOIN)
    peer.world.answer(sync(joined), SYNC)
    return {"member_id": joined.member_id, "generation_id_or_member_epoch": joined.generation_id}


# What may happen in between. Each of these is done to a connection that prepares commits and to one that never
# does, in every version that has one, and no difference may be found: in answers, in the log, in what is stored.


def leave(peer: Peer) -> None:
    gone = [MemberIdentity(member_id=member_id) for member_id in _group(peer).members]
    peer.world.answer(LeaveGroupRequest(group_id="m", members=gone), 5)


def come_again(peer: Peer) -> None:
    """The member joins once more, and so a generation begins that its commits do not name."""
    (member_id,) = [each for each in _group(peer).members if each == peer.member["member_id"]]
    peer.world.ask(join(member_id), JOIN)
    peer.flush()


def adopt(peer: Peer) -> None:
    """The leader stores its assignment, and the member commits for the new generation."""
    generation_id = _group(peer).generation_id
    peer.member = {**peer.member, "generation_id_or_member_epoch": generation_id}
    mine = SyncGroupRequestAssignment(member_id=peer.member["member_id"], assignment=b"all")
    request = SyncGroupRequest(
        group_id="m", generation_id=generation_id, member_id=peer.member["member_id"], assignments=[mine]
    )
    peer.world.answer(request, SYNC)


def make_topic(peer: Peer) -> None:
    peer.world.topics.grow("orders", 4)
    peer.world.topics.recreate("orders", topic_id_of(9))


def delete_offsets(peer: Peer) -> None:
    topic = OffsetDeleteRequestTopic(
        name="orders", partitions=[OffsetDeleteRequestPartition(partition_index=0)]
    )
    peer.world.answer(OffsetDeleteRequest(group_id="g", topics=[topic]), 0)


def end_flush(peer: Peer, error: StorageError | None) -> None:
    peer.world.end_turn()
    if peer.world.flushes:
        peer.world.end_flush(error)


def pass_time(peer: Peer, by_ms: int) -> None:
    peer.world.time_ms += by_ms
    peer.world.fire_due()


def load(peer: Peer) -> None:
    peer.flush()
    peer.world.load()


def _group(peer: Peer) -> Group:
    shard = peer.world.runner.shard
    assert shard is not None
    return shard.groups["m"]


COMMITS: dict[str, dict[str, Any]] = {
    "commit": {"group_id": "g"},
    "other": {"group_id": "other"},
    "narrow": {"group_id": "g", "count": 1},
    "noted": {"group_id": "g", "note": "another"},
    "stranger": {"group_id": "m"},
    "member": {"group_id": "m"},  # With what it is known by.
}
STEPS: dict[str, Callable[[Peer], Any]] = {
    "join": lambda peer: peer.world.ask(join(), JOIN, client_id="second"),
    "come-again": come_again,
    "adopt": adopt,
    "leave": leave,
    "grow": lambda peer: peer.world.topics.grow("orders", 8),
    "shrink": lambda peer: peer.world.topics.grow("orders", 1),
    "recreate": lambda peer: peer.world.topics.recreate("orders", topic_id_of(9)),
    "delete-topic": lambda peer: peer.world.topics.forget("orders"),
    "make-topic": make_topic,
    "delete-group": lambda peer: peer.world.answer(DeleteGroupsRequest(groups_names=["g"]), 2),
    "delete-offset": delete_offsets,
    "end-of-turn": lambda peer: peer.world.end_turn(),
    "flush": Peer.flush,
    "fail": lambda peer: end_flush(peer, BROKEN),
    "fail-amid-the-turn": lambda peer: peer.world.end_flush(BROKEN),
    "no-room": lambda peer: end_flush(peer, FULL),
    "load": load,
    "later": lambda peer: pass_time(peer, 6_000),
    "expire": lambda peer: pass_time(peer, 10_000),
}
OF_THE_CATALOG = {"grow", "shrink", "recreate", "delete-topic", "make-topic"}
"""The steps that are no events of the shard: what was gathered waits on."""

SEQUENCES: dict[str, int] = {  # And how many of its commits are prepared, in version 8.
    "commit commit commit": 1,
    "commit commit end-of-turn commit commit flush commit": 3,
    "commit commit other commit commit commit": 1,
    "commit commit narrow commit commit commit": 1,
    "commit commit noted commit commit commit": 1,
    # The topic is another one, and offsets must not be kept for the one that is gone.
    "commit commit recreate commit": 0,
    "commit commit recreate commit load commit": 0,
    "commit commit commit recreate commit commit commit": 3,
    "commit recreate commit commit flush load commit commit": 2,
    "commit commit end-of-turn recreate commit flush load": 0,
    "commit commit delete-topic commit": 0,
    "commit commit delete-topic make-topic commit commit commit": 2,
    "commit commit shrink commit": 0,
    "commit commit shrink commit grow commit commit": 1,
    "commit commit grow commit": 1,
    # The group has gone meanwhile, or what is known of it.
    "commit commit delete-group commit commit": 1,
    "commit commit flush delete-group flush commit load commit": 0,
    "commit commit delete-offset commit flush load commit": 1,
    # The shard has another life.
    "commit commit load commit commit commit": 2,
    "commit commit commit fail load commit commit commit": 3,
    "commit commit commit no-room commit load commit": 1,
    "commit commit end-of-turn commit commit fail-amid-the-turn load commit": 2,
    # Another event comes in the turn of a commit.
    "commit commit commit commit flush commit": 3,
    "commit commit commit delete-offset flush load": 1,
    "commit commit commit delete-group flush load": 1,
    "member member member leave flush load": 1,
    "commit commit end-of-turn commit fail commit load commit": 1,
    # The member may not commit any more, or under another generation.
    "member member member": 1,
    "member member leave member": 0,
    "member member leave stranger stranger stranger": 1,
    "leave stranger stranger stranger join stranger": 1,
    "member member flush later member flush later member flush later member": 3,
    "member member flush expire member": 0,
    "member member flush later member flush expire member": 1,
    "member member flush join member flush later member": 2,
    "member member come-again member": 0,
    "member member come-again adopt member member member": 2,
    "member member come-again member adopt member member member": 2,
    "member member load member": 0,
    "member commit member commit member commit commit commit": 1,
    "stranger stranger stranger member member member": 1,
}


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_whatever_happens_in_between(sequence: str) -> None:
    for version in VERSIONS:
        peers = pair(settings=GroupSettings(group_initial_rebalance_delay_ms=0))
        for peer in peers:
            peer.member = member_of(peer)
        for number, step in enumerate(sequence.split()):
            if step in STEPS:
                peers[0].is_gathering = peers[0].is_gathering and step in OF_THE_CATALOG
                both(peers, STEPS[step])
            else:
                both(peers, partial(send, step, version, number))
        both(peers, load)
        assert peers[1].prepared == 0
        if version == 8:
            assert peers[0].prepared == SEQUENCES[sequence]


def send(kind: str, version: int, number: int, peer: Peer) -> None:
    """A commit of this kind; the offsets differ each time."""
    more = peer.member if kind == "member" else {}
    peer.send(commit(1 << number, version, number, **{**COMMITS[kind], **more}), version)


def test_a_prepared_heartbeat_is_that_of_the_shard_as_it_lives() -> None:
    """A former life of the shard knows members that the log has forgotten."""
    world = ShardWorld(settings=GroupSettings(group_initial_rebalance_delay_ms=0))
    joined = world.answer(join(), JOIN)
    world.answer(sync(joined), SYNC)
    request = HeartbeatRequest(group_id="m", generation_id=joined.generation_id, member_id=joined.member_id)
    apis = apis_of(world)
    frame = encode_request(request, 4, 0, CLIENT_ID)
    prepared = apis.prepare_heartbeat(request, 4, frame)
    assert prepared is not None
    assert prepared.is_current()
    assert (answer := prepared.answer(world.now_ms())) is not None
    assert answer.message.error_code is ErrorCode.NONE
    world.load()
    assert not prepared.is_current()
    assert prepared.answer(world.now_ms()) is None
    assert apis.prepare_heartbeat(request, 4, frame) is not None, "that of the shard that lives now"


@pytest.mark.parametrize("head", [(4, "size"), (6, "API key"), (8, "version")], ids=lambda head: head[1])
def test_a_request_with_another_head_is_not_taken_for_the_prepared_one(head: tuple[int, str]) -> None:
    """Its rest has the same bytes: the body of another API or version can read the same."""
    end, _ = head
    request = HeartbeatRequest(group_id="m", generation_id=1, member_id="a")
    frame = encode_request(request, 3, 0, CLIENT_ID)
    other = frame[: end - 1] + bytes([frame[end - 1] ^ 1]) + frame[end:]
    prepared = Prepared(frame, lambda: True, lambda _, pending: None)
    assert prepared.has_same_bytes_at(b"before" + frame, 6)
    assert not prepared.has_same_bytes_at(b"before" + other, 6)
    assert prepared.match(other, 0, len(other)) is None


def test_while_a_shard_loads_heartbeats_are_not_prepared() -> None:
    world = ShardWorld()
    world.durable_log.fail(BROKEN)
    request = HeartbeatRequest(group_id="m", generation_id=1, member_id="a")
    apis = apis_of(world)
    assert apis.prepare_heartbeat(request, 4, encode_request(request, 4, 0, CLIENT_ID)) is None
