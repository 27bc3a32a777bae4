"""What users type to say which groups, which offsets and what of it; and plans in CSV."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from muster.cluster import Cluster
from muster.groups import tables
from muster.groups.admin import GroupListing
from muster.groups.commands import Shown
from muster.groups.descriptions import GroupDescription, PartitionProgress
from muster.groups.offset_commands import copied, rows_of
from muster.groups.offset_csv import CsvError, parse_plan, plan_lines, read_plan
from muster.groups.offsets import Committed, Move
from muster.groups.reset_command import ResetMode, TargetSelection, TopicSelection
from muster.groups.selection import ListFilter, Several, is_of_consumers, matcher
from muster.groups.sights import Sight, sight_of
from muster.groups.tables import Section
from muster.groups.top_command import Order, Row, Screen, keys_in
from muster.groups.top_command import rows_of as top_rows_of
from muster.groups.top_command import table as top_table
from muster.log.rows import OffsetRow
from muster.sentences import visible
from muster.usage import UsageError
from protocol.topic_partition import TopicPartition

P0, P1, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("refunds", 0)


def listing(group_id: str, state: str = "Empty", kind: str = "classic", protocol: str = "") -> GroupListing:
    return GroupListing(group_id, state, protocol, kind, 1)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (ListFilter(), True),
        (ListFilter(state=["empty"]), True),
        (ListFilter(state=["Stable,EMPTY"]), True),
        (ListFilter(state=["Stable", "Dead"]), False),
        (ListFilter(type=["Classic"]), True),
        (ListFilter(type=["consumer"]), False),
        (ListFilter(match="bill.*"), True),
        (ListFilter(match="bill"), False),  # The whole id.
        (ListFilter(match="bill.*", state=["Stable"]), False),
    ],
)
def test_all_filters_of_a_list_have_to_let_a_group_through(given: ListFilter, expected: bool) -> None:
    assert given.wanted()(listing("billing")) is expected


def test_a_filter_that_lets_nothing_through_by_mistake_is_refused() -> None:
    wrong = {
        "--state 'Stabel' must be one of Empty": ListFilter(state=["Stabel"]),
        "--type 'old' must be one of Classic": ListFilter(type=["classic,old"]),
        r"--match a\(: missing closing \)": ListFilter(match="a("),
    }
    for sentence, given in wrong.items():
        with pytest.raises(UsageError, match=sentence):
            given.wanted()


def test_an_expression_sees_ids_of_any_script_as_they_are() -> None:
    matches = matcher(r"\p{Cyrillic}+|\.\.|a/b")
    assert [matches(each) for each in ("группа", "..", "a/b", "a", "группа\u202e")] == [
        True,
        True,
        True,
        False,
        False,
    ]


def test_groups_are_said_in_exactly_one_way() -> None:
    for named, several in (
        ((), Several()),
        (("g",), Several(match="g")),
        (("g",), Several(all_groups=True)),
        ((), Several(match="g", all_groups=True)),
    ):
        with pytest.raises(UsageError, match="name groups, or give either --match or --all-groups"):
            several.check(named)


async def test_named_groups_are_taken_as_they_are_each_once() -> None:
    nobody = cast(Cluster, SimpleNamespace())  # Nothing is asked of it.
    assert await Several().chosen(nobody, ("b", "a", "b")) == ["b", "a"]


def test_groups_of_consumers_are_those_that_kafkas_tool_would_show() -> None:
    kinds = {"consumer": "classic", "": "classic", "connect": "classic", "share": "share"}
    found = [name for name, kind in kinds.items() if is_of_consumers(listing("g", "Stable", kind, name))]
    assert found == ["consumer", ""]


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (Shown(), frozenset(Section)),
        (Shown(state=True), {Section.STATE}),
        (Shown(members=True, offsets=True), {Section.MEMBERS, Section.OFFSETS}),
        (Shown(section=["state,offsets"]), {Section.STATE, Section.OFFSETS}),
        (Shown(section=["state"], members=True), {Section.STATE, Section.MEMBERS}),
    ],
)
def test_sections_are_named_by_flags_or_in_a_list(shown: Shown, expected: frozenset[Section]) -> None:
    assert shown.sections() == expected


def test_a_reset_with_a_plan_takes_no_topics_and_one_without_needs_them() -> None:
    TopicSelection(all_topics=True).check(has_plan=True)
    TopicSelection().check(has_plan=True)
    with pytest.raises(UsageError, match="--topic is one too many"):
        TopicSelection(topic=["t"]).check(has_plan=True)
    with pytest.raises(UsageError, match="give either --topic or --all-topics"):
        TopicSelection().check(has_plan=False)
    with pytest.raises(UsageError, match="--export or --json"):
        ResetMode(export=True, as_json=True).check()


# Plans.

MOVES = {"g": [Move("orders", 0, 4, 7), Move("a b", 1, None, 0)], 'q"x': [Move("t" * 25, 0, 1, 2)]}


def test_a_plan_is_quoted_as_by_kafkas_tool() -> None:
    """Compared with the tool itself in tests/clients/test_tool_parity.py; here the odd ones."""
    assert plan_lines({"g": MOVES["g"]}, names_groups=False) == ["orders,0,7", '"a b",1,0']
    assert plan_lines(MOVES, names_groups=True) == [
        "g,orders,0,7",
        'g,"a b",1,0',
        f'"q""x","{"t" * 25}",0,2',
    ]
    assert plan_lines({"": [Move("t" * 24, 0, 1, 2)]}, names_groups=True) == [f'"",{"t" * 24},0,2']


def test_a_plan_comes_back_as_it_was_written() -> None:
    odd = {
        'a "b",c..\n\u202e\u05d0': [Move("orders", 0, None, 2**63 - 1)],
        "a/b": [Move("x", 2**31 - 1, 1, 0)],
    }
    text = "\n".join(plan_lines(odd, names_groups=True))
    assert parse_plan(text) == {
        'a "b",c..\n\u202e\u05d0': {P0: 2**63 - 1},
        "a/b": {TopicPartition("x", 2**31 - 1): 0},
    }


def test_a_plan_may_name_no_group_and_the_later_line_counts() -> None:
    assert parse_plan("orders,0,1\r\n\r\norders, 0,5\n") == {None: {P0: 5}}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("orders,0", "line 1: [GROUP,]TOPIC,PARTITION,OFFSET is wanted"),
        (
            "orders,0,1\norders,-1,1",
            "line 2: the partition must be a whole number from 0 to 2147483647, not '-1'",
        ),
        ("orders,0,x", "line 1: the offset must be"),
        (f"orders,0,{2**63}", "line 1: the offset must be"),
        ("orders,²,1", "line 1: the partition must be"),
        ('"orders,0,1', "line 1: unexpected end of data"),
        ("a,b,c,0,1", "line 1: [GROUP,]TOPIC"),
    ],
)
def test_a_line_that_is_no_plan_is_named(text: str, sentence: str) -> None:
    with pytest.raises(CsvError) as wrong:
        parse_plan(text)
    assert str(wrong.value).startswith(sentence)


def test_a_file_that_is_no_plan_is_named(tmp_path: Path) -> None:
    file = tmp_path / "plan.csv"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(CsvError, match=f"{file} is no UTF-8"):
        read_plan(file)
    with pytest.raises(CsvError, match="cannot read"):
        read_plan(tmp_path / "absent.csv")
    with pytest.raises(UsageError, match="--from-file cannot read"):
        TargetSelection(from_file=tmp_path / "absent.jsonl").plan()


def test_rows_of_an_export_are_a_plan_too(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"group":"g","topic":"orders","partition":0,"offset":4}\n')
    assert TargetSelection(from_file=file).plan() == {"g": {P0: 4}}


# Copies.

OFFSETS = {P0: Committed(4, 2, "note"), P1: Committed(5), OTHER: Committed(6)}


def test_a_copy_brings_topics_that_the_group_knows_unless_it_is_new_or_told_to() -> None:
    known = {P0: Committed(1)}
    assert copied(OFFSETS, known, new_topics=False) == {P0: OFFSETS[P0], P1: OFFSETS[P1]}
    assert copied(OFFSETS, known, new_topics=True) == OFFSETS
    assert copied(OFFSETS, {}, new_topics=False) == OFFSETS


def test_rows_have_what_a_cluster_knows() -> None:
    assert rows_of("g", OFFSETS)[:2] == [
        OffsetRow("g", "orders", 0, 4, 2, "note"),
        OffsetRow("g", "orders", 1, 5, None, ""),
    ]


# What is shown.


def test_what_a_terminal_would_obey_is_shown_as_an_escape() -> None:
    assert visible("billing") == "billing"
    assert visible("группа שלום 課金") == "группа שלום 課金"
    assert visible("a\u202eb\x1b[2J\nc\u200d\u2028") == r"a\u202eb\x1b[2J\nc\u200d\u2028"


def test_a_row_of_an_odd_id_is_one_row(capsys: pytest.CaptureFixture[str]) -> None:
    tables.show(tables.list_table([listing("a\n\u202eb[red]")]))
    _, row = capsys.readouterr().out.splitlines()
    assert row.startswith(r"a\n\u202eb[red]")


# The keys of `top`.


def top_row(group_id: str, lag: int = 0, **more: Any) -> Row:
    return Row(Sight(group_id, 0, **{"state": "Stable", "lag": lag, **more}), None)


def test_a_commit_beyond_the_end_is_seen_in_top_and_hides_no_lag_of_others() -> None:
    rows = tuple(PartitionProgress("t", n, committed, 8, None) for n, committed in enumerate((100, 5)))
    group = GroupDescription("g", "classic", "Empty", "", "", None, None, 1, "", (), rows)
    sight = sight_of(group, 0)
    assert (sight.lag, sight.beyond_end, sight.unmeasured) == (3, 1, 0)
    shown = [str(column.header) for column in top_table([Row(sight, None)]).columns]
    assert shown[-1] == "beyond end"
    assert "beyond end" not in [str(column.header) for column in top_table([top_row("a", 3)]).columns]


def keyed(*keys: str) -> Screen:
    screen = Screen()
    for key in keys:
        screen = screen.after(key)
    return screen


def test_rows_come_in_the_order_that_was_chosen_and_searched_for() -> None:
    rows = [top_row("b", 3), top_row("a", 9, members=(("x", "x-1"),)), top_row("c", 3)]
    assert [row.sight.group_id for row in Screen().shown(rows)] == ["a", "b", "c"]
    assert [row.sight.group_id for row in keyed("s", "s", "s", "s").shown(rows)] == ["a", "b", "c"]
    assert [row.sight.group_id for row in keyed("/", "b", "\r").shown(rows)] == ["b"]
    assert keyed("s").order is Order.GROWTH
    assert keyed(*"s" * len(Order)).order is Order.LAG


def test_keys_of_a_search_are_letters_until_it_ends() -> None:
    assert keyed("/", "q", "s") == Screen(typed="qs")
    assert keyed("/", "q", "\x7f", "\r") == Screen()
    assert keyed("/", "q", "\x1b") == Screen()


def test_q_leaves_a_description_first_and_then_the_table() -> None:
    assert keyed("\r").is_described
    assert keyed("\r", "q") == Screen()
    assert keyed("\r", "q", "q").is_over
    assert keyed("\r", "\x03").is_over
    assert keyed("\x1b[B", "j", "k") == Screen(chosen=1)
    assert keyed("\x1b[A", "x") == Screen()


def test_what_is_pasted_is_key_by_key() -> None:
    assert keys_in("/a\x1b[B\r") == ["/", "a", "\x1b[B", "\r"]
    assert keys_in("\x1b") == ["\x1b"]


def test_lag_grows_by_the_second_where_the_same_partitions_are_measured() -> None:
    before = {"g": Sight("g", 1_000, lag=10, partitions=2)}
    later = Sight("g", 3_000, lag=16, partitions=2)
    assert [row.growth for row in top_rows_of(before, {"g": later})] == [3.0]
    assert [row.growth for row in top_rows_of({}, {"g": later})] == [None]
    grown = Sight("g", 3_000, lag=16, partitions=3)
    assert [row.growth for row in top_rows_of(before, {"g": grown})] == [None]
