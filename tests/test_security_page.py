"""docs/kafka-security.md has every fact that code and tests cite: "S12" in a comment is S12 of that page.

The letters L, T, S, Q and F are that page's everywhere. An A is one of docs/kafka.md, whose A numbers are about
consumer groups, but for the rooms of security, where it is one of this page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from tests.conformance.security_lines import SECURITY_LINES
from tests.protocol.test_versions import REPORTED, WITH_A_RECEIVER
from tests.test_kafka_page import ROOT, sources, texts

PAGE = ROOT / "docs" / "kafka-security.md"
ROOMS_OF_SECURITY = (
    "coordinator/security/",
    "coordinator/access/",
    "coordinator/quotas/",
    "tests/security/",
    "tests/access/",
    "tests/quotas/",
    "tests/server/test_access_daemon.py",
)

FACT = re.compile(r"^- \*\*([LTSAQF]\d+)\*\* \S", re.MULTILINE)
CITED = re.compile(r"(?<![\w.$=<>~/-])([LTSQF]\d{1,2})(?![\w%]|\.\d)")
CITED_WITH_A = re.compile(r"(?<![\w.$=<>~/-])([LTSAQF]\d{1,2})(?![\w%]|\.\d)")
SCENARIOS = re.compile(r"\bsecurity ([LTSAQF]\d{1,2})\b")  # As those of tests/conformance have it.
NO_CITATIONS = {"T61"}  # A character set of X.690.
LIMITS = (21, 22)  # Of section 5; those before them are its table.
TOKENS = {38, 39, 40, 41}  # Of delegation: A18 to A20 in place of a row.
API_ROW = re.compile(r"^\| (\d+[^|]*) \|", re.MULTILINE)
API_KEYS = re.compile(r"\b(\d+)(?: to (\d+))?")


NOT_SHOWN = {
    "T21": "of Python's own TLS, which is not used",
    "T22": "of Python's own TLS, which is not used",
    "T24": "of Python's own TLS, which is not used",
    "T25": "of Python's own TLS, which is not used",
    "T28": "of Python's own TLS, which is not used",
    "T29": "measured; what is promised of it is among the targets of the bench",
    "T34": "what Kafka does not do",
    "Q16": "a login is a protocol of its own, which has no meter",
    "Q22": "there is no listener between brokers",
}
"""Facts that no test is about, and why."""


def facts() -> list[str]:
    return FACT.findall(PAGE.read_text())


def is_of_security(source: Path) -> bool:
    return source.is_relative_to(ROOT) and str(source.relative_to(ROOT)).startswith(ROOMS_OF_SECURITY)


def unknown_citations(files: Iterable[Path]) -> dict[str, str]:
    """The citations that the page does not have, with the first file that makes them."""
    known = set(facts()) | NO_CITATIONS
    found: dict[str, str] = {}
    for source in files:
        pattern = CITED_WITH_A if is_of_security(source) else CITED
        for text in texts(source):
            for number in set(pattern.findall(text)) - known:
                found.setdefault(number, str(source))
    return found


def test_every_cited_fact_is_on_the_page() -> None:
    assert unknown_citations(sources()) == {}


def test_every_fact_is_what_some_test_is_about() -> None:
    """Or it stands with its reason among those that none can be about."""
    cited: set[str] = set()
    for source in sorted((ROOT / "tests").rglob("*.py")):
        if source != Path(__file__):
            pattern = CITED_WITH_A if is_of_security(source) else CITED
            cited.update(*(pattern.findall(text) + SCENARIOS.findall(text) for text in texts(source)))
    assert set(facts()) - cited == set(NOT_SHOWN)


def test_scenarios_may_name_each_fact() -> None:
    assert {f"security {fact}" for fact in facts()} <= set(SECURITY_LINES)


def test_a_citation_of_what_the_page_does_not_have_is_found(tmp_path: Path) -> None:
    none, beyond = f"S{99}", f"T{38}"  # In pieces, or they would be found here as well.
    file = tmp_path / "made_up.py"
    file.write_text(f'"""Frames before a login are bounded (S1), never by {none}."""\nS98 = 0  # {beyond}\n')
    assert unknown_citations([file]) == {none: str(file), beyond: str(file)}


def test_facts_are_numbered_without_gaps_and_once() -> None:
    lengths = {"L": 11, "T": 37, "S": 44, "A": 28, "Q": 17, "F": 14}
    numbered = {
        letter: [f"{letter}{number}" for number in range(1, most + 1)] for letter, most in lengths.items()
    }
    numbered["Q"] += [f"Q{number}" for number in LIMITS]
    assert facts() == [number for letter in lengths for number in numbered[letter]]


def test_what_the_page_cites_of_itself_is_there() -> None:
    cited = set(CITED_WITH_A.findall(PAGE.read_text()))
    assert {"T26", "S28", "A6", "Q21"} <= cited
    assert cited - set(facts()) == set()


def test_the_table_of_checks_has_one_row_for_every_api() -> None:
    """Those that a running broker reports, and with a receiver of metrics; none is in two rows."""
    table = PAGE.read_text().partition("| API | checks |")[2].partition("\n\n")[0]
    keys = [
        key
        for cell in API_ROW.findall(table)
        for first, last in API_KEYS.findall(cell)
        for key in range(int(first), int(last or first) + 1)
    ]
    assert sorted(keys) == sorted((REPORTED.keys() | WITH_A_RECEIVER.keys()) - TOKENS)
