"""docs/kafka.md has every fact that code, tests and scenarios cite: "3.27" in a comment is 3.27 of that page.

A citation is a number of the page's two lists, 3.1 and O1 onwards, in a comment or a text of the source, or a
section that follows the page's file name. Numbers in code are numbers.
"""

from __future__ import annotations

import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.lines import BEYOND, CELLS, GROUP_LINES, OFFSET_LINES

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "kafka.md"
ROOMS = ("bench", "coordinator", "muster", "protocol", "storage", "tests")

FACT = re.compile(r"^- \*\*(3\.\d+|O\d+)\*\* \S", re.MULTILINE)
SECTION = re.compile(r"^##+ (\d(?:\.\d)?)\.? ", re.MULTILINE)
CITED_FACT = re.compile(r"(?<!Python )(?<![\w.$=<>~/-])(3\.\d{1,2}|O\d{1,2})(?![\w%]|\.\d)")
CITED_SECTION = re.compile(r"docs/kafka\.md,? (?:section )?([124-7](?:\.\d)?)(?![\d.])")
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
    assert facts == groups + offsets


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
        ("docs/kafka.md 3.11 to 3.15", ["3.11", "3.15"]),
        ("Apache Kafka 4.3.1, Python 3.11, 3.9.0, 13.5", []),
    ],
)
def test_what_counts_as_a_citation(text: str, found: list[str]) -> None:
    assert CITED_FACT.findall(text) == found
