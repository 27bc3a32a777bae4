"""The parts of docs/kafka.md that are to be covered: its numbered lines, and the cells of its tables of errors.

A cell is one rule for one request, and says in which versions of that API the rule holds: it is covered when
it was shown in each of them. Cells are named after their table, so that `--only 2.2` plays them all.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from tests.conformance.actors import COMMIT, DELETE, DESCRIBE, FETCH, FIND, HEARTBEAT, JOIN, LEAVE, LIST, SYNC
from tests.conformance.admin_lines import TOPIC_ADMIN
from tests.conformance.new_members import BEAT, DESCRIBE_CONSUMERS
from tests.conformance.producers import (
    ADD,
    ADD_OFFSETS,
    BATCHED_ADD,
    END,
    INIT,
    LIST_TRANSACTIONS,
    RESUMING,
)
from tests.conformance.scenes import STATES

GROUP_LINES: Final = tuple(f"3.{number}" for number in (*range(1, 79), *range(85, 91)))
OFFSET_LINES: Final = tuple(f"O{number}" for number in range(1, 29))
CONSUMER_LINES: Final = tuple(f"A{number}" for number in (*range(1, 71), *range(72, 77)))

Cells = dict[str, tuple[int, ...]]
"""The versions in which each rule holds, by its name; none for APIs that have but one."""


def _cells(table: str, rules: dict[str, Iterable[int]]) -> Cells:
    return {f"{table} {rule}": tuple(versions) for rule, versions in rules.items()}


def _state_cells(rows: dict[str, Iterable[int]]) -> Cells:
    return {f"2.2 state {row}/{state}": tuple(versions) for row, versions in rows.items() for state in STATES}


VERSIONS: Final = _cells("2", {"versions of the group APIs": ()})
COMMON: Final = _cells(
    "2.1",
    {
        "SyncGroup: record too large": SYNC,
        "JoinGroup: record too large": range(5, 10),
        "OffsetCommit: record list too large": COMMIT,
        "JoinGroup: unexpected": range(5, 10),
        "loading": (),
    },
)
"""What one healthy broker can be brought to; the rest of the table is about logs that fail and brokers that go."""

CLASSIC: Final = _cells(
    "2.2",
    {
        "Join: empty group id": JOIN,
        "Join: session timeout outside": JOIN,
        "Join: id given, group absent": JOIN,
        "Join: group over its size": JOIN,
        "Join: group over its size forgets a pending id": range(4, 10),
        "Join: no protocol on an empty group": JOIN,
        "Join: type differs": JOIN,
        "Join: no protocol in common": JOIN,
        "Join: protocols that do not fit, id echoed": JOIN,
        "Join: id required": range(4, 10),
        "Join: id unknown": JOIN,
        "Join: instance unknown, id given": range(5, 10),
        "Join: instance under another id": range(5, 10),
        "Join: id known, group Empty": JOIN,
        "Join: what a refusal carries": JOIN,
        "Sync: empty group id": SYNC,
        "Sync: no protocol named": range(5, 6),
        "Sync: group absent": SYNC,
        "Sync: fenced": range(3, 6),
        "Sync: not a member": SYNC,
        "Sync: wrong generation": SYNC,
        "Sync: protocol differs": range(5, 6),
        "Sync: 82 before 22": range(3, 6),
        "Sync: 25 before 22": SYNC,
        "Sync: 22 before 23": range(5, 6),
        "Heartbeat: empty group id": HEARTBEAT,
        "Heartbeat: group absent": HEARTBEAT,
        "Heartbeat: fenced": range(3, 5),
        "Heartbeat: not a member": HEARTBEAT,
        "Heartbeat: wrong generation": HEARTBEAT,
        "Heartbeat: 82 before 22": range(3, 5),
        "Heartbeat: 25 before 22": HEARTBEAT,
        "Leave: empty group id": LEAVE,
        "Leave: group absent": LEAVE,
        "Leave: unknown member": LEAVE,
        "Leave: fenced": range(3, 6),
        "Leave: member": LEAVE,
    },
)
BY_STATE: Final = _state_cells(
    {
        "Join of a newcomer": range(4, 10),
        "Join with a pending id or v<4": JOIN,
        "Join of a member, same metadata": JOIN,
        "Join of a member, new metadata": JOIN,
        "Sync": SYNC,
        "Heartbeat": HEARTBEAT,
        "Leave": LEAVE,
        "Commit of a member": COMMIT,
        "Commit on its own": COMMIT,
    }
)
OFFSETS_AND_ADMIN: Final = _cells(
    "2.3",
    {
        "OffsetCommit: empty group id": COMMIT,
        "OffsetCommit: unknown topic": range(2, 10),
        "OffsetCommit: unknown topic id": range(10, 11),
        "OffsetCommit: unknown partition": COMMIT,
        "OffsetCommit: metadata too long": COMMIT,
        "OffsetCommit: not a member": COMMIT,
        "OffsetCommit: fenced": range(7, 11),
        "OffsetCommit: wrong generation": COMMIT,
        "OffsetCommit: rebalance in progress": COMMIT,
        "OffsetFetch: empty group id": FETCH,
        "OffsetFetch: unknown group": FETCH,
        "OffsetFetch: unknown partition": FETCH,
        "OffsetFetch: all of an unknown group": range(2, 11),
        "OffsetFetch: unknown topic id": range(10, 11),
        "OffsetFetch: open transaction": range(7, 11),
        "TxnOffsetCommit: committed, aborted": range(6),
        "TxnOffsetCommit: partitions and metadata": range(6),
        "TxnOffsetCommit: transaction": range(6),
        "TxnOffsetCommit: members": range(6),
        "TxnOffsetCommit: fenced": range(3, 6),
        "WriteTxnMarkers: of offsets": range(1, 3),
        "OffsetDelete: empty group id": (),
        "OffsetDelete: group absent": (),
        "OffsetDelete: non-empty, not of consumers": (),
        "OffsetDelete: subscribed topic": (),
        "OffsetDelete: unknown partition": (),
        "OffsetDelete: absent offset": (),
        "ListGroups: state since v4, type since v5": LIST,
        "ListGroups: filter of states": range(4, 6),
        "ListGroups: filter of types": range(5, 6),
        "ListGroups: unknown type": range(5, 6),
        "DescribeGroups: empty group id": DESCRIBE,
        "DescribeGroups: group absent": DESCRIBE,
        "DescribeGroups: not Stable": DESCRIBE,
        "DeleteGroups: empty group id": DELETE,
        "DeleteGroups: non-empty": DELETE,
        "DeleteGroups: group absent": DELETE,
        "DeleteGroups: null": DELETE,
        "DeleteGroups: duplicates": DELETE,
        "FindCoordinator: share group before v6": range(1, 6),
        "FindCoordinator: node of a refusal": range(1, 7),
    },
)
BAD_INPUT: Final = _cells(
    "bad input",
    {
        "JoinGroup: empty ids": JOIN,
        "JoinGroup: negative timeouts": JOIN,
        "JoinGroup: duplicate protocols": JOIN,
        "JoinGroup: 5,000 protocols": JOIN,
        "JoinGroup: oversized metadata": JOIN,
        "JoinGroup: ids that leave no room": JOIN,
        "JoinGroup: nulls": JOIN,
        "JoinGroup: text that is not UTF-8": JOIN,
        "SyncGroup: empty ids": SYNC,
        "SyncGroup: unknown members": SYNC,
        "SyncGroup: 10 MB": SYNC,
        "SyncGroup: nulls": SYNC,
        "Heartbeat: empty ids": HEARTBEAT,
        "Heartbeat: nulls": HEARTBEAT,
        "DescribeGroups: long ids": DESCRIBE,
        "DeleteGroups: long ids": DELETE,
        "OffsetDelete: long ids": (),
        "FindCoordinator: long ids": FIND,
        "OffsetCommit: long ids": COMMIT,
        "OffsetFetch: long ids": FETCH,
        "SyncGroup: long ids": SYNC,
        "LeaveGroup: long ids": LEAVE,
        "Heartbeat: bytes too many": HEARTBEAT,
        "Heartbeat: bytes too few": HEARTBEAT,
        "Heartbeat: unknown tag": range(4, 5),
        "LeaveGroup: empty ids": LEAVE,
        "LeaveGroup: nulls": LEAVE,
        "OffsetCommit: empty ids": COMMIT,
        "OffsetCommit: negative numbers": COMMIT,
        "OffsetCommit: oversized metadata": COMMIT,
        "OffsetCommit: nulls": COMMIT,
        "OffsetFetch: empty ids": FETCH,
        "OffsetFetch: negative numbers": FETCH,
        "OffsetFetch: nulls": FETCH,
        "OffsetDelete: empty ids": (),
        "OffsetDelete: negative numbers": (),
        "OffsetDelete: nulls": (),
        "ListGroups: nulls": range(4, 6),
        "DescribeGroups: empty ids": DESCRIBE,
        "DescribeGroups: nulls": DESCRIBE,
        "DeleteGroups: empty ids": DELETE,
        "DeleteGroups: nulls": DELETE,
        "FindCoordinator: empty ids": FIND,
        "FindCoordinator: nulls": FIND,
    },
)
"""Malformed but decodable requests: Kafka's error, and the group undisturbed."""

FETCHES: Final = _cells(
    "F",
    {
        "session: only what is news": range(7, 19),
        "session: forgotten partitions": range(7, 19),
        "session: wrong ids and epochs": range(7, 19),
        "session: of another connection": range(7, 19),
        "session: topic ids or names": (12, 13),
        "session: turns": range(7, 19),
        "session: topic deleted and made again": range(7, 19),
        "partitions: unknown": range(4, 19),
        "partitions: offsets and epochs": range(4, 19),
        "limits: absurd": range(4, 19),
        "limits: first batch": range(4, 19),
        "wait: until there is enough": range(4, 19),
        "wait: with an error beside": range(4, 19),
    },
)
"""Fetch of the data plane, which is not docs/kafka.md's: the rows are ours."""

TRANSACTIONS: Final = _cells(
    "transactions",
    {
        "InitProducerId: first, again": INIT,
        "InitProducerId: refused": INIT,
        "InitProducerId: resumed": RESUMING,
        "InitProducerId: a transaction is under way": INIT,
        "InitProducerId: after a transaction": INIT,
        "AddPartitionsToTxn: begins, goes on": ADD,
        "AddPartitionsToTxn: refused": ADD,
        "AddPartitionsToTxn: unknown partitions": ADD,
        "AddPartitionsToTxn: internal topics": ADD,
        "AddPartitionsToTxn: several, and verification": BATCHED_ADD,
        "AddOffsetsToTxn: added, refused": ADD_OFFSETS,
        "EndTxn: every state": END,
        "EndTxn: repeated": range(5, 6),
        "EndTxn: refused": END,
        "DescribeTransactions": (),
        "ListTransactions: filters": LIST_TRANSACTIONS,
        "ListTransactions: patterns": range(2, 3),
        "FindCoordinator": range(1, 7),
        "ApiVersions: the feature": (3, 4),
        "time: a timeout aborts": END,
        "time: an id expires": (),
        "restart: every state": (),
    },
)
"""The transaction coordinator, which docs/kafka.md has no table for: every handler, in every version."""

PRODUCED: Final = _cells(
    "P",
    {
        "Produce: stored": range(3, 14),
        "Produce: refused": range(3, 14),
        "Produce: refused as a whole": range(3, 14),
        "Produce: times": range(3, 14),
        "idempotence: sequences": range(3, 14),
        "idempotence: epochs": range(3, 14),
        "idempotence: the wrap": range(3, 14),
        "transactions: produce": range(3, 14),
        "transactions: unverified": range(3, 14),
        "transactions: readers": range(4, 19),
        "transactions: latest offsets": range(2, 12),
        "markers: written": range(1, 3),
        "markers: refused": range(1, 3),
        "markers: bumped epochs": (),
        "describe: refused": (),
    },
)
"""The partitions' side of what is produced, which docs/kafka.md has no table for either."""

CONSUMER_GROUPS: Final = _cells(
    "9",
    {
        "ConsumerGroupHeartbeat: blank names": BEAT,
        "ConsumerGroupHeartbeat: what does not fit its epoch": BEAT,
        "ConsumerGroupHeartbeat: of nobody": BEAT,
        "ConsumerGroupHeartbeat: static members": BEAT,
        "ConsumerGroupHeartbeat: a full group": BEAT,
        "ConsumerGroupHeartbeat: an expression that is none": BEAT[1:],
        "ConsumerGroupHeartbeat: from epoch to epoch": BEAT,
        "ConsumerGroupDescribe: both kinds": DESCRIBE_CONSUMERS,
        "classic members: in a consumer group": JOIN,
        "classic members: refused": JOIN,
        "classic members: refused when disabled": (),
        "classic members: static": range(5, 10),
        "classic members: SyncGroup and Heartbeat refused": SYNC,
        "classic members: LeaveGroup": LEAVE,
        "migration: up and down": BEAT,
        "migration: refused": BEAT,
        "migration: empty groups": BEAT,
        "OffsetCommit: by epochs": COMMIT,
        "OffsetCommit: by older epochs": range(9, 11),
        "OffsetCommit: of static members": range(9, 11),
        "OffsetCommit: of classic members": COMMIT,
        "TxnOffsetCommit: of members": range(3, 6),
        "TxnOffsetCommit: of classic members": range(3, 6),
        "TxnOffsetCommit: unchecked": range(6),
        "OffsetFetch: of members": range(9, 11),
        "OffsetFetch: of classic members": range(9, 11),
        "OffsetFetch: of groups of other kinds": range(9, 11),
        "OffsetFetch: of nobody": FETCH,
        "OffsetDelete: subscribed topics": (),
        "DeleteGroups: consumer groups": DELETE,
        "expiry: consumer groups": (),
        "DescribeGroups: of a consumer group": DESCRIBE,
        "ListGroups: consumer groups": LIST,
    },
)
"""Groups of the consumer protocol: the checks of 9.1, and what is answered as they move on. The numbered lines of
part 9 say the rest; many histories are compared with Kafka's own class besides (tests/oracle)."""

CELLS: Final[Cells] = (
    VERSIONS
    | COMMON
    | CLASSIC
    | BY_STATE
    | OFFSETS_AND_ADMIN
    | BAD_INPUT
    | TRANSACTIONS
    | PRODUCED
    | FETCHES
    | TOPIC_ADMIN
    | CONSUMER_GROUPS
)

NAMED_LINES: Final = "tests/simulation/test_named_lines.py"
ELSEWHERE: Final = {
    line: f"{NAMED_LINES}::test_{line.replace('.', '_')}_"
    for line in (
        "3.27",  # A wait of five minutes that no setting shortens.
        "3.38",  # This one and the next two need a log that fails or is slow.
        "3.49",
        "3.50",
        "3.70",  # From here to 3.72 a second broker is needed.
        "3.71",
        "3.72",
        "3.73",  # Needs a broker that is just stopping.
        "3.85",  # Needs a log that fails.
        "3.86",  # Shows in the log only.
        "3.88",  # Needs a log that is slow.
    )
}
"""What one healthy broker cannot be brought to do, and the test that proves it: what its id begins with."""

HASHES: Final = "tests/groups/consumer_groups/test_metadata_hash.py"
BY_CLASS: Final = {
    # Only where ids of topics collide, which a broker draws, does the order of a set of names show.
    "A34": "tests/oracle/test_recorded_histories.py::test_recorded_histories_come_out_the_same",
    # It is about the histories themselves.
    "A35": "tests/groups/consumer_groups/test_assignors.py::test_targets_are_those_of_kafka",
    "A44": f"{HASHES}::test_one_topic",  # Of topics with ids that no broker draws.
}
"""What no answer shows, and the test that holds it against figures of Kafka's own class: at most ten lines."""

DURABLE: Final = ("3.33", "3.44", "3.63", "3.64", "O8", "O15", "A74")
"""Lines that say "the answer waits for the write": shown by scenarios that have the broker killed right after its
answers, and by no others. A killed process leaves its page cache behind: that a disk has it, other tests show."""

SYNCED: Final = {
    "O8": "tests/server/test_durability.py::test_a_commit_is_answered_after_its_fdatasync",
    "A74": "tests/groups/consumer_groups/test_shard.py::test_a74_",
}
"""For a durable line the test (the beginning of its id) that holds back the sync, and so the answer."""

BEYOND: Final = {
    "2.1 moved, stopping, and logs that fail": "see the lines shown elsewhere",
    "2.2 Join, Sync, Heartbeat: share and streams groups": "this coordinator has no such groups",
    "2.2 any request: Dead": "Kafka 4 takes a group out of its map in the same step: no request meets a Dead one",
    "2.3 OffsetCommit, OffsetFetch: consumer groups": "see the cells of section 9",
    "2.3 OffsetFetch: group errors": "none that a classic group gives: they are those of 2.1",
    "2.3 FindCoordinator: offsets topic absent": "here it is there from the start",
    "6 UnregisterBroker: of this node": "the others would have no broker until its next start; here it is 42",
}
"""Cells that are not covered, and why."""

SCRAPED: Final = {"O28": "tests/metrics/test_exposition.py::test_o28_"}
"""What a counter shows and no answer: the test (the beginning of its id) that scrapes it."""

PROOFS: Final = ELSEWHERE | BY_CLASS | SCRAPED | SYNCED
"""The tests (the beginnings of their ids) that prove what scenarios do not, by line."""


class Net(StrEnum):
    """The kind of test that a line rests on."""

    LIVE = "beside a running Kafka"
    KILLED = "beside a running Kafka, both killed right after answers"
    SIMULATION = "in the simulation"
    CLASS = "by figures of Kafka's own class"
    SCRAPE = "by what a scrape of /metrics shows"


def net_of(line: str) -> Net:
    """The kind of net that shows `line`."""
    if line in SCRAPED:
        return Net.SCRAPE
    if line in ELSEWHERE:
        return Net.SIMULATION
    if line in BY_CLASS:
        return Net.CLASS
    return Net.KILLED if line in DURABLE else Net.LIVE


NETS: Final = {line: net_of(line) for line in (*GROUP_LINES, *OFFSET_LINES, *CONSUMER_LINES)}
"""Every line, and its net."""

LINES: Final = tuple(line for line, net in NETS.items() if net in (Net.LIVE, Net.KILLED))
"""What the scenarios have to show."""
