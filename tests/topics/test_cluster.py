"""What one node answers of clusters: features, the quorum, where replicas are kept, and no SASL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coordinator.server.api_table import api_table
from coordinator.topics.feature_levels import FILE_NAME, SUPPORTED_FEATURES
from harness.doubles.fake_pending import FakePending
from harness.doubles.faulty_files import FaultyFiles
from harness.doubles.runtime_world import WALL_MS
from protocol.errors import ErrorCode
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    QuorumPartitionRequest,
    QuorumTopicRequest,
)
from protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from protocol.messages.raft_voters import AddRaftVoterRequest, RemoveRaftVoterRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from protocol.messages.shared import ControllerListener
from protocol.messages.unregister_broker import UnregisterBrokerRequest
from protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpgradeType
from storage.files import StorageError
from tests.topics.world import World

TRANSACTIONS = "transaction.version"
GROUPS = {"group.version": 1}
NODE, OTHER = 1, 7
DIRECTORY_ID = b"\1" * 16


# Where replicas are kept.


def reassigned(
    world: World, *moves: tuple[str, int, list[int] | None], version: int = 1, timeout_ms: int = 1000
) -> list[tuple[int, str | None]]:
    topics = [
        ReassignableTopic(
            name=name, partitions=[ReassignablePartition(partition_index=index, replicas=replicas)]
        )
        for name, index, replicas in moves
    ]
    answer = world.ask(AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=timeout_ms), version)
    assert [topic.name for topic in answer.responses] == [name for name, _, _ in moves]
    results = [each for topic in answer.responses for each in topic.partitions]
    return [(each.error_code, each.error_message) for each in results]


@pytest.mark.parametrize("version", range(2))
def test_a_reassignment_to_this_node_is_done_and_any_other_refused(world: World, version: int) -> None:
    world.topic("t")
    refused = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    no_such = f"The manual partition assignment includes broker {OTHER}, but no such broker is registered."
    moves: list[tuple[str, int, list[int] | None]] = [
        ("t", 0, [NODE]),
        ("t", 0, [OTHER]),
        ("t", 0, [NODE, OTHER]),
        ("t", 0, []),
        ("t", 0, [NODE, NODE]),
    ]
    assert reassigned(world, *moves, version=version) == [
        (0, None),
        (refused, no_such),
        (refused, no_such),
        (refused, "The manual partition assignment includes an empty replica list."),
        (refused, "The manual partition assignment includes the broker 1 more than once."),
    ]
    nothing_moves = world.ask(ListPartitionReassignmentsRequest(topics=None), 0)
    assert nothing_moves.topics == []


def test_a_reassignment_of_what_is_not_there_or_not_under_way_is_refused(world: World) -> None:
    world.topic("t")
    assert reassigned(world, ("t", 1, [NODE]), ("nope", 0, None), ("t", 0, None)) == [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find partition t:1."),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find a topic named nope."),
        (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None),
    ]
    assert reassigned(world, ("t", 0, [NODE]), timeout_ms=0) == [(ErrorCode.REQUEST_TIMED_OUT, None)]
    assert reassigned(world) == []


@pytest.mark.parametrize("version", [1, 2])
def test_a_replica_can_only_be_where_it_is(world: World, version: int) -> None:
    world.topic("t")
    described = world.ask(DescribeLogDirsRequest(topics=None), 4)
    here = described.results[0].log_dir

    def moved(*moves: tuple[str, str, int]) -> dict[tuple[str, int], int]:
        dirs = [
            AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name=name, partitions=[index])])
            for path, name, index in moves
        ]
        answer = world.ask(AlterReplicaLogDirsRequest(dirs=dirs), version)
        return {
            (topic.topic_name, each.partition_index): each.error_code
            for topic in answer.results
            for each in topic.partitions
        }

    unknown, elsewhere = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LOG_DIR_NOT_FOUND
    assert moved((here, "t", 0), (here, "t", 1), (here, "nope", 0)) == {
        ("t", 0): 0,
        ("t", 1): unknown,
        ("nope", 0): unknown,
    }
    for path in ("/elsewhere", "", f"{here}/", here.removeprefix("/")):
        assert moved((path, "t", 0), (path, "nope", 0)) == {("t", 0): elsewhere, ("nope", 0): elsewhere}
    assert moved((here, "t", 0), ("/elsewhere", "t", 0)) == {("t", 0): elsewhere}
    assert moved((here, "x" * 213, 0), (here, "x" * 213, 10)) == {
        ("x" * 213, 0): unknown,
        ("x" * 213, 10): ErrorCode.INVALID_TOPIC_EXCEPTION,  # Too long while it moves.
    }


# The quorum.


@pytest.mark.parametrize("version", range(3))
def test_the_quorum_is_this_node(world: World, version: int) -> None:
    asked = QuorumTopicRequest(
        topic_name="__cluster_metadata", partitions=[QuorumPartitionRequest(partition_index=0)]
    )
    answer = world.ask(DescribeQuorumRequest(topics=[asked]), version)
    ((partition,),) = [topic.partitions for topic in answer.topics]
    (voter,) = partition.current_voters
    assert (partition.leader_id, voter.replica_id, partition.observers) == (NODE, NODE, [])
    assert voter.log_end_offset == partition.high_watermark
    assert voter.last_fetch_timestamp == (WALL_MS if version >= 1 else -1)
    assert [node.node_id for node in answer.nodes] == ([NODE] if version >= 2 else [])


@pytest.mark.parametrize(
    "topics", [[("__cluster_metadata", [1])], [("t", [0])], [("__cluster_metadata", [0]), ("t", [0])]]
)
def test_only_the_metadata_has_a_quorum(world: World, topics: list[tuple[str, list[int]]]) -> None:
    world.topic("t")
    asked = [
        QuorumTopicRequest(
            topic_name=name, partitions=[QuorumPartitionRequest(partition_index=index) for index in indexes]
        )
        for name, indexes in topics
    ]
    answer = world.ask(DescribeQuorumRequest(topics=asked), 2)
    errors = {each.error_code for topic in answer.topics for each in topic.partitions}
    assert errors == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_voters_are_those_of_the_configuration(world: World) -> None:
    listener = ControllerListener(name="CONTROLLER", host="h", port=1)
    voter: dict[str, Any] = {"cluster_id": "tests", "voter_id": OTHER, "voter_directory_id": DIRECTORY_ID}
    for change, error in (
        ({}, ErrorCode.UNSUPPORTED_VERSION),
        ({"cluster_id": None}, ErrorCode.UNSUPPORTED_VERSION),
        ({"cluster_id": "x"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"voter_id": -1}, ErrorCode.INVALID_REQUEST),
        ({"voter_directory_id": bytes(16)}, ErrorCode.INVALID_REQUEST),
    ):
        for version in range(2):
            add = AddRaftVoterRequest(**{**voter, **change}, timeout_ms=1, listeners=[listener])
            assert world.ask(add, version).error_code == error
        assert world.ask(RemoveRaftVoterRequest(**{**voter, **change}), 0).error_code == error
    nowhere = world.ask(AddRaftVoterRequest(**voter, timeout_ms=1), 0)
    assert nowhere.error_code == ErrorCode.INVALID_REQUEST


def test_a_refusal_repeats_only_so_much_of_what_was_sent(world: World) -> None:
    sent: dict[str, Any] = {"cluster_id": "x" * 30_000, "voter_id": OTHER, "voter_directory_id": DIRECTORY_ID}
    assert len(world.ask(RemoveRaftVoterRequest(**sent), 0).error_message) == 1000


@pytest.mark.parametrize(
    ("broker_id", "error"),
    [(OTHER, ErrorCode.BROKER_ID_NOT_REGISTERED), (NODE, ErrorCode.INVALID_REQUEST)],
)
def test_no_broker_can_be_forgotten(world: World, broker_id: int, error: ErrorCode) -> None:
    assert world.ask(UnregisterBrokerRequest(broker_id=broker_id), 0).error_code == error
    assert world.broker.settings.node_id == NODE


# SASL.


def test_a_plain_listener_knows_no_sasl(world: World) -> None:
    for version in range(2):
        answer = world.ask(SaslHandshakeRequest(mechanism="PLAIN"), version)
        assert (answer.error_code, answer.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
    for version in range(3):
        answer = world.ask(SaslAuthenticateRequest(auth_bytes=b"\0a\0b"), version)
        assert (answer.error_code, answer.auth_bytes) == (ErrorCode.ILLEGAL_SASL_STATE, b"")


# Features.


def update(
    world: World, level: int, kind: UpgradeType, version: int = 2, *, validate_only: bool = False
) -> int:
    key = FeatureUpdateKey(feature=TRANSACTIONS, max_version_level=level, upgrade_type=kind)
    request = UpdateFeaturesRequest(feature_updates=[key], validate_only=validate_only)
    return int(world.ask(request, version).error_code)


def shown(world: World) -> tuple[dict[str, int], int]:
    """The finalized levels and their epoch, as ApiVersions has them."""
    apis = api_table({}, features=lambda: world.registry.features)
    pending: Any = FakePending(4)
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    apis[18].handle(request, pending)
    answer = pending.answer
    supported = {
        each.name: range(each.min_version, each.max_version + 1) for each in answer.supported_features
    }
    assert supported == SUPPORTED_FEATURES
    assert all(each.min_version_level == each.max_version_level for each in answer.finalized_features)
    return {each.name: each.max_version_level for each in answer.finalized_features}, (
        answer.finalized_features_epoch
    )


def test_levels_go_down_and_up_again_and_survive_a_restart(world: World) -> None:
    assert shown(world) == ({**GROUPS, TRANSACTIONS: 2}, 0)
    assert update(world, 1, UpgradeType.SAFE_DOWNGRADE) == 0
    assert shown(world) == ({**GROUPS, TRANSACTIONS: 1}, 1)
    world = world.restart()
    assert shown(world) == ({**GROUPS, TRANSACTIONS: 1}, 1)
    assert update(world, 0, UpgradeType.UNSAFE_DOWNGRADE) == 0
    assert shown(world) == (GROUPS, 2)  # At 0 it is not finalized.
    assert update(world, 2, UpgradeType.UPGRADE) == 0
    assert shown(world) == shown(world.restart()) == ({**GROUPS, TRANSACTIONS: 2}, 3)


def test_nothing_changes_where_nothing_is_to_be_changed(world: World) -> None:
    assert update(world, 1, UpgradeType.SAFE_DOWNGRADE, validate_only=True) == 0
    assert update(world, 2, UpgradeType.UPGRADE) == 0
    assert shown(world) == ({**GROUPS, TRANSACTIONS: 2}, 0)
    assert not (world.directory / FILE_NAME).exists()


@pytest.mark.parametrize(
    ("level", "kind"),
    [
        (1, UpgradeType.UPGRADE),
        (3, UpgradeType.UPGRADE),
        (-1, UpgradeType.UNSAFE_DOWNGRADE),
        (2, UpgradeType.UNKNOWN),
    ],
)
def test_levels_that_cannot_be_are_refused(world: World, level: int, kind: UpgradeType) -> None:
    for version in (1, 2):
        assert update(world, level, kind, version) == ErrorCode.INVALID_UPDATE_VERSION
    assert shown(world) == ({**GROUPS, TRANSACTIONS: 2}, 0)


def test_a_lower_level_is_no_place_to_downgrade_from(world: World) -> None:
    assert update(world, 1, UpgradeType.SAFE_DOWNGRADE) == 0
    assert update(world, 2, UpgradeType.SAFE_DOWNGRADE) == ErrorCode.INVALID_UPDATE_VERSION
    assert shown(world) == ({**GROUPS, TRANSACTIONS: 1}, 1)


def test_one_wrong_update_refuses_all(world: World) -> None:
    keys = [
        FeatureUpdateKey(feature=TRANSACTIONS, max_version_level=1, allow_downgrade=True),
        FeatureUpdateKey(feature="share.version", max_version_level=1),
    ]
    answer = world.ask(UpdateFeaturesRequest(feature_updates=keys), 0)
    assert (answer.error_code, answer.results) == (ErrorCode.INVALID_UPDATE_VERSION, [])
    assert "Local controller 1 does not support this feature" in answer.error_message
    assert shown(world) == ({**GROUPS, TRANSACTIONS: 2}, 0)


def test_updates_one_behind_the_other_are_each_checked_against_the_one_before(world: World) -> None:
    def request(level: int, kind: UpgradeType) -> UpdateFeaturesRequest:
        key = FeatureUpdateKey(feature=TRANSACTIONS, max_version_level=level, upgrade_type=kind)
        return UpdateFeaturesRequest(feature_updates=[key])

    first = world.start(request(0, UpgradeType.SAFE_DOWNGRADE), 2)
    second = world.start(request(1, UpgradeType.SAFE_DOWNGRADE), 2)
    assert not first.is_answered
    assert not second.is_answered
    world.settle()
    assert (first.answer.error_code, second.answer.error_code) == (0, ErrorCode.INVALID_UPDATE_VERSION)


def test_a_level_that_cannot_be_written_is_not_in_force(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path)
    world = World(tmp_path, files=files)
    files.fail_always("write")
    assert update(world, 1, UpgradeType.SAFE_DOWNGRADE) == ErrorCode.KAFKA_STORAGE_ERROR
    assert shown(world) == ({**GROUPS, TRANSACTIONS: 2}, 0)


def test_a_file_of_levels_that_is_none_keeps_the_node_from_starting(world: World) -> None:
    assert update(world, 1, UpgradeType.SAFE_DOWNGRADE) == 0
    path = world.directory / FILE_NAME
    path.write_text(path.read_text().replace('"levels"', '"level"'))
    with pytest.raises(StorageError, match=FILE_NAME):
        world.restart()
