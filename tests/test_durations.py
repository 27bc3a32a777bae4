"""Lengths of time as users write and read them."""

from __future__ import annotations

import pytest

from muster.durations import parse_duration, parse_iso_duration, parse_timeout, spoken


@pytest.mark.parametrize(
    ("text", "expected"),
    [("500ms", 500), ("5s", 5_000), ("1.5s", 1_500), ("2m", 120_000), ("1h", 3_600_000), ("7d", 604_800_000)],
)
def test_a_duration_has_its_unit(text: str, expected: int) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize(
    "text", ["5", "", "s", "-5s", "5 s", "5x", "٣s", "9" * 40 + "s", "999999999999999999d"]
)
def test_what_has_no_unit_or_makes_no_sense_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be a length of time|too long"):
        parse_duration(text)


def test_a_bare_timeout_is_in_ms_as_for_kafkas_tools() -> None:
    assert (parse_timeout("5000"), parse_timeout("5s")) == (5_000, 5_000)
    for text in ("0", "0s", "soon"):
        with pytest.raises(ValueError, match="must be"):
            parse_timeout(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PT1H", 3_600_000),
        ("P7D", 604_800_000),
        ("P1DT2H3M4.5S", 93_784_500),
        ("pt1m", 60_000),
        ("PT-1H", -3_600_000),
        ("-PT1H30M", -5_400_000),
        ("PT0.25S", 250),
    ],
)
def test_iso_durations_are_read_as_java_reads_them(text: str, expected: int) -> None:
    assert parse_iso_duration(text) == expected


@pytest.mark.parametrize(
    "text", ["", "P", "PT", "1H", "PT0.5H", "P1Y", "P1W", "PT1H ", "P1DT", "PT" + "9" * 30 + "H"]
)
def test_what_java_refuses_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be an ISO 8601 duration"):
        parse_iso_duration(text)


@pytest.mark.parametrize(
    ("milliseconds", "expected"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_999, "1 s"),
        (59_999, "59 s"),
        (60_000, "1 min"),
        (200_000, "3 min 20 s"),
        (3_600_000, "1 h"),
        (7_500_000, "2 h 5 min"),
        (349_200_000, "4 d 1 h"),
    ],
)
def test_a_length_is_spoken_in_its_two_largest_units(milliseconds: int, expected: str) -> None:
    assert spoken(milliseconds) == expected
