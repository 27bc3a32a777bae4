"""docs/apis.md names every API of the data plane's administration that is served, and none that is not."""

from __future__ import annotations

import re
from pathlib import Path

from coordinator.topics.dynamic_settings import CHANGEABLE
from protocol.messages import REQUESTS

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "apis.md").read_text()
ROW = re.compile(r"^\| (\d+) \| (\w+) \|", re.MULTILINE)
OF_GROUPS = {8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 42, 47}
ADMINISTRATION = (2, 3, *range(19, 22), 23, *range(29, 38), *range(43, 51), 60, 74, 75)


def test_every_api_of_topics_administration_has_a_row() -> None:
    rows = {int(key): name for key, name in ROW.findall(PAGE)}
    served = {key: cls.__name__.removesuffix("Request") for key, cls in REQUESTS.items()}
    assert rows == {key: served[key] for key in ADMINISTRATION if key in served.keys() - OF_GROUPS}


def test_the_settings_that_can_be_changed_are_named() -> None:
    def is_named(name: str) -> bool:
        return f"`{name}`" in PAGE or any(
            f"`{family}*`" in PAGE and name.startswith(family)
            for family in ("log.message.timestamp.", "log.cleaner.")
        )

    assert [name for name in CHANGEABLE if not is_named(name)] == []
