"""Tables are walked as a JVM walks them: the orders were printed by OpenJDK 17 (tests/java/Orders.java)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coordinator.groups.consumer.java_order import (
    JavaTable,
    TimelineTable,
    capacity_for,
    int_hash,
    java_sorted,
    string_hash,
    uuid_hash,
)

ORDERS: list[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "oracle" / "orders.json").read_text())
HASHES: dict[str, Callable[[Any], int]] = {"string": string_hash, "int": int_hash, "uuid": uuid_hash}


def key_of(kind: str, text: str) -> Any:
    if kind == "int":
        return int(text)
    return bytes.fromhex(text) if kind == "uuid" else text


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: str(order["name"]))
def test_an_order(order: dict[str, Any]) -> None:
    """Each is a history of one table: what was put, made absent or removed, and its keys at the end."""
    kind = order["kind"]
    table: JavaTable[Any] = JavaTable(HASHES[kind], order["capacity"])
    for step in order["steps"]:
        what, key = step[0], key_of(kind, step[1:])
        if what == "+":
            table.put(key)
        elif what == "?":
            table.compute_if_absent(key)
        elif key in table:
            table.remove(key)
    assert list(table) == [key_of(kind, text) for text in order["keys"]]


@pytest.mark.parametrize(("asked", "capacity"), [(0, 1), (1, 1), (2, 2), (3, 4), (16, 16), (17, 32)])
def test_a_capacity_is_a_power_of_two(asked: int, capacity: int) -> None:
    assert capacity_for(asked) == capacity


def test_a_set_of_a_list_has_room_from_the_start() -> None:
    """16 for up to 11 keys, 32 from 12 on: numbers that are equal modulo 16 stay together, or do not."""
    assert list(JavaTable.of_list(int_hash, [17, 1])) == [17, 1]
    assert next(iter(JavaTable.of_list(int_hash, [17, 1, *range(40, 50)]))) == 1


def test_a_set_of_a_list_has_room_for_what_the_list_said() -> None:
    assert list(JavaTable.of_list(int_hash, [17, 1], 12)) == [1, 17]


def test_texts_are_sorted_by_their_utf_16_units() -> None:
    assert java_sorted(["b", "a", "B"]) == ["B", "a", "b"]
    assert java_sorted(["\uffee", "\U0001f600", "a"]) == ["a", "\U0001f600", "\uffee"]


def test_a_member_table_forgets_who_left() -> None:
    table = TimelineTable()
    for name in "abc":
        table.put(name)
    table.put("b")
    table.remove("a")
    assert sorted(table) == ["b", "c"]
    assert (len(table), "a" in table, "b" in table) == (2, False, True)
