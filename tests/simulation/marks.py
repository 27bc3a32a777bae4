"""Rare events by name: a simulation that reaches one of them in no seed does not test what it seems to.

`MARKS` has them all. The witness notes which a history has reached; `report` counts them over many seeds, and says
which none has reached.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from coordinator.groups.causes import CauseKind

ENOUGH_SEEDS: Final = 2_000
"""So many have to reach every mark at least once."""

CAUSES: Final[Mapping[str, str]] = MappingProxyType(
    {
        CauseKind.PENDING_MEMBER_EXPIRED.slug: "an id that was handed out is not used in time (3.4)",
        CauseKind.PENDING_MEMBER_LEFT.slug: "an id that was handed out is given back (3.6)",
        CauseKind.REMOVED_BY_ADMIN.slug: "an admin removes a static member (3.41)",
        CauseKind.GROUP_MAX_SIZE_REACHED.slug: "a member rejoins a group that is full without it (3.31)",
        CauseKind.PARTITION_COUNTS_CHANGED.slug: "a leader rejoins since a topic has grown or gone",
        CauseKind.STATIC_MEMBER_NOT_STORED.slug: "a static member's new id cannot be stored (3.38)",
        CauseKind.SYNC_TIMEOUT.slug: "members that send no SyncGroup are removed (3.48)",
        CauseKind.ASSIGNMENT_NOT_STORED.slug: "an assignment cannot be stored (3.49)",
        CauseKind.JOIN_PHASE_EXTENDED.slug: "no member has rejoined when the join phase is over (3.18)",
        CauseKind.OFFSETS_EXPIRED.slug: "a group goes with its last offset (O22)",
    }
)
"""Reached when the history of a group says so."""

MARKS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **CAUSES,
        # Joins, syncs and their shards.
        "join_superseded": "a second JoinGroup takes the place of a parked one (3.26)",
        "join_refused_as_full": "a group is full (3.30)",
        "initial_delay_extended": "the initial delay is extended (3.12)",
        "fenced_while_join_parked": "a twin fences a member that is parked in JoinGroup (3.37)",
        "fenced_while_sync_parked": "a twin fences a member that is parked in SyncGroup (3.37)",
        "leader_skips_assignment": "a leader comes back and must not assign (3.34)",
        "kept_with_other_subscription": "a static member comes back with another subscription (3.33)",
        "passed_generation_stored": "an assignment is stored when its generation has passed (3.50)",
        "heartbeat_while_loading": "a member beats while its shard is loading (3.69)",
        "sync_while_loading": "a member syncs while its shard is loading (3.69)",
        "shard_failed_while_join_parked": "a shard is lost under a parked JoinGroup (3.70)",
        "shard_failed_while_sync_parked": "a shard is lost under a parked SyncGroup (3.70)",
        "shard_loaded_while_join_parked": "a shard is loaded while a JoinGroup is parked in another",
        "loaded_over_size": "a group is loaded that is larger than the maximum by now (3.31)",
        "generation_lost_in_crash": "a generation that was answered is not on the log when it is loaded (3.66)",
        "crash_while_join_parked": "the process dies with a JoinGroup parked",
        "crash_while_sync_parked": "the process dies with a SyncGroup parked",
        "crash_while_loading": "the process dies before all its shards are loaded",
        "answered_after_hang_up": "an answer is made whose client has gone (3.89)",
        "connect_group_stable": "a group of another type than consumers is Stable (3.78)",
        "partition_unowned_for_a_generation": "a cooperative group moves a partition (KIP-429)",
        # Offsets.
        "commit_from_old_generation": "a member commits while its group rebalances (O7)",
        "commit_was_prepared": "a commit is known by its bytes",
        "commit_outwaited_the_disk": "a commit is not durable in time (3.88)",
        "commit_without_room": "a commit is refused since the disk is full",
        "commit_for_missing_topic": "a commit names a topic that is not there",
        "commit_for_former_topic": "a commit names the id of a topic that has gone",
        "delete_of_subscribed_offset": "OffsetDelete names a topic that is subscribed to (O24)",
        "delete_of_busy_groups_offset": "OffsetDelete names a group of another type that has members (O24)",
        "group_deleted": "DeleteGroups ends a group (O25)",
        "offsets_expired_by_sweep": "offsets expire (O18)",
        "sweep_met_open_transaction": "offsets are swept while a transaction is open (O20)",
        # Transactions.
        "offset_fetch_unstable": "stable offsets are asked for that a transaction holds (O13)",
        "crash_with_open_transaction": "the process dies with offsets held by a transaction",
        "loaded_with_open_transaction": "a shard is loaded with offsets held by a transaction",
        "shard_failed_with_open_transaction": "a shard is lost with offsets held by a transaction",
        "producer_fenced": "a producer with an older epoch is refused",
        "transaction_timed_out": "a transaction is aborted since its producer took too long",
        # The daemon's own logs, on files that fail.
        "torn_tail_cut": "a crash has torn the end of a log, and the next start cuts it",
        "recovery_could_not_read": "a log cannot be opened for a read error",
        "load_could_not_read": "a shard meets a read error while it is loading (3.71)",
        "flush_met_a_full_disk": "a flush of a log finds no room",
        "frame_cut_by_death": "the process dies between the operations that write a frame of the journal",
        "torn_frame_cut": "a crash has torn the last frame of the journal, and the next start cuts it",
        "journal_replayed": "a start finds a journal",
        "behind_cut_by_death": "the process dies while it writes behind the journal",
        "behind_failed": "what the journal has cannot be written to a segment, or not be synced there",
        "checkpoint_cut_by_death": "the process dies in a checkpoint of the journal",
        "cleaning_cut_by_death": "the process dies between the operations of a cleaning",
        "stopped_cleanly": "the process stops with every log closed whole",
        "snapshot_restored": "a shard is restored from the snapshot of a clean stop",
        "snapshot_refused": "a snapshot is torn, or not of the log as it is",
        "snapshot_cut_by_death": "the process dies while it writes a snapshot",
        # The daemon's own connections.
        "request_behind_an_unanswered_one": "a request comes while the one before it is unanswered",
        "frame_read_in_part": "the daemon reads when only part of a frame has come",
        # Topics.
        "topic_grown": "a topic grows",
        "topic_deleted_with_offsets": "a topic with committed offsets is deleted (O23)",
        "topic_deleted_with_held_offsets": "a topic is deleted while a transaction holds offsets of it (O16)",
        "topic_deleted_while_loading": "a topic is deleted while a shard is loading",
        "topic_deleted_without_room": "a topic is deleted while a shard cannot write",
        "topic_deletion_found_at_load": "a shard finds offsets of a deleted topic when it is loaded (O23)",
        "former_topics_offset_hidden": "an offset of a topic's former life is asked for by the new id (O12)",
        # The network.
        "one_sided_cut_lost_an_answer": "a request comes through and its answer does not",
        "session_expired_behind_a_cut": "a member expires that is cut off",
    }
)


class Marks:
    """What one history has reached of the marks that it knows."""

    def __init__(self, known: Mapping[str, str] = MARKS) -> None:
        self.reached: set[str] = set()
        self._known = known

    def reach(self, name: str) -> None:
        """Note that `name` happened; raises KeyError for one that is not known."""
        if name not in self.reached:
            self._known[name]
            self.reached.add(name)


def counted(reached: Iterable[frozenset[str]], known: Mapping[str, str] = MARKS) -> Counter[str]:
    """How many seeds have reached each mark that is known, also those that none has."""
    counts = Counter(dict.fromkeys(known, 0))
    for each in reached:
        counts.update(each & known.keys())
    return counts


def report(
    counts: Mapping[str, int], seeds: int, known: Mapping[str, str] = MARKS, enough: int = ENOUGH_SEEDS
) -> list[str]:
    """A line for each mark, the rarest first; behind them what is missing, if `seeds` were enough."""
    width = max(map(len, known))
    rarest_first = sorted(known, key=lambda name: (counts[name], name))
    lines = [f"{counts[name]:>7,}  {name:<{width}}  {known[name]}" for name in rarest_first]
    if missing := not_reached(counts, seeds, known, enough):
        lines.append(f"reached by none of {seeds:,} seeds: {', '.join(missing)}")
    return lines


def not_reached(
    counts: Mapping[str, int], seeds: int, known: Mapping[str, str] = MARKS, enough: int = ENOUGH_SEEDS
) -> list[str]:
    """The marks that enough seeds have not reached once; nothing is said of fewer seeds."""
    return sorted(name for name in known if not counts[name]) if seeds >= enough else []
