"""Offsets in files: both formats say the same, and what is wrong in one is reported with its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from muster.log import rows as rows_module
from muster.log.places import LogToolError
from muster.log.rows import MAX_INT64, OffsetRow, read_rows, write_rows

ROWS = [
    OffsetRow("g", "t", 0, 5),
    OffsetRow(
        "группа", "t.t", 2**31 - 1, MAX_INT64, 7, "note\n😀", 1, 2, "AAAAAAAAAAAAAAAAAAAAAA", "consumer", 3, 0
    ),
    OffsetRow("", "t", 1, 0, None, "", -1),
]


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.parquet"])
def test_what_is_written_is_read_again(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    assert write_rows(path, iter(ROWS)) == len(ROWS)
    assert list(read_rows(path)) == ROWS
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def test_a_file_gets_its_name_when_it_is_whole(tmp_path: Path) -> None:
    def broken() -> Any:
        yield ROWS[0]
        raise LogToolError("the log cannot be read")

    for name in ("rows.jsonl", "rows.parquet"):
        with pytest.raises(LogToolError):
            write_rows(tmp_path / name, broken())
        assert not (tmp_path / name).exists()


def test_lines_by_others_need_no_more_than_what_is_imported(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"group": "g", "topic": "t", "partition": 0, "offset": 5, "comment": 1}\n\n')
    assert list(read_rows(path)) == [OffsetRow("g", "t", 0, 5)]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"group": None}, "group is missing"),
        ({"topic": 5}, "topic must be a text, not 5"),
        ({"partition": -1}, "partition must be a whole number from 0, not -1"),
        ({"partition": 2**31}, "partition must be a whole number"),
        ({"offset": "7"}, "offset must be a whole number from 0, not '7'"),
        ({"offset": True}, "offset must be a whole number"),
        ({"offset": 2**63}, "offset must be a whole number"),
        ({"leader_epoch": 1.5}, "leader_epoch must be a whole number from -1, not 1.5"),
    ],
)
def test_a_row_that_is_wrong_is_reported_by_its_line(
    change: dict[str, Any], complaint: str, tmp_path: Path
) -> None:
    path = tmp_path / "rows.jsonl"
    good = {"group": "g", "topic": "t", "partition": 0, "offset": 5}
    path.write_text(json.dumps(good) + "\n" + json.dumps(good | change) + "\n")
    with pytest.raises(LogToolError) as raised:
        list(read_rows(path))
    assert str(raised.value).startswith(f"{path}, line 2: {complaint}")


@pytest.mark.parametrize(
    ("name", "content"), [("a.jsonl", b"{"), ("a.jsonl", b"\xff\xff"), ("a.parquet", b"PAR")]
)
def test_a_file_of_another_kind_is_refused(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(LogToolError):
        list(read_rows(tmp_path / name))
    with pytest.raises(LogToolError, match="cannot read"):
        list(read_rows(tmp_path / f"missing-{name}"))


def test_without_pyarrow_the_way_to_get_it_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(rows_module, "import_module", missing)
    with pytest.raises(LogToolError, match=r"Parquet needs pyarrow .* pip install 'muster\[spark\]'"):
        write_rows(tmp_path / "rows.parquet", ROWS)
    assert write_rows(tmp_path / "rows.jsonl", ROWS) == len(ROWS)
