"""Group ids of every kind go through every command: `..`, `a/b`, 32 KB, three scripts with bidi marks, controls.

Each command is run in this process against one daemon, on a group that has only offsets or on one with a member,
whose client id is as odd. What a terminal would obey is shown as an escape; JSON and files have ids as they are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from harness.daemon import MusterDaemon
from harness.kafka_groups import await_coordinator, commit, join
from harness.observer import Observer
from harness.processes import wait_until
from harness.wire import WireClient
from muster.cli import run
from muster.groups.commands import app
from muster.observe.store import Source, Store
from muster.sentences import visible

ODD: Final = {
    "dots": "..",
    "slash": "a/b",
    "long": "x" * 31_990,
    "scripts": "группа-שלום-課金-\u202e\u2066x\u2069",
    "controls": 'a "b",[red]\t\x1b[2J\n\u202e',
}
OBEYED: Final = "\x1b\t\u202e\u2066\u2069"


class Place(NamedTuple):
    """What a command is called for: `idle` has only offsets, `live` a member, `files` is an empty folder."""

    idle: str
    live: str
    files: Path

    @property
    def rows(self) -> str:
        return str(self.files / "rows.jsonl")


class Call(NamedTuple):
    """The arguments of a command, its status, and whether its output, as a table, names the group."""

    arguments: Callable[[Place], tuple[str, ...]]
    status: int = 0
    names_group: str | None = "idle"
    has_json: bool = True


RESET: Final = ("--all-topics", "--to-latest")
CALLS: Final = {
    "list": Call(lambda _: ("list",)),
    "describe": Call(lambda at: ("describe", at.idle, at.live)),
    "describe --time-lag": Call(lambda at: ("describe", at.idle, "--time-lag", "--verbose")),
    "history": Call(lambda at: ("history", at.live), names_group="live"),
    "history --events": Call(lambda at: ("history", at.live, "--events"), names_group="live"),
    "why": Call(lambda at: ("why", at.live), names_group="live"),
    "wait": Call(lambda at: ("wait", at.live, "--state", "Stable", "--timeout", "30s"), names_group="live"),
    "wait in vain": Call(lambda at: ("wait", at.idle, "--members", "3", "--timeout", "1ms"), status=1),
    "check": Call(lambda at: ("check", at.idle, "--window", "0s", "--max-lag", "1000000")),
    "watch": Call(lambda at: ("watch", at.idle, at.live, "--times", "1"), has_json=False),
    "top": Call(lambda at: ("top", at.idle, at.live)),
    "reset-offsets": Call(lambda at: ("reset-offsets", at.idle, *RESET), names_group=None),
    "reset-offsets --export": Call(
        lambda at: ("reset-offsets", at.idle, *RESET, "--export"), names_group=None, has_json=False
    ),
    "reset-offsets of a live one": Call(
        lambda at: ("reset-offsets", at.live, *RESET), status=1, names_group="live", has_json=False
    ),
    "export": Call(lambda at: ("export", at.rows, at.idle), names_group=None, has_json=False),
    "import": Call(lambda at: ("import", at.rows), names_group=None),
    "copy-offsets": Call(lambda at: ("copy-offsets", at.idle, f"{at.idle}2", "--execute"), names_group=None),
    "delete-offsets": Call(lambda at: ("delete-offsets", at.idle, "--topic", "orders"), names_group=None),
    "delete of a live one": Call(lambda at: ("delete", at.live), status=1, names_group="live"),
    "delete": Call(lambda at: ("delete", at.idle)),
    "remove-member": Call(lambda at: ("remove-member", at.live, "--all-members"), names_group="live"),
    "validate-regex": Call(lambda at: ("validate-regex", "x"), names_group=None),
}
"""In the order in which they are called: each leaves what the next ones need."""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MusterDaemon]:
    settings = {"group.initial.rebalance.delay.ms": "0"}
    with MusterDaemon(tmp_path_factory.mktemp("daemon"), settings) as running:
        observer = Observer(running.bootstrap)
        observer.create_named_topic("orders", 1)
        yield running


@pytest.fixture
def place(daemon: MusterDaemon, odd: str, tmp_path: Path) -> Place:
    idle, live = ODD[odd], f"{ODD[odd]}-live"
    with WireClient(daemon.bootstrap, "leaver") as client:
        await_coordinator(client, [idle])
        commit(client, idle, {0: 0})
    join(daemon.bootstrap, live, [None])
    return Place(idle, live, tmp_path)


def test_every_command_is_called() -> None:
    called = {name.partition(" ")[0] for name in CALLS} - {"top"}
    assert called == {name for name in app.resolved_commands() if not name.startswith("-")}


@pytest.mark.parametrize("odd", ODD)
def test_ids_of_every_kind_go_through_every_command(
    daemon: MusterDaemon, place: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    wait_until(lambda: run_command(daemon, "why", place.live) == 0, "its history is written", 30)
    capfd.readouterr()
    for name, call in CALLS.items():
        arguments = call.arguments(place)
        assert run_command(daemon, *arguments) == call.status, name
        shown = capfd.readouterr()
        assert not set(OBEYED) & set(shown.out + shown.err), name
        assert len(shown.err) < 500, name
        if call.names_group is not None:
            assert_named(getattr(place, call.names_group), shown.out + shown.err, name)
        if call.has_json and name not in ("delete", "remove-member"):  # Those are done.
            run_command(daemon, *arguments, "--json")
            answered = capfd.readouterr().out
            assert json.loads(answered), (name, answered)


def run_command(daemon: MusterDaemon, *arguments: str) -> int:
    group = () if arguments[0] == "top" else ("groups",)
    where = () if arguments[0] == "validate-regex" else ("--bootstrap-server", daemon.bootstrap)
    return run([*group, *arguments, *where])


def assert_named(group: str, shown: str, command: str) -> None:
    """The group is named, with escapes that are the same everywhere; what is long is cut."""
    assert visible(group)[:100] in shown.replace("\n", ""), command


ABSENT: Final = "y" * 31_990
FAILURES: Final = {
    "describe": (ABSENT,),
    "history": (ABSENT,),
    "history --store": (ABSENT, "--store"),
    "why": (ABSENT,),
    "check": (ABSENT, "--window", "0s", "--max-lag", "1"),
    "wait": (ABSENT, "--members", "3", "--timeout", "1ms"),
    "copy-offsets": (ABSENT, "other", "--execute"),
    "delete-offsets": (ABSENT, "--topic", "orders"),
    "remove-member": (ABSENT, "--member-id", "z" * 31_990),
    "export": ("rows.jsonl", ABSENT),
    "reset-offsets": (ABSENT, "--topic", "orders", "--shift-by", "1"),
}


@pytest.mark.parametrize("command", FAILURES)
def test_of_a_group_that_is_not_there_it_says_so_in_a_line_that_can_be_read(
    daemon: MusterDaemon,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    name, arguments = command.split()[0], FAILURES[command]
    if "--store" in command:
        Store(tmp_path / "store", Source("cluster", "topic")).close()
        assert run(["groups", name, *arguments, "store"]) == 1
    else:
        assert run_command(daemon, name, *arguments) == 1
    said = capfd.readouterr().err
    assert f"{'y' * 119}…" in said or "… (31,990 characters)" in said, said
    assert max(map(len, said.splitlines())) < 400, said
