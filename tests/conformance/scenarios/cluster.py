"""The one node as a cluster: its table of APIs, its features, its quorum, where replicas are, and no SASL."""

from __future__ import annotations

import dataclasses
from struct import pack
from typing import Any, Final

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
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    QuorumPartitionRequest,
    QuorumTopicRequest,
)
from protocol.messages.raft_voters import AddRaftVoterRequest, RemoveRaftVoterRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from protocol.messages.shared import ControllerListener
from protocol.messages.unregister_broker import UnregisterBrokerRequest
from protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from protocol.messages.versions import PRODUCE_KEY
from tests.conformance.admin_lines import (
    API_VERSIONS,
    DESCRIBE_CLUSTER,
    FEATURES,
    QUORUM,
    REASSIGNMENTS,
    REPLICA_LOG_DIRS,
    REPORTED_PRODUCE,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    VOTERS,
)
from tests.conformance.connection import CORRELATION_ID
from tests.conformance.registry import scenario
from tests.conformance.run import CLOSED, Run
from tests.conformance.served import LATER
from tests.conformance.topic_scenes import ask, make_topic, quietly, topic_name

NODE: Final = 1
ELSEWHERE: Final = "/elsewhere"
CLUSTER_METADATA: Final = "__cluster_metadata"
DIRECTORY_ID: Final = b"\x01" * 16
NO_DIRECTORY_ID: Final = bytes(16)

SERVED_FEATURE: Final = "transaction.version"
"""The one served feature of those that Kafka finalizes."""


@scenario("6 ApiVersions: the table of APIs", versions=API_VERSIONS)
async def the_tables_of_apis_are_equal(run: Run, version: int) -> None:
    """Key by key and version by version. What comes later is taken out of Kafka's table alone, by its key."""
    software = {"client_software_name": "conformance", "client_software_version": "1"} if version >= 3 else {}

    def tidy(reply: Any) -> None:
        later = {each.api_key for each in reply.api_keys} & LATER
        run.expect(later in (set(), LATER), "what comes later is there whole or not at all")
        served = [each for each in reply.api_keys if each.api_key not in LATER]
        reply.api_keys = sorted(served, key=lambda each: int(each.api_key))
        for name in ("supported_features", "finalized_features"):
            features = [each for each in getattr(reply, name) if each.name == SERVED_FEATURE]
            setattr(reply, name, features)
        reply.finalized_features_epoch = "known" if reply.finalized_features_epoch >= 0 else "not known"

    await ask(run, ApiVersionsRequest(**software), version, tidy=tidy)


@scenario("6 ApiVersions: Produce that is reported and not served", versions=REPORTED_PRODUCE)
async def what_is_only_reported_ends_the_connection(run: Run, version: int) -> None:
    """Our own codec has no such version: acks, a timeout and no topics, behind a header without a client id."""
    body = pack(">hhihhii", PRODUCE_KEY, version, CORRELATION_ID, -1, 1, 1000, 0)
    frame = len(body).to_bytes(4, "big") + body
    asked = await run.send_frame("old", frame, PRODUCE_KEY, version, f"Produce v{version}")
    run.expect(await run.answer(asked) == CLOSED, "the connection ends")


@scenario("6 DescribeCluster", versions=DESCRIBE_CLUSTER)
async def the_cluster_is_this_node(run: Run, version: int) -> None:
    """The id is each cluster's own; where the broker listens is what the client was given."""

    def tidy(reply: Any) -> None:
        reply.cluster_id = "an id" if reply.cluster_id else "none"

    for note, changes in {
        "brokers": {},
        "what may be done": {"include_cluster_authorized_operations": True},
    }.items():
        await ask(run, DescribeClusterRequest(**changes), version, note, tidy)
    for kind in (0, 1, 2, 3, -1) if version >= 1 else ():
        await ask(run, DescribeClusterRequest(endpoint_type=kind), version, f"endpoints {kind}", tidy)
    if version >= 2:
        request = DescribeClusterRequest(include_fenced_brokers=True)
        await ask(run, request, version, "fenced ones too", tidy)


@scenario("6 SaslHandshake on a plain listener", versions=SASL_HANDSHAKE)
async def a_plain_listener_shakes_no_hands(run: Run, version: int) -> None:
    for mechanism in ("PLAIN", "GSSAPI", "SCRAM-SHA-256", "", "x" * 300):
        await ask(run, SaslHandshakeRequest(mechanism=mechanism), version, mechanism[:20])
    await ask(run, SaslHandshakeRequest(mechanism="PLAIN"), version, "on the same connection")


@scenario("6 SaslAuthenticate on a plain listener", versions=SASL_AUTHENTICATE)
async def a_plain_listener_lets_every_client_in(run: Run, version: int) -> None:
    for auth_bytes in (b"", b"\0alice\0secret", bytes(1000)):
        await ask(run, SaslAuthenticateRequest(auth_bytes=auth_bytes), version, f"{len(auth_bytes)} bytes")


@scenario("6 AlterReplicaLogDirs", versions=REPLICA_LOG_DIRS)
async def replicas_stay_in_the_one_directory(run: Run, version: int) -> None:
    name, nope = await make_topic(run), topic_name(run, "nope")
    described = await quietly(run, DescribeLogDirsRequest(topics=[]), 4)
    here = described.results[0].log_dir

    def moved(*moves: tuple[str, str, list[int]]) -> AlterReplicaLogDirsRequest:
        """The request that moves replicas; those to the same directory stand under it together."""
        dirs: dict[str, list[AlterReplicaLogDirTopic]] = {}
        for path, topic, partitions in moves:
            dirs.setdefault(path, []).append(AlterReplicaLogDirTopic(name=topic, partitions=partitions))
        return AlterReplicaLogDirsRequest(
            dirs=[AlterReplicaLogDir(path=path, topics=topics) for path, topics in dirs.items()]
        )

    def tidy(reply: Any) -> None:
        reply.results.sort(key=lambda topic: str(topic.topic_name))
        for topic in reply.results:
            topic.partitions.sort(key=lambda partition: int(partition.partition_index))

    for note, request in {
        "here": moved((here, name, [0, 1, 7, -1]), (here, nope, [0]), (here, "", [0]), (here, "a b", [0])),
        "elsewhere": moved((ELSEWHERE, name, [0, 7]), (ELSEWHERE, nope, [0])),
        "a relative path": moved(("here", name, [0])),
        "no path": moved(("", name, [0])),
        "another path to it": moved((f"{here}/", name, [0])),
        "here, then elsewhere": moved((here, name, [0]), (ELSEWHERE, name, [0])),
        "elsewhere, then here": moved((ELSEWHERE, name, [0]), (here, name, [0])),
        "long names": moved(
            *((path, "x" * size, [0, 10]) for path in (here, ELSEWHERE) for size in (213, 214))
        ),
        "no partitions": moved((here, name, [])),
        "nothing": moved(),
    }.items():
        await ask(run, request, version, note, tidy)


@scenario("6 AlterPartitionReassignments", versions=REASSIGNMENTS)
async def partitions_stay_on_the_one_node(run: Run, version: int) -> None:
    name, nope = await make_topic(run), topic_name(run, "nope")

    def reassigned(
        *moves: tuple[str, int, list[int] | None], timeout_ms: int = 60_000
    ) -> AlterPartitionReassignmentsRequest:
        topics = [
            ReassignableTopic(
                name=topic, partitions=[ReassignablePartition(partition_index=index, replicas=replicas)]
            )
            for topic, index, replicas in moves
        ]
        return AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=timeout_ms)

    brokers: tuple[list[int] | None, ...] = (
        [NODE],
        [7],
        [NODE, 7],
        [7, NODE],
        [NODE, NODE],
        [-1],
        [],
        None,
    )
    for replicas in brokers:
        await ask(run, reassigned((name, 0, replicas)), version, str(replicas))
        for topic, index in ((name, 7), (name, -1), (nope, 0), ("", 0)):
            await ask(run, reassigned((topic, index, replicas)), version, f"{topic} {index} {replicas}")
    await ask(run, reassigned((name, 0, [NODE]), (name, 1, [NODE]), (name, 0, [7])), version, "several")
    await ask(run, reassigned(("__consumer_offsets", 0, [NODE])), version, "internal")
    await ask(run, reassigned(), version, "nothing")
    for timeout_ms in (0, -1):
        await ask(
            run, reassigned((name, 0, [NODE]), timeout_ms=timeout_ms), version, f"within {timeout_ms} ms"
        )
    if version >= 1:
        strict = reassigned((name, 0, [NODE]), (name, 1, [NODE, 7]))
        strict.allow_replication_factor_change = False
        await ask(run, strict, version, "with as many replicas")


@scenario("6 DescribeQuorum", versions=QUORUM)
async def the_quorum_is_this_node(run: Run, version: int) -> None:
    """How far the metadata log has come is each broker's own; whether there is one is not, nor who listens."""

    def tidy(reply: Any) -> None:
        for topic in reply.topics:
            for partition in topic.partitions:
                _as_words(partition, "leader_epoch", "high_watermark")
                for replica in partition.current_voters:
                    _as_words(replica, "log_end_offset", "last_fetch_timestamp", "last_caught_up_timestamp")
        for node in reply.nodes:
            node.listeners = [listener.name for listener in node.listeners]

    def quorum(*partitions: tuple[str, list[int]]) -> DescribeQuorumRequest:
        topics = [
            QuorumTopicRequest(
                topic_name=name,
                partitions=[QuorumPartitionRequest(partition_index=index) for index in indexes],
            )
            for name, indexes in partitions
        ]
        return DescribeQuorumRequest(topics=topics)

    name = await make_topic(run)
    for note, request in {
        "the metadata": quorum((CLUSTER_METADATA, [0])),
        "nothing": quorum(),
        "no partitions": quorum((CLUSTER_METADATA, [])),
        "another partition": quorum((CLUSTER_METADATA, [1])),
        "a partition twice": quorum((CLUSTER_METADATA, [0, 0])),
        "a topic": quorum((name, [0, 7]), (name, [])),
        "the metadata and a topic": quorum((CLUSTER_METADATA, [0]), (name, [0])),
    }.items():
        await ask(run, request, version, note, tidy)


def _as_words(part: Any, *names: str) -> None:
    """Replace each of these numbers by whether it is above 0, 0 or below."""
    for name in names:
        number = getattr(part, name)
        setattr(part, name, "some" if number > 0 else "zero" if number == 0 else "none")


@scenario("6 UpdateFeatures", versions=FEATURES)
async def levels_of_features_are_checked(run: Run, version: int) -> None:
    """Nothing is changed, since others look at the features meanwhile."""

    async def update(note: str, *updates: tuple[str, int, int]) -> None:
        keys = [FeatureUpdateKey(feature=name, max_version_level=level) for name, level, _ in updates]
        for key, (_, _, kind) in zip(keys, updates, strict=True):
            if version >= 1:
                key.upgrade_type = kind
            else:
                key.allow_downgrade = kind > 1
        request = UpdateFeaturesRequest(feature_updates=keys, validate_only=version >= 1)
        await ask(run, request, version, note)

    kinds = range(-1, 5) if version else (1, 2)
    for kind in kinds:
        for level in (-1, 0, 1, 2, 3) if version else (-1, 2, 3):
            await update(f"kind {kind} level {level}", (SERVED_FEATURE, level, kind))
            if level != 2:
                await update(f"unknown, kind {kind} level {level}", ("foo.version", level, kind))
    await update("nothing")
    same = (SERVED_FEATURE, 2, 1)
    await update("one of two is wrong", same, ("foo.version", 1, 1))
    await update("two are wrong", ("bar.version", 1, 1), ("foo.version", 1, 1))
    await update("named twice", same, same)


@scenario("6 UnregisterBroker")
async def brokers_that_are_not_there_cannot_be_forgotten(run: Run) -> None:
    for broker_id in (0, 7, -1, 2**31 - 1):
        await ask(run, UnregisterBrokerRequest(broker_id=broker_id), 0, str(broker_id))


REFUSED_VOTERS: Final[dict[str, dict[str, Any]]] = {
    "new": {},
    "another cluster": {"cluster_id": "other"},
    "no cluster": {"cluster_id": None},
    "this node": {"voter_id": NODE},
    "a negative id": {"voter_id": -1},
    "no directory": {"voter_directory_id": NO_DIRECTORY_ID},
    "another cluster and no directory": {"cluster_id": "", "voter_directory_id": NO_DIRECTORY_ID},
}


async def cluster_id(run: Run) -> str:
    return str((await quietly(run, DescribeClusterRequest(), 0)).cluster_id)


@scenario("6 AddRaftVoter", versions=VOTERS)
async def no_voter_is_added(run: Run, version: int) -> None:
    own = await cluster_id(run)

    def tidy(reply: Any) -> None:
        reply.error_message = str(reply.error_message).replace(own, "(its own)")

    listener = ControllerListener(name="CONTROLLER", host="127.0.0.1", port=1234)
    new = AddRaftVoterRequest(
        cluster_id=own, timeout_ms=1000, voter_id=7, voter_directory_id=DIRECTORY_ID, listeners=[listener]
    )
    for note, changes in REFUSED_VOTERS.items():
        await ask(run, dataclasses.replace(new, **changes), version, note, tidy)
    other = ControllerListener(name="OTHER", host="example", port=0)
    for note, listeners in {"nowhere": [], "elsewhere": [other, other], "both": [other, listener]}.items():
        await ask(run, dataclasses.replace(new, listeners=listeners), version, note, tidy)


@scenario("6 RemoveRaftVoter")
async def no_voter_is_removed(run: Run) -> None:
    own = await cluster_id(run)

    def tidy(reply: Any) -> None:
        reply.error_message = str(reply.error_message).replace(own, "(its own)")
        run.expect(reply.error_code != ErrorCode.NONE, "it is refused")

    new = RemoveRaftVoterRequest(cluster_id=own, voter_id=7, voter_directory_id=DIRECTORY_ID)
    for note, changes in REFUSED_VOTERS.items():
        await ask(run, dataclasses.replace(new, **changes), 0, note, tidy)
