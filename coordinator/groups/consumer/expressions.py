"""Regular expressions of subscriptions: what is wrong, in RE2/J's words, and how large it may be (A45).

Brokers use RE2/J; this is RE2 itself, of which that is a translation. While RE2 compiles no other thread goes on,
so an expression has a bound that follows from its text (`effort`), and another on the memory that it takes. Where
the two libraries differ is said in DIFFERENCES. The library is loaded with the first expression.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

EFFORT_MAX: Final = 33_000
"""Most effort of one expression. All that have no more compile, or are refused, in some 10 ms; so does any text of
32 KB without repetitions, classes and escapes: the names of hundreds of topics."""

REPETITION_EFFORT: Final = 32
"""Of each item that may be left out, and of each repetition that is counted: there may be some 1,000. RE2 takes
2 ms for `a{0,1000}`, and four times as much for twice as many."""

UNICODE_CLASS_EFFORT: Final = 1_500
r"""Of `\pL` and its like: 500 us each where case is ignored."""

STARRED_ALTERNATIVES: Final = 160
"""Repetitions that are not counted, times alternatives, that take one effort: RE2 takes 13 ms for 2,700 times
`a*|`, and 200 for 11,000."""

CLASS_EFFORT: Final = 20
ESCAPE_EFFORT: Final = 4

BYTES_MAX: Final = 640 << 10
"""Memory that a compiled expression may take with the states that RE2 keeps of it; RE2/J has no bound."""

REPEATED_BYTES_MAX: Final = 128 << 10
"""The same for one with a counted repetition, which may be much larger than its text."""

COMPILED_MAX: Final = 64
"""Expressions of which is kept what became of them, so at most 40 MiB: the members of a group have few between
them, and one that is refused is tried again and again."""

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
    "{?": "RE2 takes a brace that begins no repetition for any character, RE2/J refuses to repeat it",
    r"\pL{200}": "RE2/J has no bound of size",
}
"""Expressions that one of the two takes and the other does not, with the reason; docs/kafka.md 9."""


class InvalidExpression(Exception):
    """An expression that does not compile; the text is RE2/J's description."""


_BRACE: Final = re.compile(r"\{([0-9]*),?([0-9]*)")
_REPEAT_MAX: Final = 1_000  # RE2 and RE2/J refuse more.


def compiled(expression: str) -> Any:
    """Return the compiled expression. Raises InvalidExpression."""
    outcome = _outcome(expression)
    if isinstance(outcome, InvalidExpression):
        raise InvalidExpression(*outcome.args)
    return outcome


def effort(expression: str) -> int:
    """What compiling an expression may take, whether it is valid or not: an estimate, and rather too much."""
    repeated = expression.count("?")
    for counts in _BRACE.findall(expression):
        repeated += max(1, *(min(int(count[:5] or 0), _REPEAT_MAX) for count in counts))
    unicode_classes = expression.count(r"\p") + expression.count(r"\P")
    return (
        len(expression.encode()) * (2 if "{" in expression else 1)
        + REPETITION_EFFORT * repeated
        + UNICODE_CLASS_EFFORT * unicode_classes
        + (expression.count("*") + expression.count("+")) * expression.count("|") // STARRED_ALTERNATIVES
        + CLASS_EFFORT * expression.count("[")
        + ESCAPE_EFFORT * expression.count("\\")
    )


@lru_cache(COMPILED_MAX)
def _outcome(expression: str) -> Any:
    """Return the compiled expression, or (not raised, and so remembered) what is wrong with it."""
    import re2  # Only here: most daemons never see an expression.

    if effort(expression) > EFFORT_MAX:
        return InvalidExpression(TOO_LARGE)
    options = re2.Options()
    options.log_errors = False  # They would go to standard error.
    options.never_capture = True
    options.max_mem = REPEATED_BYTES_MAX if "{" in expression else BYTES_MAX
    try:
        return re2.compile(expression, options)
    except re2.error as error:
        said = error.args[0] if error.args else ""
        return InvalidExpression(_description(said.decode() if isinstance(said, bytes) else str(said)))
    finally:
        re2.purge()  # Empty RE2's own cache, which would keep the last 128 expressions.


def _description(said: str) -> str:
    return next((description for begin, description in DESCRIPTIONS if said.startswith(begin)), said)
