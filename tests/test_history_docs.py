"""docs/history.md says what the code does: every field, every cause, the limits; and its example is a true one."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from coordinator.groups.causes import RENAMED_SLUGS, CauseKind
from coordinator.groups.classic.events import REMOVED_IDS_MAX
from coordinator.groups.classic.partition_counts import TOPICS_MAX
from coordinator.history.events import MAX_EVENTS, MAX_QUEUED, MAX_TEXT, SCHEMA, decode_event, encode_event
from coordinator.settings.model import Settings
from coordinator.telemetry.payload import KEPT
from muster.groups import history as group_history
from muster.groups.commands import NEWEST_EVENTS
from tests.test_history import EVENT

PAGE = (Path(__file__).parent.parent / "docs" / "history.md").read_text()


def table(heading: str) -> list[list[str]]:
    """The rows of the table under `heading`, without its head; code marks are taken off."""
    lines = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0].splitlines()
    rows = [
        [cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")
    ]
    assert set("".join(rows[1])) == {"-"}
    return rows[2:]


def example() -> bytes:
    match = re.search(r"\{\"schema\".*?\}\n\n", PAGE, re.DOTALL)
    assert match is not None
    return match[0].replace("\n     ", "").encode()


def test_every_field_is_on_the_page_in_the_order_of_the_json() -> None:
    written = json.loads(encode_event(EVENT)[1])
    assert [row[0] for row in table("An event")] == list(written)


def test_the_example_is_an_event_as_it_is_written() -> None:
    event = decode_event(example())
    assert json.loads(encode_event(event)[1]) == json.loads(example())


@pytest.mark.parametrize("row", table("An event"), ids=lambda row: row[0])
def test_every_field_has_the_type_that_the_page_says(row: list[str]) -> None:
    types = {
        "integer": int, "string": str, "object": dict, "array of strings": list, "null": type(None),
    }  # fmt: skip
    value = json.loads(example())[row[0]]
    assert isinstance(value, tuple(types[name] for name in row[1].split(" or ")))


def test_every_figure_of_a_client_is_on_the_page_with_its_metric() -> None:
    rows = table("What clients said of themselves")
    assert {name: metric for name, metric, _ in rows} == {
        "age_ms": "",
        **{figure: metric for metric, (figure, _) in KEPT.items()},
    }


def test_every_cause_is_on_the_page_with_the_text_of_its_reason() -> None:
    documented = {row[0]: row[1] for row in table("Causes")}
    dropped = CauseKind.EVENTS_DROPPED.slug
    assert documented.pop(dropped) == "", "its reason begins with a number"
    assert documented == {kind.slug: kind.text for kind in CauseKind if kind.slug != dropped}


def test_every_former_name_of_a_cause_is_on_the_page_and_none_is_in_use() -> None:
    assert dict(table("Former names of causes")) == RENAMED_SLUGS
    today = {kind.slug for kind in CauseKind}
    assert set(RENAMED_SLUGS.values()) <= today
    assert today.isdisjoint(RENAMED_SLUGS)


def test_the_numbers_on_the_page_are_those_of_the_code() -> None:
    settings = Settings()
    numbers = [
        f"| {SCHEMA} |",
        f"the first {REMOVED_IDS_MAX}.",
        f"At most {MAX_QUEUED:,} events wait",
        f"at most {MAX_EVENTS:,} in all groups",
        f"cut to {MAX_TEXT} characters",
        f"first {TOPICS_MAX} topics",
        f"({NEWEST_EVENTS:,} unless asked otherwise, at most {group_history.MAX_EVENTS:,})",
        f"`muster.history.events.per.group` ({settings.muster_history_events_per_group})",
        f"retention.ms` ({settings.muster_history_topic_retention_ms // 86_400_000} days)",
        f"retention.bytes` ({settings.muster_history_topic_retention_bytes >> 20} MiB)",
    ]
    text = " ".join(PAGE.split())
    assert [number for number in numbers if number not in text] == []
