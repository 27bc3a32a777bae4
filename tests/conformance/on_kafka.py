"""What a node with its log on a Kafka has to play: every scenario about groups and offsets, and none other.

None is passed over. Those that commit offsets within transactions have to be refused (`refused`), the few of
DIFFERENT have to differ, and all others have to be answered as Kafka answers. What begins to be as Kafka's fails
a run until it is taken out of its table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tests.conformance.lines import (
    BAD_INPUT,
    BY_STATE,
    CELLS,
    CLASSIC,
    COMMON,
    CONSUMER_GROUPS,
    CONSUMER_LINES,
    GROUP_LINES,
    LINES,
    OFFSET_LINES,
    OFFSETS_AND_ADMIN,
    VERSIONS,
    Cells,
)
from tests.conformance.registry import Case

OF_GROUPS: Final = frozenset(
    {
        *(*GROUP_LINES, *OFFSET_LINES, *CONSUMER_LINES),
        *(*VERSIONS, *COMMON, *CLASSIC, *BY_STATE, *OFFSETS_AND_ADMIN, *BAD_INPUT, *CONSUMER_GROUPS),
    }
)
"""The lines and cells of docs/kafka.md that are about groups and offsets: all but those of sections 6, F, P and
of the transaction coordinator, which are asked of the Kafka behind."""

LINES_OF_GROUPS: Final = tuple(line for line in LINES if line in OF_GROUPS)
CELLS_OF_GROUPS: Final[Cells] = {cell: versions for cell, versions in CELLS.items() if cell in OF_GROUPS}

REFUSED: Final = frozenset(
    {
        "a_classic_member_commits_within_a_transaction",
        "a_commit_behind_it_outdoes_a_transaction",
        "a_deletion_takes_along_what_is_held",
        "a_group_with_but_an_open_transaction_stays",
        "a_marker_by_hand",
        "a_member_commits_within_a_transaction",
        "a_producer_that_names_no_member_commits",
        "every_marker_that_was_answered_is_there",
        "members_that_may_not",
        "nothing_expires_under_an_open_transaction",
        "offsets_count_when_their_transaction_ends",
        "offsets_of_a_transaction_survive_a_change_of_the_groups_kind",
        "old_producers_speak_for_no_member",
        "producers_that_may_not",
        "stable_readers_are_answered_unstable_offset_commit",
        "static_members_that_may_not",
        "two_producers_hold_one_partition",
        "what_does_not_exist_is_refused_by_itself",
    }
)
"""The scenarios in which offsets are committed within a transaction: docs/cluster.md says why they are refused."""

DIFFERENT: Final = {
    "there_are_consumer_groups_while_the_feature_is_on": "nodes have consumer groups whatever "
    "the Kafka's level of group.version, as it may be older than these; their own settings switch them off",
}
"""The other scenarios that come out otherwise, and the reason of principle; docs/cluster.md names them."""


def of_groups(cases: Sequence[Case]) -> list[Case]:
    """Those that are to be played."""
    return [case for case in cases if OF_GROUPS.intersection(case.lines)]


def elsewhere(cases: Sequence[Case]) -> Iterator[str]:
    """What is not played, as lines for people: it is about no group and no offset."""
    others: dict[str, set[str]] = {}
    for case in cases:
        if not OF_GROUPS.intersection(case.lines):
            others.setdefault(_section_of(case.lines[0]), set()).add(case.scenario.name)
    for section, names in others.items():
        yield f"not played, as it is about no group and no offset: {section}: {len(names)} scenarios"


def _section_of(line: str) -> str:
    return line.split(" ", 1)[0]
