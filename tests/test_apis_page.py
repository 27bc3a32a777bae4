"""docs/apis.md names every API that is served, and none that is not."""

from __future__ import annotations

import re
from pathlib import Path

from coordinator.topics.dynamic_kinds import CHANGEABLE
from coordinator.topics.settings import TopicSettings
from protocol.messages import REQUESTS

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "apis.md").read_text()
ROW = re.compile(r"^\| (\d+) \| (\w+) \|", re.MULTILINE)


FAMILIES = ("log.message.timestamp.", "log.cleaner.", "remote.", "group.", "share.", "compression.", "sasl.")
"""Of settings that the page names as one."""


def test_every_api_has_a_row() -> None:
    rows = {int(key): name for key, name in ROW.findall(PAGE)}
    assert rows == {key: cls.__name__.removesuffix("Request") for key, cls in REQUESTS.items()}


def test_the_bound_on_partitions_is_the_one_in_force() -> None:
    assert f"All topics together may have {TopicSettings().max_partitions:,} partitions" in PAGE


def test_the_settings_that_can_be_changed_are_named() -> None:
    def is_named(name: str) -> bool:
        return f"`{name}`" in PAGE or any(
            f"`{family}*`" in PAGE and name.startswith(family) for family in FAMILIES
        )

    assert [name for name in CHANGEABLE if not is_named(name)] == []
