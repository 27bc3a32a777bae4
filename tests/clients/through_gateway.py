"""What the walks of clients find otherwise through a gateway than at the Kafka behind it, and why.

`--target gateway` plays all tests of this folder but those that are listed here and those that know no target. Who
is listed as one that differs has to fail: where it would pass, it fails for being listed. docs/cluster.md has the
table, which `python -m tests.clients.through_gateway` prints.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

import pytest

from tests.conftest import NOT_THROUGH_GATEWAY

STARTS_ITS_OWN: Final = "it starts the brokers and daemons that it needs, and knows no target"


@dataclass(frozen=True, slots=True)
class Difference:
    """Tests of one module that are not played through a gateway, or have to fail there."""

    module: str
    tests: str
    """Their names, as a pattern of a shell, without parameters."""
    reason: str
    is_played: bool = True

    def is_of(self, item: pytest.Item) -> bool:
        """Whether this is about the test."""
        name = item.name.partition("[")[0]
        return item.path.name == f"{self.module}.py" and fnmatchcase(name, self.tests)


DIFFERENCES: Final = (
    Difference(
        "test_admin_calls",
        "test_kafka_python_describes_and_updates_features",
        "`transaction.version` is not shown: clients would commit offsets in transactions without announcing them",
    ),
    Difference(
        "test_admin_tools",
        "test_features_are_described_and_downgraded",
        "`transaction.version` is not shown, as above",
    ),
    Difference(
        "test_client_metrics", "*", "a node collects no metrics of clients: its tests start a Muster", False
    ),
    Difference("test_full_disk", "*", "a node has no disk", False),
    Difference(
        "test_late_answers",
        "*",
        "its relay stands in the place of one address, and brokers and nodes have two",
        False,
    ),
    Difference("test_slow_disk", "*", "a node has no disk", False),
    Difference(
        "test_why",
        "test_a_rebalance_that_waits_as_the_coordinator_itself_sees_it",
        "it starts a Muster with HTTP",
        False,
    ),
)


def mark(items: Iterable[pytest.Item]) -> None:
    """Have the tests skipped that are not played, and those fail that pass though they are said to differ."""
    for item in items:
        for difference in DIFFERENCES:
            if difference.is_of(item):
                item.add_marker(_marker(difference))
                break
        else:
            if "target" not in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.skip(reason=NOT_THROUGH_GATEWAY + STARTS_ITS_OWN))


def _marker(difference: Difference) -> pytest.MarkDecorator:
    if difference.is_played:
        return pytest.mark.xfail(strict=True, reason=difference.reason)
    return pytest.mark.skip(reason=NOT_THROUGH_GATEWAY + difference.reason)


def table() -> str:
    """The table of docs/cluster.md."""
    rows = [
        f"| `{each.module}` | {_all(each)} | {'fails' if each.is_played else 'is not played'} | {each.reason} |"
        for each in DIFFERENCES
    ]
    return "\n".join(["| module | tests | through a gateway | why |", "|---|---|---|---|", *rows])


def _all(difference: Difference) -> str:
    return "all" if difference.tests == "*" else f"`{difference.tests}`"


if __name__ == "__main__":
    print(table())
