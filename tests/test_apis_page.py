"""docs/apis.md names every API that is served, and none that is not."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from dataclasses import fields, replace
from pathlib import Path

import pytest

from coordinator.settings.model import OPTIONS, option_name
from coordinator.topics.config_values import InvalidConfig
from coordinator.topics.dynamic_kinds import CHANGEABLE
from coordinator.topics.settings import TopicSettings
from coordinator.topics.topic_config import TOPIC_KEYS, TopicKey, topic_config
from protocol.messages import REQUESTS
from tests.conformance.served import LATER

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "apis.md").read_text()
ROW = re.compile(r"^\| (\d+) \| (\w+) \|", re.MULTILINE)


NAME = re.compile(r"`([a-z0-9.]+\.(?:[a-z]+|\*))`|`(preallocate)`")
WITHOUT_EFFECT = {"min.insync.replicas", "log.segment.delete.delay.ms"}
"""The data plane has them to be shown: there is one replica, and a deleted file goes at once."""


def listed(section: str) -> list[str]:
    """The names of settings between the marks of a section, a family of them as `family.*`."""
    begin, end = PAGE.index(f"<!-- {section}: begin -->"), PAGE.index(f"<!-- {section}: end -->")
    return [full or word for full, word in NAME.findall(PAGE[begin:end])]


def of_section(section: str, known: Iterable[str]) -> set[str]:
    """The settings that a section names, each of them `known`."""
    found: set[str] = set()
    for name in listed(section):
        matching = fnmatch.filter(known, name)
        assert matching, f"{name} is not a setting"
        found.update(matching)
    return found


def test_every_api_has_a_row() -> None:
    rows = {int(key): name for key, name in ROW.findall(PAGE)}
    assert rows == {key: cls.__name__.removesuffix("Request") for key, cls in REQUESTS.items()}


def test_the_keys_that_are_not_served_are_those_that_a_running_node_has_beside() -> None:
    """Conformance holds LATER to be all of them."""
    (sentence,) = re.findall(
        r"The only keys of Kafka's table that are not served: (.*?)\n\n", PAGE, re.DOTALL
    )
    named: set[int] = set()
    for first, last in re.findall(r"(\d+)(?: to\s(\d+))?", sentence):
        named.update(range(int(first), int(last or first) + 1))
    assert named == LATER
    assert not named & REQUESTS.keys()


def test_the_bound_on_partitions_is_the_one_in_force() -> None:
    assert f"All topics together may have {TopicSettings().max_partitions:,} partitions" in PAGE


def test_of_every_setting_of_the_broker_it_is_said_whether_it_has_an_effect() -> None:
    """What has one is a value that the data plane goes by, and counts in a properties file as well."""
    in_force = {
        option_name(field.name) for field in fields(TopicSettings)
    } & CHANGEABLE.keys() - WITHOUT_EFFECT
    assert of_section("broker, in force", CHANGEABLE) == in_force
    assert of_section("broker, shown", CHANGEABLE) == CHANGEABLE.keys() - in_force
    assert in_force <= OPTIONS


def other_text(key: TopicKey) -> str:
    """A value that the setting does not have by default."""
    default = key.default(TopicSettings())
    for text in ("true", "compact", "zstd", "LogAppendTime", "0:1", "0.25", "1048577"):
        try:
            key.kind.parse(key.name, text)
        except InvalidConfig:
            continue
        if text != default:
            return text
    return "1"


@pytest.mark.parametrize("name", sorted(TOPIC_KEYS.keys() - {"remote.storage.enable"}))
def test_of_every_setting_of_topics_it_is_said_if_it_has_no_effect(name: str) -> None:
    """One that has an effect changes what the data plane goes by."""
    settings = TopicSettings()
    codec = re.fullmatch(r"compression\.(\w+)\.level", name)
    given = {"compression.type": codec[1]} if codec else {}  # A level counts for its own codec alone.
    before = topic_config(given, settings)
    after = topic_config(given | {name: other_text(TOPIC_KEYS[name])}, settings)
    has_effect = replace(after, overrides=given) != before
    assert (name in of_section("topics, shown", TOPIC_KEYS)) == (not has_effect)
