"""A store keeps every event once, over restarts, crashes and its own bound; readers see what it has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from coordinator.history.events import encode_event
from muster.observe.reading import read_stored_history
from muster.observe.store import STATE, Source, Store, StoreError, event_files, open_events
from tests.observe.offsets_log import GROUP, OffsetsLog, member

SOURCE = Source("cluster", "topic")
LINES = [json.dumps({"number": number}).encode() for number in range(9)]


def stored(directory: Path) -> list[bytes]:
    return list(open_events(directory).lines())


def test_a_restart_goes_on_from_the_last_checkpoint(tmp_path: Path) -> None:
    store = Store(tmp_path, SOURCE)
    assert store.state is None
    store.append(LINES[:2])
    store.checkpoint({"at": 2})
    store.close()
    again = Store(tmp_path, SOURCE)
    assert again.state == {"at": 2}
    again.append(LINES[2:3])
    again.checkpoint({"at": 3})
    again.close()
    assert stored(tmp_path) == LINES[:3]


@pytest.mark.parametrize("torn", [b"", b'{"numb'], ids=["whole", "torn"])
@pytest.mark.parametrize("file_bytes", [1 << 20, 30], ids=["one file", "several files"])
def test_what_a_crash_leaves_behind_the_checkpoint_is_cut_off(
    tmp_path: Path, torn: bytes, file_bytes: int
) -> None:
    store = Store(tmp_path, SOURCE, file_bytes=file_bytes)
    store.append(LINES[:3])
    store.checkpoint({"at": 3})
    store.append(LINES[3:6])
    store.close()
    with event_files(tmp_path)[-1].open("ab") as file:
        file.write(torn)
    assert stored(tmp_path) == LINES[:6], "a reader sees what is there, but for half a line"
    again = Store(tmp_path, SOURCE, file_bytes=file_bytes)
    assert again.state == {"at": 3}
    assert stored(tmp_path) == LINES[:3]
    again.append(LINES[3:])
    again.checkpoint({"at": 9})
    again.close()
    assert stored(tmp_path) == LINES


def test_a_crash_before_anything_was_read_leaves_a_new_store(tmp_path: Path) -> None:
    store = Store(tmp_path, SOURCE)
    store.append(LINES[:1])
    store.close()
    again = Store(tmp_path, SOURCE)
    assert again.state is None
    again.close()
    assert stored(tmp_path) == []


def test_the_state_is_replaced_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path, SOURCE)
    store.checkpoint({"at": 1})

    def fail(self: Path, target: Path) -> Path:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(StoreError, match=r"cannot write the store .*Input/output error"):
        store.checkpoint({"at": 2})
    monkeypatch.undo()
    store.close()
    again = Store(tmp_path, SOURCE)
    assert again.state == {"at": 1}
    again.close()


def test_the_oldest_events_go_when_the_store_is_full(tmp_path: Path) -> None:
    store = Store(tmp_path, SOURCE, file_bytes=200, total_bytes=1_000)
    line = b"x" * 99
    for number in range(30):
        store.append([line])
        if store.is_checkpoint_due:
            store.checkpoint({"at": number})
        assert sum(path.stat().st_size for path in event_files(tmp_path)) <= 1_000 + 2 * 200
    store.checkpoint({"at": 30})
    store.close()
    files = event_files(tmp_path)
    assert sum(path.stat().st_size for path in files) <= 1_000
    assert len(stored(tmp_path)) >= 7, "no more went than had to"
    assert not open_events(tmp_path).has_all


def test_one_line_larger_than_the_bound_is_kept_until_the_next(tmp_path: Path) -> None:
    store = Store(tmp_path, SOURCE, file_bytes=10, total_bytes=20)
    store.append([b"x" * 100])
    store.checkpoint({"at": 1})
    assert stored(tmp_path) == [b"x" * 100]
    store.append([b"y"])
    store.checkpoint({"at": 2})
    store.close()
    assert stored(tmp_path) == [b"y"]


def test_a_store_of_another_log_is_refused(tmp_path: Path) -> None:
    Store(tmp_path, SOURCE).close()
    for source in (Source("other", "topic"), Source("cluster", "other")):
        with pytest.raises(StoreError, match="is about another cluster"):
            Store(tmp_path, source)
    Store(tmp_path, SOURCE).close()


def test_one_process_at_a_time_writes_a_store(tmp_path: Path) -> None:
    store = Store(tmp_path, SOURCE)
    with pytest.raises(StoreError, match="another process writes"):
        Store(tmp_path, SOURCE)
    store.close()
    Store(tmp_path, SOURCE).close()


@pytest.mark.parametrize(
    ("state", "says"),
    [
        (b"", "makes no sense"),
        (b"[]", "makes no sense"),
        (b'{"schema":1}', "makes no sense"),
        (b'{"schema":2}', "is of schema 2, this version knows 1"),
    ],
)
def test_a_state_that_makes_no_sense_is_refused(tmp_path: Path, state: bytes, says: str) -> None:
    (tmp_path / STATE).write_bytes(state)
    for attempt in (lambda: Store(tmp_path, SOURCE), lambda: open_events(tmp_path)):
        with pytest.raises(StoreError, match=says):
            attempt()


def test_a_directory_that_lost_its_state_or_its_events_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path, SOURCE)
    store.append(LINES)
    store.checkpoint({"at": 9})
    store.close()
    state = (tmp_path / STATE).read_bytes()
    (tmp_path / STATE).unlink()
    with pytest.raises(StoreError, match=r"has events and no state\.json"):
        Store(tmp_path, SOURCE)
    (tmp_path / STATE).write_bytes(state)
    event_files(tmp_path)[0].write_bytes(b"")
    with pytest.raises(StoreError, match="lacks events that were synced"):
        Store(tmp_path, SOURCE)


def test_a_reader_of_no_store_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is no store"):
        open_events(tmp_path / "nowhere")


def test_one_group_is_read_among_all(tmp_path: Path) -> None:
    log = OffsetsLog()
    for number in range(1, 4):
        log.generation(number, member("app-1"))
        log.generation(number, member("app-2"), group=f'{GROUP}","generation_id":9')
    store = Store(tmp_path, SOURCE)
    store.append(encode_event(event)[1] for event in log.events)
    state: dict[str, Any] = {"groups": log.fold.dump()}
    store.checkpoint(state)
    store.close()
    found = read_stored_history(tmp_path, GROUP)
    assert list(found.history.events) == [event for event in log.events if event.group_id == GROUP]
    assert found.heard_ms == log.now_ms - 1_000
    assert (found.history.unreadable, found.history.older) == (0, 0)
    newest = read_stored_history(tmp_path, GROUP, limit=2)
    assert newest.history.events == found.history.events[-2:]
    assert newest.history.older == 4
    assert read_stored_history(tmp_path, "nobody").heard_ms is None
