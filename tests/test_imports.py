"""The house keeps its order: which room may import which, read from the source itself (DESIGN section 2).

Imports run one way, from the face of the daemon down to the wire; the core reaches for nothing outside.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Set
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
OURS = ("muster", "coordinator", "protocol", "storage", "harness", "tools", "bench", "tests")
NOT_INSTALLED = ("harness", "tools", "tests", "bench")

MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "protocol": ("protocol",),
    "storage": ("storage", "protocol"),
    "coordinator/purgatory": ("coordinator.purgatory",),
    "coordinator/effects.py": ("protocol",),
    # Who owns a shard whose log is on another Kafka: what the log itself says, and no more.
    "coordinator/backing": ("coordinator.backing",),
    # The same over a network. It knows no groups.
    "coordinator/backing/kafka": (
        "coordinator.backing",
        "coordinator.runtime.clock",
        "coordinator.runtime.tasks",
        "coordinator.topic_catalog",
        "protocol",
    ),
    # Groups whose log is there.
    "coordinator/backing/shards": (
        "coordinator.backing",
        "coordinator.runtime",
        "coordinator.shard",
        "storage",
        "protocol",
    ),
    # What clients of another Kafka send through a node. It knows of groups only whose they are.
    "coordinator/gateway": (
        "coordinator.gateway",
        "coordinator.server",
        "coordinator.runtime.tasks",
        "coordinator.topics.placement",
        "protocol",
    ),
    "coordinator/topic_catalog.py": ("protocol",),
    "coordinator/groups": (
        "coordinator.groups",
        "coordinator.topic_catalog",
        "coordinator.effects",
        "protocol",
    ),
    "coordinator/offsets": (
        "coordinator.groups",
        "coordinator.offsets",
        "coordinator.topic_catalog",
        "coordinator.effects",
        "protocol",
    ),
    "coordinator/shard": (
        "coordinator.shard",
        "coordinator.groups",
        "coordinator.offsets",
        "coordinator.topic_catalog",
        "coordinator.effects",
        "protocol",
    ),
    "coordinator/transactions": ("coordinator.transactions", "coordinator.effects", "protocol"),
    # Who a client is and what it may do; users, ACLs and keys. It answers no request.
    "coordinator/security": ("coordinator.security", "coordinator.topics", "storage", "protocol"),
    # Which rights each API asks for, at one place, before its handler sees the request.
    "coordinator/access": (
        "coordinator.access",
        "coordinator.security",
        "coordinator.data",
        "coordinator.topics",
        "protocol",
    ),
    # What a client may take up of the daemon: rates over windows, and for how long it is held back.
    "coordinator/quotas": (
        "coordinator.quotas",
        "coordinator.security",
        "coordinator.topics",
        "storage",
        "protocol",
    ),
    "coordinator/topics": ("coordinator.topics", "coordinator.topic_catalog", "storage", "protocol"),
    "coordinator/data": (
        "coordinator.data",
        "coordinator.security",
        "coordinator.topics",
        "coordinator.purgatory",
        "storage",
        "protocol",
    ),
    "coordinator/admin": (
        "coordinator.admin",
        "coordinator.security",
        "coordinator.quotas",
        "coordinator.data",
        "coordinator.topics",
        "storage",
        "protocol",
    ),
    "coordinator/runtime": (
        "coordinator.runtime",
        "coordinator.data.transaction_verifier",  # What a partition asks; the runtime asks the shard for it.
        "coordinator.purgatory",
        "coordinator.shard",
        "coordinator.transactions",
        "coordinator.offsets",
        "coordinator.groups",
        "coordinator.effects",
        "storage",
        "protocol",
    ),
    # What each part goes by, of the settings of the whole.
    "coordinator/part_settings.py": (
        "coordinator.settings",
        "coordinator.groups",
        "coordinator.topics",
        "coordinator.transactions",
    ),
    "coordinator/settings": ("coordinator.settings", "coordinator.security", "coordinator.topics"),
    "coordinator/history": (
        "coordinator.history",
        "coordinator.groups.causes",
        "coordinator.groups.classic.states",
        "coordinator.groups.consumer.states",
        "coordinator.topics",
        "coordinator.effects",
        "protocol",
    ),
    "coordinator/telemetry": (
        "coordinator.telemetry",
        "coordinator.groups.consumer.java_order",  # Kafka's order of metrics, of which ids are made.
        "coordinator.metrics.bounded_log",
        "coordinator.topics",
        "storage",
        "protocol",
    ),
    "coordinator/upkeep": (
        "coordinator.upkeep",
        "coordinator.runtime",
        "coordinator.settings",
        "coordinator.purgatory",
        "coordinator.shard",
        "coordinator.topics",
        "storage",
        "protocol",
    ),
    "coordinator/server": (
        "coordinator.server",
        "coordinator.access",
        "coordinator.quotas",
        "coordinator.security",
        "coordinator.admin",
        "coordinator.data",
        "coordinator.runtime",
        "coordinator.settings",
        "coordinator.purgatory",
        "coordinator.topics",
        "coordinator.shard",
        "coordinator.transactions",
        "coordinator.offsets",
        "coordinator.groups",
        "coordinator.effects",
        "storage",
        "protocol",
    ),
    "coordinator/metrics": (
        "coordinator.metrics",
        "coordinator.effects",
        "coordinator.groups",
        "coordinator.history",
        "coordinator.offsets",
        "coordinator.purgatory",
        "coordinator.runtime",
        "coordinator.server",
        "coordinator.settings",
        "coordinator.shard",
        "coordinator.topics",
        "storage",
        "protocol",
    ),
    # It reads of all that the daemon knows, and changes none of it.
    "coordinator/http": (
        "coordinator.http",
        "coordinator.admin",
        "coordinator.data",
        "coordinator.effects",
        "coordinator.groups",
        "coordinator.history",
        "coordinator.metrics",
        "coordinator.offsets",
        "coordinator.runtime",
        "coordinator.security",  # Stores of keys and certificates.
        "coordinator.server",
        "coordinator.settings",
        "coordinator.shard",
        "coordinator.topics",
        "coordinator.transactions",
        "storage",
        "protocol",
    ),
    # It starts the daemon, and knows no other part of it.
    # A login, and stores of keys and certificates, it reads as the daemon does.
    "muster": (
        "muster",
        "coordinator.daemon",
        "coordinator.security.sasl.jaas",
        "coordinator.security.tls",
        "coordinator.settings",
        "protocol",
    ),
    # The history's events it reads with the classes that wrote them.
    "muster/groups": (
        "muster",
        "coordinator.effects",
        "coordinator.groups.causes",
        "coordinator.groups.classic.states",
        "coordinator.groups.consumer.expressions",  # What is valid is what the daemon compiles.
        "coordinator.groups.consumer.states",
        "coordinator.groups.waited_members",  # Who is silent is for one function to say.
        "coordinator.history.events",
        "coordinator.history.rebalances",
        "protocol",
    ),
    # It makes the daemon's events of what it infers from records, which are those of any coordinator.
    "muster/observe": (
        "muster",
        "coordinator.effects",
        "coordinator.groups.causes",
        "coordinator.groups.classic.states",
        "coordinator.groups.consumer.record_schemas",
        "coordinator.groups.consumer.states",
        "coordinator.groups.partitioning",
        "coordinator.groups.record_codec",
        "coordinator.groups.record_schemas",
        "coordinator.history.events",
        "coordinator.history.topic",
        "protocol",
    ),
    # It reads the daemon's files, so it shares what gives them meaning; nothing of what runs the daemon.
    "muster/log": (
        "muster",
        "coordinator.effects",
        "coordinator.groups",
        "coordinator.offsets",
        "coordinator.runtime.loading",
        "coordinator.shard",
        "coordinator.topic_catalog",
        "coordinator.topics.catalogue",
        "coordinator.topics.names",
        "storage",
        "protocol",
    ),
    # It reads all that the daemon keeps beside its logs, with the classes that write it.
    "muster/log/to_kafka": (
        "muster",
        "coordinator.data.producer_ids",
        "coordinator.quotas",
        "coordinator.security.acl_store",
        "coordinator.security.scram_file",
        "coordinator.topics",
        "storage",
        "protocol",
    ),
    # It writes the daemon's file of users, with the classes that read it.
    "muster/scram.py": (
        "muster",
        "coordinator.security.scram_credentials",
        "coordinator.security.scram_file",
        "coordinator.security.scram_users",
        "storage",
    ),
    # The daemon it knows only through the wire, and through what its records mean.
    "muster/spark": (
        "muster",
        "protocol",
        "coordinator.effects",
        "coordinator.groups.record_schemas",
        "coordinator.groups.causes",
        "coordinator.groups.classic.states",
        "coordinator.groups.consumer.record_schemas",
        "coordinator.groups.consumer.states",
        "coordinator.history.events",
        "coordinator.history.rebalances",
    ),
    # It writes a log directory as a daemon leaves it, and has the daemon's own core make what is in it.
    "tools/simulate": (
        "tools.simulate",
        "muster",
        "coordinator.effects",
        "coordinator.groups",
        "coordinator.shard",
        "coordinator.history.events",
        "coordinator.history.topic",
        "coordinator.topics.catalogue",
        "coordinator.topics.names",
        "harness.doubles.core_driver",
        "storage",
        "protocol",
    ),
}
"""Of our own packages, what each room, or file, may import. What is not named here may import anything below it.

A room within a room goes by its own row."""

SANS_IO = (
    "coordinator/effects.py",
    "coordinator/topic_catalog.py",
    "coordinator/groups",
    "coordinator/offsets",
    "coordinator/shard",
    "coordinator/transactions",
    "coordinator/purgatory",
    "coordinator/backing",
)
LOOPS_AND_SOCKETS = ("asyncio", "uvloop", "socket", "selectors", "ssl", "signal")
OTHER_THREADS = ("threading", "concurrent", "multiprocessing", "subprocess", "queue")
FILES = ("os", "io", "pathlib", "shutil", "tempfile", "mmap")
CLOCKS_AND_CHANCE = ("time", "datetime", "calendar", "random", "secrets", "uuid")
LOGS = ("logging", "structlog")
FORBIDDEN_TO_THE_CORE = {*LOOPS_AND_SOCKETS, *OTHER_THREADS, *FILES, *CLOCKS_AND_CHANCE, *LOGS}
"""The doors to the world."""

STEPS = ("states.py", "member.py", "group.py", "events.py", "transition.py", "rebalance.py")
"""Among the classic groups: each may import those before it, none after it."""

ROOMS_MAX, ARROWS_MAX, FLOORS_MAX = 25, 108, 11
"""Of `coordinator` as seen from outside: its packages and files, who imports whom, the longest way down."""

ROOMS_WITHOUT_CIRCLES = (
    "coordinator/access",
    "coordinator/admin",
    "coordinator/backing",
    "coordinator/data",
    "coordinator/gateway",
    "coordinator/groups",
    "coordinator/history",
    "coordinator/http",
    "coordinator/metrics",
    "coordinator/offsets",
    "coordinator/purgatory",
    "coordinator/quotas",
    "coordinator/runtime",
    "coordinator/security",
    "coordinator/server",
    "coordinator/settings",
    "coordinator/shard",
    "coordinator/topics",
    "coordinator/transactions",
    "coordinator/upkeep",
)
"""Rooms in which no files import each other by any way, imports for types alone included."""

Graph = Mapping[str, Set[str]]
"""What each room imports of the others."""


def imports_of(path: Path, for_types: bool = False) -> Iterator[str]:
    """Every module that the file imports when it runs, dotted; `for_types` adds those imported for types alone."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree) if for_types else statements(tree):
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
    found = [ROOT / room] if room.endswith(".py") else (ROOT / room).rglob("*.py")
    files = sorted(path for path in found if not any(map(path.is_relative_to, apart)))
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


def test_every_room_of_the_daemon_has_its_row() -> None:
    """Only the file that puts them all together may import any."""
    rows = {Path(Path(room).parts[1]).stem for room in MAY_IMPORT if room.startswith("coordinator/")}
    assert rows == rooms_of("coordinator").keys() - {"daemon"}


@pytest.mark.parametrize("room", SANS_IO)
def test_the_core_has_no_door_to_the_world(room: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in files_of(room)
        for module in imports_of(path)
        if module.partition(".")[0] in FORBIDDEN_TO_THE_CORE
    ]
    assert wrong == []


def test_among_the_classic_groups_imports_go_one_way() -> None:
    room = ROOT / "coordinator/groups/classic"
    for position, name in enumerate(STEPS):
        later = {f"coordinator.groups.classic.{step.removesuffix('.py')}" for step in STEPS[position + 1 :]}
        assert later.isdisjoint(imports_of(room / name)), name


def test_the_shipped_packages_import_nothing_that_is_not_installed() -> None:
    for room in ("muster", "coordinator", "protocol", "storage"):
        for path in files_of(room):
            wrong = [module for module in imports_of(path) if is_within(module, NOT_INSTALLED)]
            assert wrong == [], path


def test_only_the_face_of_the_daemon_knows_the_face_of_the_product() -> None:
    for room in ("coordinator", "protocol", "storage"):
        for path in files_of(room):
            assert not any(is_within(module, ("muster",)) for module in imports_of(path)), path


def rooms_of(package: str) -> dict[str, set[str]]:
    """The rooms of a package, its own packages and files, with those that each of them imports."""
    root = ROOT / package
    rooms = {path.stem for path in root.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    return {room: _imported_by(root, room) & rooms - {room} for room in rooms - {"__init__", "__main__"}}


def _imported_by(root: Path, room: str) -> set[str]:
    """What a room imports of the package it stands in, by the first name behind the package's."""
    files = (root / room).rglob("*.py") if (root / room).is_dir() else [root / f"{room}.py"]
    within = f"{root.name}."
    return {module.split(".")[1] for module in _modules(files) if module.startswith(within)}


def packages() -> dict[str, set[str]]:
    """Our packages, with those that each of them imports."""
    found = {package: _modules((ROOT / package).rglob("*.py")) for package in OURS}
    return {
        package: {module.split(".")[0] for module in modules} & set(OURS) - {package}
        for package, modules in found.items()
    }


def file_graph(room: str) -> dict[str, set[str]]:
    """The modules of a room, with those of the room that each imports, be it only for a type."""
    paths = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in (ROOT / room).rglob("*.py")
    }
    return {
        module: set(imports_of(path, for_types=True)) & paths.keys() - {module}
        for module, path in paths.items()
    }


def _modules(files: Iterable[Path]) -> set[str]:
    return {module for file in files for module in imports_of(file)}


def floors(graph: Graph) -> int:
    """The rooms on the longest way down, the first and the last counted. Raises CycleError if there is none."""
    depth: dict[str, int] = {}
    for room in TopologicalSorter(graph).static_order():
        depth[room] = 1 + max((depth[below] for below in graph.get(room, ())), default=0)
    return max(depth.values())


@pytest.mark.parametrize("package", ["coordinator", "protocol", "storage"])
def test_no_two_rooms_of_a_package_import_each_other_by_any_way(package: str) -> None:
    """Each file may keep to the rules and two packages still need each other: then neither can be read alone."""
    floors(rooms_of(package))


@pytest.mark.parametrize("room", ROOMS_WITHOUT_CIRCLES)
def test_no_two_files_of_a_room_need_each_other_even_for_a_type(room: str) -> None:
    """An import under TYPE_CHECKING hides a circle from Python, and not from the reader: a Protocol opens it."""
    graph = file_graph(room)
    assert any(graph.values()), f"{room}: no imports were found"
    floors(graph)


def test_no_two_packages_import_each_other_by_any_way() -> None:
    floors(packages())


def test_the_daemon_has_few_rooms_on_few_floors() -> None:
    rooms = rooms_of("coordinator")
    arrows = [
        f"{room} -> {below}" for room, all_below in sorted(rooms.items()) for below in sorted(all_below)
    ]
    assert len(rooms) <= ROOMS_MAX, sorted(rooms)
    assert len(arrows) <= ARROWS_MAX, arrows
    assert floors(rooms) <= FLOORS_MAX


def test_floors_are_counted_and_cycles_are_seen() -> None:
    assert floors({"top": {"middle", "bottom"}, "middle": {"bottom"}, "bottom": set()}) == 3
    with pytest.raises(CycleError):
        floors({"groups": {"offsets"}, "offsets": {"shard"}, "shard": {"groups"}})


def test_rooms_and_what_they_import_are_found() -> None:
    rooms = rooms_of("coordinator")
    assert {"daemon", "effects", "shard", "groups"} <= set(rooms)
    assert {"groups", "offsets"} <= rooms["shard"]
    assert "storage" in packages()["coordinator"]


def test_the_reader_of_imports_sees_them_all(tmp_path: Path) -> None:
    source = (
        "import time\nfrom os import path\ndef f():\n    import random\nif TYPE_CHECKING:\n    import uuid\n"
    )
    file = tmp_path / "module.py"
    file.write_text(source)
    assert set(imports_of(file)) == {"time", "os", "os.path", "random"}
    assert set(imports_of(file, for_types=True)) == {"time", "os", "os.path", "random", "uuid"}
