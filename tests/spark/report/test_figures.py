"""The figures of a page, against pandas over the rows that the tables were written of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from muster.spark.report.errors import ReportError
from muster.spark.report.reading import Selection
from muster.spark.report.rebalancing import OTHER_CAUSES
from muster.spark.report.report import Document, Report, make_report, number
from muster.spark.report.series import DAY_MS, MINUTE_MS, Steps
from muster.spark.report.survey import standing_out
from tests.spark.report.sample import BEGIN_MS, HOUR_MS, KINDS, Sample, write_table

ALL = -1


def frame(document: Document, table: str) -> pd.DataFrame:
    """A table of the document, its texts by their names; of all groups together None."""
    found = pd.DataFrame(
        {
            name: column
            for name, column in document[table].items()
            if isinstance(column, list) and name != "limits"
        }
    )
    for name in found.columns.intersection(
        ["group", "group_id", "cause", "client_id", "client_host", "ended_by"]
    ):
        found[name] = [None if each == ALL else document["texts"][each] for each in found[name]]
    return found


def rows_of(sample: Sample, table: str) -> pd.DataFrame:
    return pd.DataFrame(sample.rows[table])


def test_the_headline_is_the_sum_of_the_tables(sample: Sample, report: Report) -> None:
    headline, rebalances, lag = (
        report.document["headline"],
        rows_of(sample, "rebalances"),
        rows_of(sample, "lag"),
    )
    assert headline["groups"] == len(KINDS)
    assert headline["rebalances"] == len(rebalances) > 200
    assert headline["lost_ms"] == rebalances["duration_ms"].sum()
    assert headline["storms"] == len(rows_of(sample, "storms")) > 0
    assert headline["dead_letters"] == 23
    worst = lag.loc[lag["lag_records"].idxmax()]
    shown = headline["worst"]["lag_records"]
    texts = report.document["texts"]
    assert (shown["value"], texts[shown["group"]], texts[shown["topic"]], shown["partition"], shown["at"]) == (
        worst["lag_records"], worst["group_id"], worst["topic"], worst["partition"], worst["minute"],
    )  # fmt: skip
    assert headline["worst"]["lag_seconds"]["value"] == number(lag["lag_seconds"].max())


def test_every_group_has_its_own_figures(sample: Sample, report: Report) -> None:
    shown = frame(report.document, "groups").set_index("group").astype(float).fillna(0)
    lost = rows_of(sample, "rebalances").groupby("group_id")["duration_ms"].agg(["sum", "size"])
    assert shown["lost_ms"].to_dict() == lost["sum"].to_dict()
    assert shown["rebalances"].to_dict() == lost["size"].to_dict()
    assert (
        shown["commits"].to_dict()
        == rows_of(sample, "commits").groupby("group_id")["commits"].sum().to_dict()
    )
    noisy = rows_of(sample, "commits").groupby("group_id")["noisy"].sum()
    assert shown["noisy_minutes"].to_dict() == noisy.to_dict()
    assert noisy["recommendations"] > 0
    churn = rows_of(sample, "churn").groupby("group_id")[["joined", "left", "expired"]].sum().sum(axis=1)
    assert shown["churn"][churn.index].to_dict() == churn.to_dict()


def test_lag_over_time_is_the_worst_minute_of_each_step(sample: Sample, report: Report) -> None:
    steps = report.document["lag"]
    assert (steps["begin"], steps["width"]) == (BEGIN_MS, 5 * MINUTE_MS)
    by_minute = (
        rows_of(sample, "lag")
        .groupby(["group_id", "minute"])
        .agg({"lag_records": "sum", "lag_seconds": "max"})
    )
    expected = by_minute.reset_index()
    expected["step"] = (expected["minute"] - BEGIN_MS) // steps["width"]
    expected = expected.groupby(["group_id", "step"])[["lag_records", "lag_seconds"]].max()
    shown = frame(report.document, "lag").set_index(["group_id", "step"])
    assert shown.index.is_unique
    behind = expected[(expected["lag_records"] > 0)]
    assert shown["lag_records"][behind.index].to_dict() == behind["lag_records"].to_dict()
    seconds = {key: number(value) for key, value in behind["lag_seconds"].items()}
    assert shown["lag_seconds"][behind.index].to_dict() == seconds
    assert set(shown.index) == set(behind.index), "a step that is caught up needs no row"


def test_causes_count_and_add_up_for_all_and_for_each_group(sample: Sample, report: Report) -> None:
    shown = frame(report.document, "causes")
    by_cause = rows_of(sample, "rebalances").groupby("cause")["duration_ms"].agg(["size", "sum", "max"])
    of_all = shown[shown["group_id"].isna()].set_index("cause")
    assert of_all["rows"].to_dict() == by_cause["size"].to_dict()
    assert of_all["duration_ms"].to_dict() == by_cause["sum"].to_dict()
    assert of_all["longest_ms"].to_dict() == by_cause["max"].to_dict()
    of_each = shown.dropna(subset="group_id").set_index(["group_id", "cause"])["rows"]
    assert of_each.to_dict() == rows_of(sample, "rebalances").groupby(["group_id", "cause"]).size().to_dict()


def test_time_lost_over_time_has_every_rebalance_in_the_step_that_it_ended_in(
    sample: Sample, report: Report
) -> None:
    shown, width = frame(report.document, "pace"), report.document["pace"]["width"]
    rebalances = rows_of(sample, "rebalances")
    expected = rebalances.groupby([rebalances["ended_at"] // width * width, "cause"])["duration_ms"].sum()
    assert (
        shown[shown["group_id"].isna()].set_index(["at_ms", "cause"])["duration_ms"].to_dict()
        == expected.to_dict()
    )
    assert shown.dropna(subset="group_id")["rows"].sum() == len(rebalances)


def test_every_rebalance_of_a_small_table_is_a_bar_with_all_that_is_known(
    sample: Sample, report: Report
) -> None:
    shown, texts = report.document["rebalances"], report.document["texts"]
    assert shown["seen"] == len(shown["group_id"]) == len(sample.rows["rebalances"])
    expected = sorted(sample.rows["rebalances"], key=lambda row: (row["group_id"], row["started_at"]))[17]
    of_texts = ("group_id", "cause", "reason", "client_id", "client_host", "last_client_id", "outcome")
    assert {name: texts[shown[name][17]] for name in of_texts} == {name: expected[name] for name in of_texts}
    numbers = (
        "started_at",
        "join_ms",
        "sync_ms",
        "attempts",
        "generation_id",
        "member_count",
        "last_arrival_ms",
    )
    assert {name: shown[name][17] for name in numbers} == {name: expected[name] for name in numbers}
    assert [texts[each] for each in shown["causes"][17]] == expected["causes"]


def test_sessions_are_counted_by_length_and_end(sample: Sample, report: Report) -> None:
    members = rows_of(sample, "members")
    limits = report.document["lengths"]["limits"]
    lengths = [8 if pd.isna(ms) else sum(ms >= limit for limit in limits) for ms in members["duration_ms"]]
    expected = members.groupby([pd.Series(lengths, name="length"), "ended_by"]).size()
    shown = frame(report.document, "lengths")
    assert (
        shown[shown["group_id"].isna()].set_index(["length", "ended_by"])["rows"].to_dict()
        == expected.to_dict()
    )
    assert 8 in lengths, "sessions from before the topic begins"


def test_churners_are_by_client_and_host_the_foremost_first(sample: Sample, report: Report) -> None:
    keys = ["group_id", "client_id", "client_host"]
    expected = rows_of(sample, "churn").groupby(keys)[["joined", "left", "expired"]].sum()
    shown = frame(report.document, "churn").set_index(keys)
    for name in expected:
        assert shown[name].to_dict() == expected[name][shown.index].to_dict()
    assert shown["total"].max() == expected.sum(axis=1).max() == shown["total"].iloc[0]


def test_dead_letters_are_by_reason(sample: Sample, report: Report) -> None:
    letters, texts = report.document["letters"], report.document["texts"]
    shown = dict.fromkeys(
        map(tuple, zip(letters["job"], letters["source_topic"], letters["reason"], strict=True))
    )
    assert len(shown) == len(letters["rows"])
    keys = ["job", "source_topic", "reason"]
    expected = rows_of(sample, "dead_letters").groupby(keys)["seen_at"].agg(["size", "max"])
    rows = zip(shown, letters["rows"], letters["seen_at"], strict=True)
    assert {tuple(texts[each] for each in key): (count, last) for key, count, last in rows} == {
        key: (row["size"], row["max"]) for key, row in expected.iterrows()
    }


def test_a_selection_is_of_groups_and_of_a_time_whose_end_is_exclusive(sample: Sample, tables: Path) -> None:
    begin, end = BEGIN_MS + 3 * HOUR_MS, BEGIN_MS + 20 * HOUR_MS
    found = make_report(tables, Selection(("billing", "fraud-scoring"), begin, end)).document
    rows = rows_of(sample, "rebalances")
    rows = rows[
        rows["group_id"].isin(["billing", "fraud-scoring"])
        & (rows["ended_at"] >= begin)
        & (rows["ended_at"] < end)
    ]
    assert found["headline"]["rebalances"] == len(rows)
    assert found["headline"]["groups"] == 2
    letters = rows_of(sample, "dead_letters")["seen_at"]
    assert found["headline"]["dead_letters"] == ((letters >= begin) & (letters < end)).sum()
    exactly = make_report(tables, Selection((), None, int(rows["ended_at"].iloc[0]))).document
    all_rows = rows_of(sample, "rebalances")["ended_at"]
    assert exactly["headline"]["rebalances"] == (all_rows < rows["ended_at"].iloc[0]).sum()


def test_a_group_that_is_in_no_table_is_refused_and_among_others_reported(
    sample: Sample, tables: Path
) -> None:
    with pytest.raises(ReportError, match="no table knows the group 'biling'"):
        make_report(tables, Selection(("biling",)))
    found = make_report(tables, Selection(("billing", "x", "y")))
    assert found.problems == ["No table knows the groups 'x', 'y'."]
    assert found.document["problems"] == found.problems


@pytest.mark.parametrize(
    ("span_ms", "width_ms"),
    [(0, MINUTE_MS), (479 * MINUTE_MS, MINUTE_MS), (480 * MINUTE_MS, 2 * MINUTE_MS), (7 * DAY_MS, 30 * MINUTE_MS),
     (479 * DAY_MS, DAY_MS), (1_000 * DAY_MS, 3 * DAY_MS)],
)  # fmt: skip
def test_steps_are_the_narrowest_that_cover_a_span(span_ms: int, width_ms: int) -> None:
    begin = 1_772_409_600_000  # A midnight.
    steps = Steps.over((begin, begin + span_ms), 480)
    assert steps.width_ms == width_ms
    assert steps.begin_ms <= begin
    assert begin + span_ms < steps.end_ms
    assert (steps.end_ms - steps.begin_ms) // steps.width_ms <= 481


def test_groups_stand_out_by_turns_so_that_no_measure_crowds_the_others_out() -> None:
    groups = pd.DataFrame(
        {"lost_ms": [9.0, 8, 7, 6, 0, 0], "lag_records": [0.0, 0, 0, 0, 5, 0]}, index=list("abcdef")
    )
    assert standing_out(groups, 3, ("lost_ms", "lag_records")) == ["a", "e", "b"]
    assert standing_out(groups, 6, ("lost_ms", "lag_records")) == ["a", "e", "b", "c", "d", "f"]


def test_causes_beyond_the_ones_that_are_counted_apart_are_one(tmp_path: Path) -> None:
    row: dict[str, Any] = Sample(1)._rebalance(KINDS[0], BEGIN_MS, {"billing-0": BEGIN_MS}, 1)
    write_table(tmp_path, "rebalances", [row | {"cause": f"cause-{each}"} for each in range(40)])
    causes = frame(make_report(tmp_path, Selection()).document, "causes")
    of_all = causes[causes["group_id"].isna()].set_index("cause")["rows"]
    assert len(of_all) == 31
    assert of_all[OTHER_CAUSES] == 10
    assert of_all.sum() == 40


def test_a_lag_that_is_not_known_is_null_and_not_nothing(tmp_path: Path) -> None:
    row = {"minute": BEGIN_MS, "group_id": "g", "topic": "t", "partition": 0, "committed_offset": 5}
    unknown = {"log_end_offset": None, "lag_records": None, "lag_seconds": None}
    write_table(tmp_path, "lag", [row | unknown])
    document = make_report(tmp_path, Selection()).document
    assert document["lag"]["lag_records"] == [None]
    assert document["headline"]["worst"] == {}
    assert document["groups"]["lag_records"] == [None]


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, None), (float("nan"), None), (float("inf"), None), (3.0, 3), (0.123456, 0.1235), (7, 7)],
)
def test_numbers_are_as_short_as_json_has_them(value: float | None, shown: float | None) -> None:
    assert number(value) == shown


def test_a_rebalance_of_unknown_length_is_counted_and_in_no_sum(tmp_path: Path) -> None:
    """As `muster observe` finds them: how long members joined is on no record."""
    known, _, silent = (row for row in Sample(3)._changes(KINDS[0])[:3])
    half = {"duration_ms": None, "join_ms": None}
    rows = [
        known | {"cause": "member_joined"},
        known | half | {"cause": "member_joined", "generation_id": 2},
        silent | half | {"cause": "member_gone", "group_id": "other"},
    ]
    write_table(tmp_path, "rebalances", rows)
    document = make_report(tmp_path, Selection()).document
    assert (document["headline"]["lost_ms"], document["headline"]["unknown_lengths"]) == (
        known["duration_ms"],
        2,
    )
    for table in ("causes", "pace"):
        shown = frame(document, table)
        of_all = shown[shown["group_id"].isna()].set_index("cause")
        assert of_all["rows"].to_dict() == {"member_joined": 2, "member_gone": 1}
        assert of_all["unknown"].to_dict() == {"member_joined": 1, "member_gone": 1}
        assert of_all.loc["member_joined", "duration_ms"] == known["duration_ms"]
        assert pd.isna(of_all.loc["member_gone", "duration_ms"]), "unknown, and not 0"
    groups = frame(document, "groups").set_index("group")
    assert pd.isna(groups.loc["other", "lost_ms"])
    bars = document["rebalances"]
    assert len(bars["join_ms"]) == bars["seen"] == 3, "each has a bar, as long as it is known"
    assert bars["join_ms"].count(None) == 2
    assert None not in bars["sync_ms"]
