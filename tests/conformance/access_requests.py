"""One request of each API in each version, about things that exist and things that do not.

Scenes ask them as a user with few rights or none; tests of checks ask them of the checks alone. Where a version
has topic ids the topics are named by these.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from protocol.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
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
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.delegation_tokens import CreateDelegationTokenRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.describe_configs import (
    ConfigResourceType,
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersTopicRequest
from protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    QuorumPartitionRequest,
    QuorumTopicRequest,
)
from protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestTopic,
)
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from protocol.messages.elect_leaders import ElectLeadersRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.fetch import FetchPartition, FetchReplicaState, FetchRequest, FetchTopic
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.list_config_resources import ListConfigResourcesRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from protocol.messages.list_transactions import ListTransactionsRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.raft_voters import AddRaftVoterRequest, RemoveRaftVoterRequest
from protocol.messages.shared import ControllerListener, TopicPartitions
from protocol.messages.sync_group import SyncGroupRequest
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from protocol.messages.unregister_broker import UnregisterBrokerRequest
from protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from protocol.records.batch import TRANSACTIONAL_BIT, BatchProducer
from protocol.records.records import Record, encode_batch
from tests.topics.world import batch

NO_NODE: Final = 4242
NO_PRODUCER: Final = 1 << 40
AT_MS: Final = 1_700_000_000_000
RETENTION: Final = ("retention.ms", "-1")


@dataclass(frozen=True, slots=True)
class Named:
    """What the requests name: the topics `topics` exist, with their ids, `absent` does not."""

    topics: tuple[str, ...]
    topic_ids: tuple[bytes, ...]
    absent: str
    absent_id: bytes
    groups: tuple[str, ...]
    transactional_ids: tuple[str, ...]

    @property
    def group(self) -> str:
        return self.groups[0]

    @property
    def transactional_id(self) -> str:
        return self.transactional_ids[0]

    @property
    def all_topics(self) -> tuple[str, ...]:
        return (*self.topics, self.absent)

    @property
    def all_ids(self) -> tuple[bytes, ...]:
        return (*self.topic_ids, self.absent_id)


Make = Callable[[Named, int], Any]
"""Makes the request of one API in a version."""


def _produce(named: Named, version: int) -> ProduceRequest:
    return _production(named, version, batch(b"v"))


def produce_in_transaction(named: Named, version: int) -> ProduceRequest:
    """Records of a transaction that was never begun."""
    producer = BatchProducer(NO_PRODUCER, 0, 0)
    record = Record(b"k", b"v", AT_MS)
    records = bytes(encode_batch([record], producer=producer, attributes=TRANSACTIONAL_BIT))
    return _production(named, version, records, named.transactional_id)


def _production(
    named: Named, version: int, records: bytes, transactional_id: str | None = None
) -> ProduceRequest:
    data = [PartitionProduceData(index=0, records=records)]
    topics = [TopicProduceData(name=name, partition_data=data) for name in named.all_topics]
    if version >= 13:
        topics = [TopicProduceData(topic_id=each, partition_data=data) for each in named.all_ids]
    return ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=1000, topic_data=topics)


def _fetch(named: Named, version: int) -> FetchRequest:
    partitions = [FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)]
    topics = [FetchTopic(topic=name, partitions=partitions) for name in named.all_topics]
    if version >= 13:
        topics = [FetchTopic(topic_id=each, partitions=partitions) for each in named.all_ids]
    return FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics)


def fetch_as_replica(named: Named, version: int) -> FetchRequest:
    """Asked as another broker would."""
    request = _fetch(named, version)
    if version >= 15:
        request.replica_state = FetchReplicaState(replica_id=NO_NODE)
    else:
        request.replica_id = NO_NODE
    return request


def _list_offsets(named: Named, version: int) -> ListOffsetsRequest:
    asked = [ListOffsetsPartition(partition_index=0, timestamp=-1)]
    return ListOffsetsRequest(
        topics=[ListOffsetsTopic(name=name, partitions=asked) for name in named.all_topics]
    )


def metadata(named: Named, version: int) -> MetadataRequest:
    """By name, with all operations asked for that the version knows."""
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in named.all_topics],
        allow_auto_topic_creation=version < 4,
        include_cluster_authorized_operations=8 <= version <= 10,
        include_topic_authorized_operations=version >= 8,
    )


def metadata_by_id(named: Named) -> MetadataRequest:
    """From version 12 on."""
    asked = [MetadataRequestTopic(topic_id=each, name=None) for each in named.all_ids]
    return MetadataRequest(topics=asked, include_topic_authorized_operations=True)


def _offset_commit(named: Named, version: int) -> OffsetCommitRequest:
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=7) for index in (0, 99)
    ]
    topics = [OffsetCommitRequestTopic(name=name, partitions=partitions) for name in named.all_topics]
    if version >= 10:
        topics = [OffsetCommitRequestTopic(topic_id=each, partitions=partitions) for each in named.all_ids]
    return OffsetCommitRequest(group_id=named.group, topics=topics)


def _offset_fetch(named: Named, version: int) -> OffsetFetchRequest:
    if version < 8:
        flat = [OffsetFetchRequestTopic(name=name, partition_indexes=[0]) for name in named.all_topics]
        return OffsetFetchRequest(group_id=named.group, topics=flat)
    topics = [OffsetFetchRequestTopics(name=name, partition_indexes=[0]) for name in named.all_topics]
    if version >= 10:
        topics = [OffsetFetchRequestTopics(topic_id=each, partition_indexes=[0]) for each in named.all_ids]
    groups = [OffsetFetchRequestGroup(group_id=group, topics=topics) for group in named.groups]
    return OffsetFetchRequest(groups=groups)


def offset_fetch_of_all(named: Named, version: int) -> OffsetFetchRequest:
    """Everything that is committed; from version 2 on."""
    if version < 8:
        return OffsetFetchRequest(group_id=named.group, topics=None)
    return OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=each, topics=None) for each in named.groups]
    )


def _find_coordinator(named: Named, version: int) -> FindCoordinatorRequest:
    if version < 4:
        return FindCoordinatorRequest(key=named.group)
    return FindCoordinatorRequest(coordinator_keys=list(named.groups))


def find_transactions(named: Named, version: int) -> FindCoordinatorRequest:
    """From version 1 on."""
    if version < 4:
        return FindCoordinatorRequest(key=named.transactional_id, key_type=1)
    return FindCoordinatorRequest(coordinator_keys=list(named.transactional_ids), key_type=1)


def _join(named: Named, version: int) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=named.group,
        session_timeout_ms=10_000,
        member_id="nobody",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


def _leave(named: Named, version: int) -> LeaveGroupRequest:
    if version < 3:
        return LeaveGroupRequest(group_id=named.group, member_id="nobody")
    return LeaveGroupRequest(group_id=named.group, members=[MemberIdentity(member_id="nobody")])


def _sync(named: Named, version: int) -> SyncGroupRequest:
    request = SyncGroupRequest(group_id=named.group, generation_id=1, member_id="nobody", assignments=[])
    if version >= 5:
        request.protocol_type, request.protocol_name = "consumer", "range"
    return request


def _create_topics(named: Named, version: int) -> CreateTopicsRequest:
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in named.all_topics]
    return CreateTopicsRequest(topics=topics, validate_only=True)


def _delete_topics(named: Named, version: int) -> DeleteTopicsRequest:
    """Only of topics that are not there, so that it may be asked with the right to it."""
    if version < 6:
        return DeleteTopicsRequest(topic_names=[named.absent], timeout_ms=1000)
    asked = [DeleteTopicState(name=named.absent), DeleteTopicState(topic_id=named.absent_id)]
    return DeleteTopicsRequest(topics=asked, timeout_ms=1000)


def _delete_records(named: Named, version: int) -> DeleteRecordsRequest:
    asked = [DeleteRecordsPartition(partition_index=0, offset=0)]
    topics = [DeleteRecordsTopic(name=name, partitions=asked) for name in named.all_topics]
    return DeleteRecordsRequest(topics=topics, timeout_ms=1000)


def _leader_epochs(named: Named, version: int) -> OffsetForLeaderEpochRequest:
    asked = [OffsetForLeaderPartition(partition=0, leader_epoch=4)]
    topics = [OffsetForLeaderTopic(topic=name, partitions=asked) for name in named.all_topics]
    return OffsetForLeaderEpochRequest(replica_id=-1, topics=topics)


def _add_partitions(named: Named, version: int) -> AddPartitionsToTxnRequest:
    topics = [AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in named.all_topics]
    if version >= 4:
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=named.transactional_id, producer_id=NO_PRODUCER, producer_epoch=0, topics=topics
        )
        return AddPartitionsToTxnRequest(transactions=[transaction])
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=named.transactional_id,
        v3_and_below_producer_id=NO_PRODUCER,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=topics,
    )


def _markers(named: Named, version: int) -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=NO_PRODUCER,
                producer_epoch=0,
                transaction_result=False,
                topics=[WritableTxnMarkerTopic(name=named.absent, partition_indexes=[0])],
                coordinator_epoch=0,
            )
        ]
    )


def _txn_commit(named: Named, version: int) -> TxnOffsetCommitRequest:
    asked = [TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7)]
    return TxnOffsetCommitRequest(
        transactional_id=named.transactional_id,
        group_id=named.group,
        producer_id=NO_PRODUCER,
        producer_epoch=0,
        topics=[TxnOffsetCommitRequestTopic(name=name, partitions=asked) for name in named.all_topics],
    )


def _acls_created(named: Named, version: int) -> CreateAclsRequest:
    """One that Kafka refuses once it looks at it: a cluster of another name."""
    return CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=4,
                resource_name="no-cluster",
                resource_pattern_type=3,
                principal="User:x",
                host="*",
                operation=3,
                permission_type=3,
            )
        ]
    )


def _acls_deleted(named: Named, version: int) -> DeleteAclsRequest:
    return DeleteAclsRequest(
        filters=[
            DeleteAclsFilter(
                resource_type_filter=2,
                resource_name_filter="no-topic",
                pattern_type_filter=3,
                principal_filter="User:nobody-at-all",
                host_filter=None,
                operation=3,
                permission_type=3,
            )
        ]
    )


def _acls_described(named: Named, version: int) -> DescribeAclsRequest:
    return DescribeAclsRequest(
        resource_type_filter=2,
        resource_name_filter="no-topic",
        pattern_type_filter=3,
        principal_filter="User:nobody-at-all",
        host_filter=None,
        operation=3,
        permission_type=3,
    )


def _described_configs(named: Named, version: int) -> DescribeConfigsRequest:
    resources = [(ConfigResourceType.TOPIC, name) for name in named.all_topics]
    resources += [(ConfigResourceType.GROUP, named.group), (ConfigResourceType.CLIENT_METRICS, "sub")]
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=[RETENTION[0]])
            for kind, name in resources
        ]
    )


def _altered(named: Named) -> list[tuple[int, str]]:
    """Another node is refused before anybody's rights are looked at."""
    return [
        *((ConfigResourceType.TOPIC, name) for name in named.all_topics),
        (ConfigResourceType.GROUP, named.group),
        (ConfigResourceType.BROKER, str(NO_NODE)),
    ]


def _alter_configs(named: Named, version: int) -> AlterConfigsRequest:
    config = AlterableConfig(name=RETENTION[0], value=RETENTION[1])
    return AlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[config] if kind == ConfigResourceType.TOPIC else [],
            )
            for kind, name in _altered(named)
        ],
        validate_only=True,
    )


def _incremental(named: Named, version: int) -> IncrementalAlterConfigsRequest:
    config = IncrementalAlterableConfig(name=RETENTION[0], config_operation=0, value=RETENTION[1])
    return IncrementalAlterConfigsRequest(
        resources=[
            IncrementalAlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[config] if kind == ConfigResourceType.TOPIC else [],
            )
            for kind, name in _altered(named)
        ],
        validate_only=True,
    )


def _log_dirs(named: Named, version: int) -> AlterReplicaLogDirsRequest:
    topics = [AlterReplicaLogDirTopic(name=named.absent, partitions=[0, 1])]
    return AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path="/elsewhere", topics=topics)])


def _partitions_created(named: Named, version: int) -> CreatePartitionsRequest:
    topics = [CreatePartitionsTopic(name=name, count=9, assignments=None) for name in named.all_topics]
    topics += [CreatePartitionsTopic(name="twice", count=9, assignments=None)] * 2
    return CreatePartitionsRequest(topics=topics, timeout_ms=1000, validate_only=True)


def _reassignments(named: Named, version: int) -> AlterPartitionReassignmentsRequest:
    asked = [ReassignablePartition(partition_index=0, replicas=[NO_NODE])]
    return AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=named.absent, partitions=asked)])


def _listed_reassignments(named: Named, version: int) -> ListPartitionReassignmentsRequest:
    asked = [ListPartitionReassignmentsTopics(name=named.absent, partition_indexes=[0])]
    return ListPartitionReassignmentsRequest(topics=asked)


def _offset_delete(named: Named, version: int) -> OffsetDeleteRequest:
    asked = [OffsetDeleteRequestPartition(partition_index=index) for index in (0, 99)]
    topics = [OffsetDeleteRequestTopic(name=name, partitions=asked) for name in named.all_topics]
    return OffsetDeleteRequest(group_id=named.group, topics=topics)


def _quorum(named: Named, version: int) -> DescribeQuorumRequest:
    """Of a topic that has none: what is said of the metadata log differs."""
    asked = [QuorumPartitionRequest(partition_index=0)]
    return DescribeQuorumRequest(topics=[QuorumTopicRequest(topic_name=named.absent, partitions=asked)])


def _features(named: Named, version: int) -> UpdateFeaturesRequest:
    return UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey(feature="no.such", max_version_level=1)])


def _producers(named: Named, version: int) -> DescribeProducersRequest:
    names = (*named.all_topics, "no/name")
    topics = [DescribeProducersTopicRequest(name=name, partition_indexes=[0, 0]) for name in names]
    return DescribeProducersRequest(topics=topics)


def _consumer_heartbeat(named: Named, version: int) -> ConsumerGroupHeartbeatRequest:
    """A heartbeat of a member that is not there, which names a topic."""
    return ConsumerGroupHeartbeatRequest(
        group_id=named.group, member_id="nobody", member_epoch=3, subscribed_topic_names=[named.topics[0]]
    )


def _pages(named: Named, version: int) -> DescribeTopicPartitionsRequest:
    topics = [DescribeTopicPartitionsRequestTopic(name=name) for name in named.all_topics]
    return DescribeTopicPartitionsRequest(topics=topics)


def _add_voter(named: Named, version: int) -> AddRaftVoterRequest:
    listener = ControllerListener(name="CONTROLLER", host="h", port=1)
    return AddRaftVoterRequest(
        cluster_id="no-cluster",
        timeout_ms=1000,
        voter_id=NO_NODE,
        voter_directory_id=named.absent_id,
        listeners=[listener],
    )


def _remove_voter(named: Named, version: int) -> RemoveRaftVoterRequest:
    return RemoveRaftVoterRequest(
        cluster_id="no-cluster", voter_id=NO_NODE, voter_directory_id=named.absent_id
    )


NO_QUOTA: Final = EntryData(
    entity=[EntityData(entity_type="user", entity_name="nobody")],
    ops=[OpData(key="producer_byte_rate", remove=True)],
)
NO_CREDENTIALS: Final = [
    ScramCredentialDeletion(name=name, mechanism=1) for name in ("zeno", "nobody", "zeno")
]
"""Of users that have none."""

OWNER: Final = "owner"
"""The user that tokens are asked for, in the name of another one."""


def _token(_named: Named, version: int) -> CreateDelegationTokenRequest:
    """One for another user, where the version can say so (A19)."""
    if version < 3:
        return CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1)
    return CreateDelegationTokenRequest(
        owner_principal_type="User", owner_principal_name=OWNER, renewers=[], max_lifetime_ms=-1
    )


REQUESTS_OF: Final[dict[int, Make]] = {
    0: _produce,
    1: _fetch,
    2: _list_offsets,
    3: metadata,
    8: _offset_commit,
    9: _offset_fetch,
    10: _find_coordinator,
    11: _join,
    12: lambda named, _: HeartbeatRequest(group_id=named.group, generation_id=1, member_id="nobody"),
    13: _leave,
    14: _sync,
    15: lambda named, version: DescribeGroupsRequest(
        groups=list(named.groups), include_authorized_operations=version >= 3
    ),
    16: lambda named, _: ListGroupsRequest(),
    19: _create_topics,
    20: _delete_topics,
    21: _delete_records,
    22: lambda named, _: InitProducerIdRequest(
        transactional_id=named.transactional_id, transaction_timeout_ms=1000
    ),
    23: _leader_epochs,
    24: _add_partitions,
    25: lambda named, _: AddOffsetsToTxnRequest(
        transactional_id=named.transactional_id,
        producer_id=NO_PRODUCER,
        producer_epoch=0,
        group_id=named.group,
    ),
    26: lambda named, _: EndTxnRequest(
        transactional_id=named.transactional_id, producer_id=NO_PRODUCER, producer_epoch=0, committed=False
    ),
    27: _markers,
    28: _txn_commit,
    29: _acls_described,
    30: _acls_created,
    31: _acls_deleted,
    32: _described_configs,
    33: _alter_configs,
    34: _log_dirs,
    35: lambda named, _: DescribeLogDirsRequest(topics=[]),
    37: _partitions_created,
    38: _token,
    42: lambda named, _: DeleteGroupsRequest(groups_names=[f"{each}-absent" for each in named.groups]),
    43: lambda named, _: ElectLeadersRequest(
        topic_partitions=[TopicPartitions(topic=named.absent, partitions=[0, 1])]
    ),
    44: _incremental,
    45: _reassignments,
    46: _listed_reassignments,
    47: _offset_delete,
    48: lambda named, _: DescribeClientQuotasRequest(components=[]),
    49: lambda named, _: AlterClientQuotasRequest(entries=[NO_QUOTA, NO_QUOTA], validate_only=True),
    50: lambda named, _: DescribeUserScramCredentialsRequest(users=[UserName(name="x"), UserName(name="y")]),
    51: lambda named, _: AlterUserScramCredentialsRequest(deletions=NO_CREDENTIALS),
    55: _quorum,
    57: _features,
    60: lambda named, _: DescribeClusterRequest(include_cluster_authorized_operations=True),
    61: _producers,
    64: lambda named, _: UnregisterBrokerRequest(broker_id=NO_NODE),
    65: lambda named, _: DescribeTransactionsRequest(transactional_ids=list(named.transactional_ids)),
    66: lambda named, _: ListTransactionsRequest(),
    68: _consumer_heartbeat,
    69: lambda named, _: ConsumerGroupDescribeRequest(
        group_ids=list(named.groups), include_authorized_operations=True
    ),
    74: lambda named, version: ListConfigResourcesRequest(resource_types=[16] if version else []),
    75: _pages,
    80: _add_voter,
    81: _remove_voter,
}
"""By API key; without those that everybody may ask and that say nothing of rights."""
