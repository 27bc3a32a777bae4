"""The list of what the walks of clients find otherwise through a gateway: it is about tests that there are."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, cast

import pytest

from tests.clients import through_gateway
from tests.clients.through_gateway import DIFFERENCES, STARTS_ITS_OWN, Difference
from tests.conftest import NOT_THROUGH_GATEWAY, SkipPolicy

CLIENTS = Path(through_gateway.__file__).parent
PAGE = CLIENTS.parent.parent / "docs" / "cluster.md"


class Walk:
    """A collected test."""

    def __init__(self, module: str, name: str, fixtures: Sequence[str] = ("target",)) -> None:
        self.name = name
        self.path = CLIENTS / f"{module}.py"
        self.fixturenames = fixtures
        self.markers: list[pytest.Mark] = []

    def add_marker(self, marker: pytest.MarkDecorator) -> None:
        self.markers.append(marker.mark)


def marks_of(walk: Walk) -> list[tuple[str, dict[str, Any]]]:
    through_gateway.mark([cast(pytest.Item, walk)])
    return [(marker.name, dict(marker.kwargs)) for marker in walk.markers]


@pytest.mark.parametrize(
    "difference", DIFFERENCES, ids=lambda difference: f"{difference.module} {difference.tests}"
)
def test_each_difference_is_of_some_test(difference: Difference) -> None:
    tree = ast.parse((CLIENTS / f"{difference.module}.py").read_text())
    names = [each.name for each in tree.body if isinstance(each, ast.FunctionDef)]
    assert [name for name in names if name.startswith("test_") and fnmatchcase(name, difference.tests)]


def test_a_test_that_differs_has_to_fail_and_one_that_is_not_played_says_why() -> None:
    played = next(each for each in DIFFERENCES if each.is_played)
    walk = Walk(played.module, f"{played.tests}[java]")
    assert marks_of(walk) == [("xfail", {"strict": True, "reason": played.reason})]
    other = next(each for each in DIFFERENCES if not each.is_played and each.tests == "*")
    skipped = ("skip", {"reason": NOT_THROUGH_GATEWAY + other.reason})
    assert marks_of(Walk(other.module, "test_anything")) == [skipped]


def test_a_test_that_knows_no_target_is_not_played_and_all_others_are() -> None:
    skipped = ("skip", {"reason": NOT_THROUGH_GATEWAY + STARTS_ITS_OWN})
    assert marks_of(Walk("test_acls_tool", "test_the_tool", ("java",))) == [skipped]
    assert marks_of(Walk("test_walks", "test_every_call")) == []


def test_a_run_is_well_with_skips_that_are_listed_and_with_no_others() -> None:
    policy = SkipPolicy(True, [], NOT_THROUGH_GATEWAY)
    policy.skips = {"a": f"Skipped: {NOT_THROUGH_GATEWAY}x", "b": "Skipped: not today"}
    assert policy.offending == {"b": "Skipped: not today"}
    elsewhere = SkipPolicy(True, [])
    elsewhere.skips = policy.skips
    assert set(elsewhere.offending) == {"a", "b"}


def test_the_page_has_the_table() -> None:
    assert through_gateway.table() in PAGE.read_text(), "python -m tests.clients.through_gateway prints it"
