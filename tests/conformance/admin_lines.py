"""What is to be covered of topics' administration: one cell for each API and what is shown of it, by version."""

from __future__ import annotations

from typing import Final

LIST_OFFSETS: Final = range(1, 12)
METADATA: Final = range(14)
CREATE_TOPICS: Final = range(2, 8)
DELETE_TOPICS: Final = range(1, 7)
DELETE_RECORDS: Final = range(3)
LEADER_EPOCHS: Final = range(2, 5)
ACLS: Final = range(1, 4)
TOKENS: Final = range(1, 4)
TOKEN_TIMES: Final = range(1, 3)
DESCRIBE_CONFIGS: Final = range(1, 5)
ALTER_CONFIGS: Final = range(3)
LOG_DIRS: Final = range(1, 6)
CREATE_PARTITIONS: Final = range(4)
ELECT_LEADERS: Final = range(3)
INCREMENTAL: Final = range(2)
QUOTAS: Final = range(2)
CONFIG_RESOURCES: Final = range(2)
API_VERSIONS: Final = range(5)
REPORTED_PRODUCE: Final = range(3)
DESCRIBE_CLUSTER: Final = range(3)
SASL_HANDSHAKE: Final = range(2)
SASL_AUTHENTICATE: Final = range(3)
REPLICA_LOG_DIRS: Final = range(1, 3)
REASSIGNMENTS: Final = range(2)
QUORUM: Final = range(3)
FEATURES: Final = range(3)
VOTERS: Final = range(2)
TELEMETRY: Final = range(1)

TOPIC_ADMIN: Final = {
    f"6 {rule}": tuple(versions)
    for rule, versions in {
        "CreateTopics": CREATE_TOPICS,
        "CreateTopics: refusals": CREATE_TOPICS,
        "DeleteTopics": DELETE_TOPICS,
        "a topic made again": (),
        "CreatePartitions": CREATE_PARTITIONS,
        "DeleteRecords": DELETE_RECORDS,
        "DeleteRecords: refusals": DELETE_RECORDS,
        "DescribeConfigs": DESCRIBE_CONFIGS,
        "AlterConfigs": ALTER_CONFIGS,
        "IncrementalAlterConfigs": INCREMENTAL,
        "IncrementalAlterConfigs: refusals": INCREMENTAL,
        "IncrementalAlterConfigs: of the broker": INCREMENTAL,
        "DescribeConfigs: of groups": DESCRIBE_CONFIGS,
        "AlterConfigs: of groups": ALTER_CONFIGS,
        "IncrementalAlterConfigs: of groups": INCREMENTAL,
        "settings of groups in force": (),
        "DescribeConfigs: of client metrics": DESCRIBE_CONFIGS,
        "AlterConfigs: of client metrics": ALTER_CONFIGS,
        "IncrementalAlterConfigs: of client metrics": INCREMENTAL,
        "ListConfigResources: client metrics": CONFIG_RESOURCES,
        "GetTelemetrySubscriptions": TELEMETRY,
        "PushTelemetry": TELEMETRY,
        "IncrementalAlterConfigs: every setting of the broker": (),
        "DescribeConfigs: all settings of the broker": (),
        "settings in force at once": (),
        "ListOffsets": LIST_OFFSETS,
        "ListOffsets: append time": LIST_OFFSETS,
        "OffsetForLeaderEpoch": LEADER_EPOCHS,
        "DescribeLogDirs": LOG_DIRS,
        "ElectLeaders": ELECT_LEADERS,
        "ListPartitionReassignments": (),
        "ACLs": ACLS,
        "CreateDelegationToken": TOKENS,
        "RenewDelegationToken": TOKEN_TIMES,
        "ExpireDelegationToken": TOKEN_TIMES,
        "DescribeDelegationToken": TOKENS,
        "DescribeClientQuotas": QUOTAS,
        "AlterClientQuotas": QUOTAS,
        "AlterClientQuotas: refusals": QUOTAS,
        "quotas: Produce": (),
        "quotas: Fetch": (),
        "quotas: partitions made and removed": (),
        "quotas: time": (),
        "DescribeUserScramCredentials": (),
        "AlterUserScramCredentials": (),
        "AlterUserScramCredentials: what is refused": (),
        "ListConfigResources": CONFIG_RESOURCES,
        "ApiVersions: the table of APIs": API_VERSIONS,
        "ApiVersions: Produce that is reported and not served": REPORTED_PRODUCE,
        "DescribeCluster": DESCRIBE_CLUSTER,
        "SaslHandshake on a plain listener": SASL_HANDSHAKE,
        "SaslAuthenticate on a plain listener": SASL_AUTHENTICATE,
        "AlterReplicaLogDirs": REPLICA_LOG_DIRS,
        "AlterPartitionReassignments": REASSIGNMENTS,
        "DescribeQuorum": QUORUM,
        "UpdateFeatures": FEATURES,
        "UnregisterBroker": (),
        "AddRaftVoter": VOTERS,
        "RemoveRaftVoter": (),
        "Metadata: topics made by being asked for": METADATA,
        "Metadata: topics that are not made by being asked for": METADATA,
        "Metadata: topics that other requests do not make": (),
    }.items()
}
