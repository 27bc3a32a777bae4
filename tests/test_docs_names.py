"""What the pages name is there: files, folders, classes and what is in them, other pages.

A name in backticks that ends in .py, or begins with a folder of the project, is a file or a folder, whole or from
some folder on; `Class.name` is something that a class of ours has; what is written like an identifier on a page
about the code is one that the code uses.
"""

from __future__ import annotations

import ast
import re
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("coordinator", "muster", "protocol", "storage")
ROOMS = (*PACKAGES, "harness", "tools", "bench", "tests", "docs")
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CHANGELOG.md"]
ABOUT_THE_CODE = (
    "design.md",
    "decisions.md",
    "names.md",
    "testing.md",
    "performance.md",
    "trace-of-a-commit.md",
)

IN_BACKTICKS = re.compile(r"`([^`\n]+)`")
PROSE = re.compile(r'""".*?"""|#[^"\'\n]*$', re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
FILE = re.compile(rf"[\w./*-]+\.py|(?:{'|'.join(ROOMS)})/[\w./*-]*")
ATTRIBUTE = re.compile(r"([A-Z]\w*[a-z]\w*)\.((?!\d)\w+)(?:\(\))?")
IDENTIFIER = re.compile(r"[a-z]\w*_\w+|_\w+|[A-Z]\w*[a-z]\w*|[A-Z]+_[A-Z_]+")


def named(page: Path) -> list[str]:
    """What stands in backticks, out of blocks of code."""
    return sorted(set(IN_BACKTICKS.findall(BLOCK.sub("", page.read_text()))))


@cache
def paths() -> frozenset[str]:
    """Every file and folder of the project's rooms and at its root, from the root on."""
    inside = (path for room in ROOMS for path in (ROOT / room).rglob("*") if "__pycache__" not in path.parts)
    return frozenset(str(path.relative_to(ROOT)) for path in (*inside, *ROOT.iterdir()))


def is_there(name: str) -> bool:
    name = name.rstrip("/")
    return any(fnmatch(path, name) or fnmatch(path, f"*/{name}") for path in paths())


@cache
def classes() -> dict[str, frozenset[str]]:
    """What the packages' classes of each name have: what they and their bases define, and set on themselves."""
    own: dict[str, set[str]] = {}
    bases: dict[str, set[str]] = {}
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                own.setdefault(node.name, set()).update(_defined_by(node))
                named_bases = {each.id for each in node.bases if isinstance(each, ast.Name)}
                bases.setdefault(node.name, set()).update(named_bases)

    def whole(name: str) -> frozenset[str]:
        return frozenset(own.get(name, ())).union(*map(whole, bases.get(name, set()) - {name}))

    return {name: whole(name) for name in own}


def _defined_by(node: ast.ClassDef) -> set[str]:
    """Its methods and fields, and the attributes that its methods set."""
    names = set()
    for each in ast.walk(node):
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(each.name)
        elif isinstance(each, ast.Name | ast.Attribute) and isinstance(each.ctx, ast.Store):
            names.add(each.id if isinstance(each, ast.Name) else each.attr)
    return names


@cache
def identifiers() -> frozenset[str]:
    """Every word of the sources but for those of comments and docstrings."""
    files = (path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
    return frozenset(word for path in files for word in re.findall(r"\w+", PROSE.sub("", path.read_text())))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_and_folders_that_a_page_names_are_there(page: Path) -> None:
    assert [name for name in named(page) if FILE.fullmatch(name) and not is_there(name)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_says_that_a_class_has_it_has(page: Path) -> None:
    pairs = [found.groups() for name in named(page) if (found := ATTRIBUTE.fullmatch(name))]
    assert [(cls, name) for cls, name in pairs if name not in classes().get(cls, frozenset())] == []


@pytest.mark.parametrize("page", ABOUT_THE_CODE)
def test_identifiers_that_a_page_about_the_code_names_are_used_in_it(page: str) -> None:
    names = [name.removesuffix("()") for name in named(ROOT / "docs" / page)]
    assert [name for name in names if IDENTIFIER.fullmatch(name) and name not in identifiers()] == []


WALKS = ("One JoinGroup, from the socket and back", "One commit, from the socket to the disk and back")
STOPS_MAX = 12
NAMED_IN_A_STOP = re.compile(f"(?:{ATTRIBUTE.pattern}|{IDENTIFIER.pattern})").fullmatch


@pytest.mark.parametrize("heading", WALKS)
def test_a_walk_has_few_stops_and_each_names_something_of_the_code(heading: str) -> None:
    """That the names exist is held by the tests above."""
    text = (ROOT / "docs" / "design.md").read_text()
    section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    stops = re.findall(r"^\d+\. .*(?:\n   .*)*", section, re.MULTILINE)
    assert 8 <= len(stops) <= STOPS_MAX
    assert [stop for stop in stops if not any(map(NAMED_IN_A_STOP, IN_BACKTICKS.findall(stop)))] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_other_pages_lead_somewhere(page: Path) -> None:
    links = [link for link in LINK.findall(page.read_text()) if ":" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", ["README.md", "docs/design.md", "docs/testing.md"])
def test_the_facts_that_code_cites_are_linked(page: str) -> None:
    targets = {((ROOT / page).parent / link).resolve() for link in LINK.findall((ROOT / page).read_text())}
    assert ROOT / "docs" / "kafka.md" in targets


def test_the_pages_are_read_at_all() -> None:
    """Each pattern finds what it is meant for, so that none of the lists above is empty by mistake."""
    names = [name for page in PAGES for name in named(page)]
    assert sum(bool(FILE.fullmatch(name)) for name in names) > 50
    assert sum(name.split(".")[0] in classes() for name in names if ATTRIBUTE.fullmatch(name)) > 15
    assert not is_there("coordinator/gone.py")
    assert not is_there("gone.py")
    assert is_there("coordinator/settings*.py")
    assert is_there("groups/classic/states.py")
