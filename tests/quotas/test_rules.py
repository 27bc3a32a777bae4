"""Which quota holds for a client, and who shares it (Q5, Q6)."""

from __future__ import annotations

import itertools

import pytest

from coordinator.quotas.entities import Entity, entity_of
from coordinator.quotas.rules import Rules

ORDER = (
    {"user": "u", "client-id": "c"},
    {"user": "u", "client-id": None},
    {"user": "u"},
    {"user": None, "client-id": "c"},
    {"user": None, "client-id": None},
    {"user": None},
    {"client-id": "c"},
    {"client-id": None},
)
"""The rules that concern user u with client id c: the first that is set holds."""

BUCKETS = (("u", "c"), ("u", "c"), ("u", ""), ("u", "c"), ("u", "c"), ("u", ""), ("", "c"), ("", "c"))


def entities() -> list[Entity]:
    return [entity_of(parts.items()) for parts in ORDER]


@pytest.mark.parametrize("among", itertools.product((False, True), repeat=len(ORDER)))
def test_the_first_rule_that_is_set_holds(among: tuple[bool, ...]) -> None:
    """All 256 sets of rules."""
    rules = Rules()
    for place, entity in itertools.compress(enumerate(entities()), among):
        rules.set(entity, place + 1.0)
    first = next(itertools.compress(itertools.count(), among), None)
    assert rules.find("u", "c") == (None if first is None else (BUCKETS[first], first + 1.0))
    assert bool(rules) is any(among)


def test_rules_of_others_do_not_concern_a_client() -> None:
    rules = Rules()
    rules.set(entity_of([("user", "v")]), 1.0)
    rules.set(entity_of([("user", "v"), ("client-id", "c")]), 1.0)
    rules.set(entity_of([("client-id", "d")]), 1.0)
    assert rules.find("u", "c") is None
    assert rules.find("v", "x") == (("v", ""), 1.0)
    assert rules.find("x", "d") == (("", "d"), 1.0)


def test_a_pair_with_an_empty_client_id_goes_by_the_rule_of_its_user() -> None:
    """As in Kafka: there is no bucket for a pair without a client id, and no default for ids that are empty."""
    rules = Rules()
    rules.set(entity_of([("user", "u"), ("client-id", None)]), 1.0)
    rules.set(entity_of([("client-id", None)]), 2.0)
    assert rules.find("u", "") is None
    assert rules.find("v", "") is None
    rules.set(entity_of([("user", None)]), 3.0)
    assert rules.find("u", "") == (("u", ""), 3.0)


def test_a_rule_that_is_removed_leaves_the_next() -> None:
    rules = Rules()
    rules.set(entity_of([("user", "u")]), 1.0)
    rules.set(entity_of([("user", None)]), 2.0)
    rules.set(entity_of([("user", "u")]), None)
    assert rules.find("u", "c") == (("u", ""), 2.0)
    rules.set(entity_of([("user", None)]), None)
    assert not rules
