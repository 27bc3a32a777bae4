"""No secret is compared by `==`, which ends at the first byte that differs (F4): held by reading the sources."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parent.parent.parent
SOURCES: Final = ("coordinator", "muster", "storage", "protocol")
SECRET: Final = re.compile(
    r"passw|secret|proof|stored_key|server_key|client_key|salted|signature|digest|hmac|credential|token|jaas",
    re.I,
)
NO_SECRETS: Final = frozenset(
    {
        "token == ACKNOWLEDGEMENT",  # What a client says to a refusal; anybody may know it.
        "octets.tag != OCTET_STRING",
        "settings.muster_http_token != NO_TOKEN",  # Whether it is the word for none.
    }
)
"""What has such a name, and is none."""


def comparisons(text: str) -> Iterator[str]:
    """Comparisons by `==` or `!=` with what is called like a secret on either side."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Compare):
            continue
        if not any(isinstance(each, ast.Eq | ast.NotEq) for each in node.ops):
            continue
        if any(_is_secret(side) for side in (node.left, *node.comparators)):
            yield ast.unparse(node)


def _is_secret(side: ast.expr) -> bool:
    """Whether it is called like a secret; constants and what is counted or asked of one are none."""
    if isinstance(side, ast.Call):
        return not isinstance(side.func, ast.Call) and _is_secret(side.func)
    name = side.attr if isinstance(side, ast.Attribute) else side.id if isinstance(side, ast.Name) else ""
    return SECRET.search(name) is not None and not name.isupper() and not name.startswith("is_")


def test_no_secret_is_compared_by_its_bytes() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {comparison}"
        for folder in SOURCES
        for path in (ROOT / folder).rglob("*.py")
        for comparison in comparisons(path.read_text())
        if comparison not in NO_SECRETS
    }
    assert found == set()


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("if password == given: pass", True),
        ("x = self._token != shown", True),
        ("x = sha1(a).digest() == b", True),
        ("x = _digest(given) != known", True),
        ("x = len(proof) != len(signature)", False),
        ("x = compare_digest(proof, signature)", False),
        ("x = kind == 'password'", False),
    ],
)
def test_what_is_looked_for_is_found(text: str, is_found: bool) -> None:
    assert bool(list(comparisons(text))) is is_found
