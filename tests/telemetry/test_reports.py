"""Which client a member is: by its labels, else by where it comes from, and never by a guess; bounded."""

from __future__ import annotations

from coordinator.telemetry.payload import Said
from coordinator.telemetry.reports import (
    MAX_ORIGIN_CHARS,
    ClientReports,
    MemberOfGroup,
    Origin,
    Report,
    origin_of,
)

APP = Origin("app-1", "/10.0.0.9")
MEMBER = MemberOfGroup("billing", "app-1-6f0c", APP)
LABELS = {"group_id": "billing", "group_member_id": "app-1-6f0c"}


def report(labels: dict[str, str], polls_ms: int = 7, at_ms: int = 1_000, origin: Origin = APP) -> Report:
    figures = {"time_between_poll_max_ms": polls_ms} if polls_ms else {}
    return Report(origin, Said(labels, figures), at_ms, at_ms + 60_000)


def polls(reports: ClientReports, member: MemberOfGroup = MEMBER, now_ms: int = 1_500) -> int | None:
    found = reports.latest(member, now_ms)
    return None if found is None else found["time_between_poll_max_ms"]


def test_a_client_is_known_by_the_member_id_in_its_labels() -> None:
    reports = ClientReports()
    reports.add(b"a", report(LABELS, 1))
    reports.add(b"b", report({**LABELS, "group_member_id": "other"}, 2))
    assert reports.latest(MEMBER, 1_500) == {"age_ms": 500, "time_between_poll_max_ms": 1}
    assert polls(reports, MEMBER._replace(member_id="other")) == 2
    assert polls(reports, MEMBER._replace(member_id="third")) is None
    assert polls(reports, MEMBER._replace(group_id="orders")) is None


def test_without_such_labels_it_is_the_only_one_from_there() -> None:
    reports = ClientReports()
    reports.add(b"a", report({}, 1))
    assert polls(reports) == 1
    assert polls(reports, MEMBER._replace(origin=APP._replace(client_host="/10.0.0.8"))) is None
    reports.add(b"b", report({"group_id": "orders"}, 2))
    assert polls(reports) == 1, "the other says that it is of another group"
    reports.add(b"c", report({"group_id": "billing"}, 3))
    assert polls(reports) is None, "two may be meant"
    assert polls(reports, MEMBER._replace(group_id="orders")) is None


def test_one_that_is_known_as_another_member_is_not_taken_for_this_one() -> None:
    reports = ClientReports()
    reports.add(b"a", report({**LABELS, "group_member_id": "other"}))
    assert polls(reports) is None


def test_a_report_counts_for_a_while_and_then_no_more() -> None:
    reports = ClientReports()
    reports.add(b"a", report(LABELS))
    reports.add(b"b", report({}, origin=Origin("b", "/h")))
    for member in (MEMBER, MemberOfGroup("billing", None, Origin("b", "/h"))):
        assert polls(reports, member, now_ms=61_000) == 7
        assert polls(reports, member, now_ms=61_001) is None


def test_the_newest_report_of_a_client_replaces_the_former_one() -> None:
    reports = ClientReports()
    reports.add(b"a", report(LABELS, 1))
    reports.add(b"a", report({**LABELS, "group_member_id": "again"}, 2))
    assert polls(reports) is None
    assert polls(reports, MEMBER._replace(member_id="again")) == 2
    reports.add(b"a", report({**LABELS, "group_member_id": "again"}, 0))
    assert polls(reports, MEMBER._replace(member_id="again")) is None
    assert len(reports) == 0


def test_of_more_clients_than_are_kept_the_one_longest_silent_goes() -> None:
    reports = ClientReports(most=2)
    for number in range(5):
        reports.add(b"%d" % number, report({**LABELS, "group_member_id": f"m{number}"}, number + 1))
    assert len(reports) == 2
    members = [MEMBER._replace(member_id=f"m{number}") for number in range(5)]
    assert [polls(reports, member) for member in members] == [None, None, None, 4, 5]
    reports.add(b"3", report({**LABELS, "group_member_id": "m3"}, 9))
    reports.add(b"5", report({**LABELS, "group_member_id": "m5"}, 6))
    assert [polls(reports, member) for member in members] == [None, None, None, 9, None]


def test_two_clients_that_claim_one_member_id_do_not_end_each_others_reports() -> None:
    reports = ClientReports()
    reports.add(b"a", report(LABELS, 1))
    reports.add(b"b", report(LABELS, 2))
    reports.add(b"a", report({}, 0))
    assert polls(reports) == 2


def test_a_client_id_that_is_too_long_is_cut_and_still_told_apart() -> None:
    longest = "c" * MAX_ORIGIN_CHARS
    assert origin_of(longest, "/h") == Origin(longest, "/h")
    origins = [origin_of(longest + end * 32_000, "/h") for end in ("a", "b")]
    assert len({*origins, Origin(longest, "/h")}) == 3
    assert {len(origin.client_id) for origin in origins} == {MAX_ORIGIN_CHARS + 64}
    reports = ClientReports()
    reports.add(b"a", report({}, 1, origin=origins[0]))
    assert polls(reports, MEMBER._replace(origin=origin_of(longest + "a" * 32_000, "/h"))) == 1
    assert polls(reports, MEMBER._replace(origin=origins[1])) is None
