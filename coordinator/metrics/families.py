"""Every metric that is exported: its name, type, labels, what it says, and what Kafka calls it.

`docs/metrics.md` has the same, and tests compare the two, and both with what is exported. Knows no values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from coordinator.metrics.text import Type, head


class Family(NamedTuple):
    """One metric."""

    name: str
    kind: Type
    labels: tuple[str, ...]
    about: str

    @property
    def head(self) -> str:
        """The lines before its samples."""
        return head(self.name, self.kind, self.about)


def _families(*rows: tuple[str, Type, str, str]) -> Mapping[str, Family]:
    return {name: Family(name, kind, tuple(labels.split()), about) for name, kind, labels, about in rows}


DAEMON: Final = _families(
    ("muster_groups", "gauge", "protocol state", "Groups, by protocol and state."),
    (
        "muster_committed_offsets",
        "gauge",
        "",
        "Committed offsets of all groups, as of the last walk over them.",
    ),
    ("muster_offset_commits_total", "counter", "", "Offsets committed, not requests."),
    ("muster_offsets_expired_total", "counter", "", "Committed offsets removed because they were too old."),
    (
        "muster_offsets_deleted_total",
        "counter",
        "",
        "Committed offsets deleted on request, or with their topic.",
    ),
    (
        *("muster_rebalances_total", "counter", "protocol cause"),
        "Rebalances that ended, by the cause that began them (docs/history.md has the causes).",
    ),
    (
        *("muster_rebalance_seconds", "histogram", "phase"),
        "How long rebalances took: join (also assigning), sync (also reconciling), and all of it.",
    ),
    ("muster_member_joins_total", "counter", "", "Members that joined."),
    ("muster_member_leaves_total", "counter", "", "Members that left, or were removed by an administrator."),
    ("muster_member_expiries_total", "counter", "cause", "Members removed because they were late, by cause."),
    ("muster_shards", "gauge", "kind state", "Partitions of the coordinators' topics, by state."),
    ("muster_shard_load_seconds", "histogram", "", "How long it took to read a shard from its log."),
    (
        *("muster_loop_turn_seconds", "histogram", ""),
        "How long a turn of the event loop lasted on the wall. One loop serves all requests; there is no queue.",
    ),
    (
        "muster_loop_longest_turn_seconds",
        "gauge",
        "clock",
        "The longest turn so far, in CPU time and on the wall.",
    ),
    ("muster_loop_lag_seconds", "gauge", "", "How late the loop's last timer of this page fired."),
    ("muster_loop_busy_seconds_total", "counter", "", "Time in which the loop did not wait."),
    (
        "muster_stalls_seconds_total",
        "counter",
        "",
        "Time in which the process did not run, which no deadline counts.",
    ),
    (
        "muster_flush_seconds",
        "histogram",
        "log",
        "How long a flush took: of the journal, topics, the history; of a node, how long Kafka took.",
    ),
    (
        *("muster_reply_hold_seconds", "histogram", ""),
        "How long the first reply that a flush let go had waited for it: a commit's latency, but for the turn.",
    ),
    ("muster_requests_total", "counter", "api", "Requests answered."),
    (
        "muster_request_errors_total",
        "counter",
        "api error",
        "Errors in answers, each as often as an answer has it.",
    ),
    (
        *("muster_request_seconds", "histogram", "api"),
        "From a request's receipt to its answer, waiting included; without requests recognised by their bytes.",
    ),
    ("muster_history_dropped_total", "counter", "", "Events of the history that were lost."),
    (
        "muster_disk_state",
        "gauge",
        "",
        "0: all logs can be written. 1: there is no room. 2: a log has failed.",
    ),
    ("muster_connections", "gauge", "", "Connections that are open."),
    ("muster_connections_accepted_total", "counter", "", "Connections accepted, those refused at once too."),
    ("muster_connections_refused_total", "counter", "", "Connections refused over a maximum."),
    ("muster_metrics_series", "gauge", "", "Lines of this page that have a value, but for this one."),
    (
        "muster_metrics_groups",
        "gauge",
        "shown",
        "Groups with series of their own (yes), and those summed (no).",
    ),
    (
        "muster_metrics_partitions",
        "gauge",
        "shown",
        "Partitions with series of their own (yes), and those beyond muster.metrics.partitions.max (no).",
    ),
)
"""Of the daemon as a whole."""

NODES: Final = _families(
    ("muster_nodes", "gauge", "", "Nodes in the newest table that this node was sent; 0 before the first."),
    ("muster_node_shards", "gauge", "state", "Shards by how far this node is on the way to owning them, or back."),
    ("muster_node_claims", "gauge", "node", "Shards by the node whose claim is in force, none for those without."),
    ("muster_node_lease_seconds", "gauge", "", "How long the least lease of this node's shards still runs; below "
     "0 it is over, nothing is answered. Absent if it owns none."),
    ("muster_node_ownership_changes_total", "counter", "change", "Shards that this node began to own (taken), let "
     "go as it was told (released), or ceased to own otherwise (lost)."),
    ("muster_node_foreign_batches_total", "counter", "", "Batches behind this node's claim that Kafka should have "
     "refused: more than 0 says that it does not fence."),
)  # fmt: skip
"""Of one of several nodes."""

GROUPS: Final = _families(
    ("muster_group_members", "gauge", "group", "Members of the group."),
    ("muster_group_generation", "gauge", "group", "The group's generation; its epoch, in the consumer protocol."),
    ("muster_group_state", "gauge", "group state", "1 for the state that the group is in; others are absent."),
    ("muster_group_rebalances_total", "counter", "group cause", "Rebalances of the group that ended, by cause."),
    ("muster_group_completed_rebalances_total", "counter", "group", "Rebalances of the group that ended: all of "
     "them, and 0 before the first."),
    ("muster_group_rebalance_seconds_total", "counter", "group phase", "Time lost to those, by phase."),
    ("muster_group_last_rebalance_timestamp_seconds", "gauge", "group", "When the last one ended, since 1970."),
    ("muster_group_commits_total", "counter", "group", "Offsets that the group committed."),
    ("muster_group_heartbeat_margin_ratio", "gauge", "group", "The least share of its session that a member had "
     "left when it was heard, in the last 5 minutes: 0.9 is well, at 0.1 the next pause expires it."),
    ("muster_group_unassigned_partitions", "gauge", "group", "Partitions subscribed to that no member has."),
    ("muster_group_lag", "gauge", "group topic", "Records behind, over partitions with a committed offset."),
    ("muster_group_lag_seconds", "gauge", "group topic", "Since when the first unread record is there, worst "
     "partition; 0 if only markers are left; absent if not known."),
)  # fmt: skip
"""Of single groups; `__other__` sums those that have no series of their own."""

PARTITIONS: Final = _families(
    ("muster_group_partition_lag", "gauge", "group topic partition", "Records behind in the partition."),
    ("muster_group_partition_lag_seconds", "gauge", "group topic partition", "Since when the first unread record "
     "is there."),
    ("muster_group_partition_offset", "gauge", "group topic partition", "The committed offset."),
)  # fmt: skip
"""Of single partitions, if they are asked for."""

KAFKA_EXPORTER: Final = _families(
    ("kafka_consumergroup_members", "gauge", "consumergroup", "Amount of members in a consumer group"),
    ("kafka_consumergroup_current_offset", "gauge", "consumergroup topic partition", "Current Offset of a "
     "ConsumerGroup at Topic/Partition"),
    ("kafka_consumergroup_current_offset_sum", "gauge", "consumergroup topic", "Current Offset of a ConsumerGroup "
     "at Topic for all partitions"),
    ("kafka_consumergroup_lag", "gauge", "consumergroup topic partition", "Current Approximate Lag of a "
     "ConsumerGroup at Topic/Partition"),
    ("kafka_consumergroup_lag_sum", "gauge", "consumergroup topic", "Current Approximate Lag of a ConsumerGroup "
     "at Topic for all partitions"),
    ("kafka_topic_partitions", "gauge", "topic", "Number of partitions for this Topic"),
    ("kafka_topic_partition_current_offset", "gauge", "topic partition", "Current Offset of a Broker at "
     "Topic/Partition"),
)  # fmt: skip
"""Under the names of danielqsj/kafka_exporter, if they are asked for."""

KMINION: Final = _families(
    ("kminion_kafka_consumer_group_info", "gauge", "group_id protocol protocol_type state coordinator_id", "1 if "
     "the group is in the stable state, otherwise 0."),
    ("kminion_kafka_consumer_group_members", "gauge", "group_id", "The number of members in the consumer group"),
    ("kminion_kafka_consumer_group_empty_members", "gauge", "group_id", "It will report the number of members in "
     "the consumer group with no partition assigned"),
    ("kminion_kafka_consumer_group_topic_lag", "gauge", "group_id topic_name", "The number of messages a consumer "
     "group is lagging behind across all partitions in a topic"),
    ("kminion_kafka_consumer_group_topic_partition_lag", "gauge", "group_id topic_name partition_id", "The number "
     "of messages a consumer group is lagging behind the latest offset of a partition"),
    ("kminion_kafka_consumer_group_topic_offset_sum", "gauge", "group_id topic_name", "The sum of all committed "
     "group offsets across all partitions in a topic"),
    ("kminion_kafka_consumer_group_offset_commits_total", "counter", "group_id", "The number of offsets committed "
     "by a group"),
)  # fmt: skip
"""Under the names of redpanda-data/kminion, if they are asked for."""

ALL: Final = {**DAEMON, **NODES, **GROUPS, **PARTITIONS, **KAFKA_EXPORTER, **KMINION}

OTHER: Final = "__other__"
"""The label of what all groups without series of their own have."""
