"""The one table of which rights each API asks for, before its handler sees a request (A22).

An API without a row here is served to no client where there is an authorizer: the table of APIs cannot be made.
"""

from __future__ import annotations

from typing import Final

from coordinator.access import (
    acls,
    cluster,
    configs,
    groups,
    offsets,
    records,
    topic_changes,
    topics,
    transactions,
)
from coordinator.access.verdict import Check, asks_itself, no_check
from coordinator.security.acls import Operation

CHECKS: Final[dict[int, Check]] = {
    0: records.check_produce,
    1: asks_itself,  # Fetch: its session knows which partitions.
    2: topics.check_list_offsets,
    3: topics.check_metadata,
    8: offsets.check_offset_commit,
    9: offsets.check_offset_fetch,
    10: groups.check_find_coordinator,
    11: groups.check_member,  # JoinGroup
    12: groups.check_member,  # Heartbeat
    13: groups.check_member,  # LeaveGroup
    14: groups.check_sync_group,
    15: groups.check_describe_groups,
    16: groups.check_list_groups,
    17: no_check,  # SaslHandshake
    18: no_check,  # ApiVersions
    19: topic_changes.check_create_topics,
    20: topic_changes.check_delete_topics,
    21: topics.check_delete_records,
    22: transactions.check_init_producer_id,
    23: topics.check_leader_epochs,
    24: transactions.check_add_partitions,
    25: transactions.check_add_offsets,
    26: transactions.check_end_txn,
    27: transactions.check_write_markers,
    28: offsets.check_txn_offset_commit,
    29: acls.check_describe_acls,
    30: acls.check_create_acls,
    31: acls.check_delete_acls,
    32: configs.check_describe_configs,
    33: asks_itself,  # AlterConfigs: its checks of form come first.
    34: cluster.cluster(Operation.ALTER, cluster.refuse_log_dirs),
    35: cluster.cluster(Operation.DESCRIBE, cluster.refuse_describe_log_dirs),
    36: no_check,  # SaslAuthenticate
    37: topic_changes.check_create_partitions,
    38: asks_itself,  # CreateDelegationToken: for another owner, and behind other checks (A19).
    39: no_check,  # RenewDelegationToken
    40: no_check,  # ExpireDelegationToken
    41: no_check,  # DescribeDelegationToken
    42: groups.check_delete_groups,
    43: cluster.cluster(Operation.ALTER, cluster.refuse_elections),
    44: asks_itself,  # IncrementalAlterConfigs: its checks of form come first.
    45: cluster.cluster(Operation.ALTER, cluster.refuse_reassignments),
    46: cluster.cluster(Operation.DESCRIBE, cluster.refuse_listed_reassignments),
    47: offsets.check_offset_delete,
    48: cluster.cluster(Operation.DESCRIBE_CONFIGS, cluster.refuse_described_quotas),
    49: cluster.cluster(Operation.ALTER_CONFIGS, cluster.refuse_altered_quotas),
    50: cluster.cluster(Operation.DESCRIBE, cluster.refuse_described_scram),
    51: cluster.cluster(Operation.ALTER, cluster.refuse_altered_scram),
    55: cluster.cluster(Operation.DESCRIBE),  # DescribeQuorum
    57: cluster.cluster(Operation.ALTER),  # UpdateFeatures
    60: cluster.check_describe_cluster,
    61: topics.check_describe_producers,
    64: cluster.cluster(Operation.ALTER),  # UnregisterBroker
    65: transactions.check_describe_transactions,
    66: transactions.check_list_transactions,
    68: groups.check_consumer_heartbeat,
    69: groups.check_consumer_group_describe,
    71: no_check,  # GetTelemetrySubscriptions
    72: no_check,  # PushTelemetry
    74: cluster.cluster(Operation.DESCRIBE_CONFIGS),  # ListConfigResources
    75: topics.check_describe_topic_partitions,
    80: cluster.cluster(Operation.ALTER),  # AddRaftVoter
    81: cluster.cluster(Operation.ALTER),  # RemoveRaftVoter
}
"""By API key."""
