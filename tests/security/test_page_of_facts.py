"""Each fact of docs/kafka-security.md is named by a test that holds Muster to it, or is here with the reason."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path
from typing import Final

import pytest

from harness.daemon import ROOT
from tests.conformance.security_lines import SECURITY_LINES

PAGE: Final = (ROOT / "docs" / "kafka-security.md").read_text()
FACTS: Final = tuple(re.findall(r"^- \*\*([LTSAQF]\d+)\*\*", PAGE, re.MULTILINE))
NAMED: Final = re.compile(r"\b([LTSAQF])(\d{1,2})\b(?: to ([LTSAQF]?)(\d{1,2})\b)?")
NOT_SHOWN: Final = {
    "Q16": "a login is over before there is a connection that quotas know of",
    "Q22": "there is no listener between brokers here",
}
"""Facts that no test can show, and why."""
HERE: Final = {"F4"}
"""The fact that this module shows."""

SECRET: Final = re.compile(r"password|stored_key|server_key|proof|secret|signature|hmac", re.IGNORECASE)
OF_NO_SECRET: Final = {
    "len(proof) != len(signature)",
    "given.keys() != {'username', 'password'}",
    "tuple(inspect.signature(_COMPILE).parameters) != _PARAMETERS",
}
"""Comparisons of sizes, and of names."""


def named_in_tests() -> dict[str, set[str]]:
    """The files of tests that name each fact; "S1 to S4" names four."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in sorted((ROOT / "tests").rglob("*.py")):
        if path.name == Path(__file__).name:
            continue
        for letter, first, other, last in NAMED.findall(path.read_text()):
            end = int(last) if last and other in ("", letter) else int(first)
            for number in range(int(first), end + 1):
                found[f"{letter}{number}"].add(path.name)
    return found


def test_each_fact_is_named_by_a_test_or_has_a_reason() -> None:
    named = named_in_tests()
    assert len(FACTS) > 140, "the page is read"
    assert [fact for fact in FACTS if fact not in named.keys() | NOT_SHOWN.keys() | HERE] == []
    assert [fact for fact in NOT_SHOWN if fact in named or fact not in FACTS] == []


def test_scenarios_may_name_each_fact() -> None:
    assert {f"security {fact}" for fact in FACTS} <= set(SECURITY_LINES)


def comparisons(source: str) -> list[str]:
    """The comparisons by == and != in which something is named like a secret."""
    return [
        ast.unparse(node)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Compare)
        and any(isinstance(each, ast.Eq | ast.NotEq) for each in node.ops)
        and SECRET.search(ast.unparse(node))
    ]


def test_no_secret_is_compared_in_other_than_constant_time() -> None:
    """F4."""
    found = {
        each
        for room in ("coordinator", "muster")
        for path in (ROOT / room).rglob("*.py")
        for each in comparisons(path.read_text())
    }
    assert found <= OF_NO_SECRET


@pytest.mark.parametrize("source", ["a.stored_key == b", "if password != given: pass", "x = [proof == y]"])
def test_a_comparison_of_secrets_is_found(source: str) -> None:
    assert comparisons(source)
