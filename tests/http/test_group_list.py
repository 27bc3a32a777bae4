"""The list of groups: by which figures it is sorted, and that one which is not known comes last."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coordinator.groups.classic.group import Group
from coordinator.http.exchange import HttpProblem, Question
from coordinator.http.group_list import GroupList
from coordinator.metrics.figures import GroupFigures, LagFigures
from coordinator.metrics.metrics import Metrics
from coordinator.runtime.loop import Runtime

FIGURES = {
    "a": GroupFigures(
        "a", LagFigures(5, 2.5), {"member_left": 1}, {"join": 9, "sync": 1}, 1, "x", 0, 0.9, {}
    ),
    "b": GroupFigures("b", LagFigures(7, 0.5), {"x": 1, "y": 2}, {"join": 1, "sync": 1}, 1, "x", 0, 0.1, {}),
    "c": GroupFigures("c", LagFigures(), {}, {"join": 0, "sync": 0}, None, None, 0, None, {}),
}
STATES = "Empty, PreparingRebalance, CompletingRebalance, Stable, Dead, Assigning, Reconciling"


def listed(**query: str) -> list[str]:
    """The ids on a page, in their order."""
    shard = SimpleNamespace(groups={each: Group(each) for each in FIGURES}, consumer_groups={})
    runtime = SimpleNamespace(runners=[SimpleNamespace(shard=shard)])
    metrics = SimpleNamespace(
        figures=FIGURES.get,
        lag_records=lambda group: FIGURES[group].lag.records,
        lag_seconds=lambda group: FIGURES[group].lag.seconds,
        rebalance_count=lambda group: sum(FIGURES[group].rebalances.values()),
        lost_ms=lambda group: sum(FIGURES[group].lost_ms.values()),
        margin=lambda group: FIGURES[group].margin,
    )
    groups = GroupList(cast(Runtime, runtime), cast(Metrics, metrics))
    parts: Any = groups.answer(Question(query))
    page = json.loads(b"".join(part for part in parts if part))
    rest = listed(**query | {"after": page["next"]}) if page["next"] else []
    return [each["group"] for each in page["groups"]] + rest


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        *(("lag", "abc"), ("-lag", "bac"), ("lag_seconds", "bac"), ("-lag_seconds", "abc")),
        *(("rebalances", "cab"), ("-rebalances", "bac"), ("lost_ms", "cba"), ("-lost_ms", "abc")),
        *(("margin", "bac"), ("-margin", "abc"), ("group", "abc"), ("-group", "cba")),
    ],
)
def test_groups_are_sorted_by_any_of_their_figures(sort: str, order: str) -> None:
    assert "".join(listed(sort=sort)) == order
    assert "".join(listed(sort=sort, limit="1")) == order


@pytest.mark.parametrize(
    ("state", "type_", "found"),
    [
        *(("Empty", "", "abc"), ("Stable, EMPTY", "", "abc"), ("Stable", "", ""), ("Assigning", "", "")),
        *(("", "classic", "abc"), ("", "Consumer", ""), (",", " ,", "abc"), ("Dead", "classic", "")),
    ],
)
def test_groups_are_found_by_their_states_and_types(state: str, type_: str, found: str) -> None:
    assert "".join(listed(state=state, type=type_)) == found


@pytest.mark.parametrize(
    ("name", "wrong", "known"),
    [
        *(("state", wrong, STATES) for wrong in ("Bogus", "Stable,Bogus", "Stable;Empty", "Unknown")),
        *(("type", wrong, "classic, consumer") for wrong in ("bogus", "share", "classic consumer")),
    ],
)
def test_a_state_or_a_type_that_there_is_not_is_refused_with_the_names_of_all(
    name: str, wrong: str, known: str
) -> None:
    """An empty list would read as if all were well."""
    with pytest.raises(HttpProblem) as refused:
        listed(**{name: wrong})
    assert refused.value.status == 400
    assert refused.value.detail == f"The parameter {name} must be one or several of {known}."


def test_a_figure_that_is_none_is_refused_with_the_names_of_all() -> None:
    with pytest.raises(HttpProblem) as refused:
        listed(sort="last_cause")
    assert refused.value.status == 400
    assert "lag, lag_seconds, rebalances, lost_ms, margin" in refused.value.detail
