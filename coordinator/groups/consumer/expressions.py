"""Regular expressions of subscriptions: what is wrong, in RE2/J's words, and which topics match (A45).

Brokers use RE2/J; this is RE2 itself, of which that is a translation, so nothing that a client sends takes more
time than in proportion to its length. Where the two differ is said in DIFFERENCES. The library is loaded with
the first expression.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

EXPRESSION_BYTES_MAX: Final = 8 << 20
"""Memory that one compiled expression may take. RE2/J has no bound; this is RE2's own, some 100,000 characters."""

COMPILED_MAX: Final = 16
"""Compiled expressions that are kept, so at most 128 MiB: the members of a group have few between them."""

TOO_LARGE: Final = "expression too large"

DESCRIPTIONS: Final = (
    ("missing )", "missing closing )"),
    ("missing ]", "missing closing ]"),
    ("unexpected )", "regexp/syntax: internal error"),
    ("no argument for repetition operator", "missing argument to repetition operator"),
    ("bad repetition operator", "invalid nested repetition operator"),
    ("invalid repetition size", "invalid repeat count"),
    ("trailing \\", "trailing backslash at end of expression"),
    ("invalid escape sequence", "invalid escape sequence"),
    ("invalid UTF-8", "invalid escape sequence"),
    ("invalid character class range", "invalid character class range"),
    ("invalid character class", "invalid character class"),
    ("invalid named capture group", "invalid named capture"),
    ("invalid perl operator: (?<", "invalid named capture"),
    ("invalid perl operator", "invalid or unsupported Perl syntax"),
    ("pattern too large", TOO_LARGE),
)
"""What RE2 says of an expression that is wrong, by its beginning, and what RE2/J says of the same."""

DIFFERENCES: Final = {
    "(a{1000}){1000}": "RE2 counts repetitions within repetitions, RE2/J each by itself",
    r"\C": "RE2 has it for any byte, RE2/J refuses it",
    "(?P<n>a)(?P<n>b)": "RE2 takes a name twice, RE2/J refuses it",
}
"""Expressions that one of the two takes and the other does not, with the reason; docs/kafka.md 9."""


class InvalidExpression(Exception):
    """An expression that does not compile; the text is RE2/J's description."""


@lru_cache(COMPILED_MAX)
def compiled(expression: str) -> Any:
    """Return the compiled expression. Raises InvalidExpression."""
    import re2  # Only here: most daemons never see an expression.

    options = re2.Options()
    options.log_errors = False  # They would go to standard error.
    options.never_capture = True
    options.max_mem = EXPRESSION_BYTES_MAX
    try:
        return re2.compile(expression, options)
    except re2.error as error:
        said = error.args[0] if error.args else ""
        raise InvalidExpression(
            _description(said.decode() if isinstance(said, bytes) else str(said))
        ) from None


def _description(said: str) -> str:
    return next((description for begin, description in DESCRIPTIONS if said.startswith(begin)), said)


def matching(expression: str, topics: Iterable[str]) -> list[str]:
    """The topics whose whole names match. Raises InvalidExpression."""
    pattern = compiled(expression)
    return [topic for topic in topics if pattern.fullmatch(topic)]
