"""What `watch` and `top` look at over outages, what they draw on a terminal, and how failures are told."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from rich.console import Console

from harness.processes import free_port
from muster.cli import run
from muster.cluster import ClusterError, UnreachableError
from muster.connection import Connection
from muster.groups import looking as looking_module
from muster.groups import tables
from muster.groups.admin import GroupListing
from muster.groups.descriptions import GroupDescription, MemberDescription, PartitionProgress
from muster.groups.looking import BACK, Looking
from muster.groups.selection import Several
from muster.groups.sights import Sight
from muster.groups.tables import Section, View
from muster.groups.top_command import Row, scrolled, table

LONG = "x" * 32_000


class Endpoint:
    """Connects as often as it is asked to, but for while `is_down`."""

    def __init__(self) -> None:
        self.is_down = False
        self.connections = self.closed = 0

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[object]:
        if self.is_down:
            raise ClusterError("no Kafka broker answers")
        self.connections += 1
        try:
            yield object()
        finally:
            self.closed += 1


def looking_at(
    monkeypatch: pytest.MonkeyPatch, *answers: Sight | ClusterError
) -> tuple[Endpoint, list[str], Looking]:
    """A look at a cluster that gives these answers in turn; what is said of it."""
    given = iter(answers)

    async def look_at(cluster: object, group_ids: Any) -> list[Sight]:
        answer = next(given)
        if isinstance(answer, ClusterError):
            raise answer
        return [answer]

    monkeypatch.setattr(looking_module, "look_at", look_at)
    endpoint, said = Endpoint(), list[str]()
    return endpoint, said, Looking(cast(Connection, endpoint), Several(), ("g",), said.append)


async def test_a_restart_of_the_cluster_is_said_once_and_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    first, then = Sight("g", 0, "Stable"), Sight("g", 9, "Empty")
    lost = UnreachableError("DescribeGroupsRequest: broker 1 failed: KafkaConnectionError()")
    endpoint, said, looking = looking_at(monkeypatch, first, lost, then)
    async with looking:
        before = await looking.look({})
        assert before == {"g": first}
        assert await looking.look(before) is None
        endpoint.is_down = True
        assert await looking.look(before) is None
        assert said == ["the cluster does not answer; it is asked again"]
        endpoint.is_down = False
        assert await looking.look(before) == {"g": then}
    assert said[1:] == [BACK]
    assert (endpoint.connections, endpoint.closed) == (2, 2)
    assert looking.problem is None


async def test_a_cluster_that_is_not_there_at_first_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint, said, looking = looking_at(monkeypatch, UnreachableError("gone"))
    async with looking:
        with pytest.raises(UnreachableError):
            await looking.look({})
    assert (said, endpoint.closed) == ([], 1)


@pytest.mark.parametrize(
    "command", [("list",), ("describe", "g"), ("why", "g"), ("watch", "g"), ("check", "g")]
)
def test_with_json_a_failure_is_json_on_standard_error(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    place = ("--bootstrap", f"127.0.0.1:{free_port()}")
    assert run(["groups", *command, "--json", *place]) == 1
    out, errors = capsys.readouterr()
    assert out == ""
    (line,) = errors.splitlines()
    assert json.loads(line)["error"].startswith("no Kafka broker answers")


@pytest.mark.parametrize("wrong", [("reset-offsets", "g"), ("list", "--nonsense")])
def test_with_json_what_is_not_understood_is_json_as_well(
    wrong: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["groups", *wrong, "--json"]) == 2
    assert json.loads(capsys.readouterr().err)["error"]
    assert run(["groups", *wrong]) == 2
    assert capsys.readouterr().err.startswith("muster: ")


@pytest.mark.parametrize("command", ["why", "history"])
def test_a_cluster_beside_a_store_is_refused(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["groups", command, "g", "--store", str(tmp_path)]
    assert run([*arguments, "--bootstrap", "a:1"]) == 2
    assert "--store is read without a cluster" in capsys.readouterr().err
    monkeypatch.setenv("MUSTER_BOOTSTRAP", "a:1")
    assert run(arguments) == 1, "what is always set is no mistake; there is no store"


# What is drawn.


def lines_of(renderable: Any, width: int) -> list[str]:
    console = Console(width=width, height=24)
    with console.capture() as capture:
        console.print(renderable)
    return capture.get().splitlines()


def test_the_chosen_row_is_on_the_screen_however_far_down() -> None:
    rows = [Row(Sight(f"group-{number}", 0), None) for number in range(69)]
    for chosen in (0, 20, 21, 31, 68):
        shown, mark = scrolled(rows, chosen, 21)
        assert (len(shown), shown[mark]) == (21, rows[chosen])
        marked = [line for line in lines_of(table(shown, mark), 80) if line.startswith(">")]
        assert [line.split()[1] for line in marked] == [f"group-{chosen}"]
    assert scrolled(rows, 5, 0) == ([rows[5]], 0), "a terminal of few lines shows one"
    assert scrolled([], 0, 21) == ([], 0)


def test_a_row_is_one_line_of_a_narrow_terminal() -> None:
    rows = [Row(Sight(f"{number}-{LONG}", 0), None) for number in range(4)]
    drawn = lines_of(table(rows), 80)
    assert len(drawn) == 5
    assert all(len(line) <= 80 for line in drawn)


def test_ids_of_any_length_are_cut_in_tables_and_whole_in_json() -> None:
    member = MemberDescription(LONG, LONG, LONG, "/10.0.0.1", ())
    progress = (PartitionProgress("t", 0, 1, 2, LONG, None, "", LONG, "/10.0.0.1"),)
    group = GroupDescription(LONG, "classic", "Stable", "", "", None, None, 1, "a:1", (member,), progress)
    listing = GroupListing(LONG, "Stable", LONG, "classic", 1)
    offsets = View(frozenset({Section.OFFSETS}))
    shown = {
        tables.list_table([listing]): 2,
        tables.description(group): 5 + 1,
        tables.description(group, offsets): 3 + 1,
        table([Row(Sight(LONG, 0), None)]): 2,
    }
    for renderable, count in shown.items():
        drawn = lines_of(renderable, 10_000)
        assert len(drawn) == count
        assert max(map(len, drawn)) < 800
        assert "x…" in "".join(drawn)
    assert tables.list_json([listing])[0]["group_id"] == LONG
    assert tables.description_json(group)["members"][0]["member_id"] == LONG
    assert tables.id_text("x" * 120) == "x" * 120
    assert tables.id_text("\u202e" * 40) == ("\\u202e" * 40)[:119] + "…"
