"""The table of versions that real clients speak: read, written and checked."""

from __future__ import annotations

from pathlib import Path

from protocol.messages.list_groups import ListGroupsRequest
from tests.recording_daemon import RecordingDaemon
from tests.spoken import BEGIN, END, PAGE, claimed, ranges, recorded, served, spoken_in, table, unproved
from tests.wire import WireClient

LINES = ["12 4 librdkafka", "12 4 other", "12 0 old one", "12 3 wire", "3 13 "]


def test_our_own_codec_is_no_real_client() -> None:
    assert spoken_in(LINES) == {12: {0, 4}, 3: {13}}


def test_what_is_written_is_read_back() -> None:
    spoken = spoken_in(LINES)
    page = f"before\n{BEGIN}\n{table(spoken)}\n{END}\n| 12 | Heartbeat | 0-4 | - |\n"
    assert {key: versions for key, versions in claimed(page).items() if versions} == spoken
    assert unproved(page, spoken) == {}
    assert unproved(page, {12: frozenset({4})}) == {12: {0}, 3: {13}}


def test_the_page_has_a_row_for_every_api() -> None:
    assert claimed(PAGE.read_text()).keys() == served().keys()


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
