"""Tables as they are found on a disk: missing, damaged, being written; and what the command says of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from muster.spark.commands import app
from muster.spark.report import page, totals
from muster.spark.report.command import parse_moment, write_report
from muster.spark.report.errors import ReportError
from muster.spark.report.page import filled, policy, write_page
from muster.spark.report.reading import PROBLEMS_MAX, Selection, TablesReader
from muster.spark.report.report import make_report
from muster.spark.report.texts import NAME_MAX_CHARS, NO_TEXT, Texts, as_json, presentable
from muster.spark.report.totals import ROWS, TopRows, Totals
from muster.spark.tables import TABLES
from tests.spark.report.sample import BEGIN_MS, HOUR_MS, KINDS, Sample, write_table

ROOT = Path(__file__).resolve().parents[3]
STORM = {
    "window_start": BEGIN_MS, "window_end": BEGIN_MS + 600_000, "group_id": "g", "rebalances": 3,
    "rebalancing_ms": 200_000, "share": 0.33,
}  # fmt: skip


def storms_seen(folder: Path, selection: Selection | None = None) -> tuple[int, list[str]]:
    found = make_report(folder, selection or Selection())
    return found.document["headline"]["storms"], found.problems


def storm_file(folder: Path) -> Path:
    (file,) = (folder / "storms").glob("day=*/*.parquet")
    return file


def run_command(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The command as users type it, with a PATH on which there is no Java."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": "/nowhere", "JAVA_HOME": "/nowhere"}
    command = [sys.executable, "-m", "muster", "spark", "report", *arguments]
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_former_causes_in_the_tables_are_shown_under_the_names_of_today(tmp_path: Path) -> None:
    """Rows that jobs of an older version wrote; also where a value is null, which other writers may leave."""
    session = dict.fromkeys(("group_id", "member_id"), "g") | dict.fromkeys(
        ("started_at", "ended_at"), BEGIN_MS
    )
    names = TABLES["members"].columns
    for cause in ("nobody_left", "session_expired"):
        row = (
            dict.fromkeys(column.name for column in names) | session | {"ended_by": cause, "joined_by": None}
        )
        write_table(tmp_path, "members", [row], cause)
    rows = pa.concat_tables(TablesReader(tmp_path).scan("members", ["joined_by", "ended_by"])).to_pylist()
    assert rows == [
        {"joined_by": None, "ended_by": "group_emptied"},
        {"joined_by": None, "ended_by": "session_expired"},
    ]

    sample = Sample(3)
    sample.add(KINDS[0])
    former = [[], ["nobody_left", "moon_phase"], ["partitions_changed"]]
    kept = sample.rows["rebalances"][: len(former)]
    written = [
        row | {"cause": "join_extended", "causes": causes} for row, causes in zip(kept, former, strict=True)
    ]
    write_table(tmp_path, "rebalances", written)
    found = pa.concat_tables(TablesReader(tmp_path).scan("rebalances", ["cause", "causes"]))
    assert set(found.column("cause").to_pylist()) == {"join_phase_extended"}
    assert sorted(found.column("causes").to_pylist()) == [
        [], ["group_emptied", "moon_phase"], ["partition_counts_changed"]
    ]  # fmt: skip


def test_the_command_makes_a_page_without_java_and_says_what_of(tmp_path: Path) -> None:
    write_table(tmp_path / "tables", "storms", [STORM])
    (storm_file(tmp_path / "tables").parent / "torn.parquet").write_bytes(b"PAR1 and then nothing")
    done = run_command("--tables", "tables", "--out", "page.html", "--title", "A & <b>", cwd=tmp_path)
    assert (done.returncode, done.stdout[:26]) == (0, "page.html: 1 groups, 0 reb"), done.stderr
    assert done.stderr.startswith("muster: storms/day=2026-03-02/torn.parquet could not be read")
    assert "Traceback" not in done.stderr
    assert "<h1>A &amp; &lt;b&gt;</h1>" in (tmp_path / "page.html").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html", "tables"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"tables": "nowhere"}, "there is no folder"),
        ({"tables": "empty"}, "holds none of the tables: lag, log_ends, commits"),
        ({"begin": "yesterday"}, "--from yesterday is no moment"),
        ({"begin": "2026-03-02", "end": "2026-03-02"}, "--from 2026-03-02 is not before --to 2026-03-02"),
        ({"out": "empty"}, "is a folder; --out is the page to write"),
        ({"out": "nowhere/page.html"}, "there is no folder"),
        ({"groups": ["other"]}, "no table knows the group 'other'"),
    ],
)
def test_wrong_options_are_refused_in_a_sentence_and_what_is_there_stays(
    tmp_path: Path, arguments: dict[str, Any], words: str
) -> None:
    write_table(tmp_path / "tables", "storms", [STORM])
    (tmp_path / "empty").mkdir()
    (tmp_path / "page.html").write_text("the one before")
    given: dict[str, Any] = {"groups": (), "begin": None, "end": None, **arguments}
    given["tables"] = tmp_path / given.get("tables", "tables")
    given["out"] = tmp_path / given.get("out", "page.html")
    with pytest.raises(ReportError, match=words):
        write_report(**given, title="t")
    assert (tmp_path / "page.html").read_text() == "the one before"


def test_the_command_reports_a_refusal_on_standard_error_with_status_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["report", "--tables", "nowhere", "--out", str(tmp_path / "page.html")]
    assert app(arguments, result_action="return_value") == 1
    assert tuple(capsys.readouterr()) == ("", "muster: there is no folder nowhere\n")


def test_moments_are_utc_unless_they_say_otherwise() -> None:
    midnight = int(datetime(2026, 3, 2, tzinfo=UTC).timestamp() * 1000)
    assert parse_moment("from", "2026-03-02") == midnight
    assert parse_moment("from", "2026-03-02T06:00") == midnight + 6 * HOUR_MS
    assert parse_moment("from", "2026-03-02T06:00+02:00") == midnight + 4 * HOUR_MS
    assert parse_moment("from", None) is None


def test_a_table_without_rows_files_or_folder_is_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "lag" / "day=2026-03-02").mkdir(parents=True)
    write_table(tmp_path, "storms", [STORM])
    pq.write_table(
        pq.read_table(storm_file(tmp_path)).slice(0, 0), storm_file(tmp_path).with_name("none.parquet")
    )
    assert storms_seen(tmp_path) == (1, [])
    (tmp_path / "fresh" / "lag").mkdir(parents=True)
    assert make_report(tmp_path / "fresh", Selection()).document["span"] is None


@pytest.mark.parametrize(
    "name", [".part-0.parquet", "_part-0.parquet", "part-0.parquet.crc", "part-0.parquet.tmp"]
)
def test_a_file_that_is_being_written_is_not_looked_at(tmp_path: Path, name: str) -> None:
    write_table(tmp_path, "storms", [STORM])
    storm_file(tmp_path).with_name(name).write_bytes(b"half of a")
    hidden = tmp_path / "storms" / "_temporary" / "day=2026-03-02"
    hidden.mkdir(parents=True)
    (hidden / "x.parquet").write_bytes(b"half of a")
    assert storms_seen(tmp_path) == (1, [])


@pytest.mark.parametrize("damage", ["empty", "cut", "text", "pages"])
def test_a_damaged_file_is_reported_and_the_others_count(tmp_path: Path, damage: str) -> None:
    write_table(tmp_path, "storms", [STORM])
    write_table(tmp_path, "storms", [STORM | {"group_id": f"h{each}"} for each in range(5_000)], "bad")
    bad = next(tmp_path.rglob("bad.parquet"))
    whole = bad.read_bytes()
    in_pages = whole[:40] + bytes(len(whole) // 2) + whole[40 + len(whole) // 2 :]
    bad.write_bytes(
        {"empty": b"", "cut": whole[:-100], "text": b"no Parquet at all", "pages": in_pages}[damage]
    )
    storms, problems = storms_seen(tmp_path)
    assert storms == 1
    assert len(problems) == 1
    assert problems[0].startswith("storms/day=2026-03-02/bad.parquet could not be read to its end (")
    assert problems[0].endswith("what it holds is missing here.")


def test_a_file_without_a_column_is_reported(tmp_path: Path) -> None:
    write_table(tmp_path, "storms", [STORM])
    pq.write_table(
        pq.read_table(storm_file(tmp_path)).drop(["share"]), storm_file(tmp_path).with_name("other.parquet")
    )
    _, problems = storms_seen(tmp_path)
    assert problems == [
        "storms/day=2026-03-02/other.parquet has no column share: what it holds is missing here."
    ]


def test_a_file_that_goes_between_the_listing_and_the_reading_is_reported(tmp_path: Path) -> None:
    write_table(tmp_path, "storms", [STORM])
    (tmp_path / "storms" / "day=2026-03-02" / "gone.parquet").symlink_to(tmp_path / "nothing")
    storms, problems = storms_seen(tmp_path)
    assert (storms, len(problems)) == (1, 1)
    assert "No such file" in problems[0]


def test_of_many_damaged_files_some_are_named_and_the_others_counted(tmp_path: Path) -> None:
    write_table(tmp_path, "storms", [STORM])
    for each in range(PROBLEMS_MAX + 3):
        (tmp_path / "storms" / "day=2026-03-02" / f"bad-{each}.parquet").write_bytes(b"")
    assert storms_seen(tmp_path)[1][-1] == "3 more files could not be read."


@pytest.mark.parametrize("stored", ["int96", "naive", "milliseconds"])
def test_times_are_utc_however_they_were_stored(tmp_path: Path, stored: str) -> None:
    write_table(tmp_path, "storms", [STORM])
    file = storm_file(tmp_path)
    rows = pq.read_table(file)
    units = {
        "int96": pa.timestamp("ns"),
        "naive": pa.timestamp("us"),
        "milliseconds": pa.timestamp("ms", "UTC"),
    }
    for name in ("window_start", "window_end"):
        index = rows.column_names.index(name)
        rows = rows.set_column(
            index, name, rows.column(name).cast(pa.int64()).cast(pa.timestamp("us")).cast(units[stored])
        )
    pq.write_table(rows, file, use_deprecated_int96_timestamps=stored == "int96")
    assert make_report(tmp_path, Selection()).document["storms"]["window_start"] == [BEGIN_MS]


def test_only_days_of_the_selection_are_opened(tmp_path: Path) -> None:
    write_table(tmp_path, "storms", [STORM])
    other = tmp_path / "storms" / "day=2026-03-01"
    other.mkdir()
    (other / "bad.parquet").write_bytes(b"never looked at")
    assert storms_seen(tmp_path, Selection(from_ms=BEGIN_MS)) == (1, [])
    assert storms_seen(tmp_path, Selection(to_ms=BEGIN_MS + 1))[1] != []
    reader = TablesReader(tmp_path)
    assert reader.days("storms") == [date(2026, 3, 1), date(2026, 3, 2)]


def test_columns_that_are_read_are_declared_ones(
    tables: Path, sample: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: set[tuple[str, str]] = set()
    scan = TablesReader.scan

    def noting(self: TablesReader, table: str, columns: list[str], **more: Any) -> object:
        asked.update((table, column) for column in columns)
        return scan(self, table, columns, **more)

    monkeypatch.setattr(TablesReader, "scan", noting)
    make_report(tables, Selection())
    declared = {(table.name, column.name) for table in TABLES.values() for column in table.columns}
    assert asked - declared == set()
    assert {table for table, _ in asked} == set(TABLES) - {"log_ends"}


def test_a_page_that_cannot_be_written_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "page.html"
    out.write_text("the one before")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(ReportError, match="cannot be written: No space left on device"):
        write_page("the new one", out)
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    assert out.read_text() == "the one before"
    monkeypatch.undo()
    assert write_page("the new one", out) == 11
    assert out.read_text() == "the new one"
    assert out.stat().st_mode & 0o777 == 0o666 & ~page._umask()


def test_what_is_filled_in_is_not_filled_again_and_the_policy_names_scripts_by_their_hashes() -> None:
    assert filled("<h1>@@A@@</h1>@@B@@", {"A": "@@B@@", "B": "b"}) == "<h1>@@B@@</h1>b"
    # The hash of the empty text, as every book has it.
    assert "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='" in policy("")


def test_texts_are_kept_apart_by_all_their_characters_and_shown_cut() -> None:
    texts = Texts()
    long = "x" * NAME_MAX_CHARS
    positions = [texts.position(each) for each in (long + "a", long + "b", "short", "short", "", None, 7)]
    assert positions == [0, 1, 2, 2, 3, NO_TEXT, NO_TEXT]
    assert texts.shown[0] == f"{long}… (121 characters)"
    assert texts.shown[2:] == ["short", "(empty)"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\u202egnp.exe", "a\\u202egnp.exe"),
        ("line\nline\x00\x1b[31m", "line\\u000aline\\u0000\\u001b[31m"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("größe 漢字 🦆", "größe 漢字 🦆"),
        ("\udc80", "\\udc80"),
    ],
)
def test_invisible_characters_are_shown(text: str, shown: str) -> None:
    assert presentable(text, NAME_MAX_CHARS) == shown


def test_json_cannot_end_its_script_and_a_text_of_escapes_is_cut_shorter() -> None:
    assert b"<" not in as_json(["</script><!--", "<"])
    assert json.loads(as_json(["</script><!--"])) == ["</script><!--"]
    for hostile in ("<" * 50_000, "\x00" * 50_000, "\U000e0001" * 50_000, '"\\' * 50_000):
        assert len(as_json(presentable(hostile, NAME_MAX_CHARS))) < 5 * NAME_MAX_CHARS
    with pytest.raises(ValueError, match="not JSON compliant"):
        as_json(float("nan"))


def test_totals_are_the_same_however_often_they_are_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(totals, "COMPACT_ROWS", 3)
    found = Totals(["key"], {"size": "sum", ROWS: "sum", "most": "max"})
    for size in range(20):
        found.add(pa.table({"key": ["a", "b", None], "size": [size, 1, 1], "most": [size, None, 2]}))
    rows = found.result().set_index("key")
    assert rows.loc["a"].to_dict() == {"size": 190, ROWS: 20, "most": 19}
    assert rows.loc["b", ROWS] == 20
    assert not found.is_cut


def test_totals_beyond_their_bound_keep_the_largest_and_say_so() -> None:
    found = Totals(["key"], {"size": "sum"}, keys_max=3)
    found.add(pa.table({"key": list("abcdef"), "size": [1, 9, 2, 8, 7, 3]}))
    assert sorted(found.result()["key"]) == ["b", "d", "e"]
    assert found.is_cut


def test_the_foremost_are_so_many_of_each_key_and_in_all() -> None:
    found = TopRows("size", 4, "key", 2)
    for begin in range(0, 30, 3):
        found.add(pa.table({"key": ["a", "a", "b"], "size": [begin, begin + 1, None if begin else 100]}))
    assert [(row["key"], row["size"]) for row in found.result()] == [("b", 100), ("a", 28), ("a", 27)]
    assert found.row_count == 30
