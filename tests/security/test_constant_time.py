"""No secret is compared by an operator, whose time says how much of a guess was right (F4)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent.parent
ROOMS: Final = ("coordinator", "muster")
SECRET: Final = re.compile(
    r"password|secret|token|proof|(stored|server|client)_key|digest|signature|nonce|salted"
)
NO_SECRETS: Final = {
    "token == ACKNOWLEDGEMENT",  # One byte, which answers a token that was refused (S34).
    "print_of in self.digests",  # Of events, where Spark finds those that came twice.
}
COMPARING: Final = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)


def comparisons(tree: ast.AST) -> Iterator[str]:
    """The comparisons by an operator of what is named like a secret."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and any(isinstance(each, COMPARING) for each in node.ops):
            for side in (node.left, *node.comparators):
                name = side.attr if isinstance(side, ast.Attribute) else getattr(side, "id", "")
                if SECRET.search(name.lower()):
                    yield ast.unparse(node)


def test_secrets_are_not_compared_by_operators() -> None:
    sources = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
    found = {each for path in sources for each in comparisons(ast.parse(path.read_text()))}
    assert found == NO_SECRETS


def test_such_a_comparison_is_found() -> None:
    tree = ast.parse("if final.proof != proof_of(key) or user == password: pass")
    assert [*comparisons(tree)] == ["final.proof != proof_of(key)", "user == password"]
