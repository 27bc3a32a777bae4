"""`why`, `history` and `observe export` on a store: no cluster is asked but the one that is written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.history.events import encode_event
from harness.daemon import MusterDaemon
from harness.observer import Observer
from harness.processes import free_port
from muster.cli import run
from muster.groups.event_records import read_event
from muster.observe.store import Source, Store
from tests.observe.offsets_log import START_MS, OffsetsLog, generation, member
from tests.observe.test_fold import HOSTILE
from tests.why_events import utc  # noqa: F401

pytestmark = pytest.mark.usefixtures("utc")

TOPIC = "observed-events"
APP_1, APP_2 = member("app-1", partitions=(0, 1)), member("app-2", partitions=(2, 3))


def write(directory: Path, log: OffsetsLog) -> Path:
    store = Store(directory, Source("cluster", "topic"))
    store.append(encode_event(event)[1] for event in log.events)
    store.checkpoint({"groups": []})
    store.close()
    return directory


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two members, of which one is gone; no cluster is where one would be looked for."""
    monkeypatch.setenv("MUSTER_BOOTSTRAP", f"127.0.0.1:{free_port()}")
    log = OffsetsLog()
    log.generation(1, APP_1, APP_2)
    log.generation(2, APP_1)
    return write(tmp_path / "store", log)


def test_why_reads_a_store_without_a_cluster(store: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["groups", "why", "billing", "--store", str(store)]) == 0
    assert capfd.readouterr().out.splitlines() == [
        "billing rebalanced at 2023-11-14 22:13:21 (generation 2) because app-2 at 10.0.0.1 left or expired: "
        "the records of its group do not say which.",
        "  The event says: inferred, in generation 1 and not in 2.",
        "  Its session.timeout.ms is 45000.",
        "  Inferred: the cluster's records hold no causes, so this is what fits them.",
        "  40 ms assigning; how long joining took is not known.",
        "  Advice: look in the client's log: a close, a slow poll loop and a lost connection all say so there.",
    ]
    assert run(["groups", "why", "billing", "--store", str(store), "--at", "2023-11-14T22:13:21.000Z"]) == 0
    assert "app-1 at 10.0.0.1 and others joined an empty group" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nosuch"], "the history of group nosuch is not in {store}"),
        (["billing", "--at", "2001-01-01"], "the history of group billing begins after that time in {store}"),
    ],
)
def test_what_a_store_does_not_have_is_a_sentence(
    store: Path, capfd: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert run(["groups", "why", *arguments, "--store", str(store)]) == 1
    assert capfd.readouterr() == ("", f"muster: {said.format(store=store)}\n")
    assert run(["groups", "why", *arguments, "--store", str(store / "none")]) == 1
    assert "is no store" in capfd.readouterr().err


def test_groups_of_any_name_are_found_in_a_store(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = OffsetsLog()
    for group in HOSTILE:
        log.write(generation(1, APP_1, group=group, wall_ms=START_MS))
    store = write(tmp_path / "store", log)
    for group in HOSTILE:
        for command in ("why", "history"):
            assert run(["groups", command, group, "--store", str(store)]) == 0
            shown = capfd.readouterr().out
            assert "app-1" in shown
            assert not {"\u202e", "\u2069", "\x1b"} & set(shown)


def test_a_store_whose_oldest_events_are_gone_counts_at_least(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = OffsetsLog()
    for number in range(1, 8):
        log.generation(number, APP_1, *([APP_2] if number % 2 else []))
    store = write(tmp_path / "store", log)
    (store / "events-0000000000.jsonl").rename(store / "events-0000000001.jsonl")
    assert run(["groups", "why", "billing", "--store", str(store)]) == 0
    shown = capfd.readouterr()
    assert "the store's oldest events are gone" in shown.err
    assert "This is at least the third time that day for app-2" in shown.out


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MusterDaemon]:
    with MusterDaemon(tmp_path_factory.mktemp("daemon")) as running:
        yield running


def test_a_store_is_exported_once_however_often_it_is_told_to(
    store: Path, daemon: MusterDaemon, capfd: pytest.CaptureFixture[str]
) -> None:
    command = ["observe", "export", str(store), "--bootstrap-server", daemon.bootstrap]
    assert run(command) == 1
    refused = "muster: this cluster lets no client write to __group_events: choose another topic\n"
    assert capfd.readouterr().err == refused, "Muster's own daemon writes it"
    for said in (
        "5 events of {} written to {}\n",
        "0 events of {} written to {}; 5 events had been there before\n",
    ):
        assert run([*command, "--topic", TOPIC]) == 0
        assert capfd.readouterr().err == said.format(store, TOPIC)
    messages = Observer(daemon.bootstrap).read(TOPIC, 0)
    lines = (store / "events-0000000000.jsonl").read_bytes().splitlines()
    assert [message.value() for message in messages] == lines
    events = [read_event(message.key(), message.value()) for message in messages]
    assert [message.timestamp()[1] for message in messages] == [event.wall_ms for event in events]
