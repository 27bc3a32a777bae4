"""The table of versions that real clients speak: read, written and checked."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from harness.recording_daemon import RecordingDaemon
from harness.wire import WireClient
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.produce import ProduceRequest
from protocol.messages.versions import PRODUCE_KEY, SUPPORTED
from tests.spoken import (
    BEGIN,
    END,
    PAGE,
    claimed,
    differences,
    ranges,
    recorded,
    served,
    spoken_in,
    table,
    wrong_rows,
)

LINES = ["12 4 librdkafka", "12 4 other", "12 0 old one", "12 3 wire", "3 13 "]


def test_our_own_codec_is_no_real_client() -> None:
    assert spoken_in(LINES) == {12: {0, 4}, 3: {13}}


def test_what_is_written_is_read_back() -> None:
    spoken = spoken_in(LINES)
    page = f"before\n{BEGIN}\n{table(spoken)}\n{END}\n| 12 | Heartbeat | 0-4 | - |\n"
    assert {key: versions for key, versions in claimed(page).items() if versions} == spoken
    assert list(differences(page, spoken)) == []
    assert list(wrong_rows(page)) == []


SPOKEN = {12: frozenset({0, 4}), 3: frozenset({13})}


@pytest.mark.parametrize(
    ("spoken", "found"),
    [
        (SPOKEN | {12: frozenset({4})}, "API 12: no client of this run spoke version 0"),
        (SPOKEN | {12: frozenset({0, 1, 2, 4})}, "API 12: version 1-2 is not spoken by our own codec alone"),
        (SPOKEN | {11: frozenset({9})}, "API 11: version 9 is not spoken by our own codec alone"),
    ],
    ids=["claimed and not spoken", "spoken and not claimed", "an API that had none"],
)
def test_a_page_that_differs_from_the_run_is_wrong_on_either_side(
    spoken: dict[int, frozenset[int]], found: str
) -> None:
    page = f"{BEGIN}\n{table(SPOKEN)}\n{END}"
    assert list(differences(page, spoken)) == [found]


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ("| 12 | Heartbeat | 0-1, 4 | 2 |", ["API 12: version 3 is served and in no column"]),
        ("| 12 | Heartbeat | 0-1, 4 | 2-3, 5 |", ["API 12: version 5 is not served"]),
        ("| 12 | Heartbeat | 0-2, 4 | 2-3 |", ["API 12: version 2 is in both columns"]),
        ("", ["API 12: version 0-4 is served and in no column"]),
        ("| 12 | Heartbeat | 0, 4 | 1-3 |", []),
    ],
    ids=["one omitted", "one too many", "one twice", "no row", "whole"],
)
def test_the_columns_are_what_is_served(row: str, found: list[str]) -> None:
    lines = [row if line.startswith("| 12 ") else line for line in table(SPOKEN).splitlines()]
    assert list(wrong_rows("\n".join([BEGIN, *lines, END]))) == found


def test_the_page_has_every_version_that_is_served_once_and_no_other() -> None:
    page = PAGE.read_text()
    assert claimed(page).keys() == served().keys()
    assert list(wrong_rows(page)) == []


def test_what_is_only_reported_is_not_served(tmp_path: Path) -> None:
    """Produce 0 to 2 stand in the table of ApiVersions; a request in them ends its connection, unrecorded."""
    missing = {key: {*range(first, last + 1)} - served()[key] for key, (first, last) in SUPPORTED.items()}
    assert {key: versions for key, versions in missing.items() if versions} == {PRODUCE_KEY: {0, 1, 2}}
    with RecordingDaemon(tmp_path / "daemon", folder=tmp_path) as daemon:
        for version in missing[PRODUCE_KEY]:
            with WireClient(daemon.bootstrap) as client:
                body = struct.pack(">hii", 1, 1000, 0)  # What the version was: acks, a timeout, no topics.
                client.socket.sendall(struct.pack(">ihhi4s", 22, PRODUCE_KEY, version, 1, b"\0\2me") + body)
                with pytest.raises(ConnectionError):
                    client.receive_frame()
        with WireClient(daemon.bootstrap, "me") as client:
            client.ask(ProduceRequest(acks=1, timeout_ms=1000, topic_data=[]), 3)
        assert recorded(tmp_path)[PRODUCE_KEY] == {3}


def test_ranges_are_written_as_people_do() -> None:
    assert ranges([0, 1, 2, 5]) == "0-2, 5"
    assert ranges([]) == "-"


def test_a_daemon_records_what_it_was_asked(tmp_path: Path) -> None:
    """Each version once, however often it is asked for, and by the name of the client."""
    with RecordingDaemon(tmp_path / "daemon", folder=tmp_path) as daemon:
        with WireClient(daemon.bootstrap, "stranger") as client:
            for version in (4, 5, 5):
                client.ask(ListGroupsRequest(), version)
        lines = [line for line in daemon.spoken.read_text().splitlines() if line.endswith("stranger")]
        assert lines == ["16 4 stranger", "16 5 stranger"]
        assert recorded(tmp_path)[16] == {4, 5}
