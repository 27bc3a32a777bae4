"""Regular expressions of clients: what they match, and that none holds us up."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.transactions import patterns
from coordinator.transactions.patterns import InvalidPattern, Pattern

ROOT = Path(__file__).resolve().parents[2]

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
    # Python has a meaning of its own for that.
    theirs = re.compile(pattern.replace("{,2}", r"\{,2\}"), re.ASCII)
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
    [
        ("(?i)aBc", "AbC"),
        ("(?s).", "\n"),
        ("(?i:a)b", "Ab"),
        (r"\Aa\z", "a"),
        (r"\ba\b", "a"),
        (r"\Qa.b\E", "a.b"),
        (r"\pL+\p{Nd}", "é1"),
        ("(?m)a$\n^b", "a\nb"),
        (".", "\U0001f600"),
        ("a\0b", "a\0b"),
    ],
)
def test_flags_escapes_and_ends(pattern: str, text: str) -> None:
    assert Pattern(pattern).matches(text)
    assert not Pattern(pattern).matches(f"{text}x")


WRONG = [
    *(
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
    ),
    *("(?=a)", "(?!a)", r"(a)\1", "(?>a)", "a++", r"\Z", "(a{1000}){1000}", "((a{0,99}){0,99}){0,99}"),
]


@pytest.mark.parametrize("pattern", WRONG)
def test_what_is_no_expression_is_refused(pattern: str) -> None:
    for _ in range(2):
        with pytest.raises(InvalidPattern):
            Pattern(pattern)


def test_the_reason_of_a_refusal_is_text() -> None:
    with pytest.raises(InvalidPattern, match=r"^missing \]: \[é$"):
        Pattern("[é")


def test_an_expression_has_a_greatest_length() -> None:
    assert Pattern("é" * 500).matches("é" * 500)
    with pytest.raises(InvalidPattern, match="more than 1000 bytes"):
        Pattern("é" * 500 + "a")


def test_what_compiles_to_too_much_is_refused() -> None:
    with pytest.raises(InvalidPattern, match="too large"):
        Pattern(r"\pL{100}")


def test_shards_that_are_asked_the_same_compile_it_once() -> None:
    patterns._compiled.cache_clear()
    for pattern in ("a.*", "a.*", "(", "("):
        with contextlib.suppress(InvalidPattern):
            Pattern(pattern)
    assert patterns._compiled.cache_info().misses == 2


def test_nested_repetitions_cost_no_more_than_their_text() -> None:
    assert not Pattern("(a*)*(a|aa)*(a+)+b").matches("a" * 30_000)


def test_what_may_cost_too_much_over_all_texts_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "MAX_WORK", 1_000_000)
    costly, text = Pattern("(a|b)*a(a|b){200}"), "ba" * 1_000
    assert costly.matches(text)
    assert costly.matches(text)
    with pytest.raises(InvalidPattern, match="cost too much"):
        costly.matches(text)
    assert not Pattern("app-.*").matches("ab" * 25_000)


HOSTILE = """
from pathlib import Path
from random import Random
from coordinator.transactions.patterns import InvalidPattern, Pattern
random = Random(1)
texts = ["".join(random.choices("ab", k=100)) for _ in range(200)]
def match(expression):
    pattern = Pattern(expression)
    return sum(map(pattern.matches, texts))
def peak_kib():
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
match(".*")
before = peak_kib()
for count in range(10, 60):
    assert match(".*a[ab]{%d}" % count)
try:
    match("(")
except InvalidPattern:
    print(peak_kib() - before)
"""


def test_hostile_expressions_leave_nothing_behind_in_memory_nor_on_standard_error() -> None:
    """Each has more states than there is memory for; with RE2's own bound, and if all were kept, 50 MiB."""
    done = in_a_process_of_its_own(HOSTILE)
    assert int(done.stdout) < 1_500
    assert done.stderr == ""


def test_a_daemon_loads_re2_with_the_first_expression() -> None:
    script = """
import sys, coordinator.daemon.daemon
from coordinator.transactions.patterns import Pattern
print("re2" in sys.modules, Pattern("a").matches("a"), "re2" in sys.modules)
"""
    assert in_a_process_of_its_own(script).stdout.split() == ["False", "True", "True"]


def in_a_process_of_its_own(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
