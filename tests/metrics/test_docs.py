"""docs/metrics.md, the board and the alert rules: all that they name is exported, and the page has all that is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from coordinator.metrics.families import ALL
from coordinator.metrics.rebalance_counts import PHASES
from coordinator.runtime.shard_states import ShardState
from protocol.errors import ErrorCode

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
BOARD: Final = DOCS / "grafana" / "muster.json"
RULES: Final = DOCS / "grafana" / "alerts.yml"

_NAME: Final = re.compile(r"\b(?:muster|kafka|kminion)_[a-z0-9_]+")
_SELECTOR: Final = re.compile(r"\b(muster_[a-z0-9_]+)\{([^}]*)\}")
_GROUPING: Final = re.compile(r"\bby \(([^)]*)\)")
_ROW: Final = re.compile(r"^\| `([a-z0-9_]+)` \| (\w+) \| ([^|]*) \| ([^|]*) \|", re.MULTILINE)


def sample_names() -> set[str]:
    """The names of all samples: a histogram has three."""
    parts = ("_bucket", "_sum", "_count")
    return {
        f"{family.name}{part}"
        for family in ALL.values()
        for part in (parts if family.kind == "histogram" else ("",))
    }


def labels_of(name: str) -> set[str]:
    """The labels of a sample."""
    family = ALL.get(name) or ALL[name.rpartition("_")[0]]
    return {*family.labels, *(("le",) if family.kind == "histogram" else ())}


def expressions() -> dict[str, str]:
    """Every query of the board and the rules, by where it stands."""
    board = json.loads(BOARD.read_text())
    found = {f"{panel['title']}, {target['refId']}": target["expr"] for panel, target in _targets(board)}
    for each in board["templating"]["list"]:
        if each["type"] == "query":
            found[f"variable {each['name']}"] = each["query"]
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        found |= {rule["alert"]: rule["expr"] for rule in group["rules"]}
    return found


def _targets(board: Any) -> Iterator[tuple[Any, Any]]:
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            yield panel, target


@pytest.mark.parametrize("where", expressions())
def test_a_query_asks_only_for_what_is_exported(where: str) -> None:
    asked = expressions()[where]
    names = set(_NAME.findall(asked))
    assert names
    assert names <= sample_names()
    labels = set.union(*map(labels_of, names))
    for name, selector in _SELECTOR.findall(asked):
        assert {each.partition("=")[0].rstrip("!~") for each in selector.split(",")} <= labels_of(name)
    for grouping in _GROUPING.findall(asked):
        assert {each.strip() for each in grouping.split(",")} <= labels


def test_the_board_shows_every_metric_of_the_daemon_and_of_groups() -> None:
    """Those of partitions, and those under other names, are for boards that are there already."""
    shown = {name for asked in expressions().values() for name in _NAME.findall(asked)}
    families = {each for each in ALL if shown & {each, f"{each}_bucket", f"{each}_sum", f"{each}_count"}}
    assert {
        each for each in ALL if each.startswith("muster_") and "_partition_" not in each
    } - families == set()


def test_values_of_labels_in_queries_are_ones_that_there_are() -> None:
    text = " ".join(expressions().values())
    states = set("|".join(re.findall(r'state=~"([a-z|]+)"', text)).split("|"))
    assert states <= {each.name.lower() for each in ShardState}
    errors = set("|".join(re.findall(r'error=~"([A-Z_|]+)"', text)).split("|"))
    assert errors <= {each.name for each in ErrorCode}
    assert set(re.findall(r'phase="(\w+)"', text)) <= set(PHASES)


def test_every_alert_says_what_is_wrong_and_how_bad_it_is() -> None:
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        for rule in group["rules"]:
            assert rule["labels"]["severity"] in ("warning", "critical"), rule
            assert rule["annotations"]["summary"], rule


def test_the_page_has_every_metric_as_it_is_exported_and_no_other() -> None:
    rows = {row[0]: row for row in _ROW.findall((DOCS / "metrics.md").read_text())}
    assert rows.keys() == ALL.keys()
    for name, family in ALL.items():
        labels = ", ".join(f"`{label}`" for label in family.labels)
        assert rows[name] == (name, family.kind, labels, family.about.rstrip()), name


def test_the_page_names_no_metric_that_there_is_not() -> None:
    text = (DOCS / "metrics.md").read_text()
    named = {name for name in _NAME.findall(text) if not name.endswith("_")}
    assert named - {"kafka_exporter", "muster_metrics"} <= sample_names() | ALL.keys()
