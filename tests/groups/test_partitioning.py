"""Which partition keeps a group: the vectors of docs/kafka.md section 5, and the hashes behind them."""

from __future__ import annotations

import pytest

from coordinator.groups.partitioning import java_hash, partition_for

VECTORS = [
    ("", 0, 0),
    ("grp", 102629, 29),
    ("group", 98629247, 47),
    ("test-group", 627841412, 12),
    ("my-group", -1906497762, 12),
    ("polygenelubricants", -2147483648, 0),
    ("группа", 1749938458, 8),
    ("消费者", 28099956, 6),
    ("😀-grp", 928360827, 27),  # A surrogate pair: two units to Java.
]


@pytest.mark.parametrize(("group_id", "hashed", "partition"), VECTORS)
def test_groups_go_where_every_broker_looks_for_them(group_id: str, hashed: int, partition: int) -> None:
    assert java_hash(group_id) == hashed
    assert partition_for(group_id, 50) == partition


def test_one_partition_keeps_everything() -> None:
    assert {partition_for(group_id, 1) for group_id, _, _ in VECTORS} == {0}
