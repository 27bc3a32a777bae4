"""Pages of many things, JSON in parts, and the parameters of a query."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.http.exchange import HttpProblem, Question, split_target
from coordinator.http.pages import LOOKED_AT_ONCE, Page, sort_of
from coordinator.http.parts import ITEMS_AT_ONCE, encoded, in_parts


def pages_of(keys: list[tuple[int, str]], limit: int, *, is_descending: bool) -> list[list[Any]]:
    """All pages, one after the other."""
    found: list[list[Any]] = []
    cursor: str | None = ""
    while cursor is not None:
        page = Page(Question({"limit": str(limit), "after": cursor}), "n", is_descending=is_descending)
        list(page.fill((key, key) for key in keys))
        found.append(page.things)
        cursor = page.cursor
        assert len(found) <= len(keys) + 1, "there is no end"
    return found


@given(
    st.lists(st.tuples(st.integers(-5, 5), st.text(max_size=3)), unique=True),
    st.integers(1, 7),
    st.booleans(),
)
def test_the_pages_of_a_list_are_all_of_it_in_order(
    keys: list[tuple[int, str]], limit: int, is_descending: bool
) -> None:
    found = pages_of(keys, limit, is_descending=is_descending)
    assert [key for page in found for key in page] == sorted(keys, reverse=is_descending)
    assert all(len(page) == limit for page in found[:-1])


def test_a_page_is_found_in_slices_and_keeps_no_more_than_a_page() -> None:
    page = Page(Question({"limit": "5"}), "n", is_descending=True)
    slices = 0
    for _ in page.fill(((number,), number) for number in range(100 * LOOKED_AT_ONCE)):
        slices += 1
        assert len(page._best) <= 6
    assert slices == 100
    assert page.things == [9_999, 9_998, 9_997, 9_996, 9_995]
    assert page.matched == 100 * LOOKED_AT_ONCE


@pytest.mark.parametrize(
    "cursor", ["x", "W10", "bnVsbA", "eyJhIjoxfQ", "WyItbiIsMV0", "\u00e9", "A" * 100_000]
)
def test_a_cursor_that_is_none_of_this_list_is_refused(cursor: str) -> None:
    with pytest.raises(HttpProblem) as refused:
        Page(Question({"after": cursor}), "n", is_descending=False)
    assert refused.value.status == 400


def test_a_cursor_of_other_types_is_refused() -> None:
    page = Page(Question({"after": "WyJuIiwidGV4dCJd"}), "n", is_descending=False)  # ["n", "text"]
    with pytest.raises(HttpProblem):
        list(page.fill([((1,), 1)]))


@pytest.mark.parametrize("limit", ["0", "1001", "-1", "x", "", "1.0", "1_0", "\u0661", "9" * 5_000])
def test_a_limit_that_is_none_is_refused(limit: str) -> None:
    with pytest.raises(HttpProblem) as refused:
        Page(Question({"limit": limit}), "n", is_descending=False)
    assert refused.value.status == 400
    assert "from 1 to 1000" in refused.value.detail


def test_what_to_sort_by_is_one_of_the_known_words() -> None:
    assert sort_of(Question({}), ("lag", "group"), "-lag") == ("lag", True)
    assert sort_of(Question({"sort": "group"}), ("lag", "group"), "-lag") == ("group", False)
    for wrong in ("", "-", "--lag", "Lag"):
        with pytest.raises(HttpProblem):
            sort_of(Question({"sort": wrong}), ("lag", "group"), "-lag")


@pytest.mark.parametrize("count", [0, 1, ITEMS_AT_ONCE, ITEMS_AT_ONCE + 1, 5 * ITEMS_AT_ONCE])
def test_json_in_parts_is_the_same_json(count: int) -> None:
    parts = list(in_parts({"a": 1, "items": iter(range(count)), "b": {"c": [2]}, "none": iter([None, None])}))
    assert json.loads(b"".join(parts)) == {"a": 1, "items": list(range(count)), "b": {"c": [2]}, "none": []}


def test_json_in_parts_makes_few_items_at_a_time() -> None:
    made: list[int] = []

    def items() -> Iterator[int]:
        for number in range(10 * ITEMS_AT_ONCE):
            made.append(number)
            yield number

    counts = []
    for _ in in_parts({"items": items()}):
        counts.append(len(made))
    assert max(after - before for before, after in zip([0, *counts], counts, strict=False)) <= ITEMS_AT_ONCE


def test_pauses_among_the_items_leave_no_comma_behind() -> None:
    items = [None] * ITEMS_AT_ONCE + [1] + [None] * (2 * ITEMS_AT_ONCE) + [2, None]
    assert json.loads(b"".join(in_parts({"items": iter(items)}))) == {"items": [1, 2]}
    assert b"".join(in_parts({})) == b"{}"


def test_json_is_ascii_whatever_a_client_is_called() -> None:
    value = "\u202e\ud800<script>\u2028"
    assert encoded(value).isascii()
    assert json.loads(encoded(value)) == value


@pytest.mark.parametrize(
    ("target", "query"),
    [
        (b"/p", {}),
        (b"/p?", {}),
        (b"/p?id=", {"id": ""}),
        (b"/p?id", {"id": ""}),
        (b"/p?id=..&q=a%2Fb", {"id": "..", "q": "a/b"}),
        (b"/p?id=a+b%2B%26%3D%3F", {"id": "a b+&=?"}),
        (b"/p?id=%E2%80%AE%D9%85", {"id": "\u202e\u0645"}),
        (b"/p?id=%00%zz", {"id": "\x00%zz"}),
    ],
)
def test_a_query_is_any_text(target: bytes, query: dict[str, str]) -> None:
    assert split_target(target) == ("/p", query)


@pytest.mark.parametrize("target", [b"/p?id=%ff", b"/p?id=\xe9", b"/p?a=1&a=2", b"http://evil/p", b"*", b""])
def test_a_target_that_is_no_path_or_no_utf8_is_refused(target: bytes) -> None:
    with pytest.raises(HttpProblem) as refused:
        split_target(target)
    assert refused.value.status == 400


def test_a_path_is_never_decoded_nor_resolved() -> None:
    assert split_target(b"/api/%76%31/../livez")[0] == "/api/%76%31/../livez"
