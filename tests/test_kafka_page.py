"""docs/kafka.md has every fact that code, tests and scenarios cite: "3.27" in a comment is 3.27 of that page.

A citation is a number of the page's four lists, 3.1, O1, N1 and A1 onwards, in a comment or a text of the
source or of the page itself, or a section that follows the page's file name. Numbers in code are numbers.
"""

from __future__ import annotations

import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.lines import BEYOND, CELLS, GROUP_LINES, OFFSET_LINES
from tests.conformance.served import SHARE_AND_STREAMS_GROUPS
from tests.protocol.test_versions import REPORTED

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "kafka.md"
ROOMS = ("bench", "coordinator", "muster", "protocol", "storage", "tests")

FACT = re.compile(r"^- \*\*(3\.\d+|[AON]\d+)\*\* \S", re.MULTILINE)
SECTION = re.compile(r"^##+ (\d(?:\.\d)?)\.? ", re.MULTILINE)
CITED_FACT = re.compile(r"(?<!Python )(?<![\w.$=<>~/-])(3\.\d{1,2}|[AON]\d{1,2})(?![\w%]|\.\d| s\b)")
CITED_SECTION = re.compile(r"docs/kafka\.md,? (?:section )?([124-9](?:\.\d)?)(?![\d.])")
STREAMS_GROUPS = {88, 89}
CONSUMER_GROUPS = (*range(1, 71), *range(72, 77))
NEWER_KINDS = "## 8. Groups of the newer kinds"
VERSIONS_OF_SHARE_GROUPS = re.compile(r"((?:\d\d(?:, | and )?)+) have (?:version )?(\d(?:-\d)?)")
VERSIONS_OF_APIS = re.compile(r"^\| (\d+) \| \w+ \| (\d+(?:-\d+)?) \|", re.MULTILINE)
OLD_NAME = "KAFKA" + ".md"
NO_CITATIONS = {
    "muster/spark/java.py",  # Versions of Java and PySpark.
    "tests/spark/test_java.py",
}


def texts(source: Path) -> Iterator[str]:
    """The comments and the string literals of a Python file, or each line of any other."""
    if source.suffix != ".py":
        yield from source.read_text().splitlines()
        return
    with source.open("rb") as lines:
        for token in tokenize.tokenize(lines.readline):
            if token.type in (tokenize.COMMENT, tokenize.STRING):
                yield token.string


def sources() -> list[Path]:
    python = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
    patches = sorted((ROOT / "tests" / "mutations").glob("*.patch"))
    return [path for path in python if str(path.relative_to(ROOT)) not in NO_CITATIONS] + patches


def cited(pattern: re.Pattern[str]) -> dict[str, str]:
    """What `pattern` finds in the sources, with the first file that has it."""
    found: dict[str, str] = {}
    for source in sources():
        for text in texts(source):
            for number in pattern.findall(text):
                found.setdefault(number, str(source.relative_to(ROOT)))
    return found


def test_every_cited_fact_is_on_the_page() -> None:
    facts = set(FACT.findall(PAGE.read_text()))
    citations = cited(CITED_FACT)
    assert len(citations) > 100, "the pattern finds no citations any more"
    assert {number: file for number, file in citations.items() if number not in facts} == {}


def test_every_cited_section_is_on_the_page() -> None:
    sections = set(SECTION.findall(PAGE.read_text()))
    citations = cited(CITED_SECTION)
    assert citations, "the pattern finds no citations any more"
    assert {number: file for number, file in citations.items() if number not in sections} == {}


def test_facts_are_numbered_without_gaps_and_once() -> None:
    facts = FACT.findall(PAGE.read_text())
    groups = [f"3.{number}" for number in range(1, 91)]
    offsets = [f"O{number}" for number in range(1, 29)]
    newer_kinds = [f"N{number}" for number in range(1, 24)]
    consumer_groups = [f"A{number}" for number in CONSUMER_GROUPS]
    assert facts == groups + offsets + newer_kinds + consumer_groups


def test_the_facts_of_the_newer_kinds_have_a_section_of_their_own() -> None:
    """None of them stands among those of classic groups, and none of those here."""
    before, _, after = PAGE.read_text().partition(f"\n{NEWER_KINDS}\n")
    assert {number[0] for number in FACT.findall(before)} == {"3", "O"}
    assert {number[0] for number in FACT.findall(after)} == {"N", "A"}


def test_what_the_page_cites_of_itself_is_there() -> None:
    page = PAGE.read_text()
    citations = CITED_FACT.findall(page)
    assert {"N5", "3.62", "O17"} <= set(citations)
    assert set(citations) - set(FACT.findall(page)) == set()


def test_the_versions_are_those_that_the_running_broker_reports() -> None:
    """Those of the table of section 2, and those of share groups, of which none is left out."""
    page = PAGE.read_text()
    table = {int(key): _range(versions) for key, versions in VERSIONS_OF_APIS.findall(page)}
    assert table == {key: REPORTED[key] for key in table}
    assert len(table) == 14
    (fact,) = (line for line in page.splitlines() if line.startswith("- **N22** "))
    shares = {
        int(key): _range(versions)
        for keys, versions in VERSIONS_OF_SHARE_GROUPS.findall(fact)
        for key in re.findall(r"\d\d", keys)
    }
    assert shares == {key: REPORTED[key] for key in SHARE_AND_STREAMS_GROUPS - STREAMS_GROUPS}


def _range(versions: str) -> tuple[int, int]:
    first, _, last = versions.partition("-")
    return int(first), int(last or first)


def test_what_conformance_covers_is_on_the_page() -> None:
    """Its lines are facts, and its cells of the tables belong to tables that are there."""
    page = PAGE.read_text()
    assert {*GROUP_LINES, *OFFSET_LINES} <= set(FACT.findall(page))
    tables = {name.split()[0] for name in (*CELLS, *BEYOND) if re.match(r"2(\.\d)? ", name)}
    assert tables <= set(SECTION.findall(page))


@pytest.mark.parametrize("room", [*ROOMS, "docs"])
def test_the_page_goes_by_one_name(room: str) -> None:
    """What it was called before it was part of the repository is a reference that leads nowhere."""
    files = [path for path in (ROOT / room).rglob("*") if path.suffix in {".py", ".md", ".patch", ".java"}]
    assert [str(path) for path in files if OLD_NAME in path.read_text()] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("parked (3.27, O17)", ["3.27", "O17"]),
        ("as N5 has it, not N100", ["N5"]),
        ("docs/kafka.md 3.11 to 3.15", ["3.11", "3.15"]),
        ("Apache Kafka 4.3.1, Python 3.11, 3.9.0, 13.5", []),
    ],
)
def test_what_counts_as_a_citation(text: str, found: list[str]) -> None:
    assert CITED_FACT.findall(text) == found
