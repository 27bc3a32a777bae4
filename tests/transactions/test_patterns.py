"""Regular expressions of clients: what they match, and that none holds us up."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.transactions import patterns
from coordinator.transactions.patterns import InvalidPattern, Pattern

SAME_AS_PYTHON = [
    *("", "a", "abc", "a|b", "a*", "a+b?", "(ab)*", "(?:ab|a)b", "a{2}", "a{2,}", "a{1,3}b", "a{0}", "(|a)b"),
    *(".", ".*", "a.c", "[abc]+", "[^abc]+", "[a-c]x", r"[\d_]+", r"\d\D", r"\w+", r"\W", r"\s", r"\S+"),
    *(
        "^a$",
        "a^b",
        r"a\.b",
        r"\n",
        r"\x41",
        "[]a]",
        "[a-]",
        "a{",
        "a{,2}",
        "a*?b",
        "a+?",
        "(?P<n>a)b",
        "((a))",
    ),
    *("(a|b)*abb", "(a*)*", "(a*)*b", "x|", "[a\\]b]+", "é+", "a$", "^", "$", "^$", "(^a|b)c"),
]
TEXTS = [
    "",
    "a",
    "b",
    "ab",
    "abb",
    "aab",
    "aaa",
    "abc",
    "a.b",
    "a{",
    "a-",
    "]",
    "A",
    "1_",
    "1x",
    " ",
    "é",
    "c",
]


@pytest.mark.parametrize("pattern", SAME_AS_PYTHON)
def test_what_matches_elsewhere_matches_here(pattern: str) -> None:
    theirs = re.compile(
        pattern.replace("{,2}", r"\{,2\}"), re.ASCII
    )  # Python has a meaning of its own for that.
    ours = Pattern(pattern)
    for text in TEXTS:
        assert ours.matches(text) == bool(theirs.fullmatch(text)), (pattern, text)


@given(st.text("ab|*+?().[]^-", max_size=12), st.lists(st.text("ab", max_size=6), max_size=5))
@settings(max_examples=400, deadline=None)
@pytest.mark.filterwarnings("ignore::FutureWarning")  # Python's own, of sets within sets.
def test_any_expression_is_refused_or_means_what_it_means_elsewhere(pattern: str, texts: list[str]) -> None:
    try:
        ours = Pattern(pattern)
    except InvalidPattern:
        return
    try:
        theirs = re.compile(pattern)
    except re.error:
        return
    for text in texts:
        if not re.search(r"[*+?]\+", pattern):  # Possessive in Python, refused in RE2.
            assert ours.matches(text) == bool(theirs.fullmatch(text)), (pattern, text)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [("(?i)aBc", "AbC"), ("(?s).", "\n"), ("(?i:a)b", "Ab"), (r"\Aa\z", "a")],
)
def test_flags_and_ends(pattern: str, text: str) -> None:
    assert Pattern(pattern).matches(text)


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        ")",
        "[",
        "[]",
        "a**",
        "*",
        "a{2}{3}",
        "a{3,2}",
        "a{1001}",
        "\\",
        "[b-a]",
        r"\y",
        "(?x)a",
        r"\xg1",
        "(?P<1>a)",
    ],
)
def test_what_is_no_expression_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidPattern):
        Pattern(pattern)


def test_too_deep_or_too_large_is_refused() -> None:
    for pattern in ("(" * 5_000, "(" * 101 + ")" * 101, "(a{1000}){1000}", "((a{0,99}){0,99}){0,99}"):
        with pytest.raises(InvalidPattern):
            Pattern(pattern)
    assert Pattern("(((){1000}){1000}){1000}").matches("")


def test_nested_repetitions_cost_no_more_than_their_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "MAX_STEPS", 50_000)
    assert not Pattern("(a*)*(a|aa)*(a+)+b").matches("a" * 30_000)


def test_what_wants_too_many_states_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "MAX_STEPS", 20_000)
    pattern = Pattern("(a|b)*a(a|b){200}")
    text = "".join("ab"[(i * i) % 7 < 3] for i in range(3_000))
    with pytest.raises(InvalidPattern):
        pattern.matches(text)
