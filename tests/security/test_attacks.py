"""Each attack of section F has its tests, and they are there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.security.attacks import ATTACKS

TESTS: Final = Path(__file__).resolve().parent.parent
PAGE: Final = TESTS.parent / "docs" / "kafka-security.md"


@cache
def names_in(path: Path) -> frozenset[str]:
    return frozenset(
        node.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def test_every_attack_of_the_page_is_tried() -> None:
    assert list(ATTACKS) == re.findall(r"^- \*\*(F\d+)\*\*", PAGE.read_text(), re.MULTILINE)
    assert all(parts and all(parts.values()) for parts in ATTACKS.values())


@pytest.mark.parametrize(
    "test", sorted({test for parts in ATTACKS.values() for tests in parts.values() for test in tests})
)
def test_a_test_that_is_named_is_there(test: str) -> None:
    file, name = test.split("::")
    assert name.startswith("test_")
    assert name in names_in(TESTS / file)
