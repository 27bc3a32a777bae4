"""The house keeps its order: which room may import which, read from the source itself (DESIGN section 2).

Imports run one way, from the face of the daemon down to the wire; the core reaches for nothing outside.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
OURS = ("muster", "coordinator", "protocol", "storage", "bench", "tests")

MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "protocol": ("protocol",),
    "storage": ("storage", "protocol"),
    "coordinator/purgatory": ("coordinator.purgatory",),
    "coordinator/groups": ("coordinator.groups", "coordinator.offsets", "coordinator.effects", "protocol"),
    "coordinator/offsets": ("coordinator.groups", "coordinator.offsets", "coordinator.effects", "protocol"),
    "coordinator/transactions": ("coordinator.transactions", "coordinator.effects", "protocol"),
    "coordinator/topics": (
        "coordinator.topics",
        "coordinator.purgatory",
        "coordinator.transaction_verifier",
        "storage",
        "protocol",
    ),
    # It reads the daemon's files, so it shares what gives them meaning; nothing of what runs the daemon.
    "muster/log": (
        "muster",
        "coordinator.effects",
        "coordinator.groups",
        "coordinator.offsets",
        "coordinator.loading",
        "coordinator.topics.catalogue",
        "coordinator.topics.names",
        "storage",
        "protocol",
    ),
    # The daemon it knows only through the wire, and through what its records mean.
    "muster/spark": (
        "muster",
        "protocol",
        "coordinator.effects",
        "coordinator.groups.record_schemas",
        "coordinator.groups.causes",
        "coordinator.groups.states",
        "coordinator.history",
    ),
    # It writes a log directory as a daemon leaves it, and lets the daemon's own core tell what is in it.
    "muster/spark/simulation": (
        "muster",
        "coordinator.effects",
        "coordinator.groups",
        "coordinator.history",
        "coordinator.history_topic",
        "coordinator.topics.catalogue",
        "coordinator.topics.names",
        "storage",
        "protocol",
    ),
}
"""Of our own packages, what each room may import. What is not named here may import anything below it.

A room within a room goes by its own row."""

SANS_IO = ("coordinator/groups", "coordinator/offsets", "coordinator/transactions", "coordinator/purgatory")
LOOPS_AND_SOCKETS = ("asyncio", "uvloop", "socket", "selectors", "ssl", "signal")
OTHER_THREADS = ("threading", "concurrent", "multiprocessing", "subprocess", "queue")
FILES = ("os", "io", "pathlib", "shutil", "tempfile", "mmap")
CLOCKS_AND_CHANCE = ("time", "datetime", "calendar", "random", "secrets", "uuid")
LOGS = ("logging", "structlog")
FORBIDDEN_TO_THE_CORE = {*LOOPS_AND_SOCKETS, *OTHER_THREADS, *FILES, *CLOCKS_AND_CHANCE, *LOGS}
"""The doors to the world."""

STEPS = ("states.py", "member.py", "group.py", "rebalance.py", "shard.py")
"""Within the groups room: each may import those before it, none after it."""


def imports_of(path: Path) -> Iterator[str]:
    """Every module that the file imports when it runs, dotted; imports for types alone do not count."""
    for node in statements(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import hides which room it reaches into"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those under `if TYPE_CHECKING`."""
    for child in ast.iter_child_nodes(tree):
        if (
            isinstance(child, ast.If)
            and isinstance(child.test, ast.Name)
            and child.test.id == "TYPE_CHECKING"
        ):
            continue
        yield child
        yield from statements(child)


def files_of(room: str) -> list[Path]:
    apart = [ROOT / other for other in MAY_IMPORT if other.startswith(f"{room}/")]
    files = sorted(path for path in (ROOT / room).rglob("*.py") if not any(map(path.is_relative_to, apart)))
    assert files, f"there is nothing in {room}"
    return files


def is_within(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_a_room_imports_only_what_lies_below_it(room: str) -> None:
    allowed = MAY_IMPORT[room]
    wrong = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in files_of(room)
        for module in imports_of(path)
        if is_within(module, OURS)
        and not is_within(module, allowed)
        and module not in ("coordinator", "muster")
    ]
    assert wrong == []


@pytest.mark.parametrize("room", SANS_IO)
def test_the_core_has_no_door_to_the_world(room: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in files_of(room)
        for module in imports_of(path)
        if module.partition(".")[0] in FORBIDDEN_TO_THE_CORE
    ]
    assert wrong == []


def test_within_the_groups_room_imports_go_one_way() -> None:
    room = ROOT / "coordinator/groups"
    for position, name in enumerate(STEPS):
        later = {f"coordinator.groups.{step.removesuffix('.py')}" for step in STEPS[position + 1 :]}
        assert later.isdisjoint(imports_of(room / name)), name


def test_the_shipped_packages_import_no_tests_and_no_benchmarks() -> None:
    for room in ("muster", "coordinator", "protocol", "storage"):
        for path in files_of(room):
            wrong = [module for module in imports_of(path) if is_within(module, ("tests", "bench"))]
            assert wrong == [], path


def test_only_the_face_of_the_daemon_knows_the_face_of_the_product() -> None:
    for room in ("coordinator", "protocol", "storage"):
        for path in files_of(room):
            assert not any(is_within(module, ("muster",)) for module in imports_of(path)), path


def test_the_reader_of_imports_sees_them_all(tmp_path: Path) -> None:
    source = (
        "import time\nfrom os import path\ndef f():\n    import random\nif TYPE_CHECKING:\n    import uuid\n"
    )
    file = tmp_path / "module.py"
    file.write_text(source)
    assert set(imports_of(file)) == {"time", "os", "os.path", "random"}
