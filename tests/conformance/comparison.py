"""Compares what two brokers answered to the same script, field by field.

What each broker makes up for itself is renamed one to one, in the order in which the script came to see it:
the UUIDs inside member ids, topic ids, host and port. Throttle times have to be plausible. Lists whose
order Kafka leaves to a hash map are sorted. Nothing else is masked: what remains has to be equal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final

UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
ZERO_ID: Final = bytes(16)
PLAUSIBLE_THROTTLE_MS: Final = range(60_000)

UNORDERED: Final = {
    ("JoinGroupResponse", "members"),
    ("DescribedGroup", "members"),
    ("ListGroupsResponse", "groups"),
}
"""Lists that Kafka takes out of a hash map whose keys are random ids or whose order nobody promised."""

Plain = dict[str, Any] | list[Any] | str | int | bool | None
"""A reply as plain data, in which a dict keeps its class under "" and fields under their names."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing a script saw: who asked what, and what came back (a message, or a word like "parked")."""

    what: str
    seen: Any


@dataclass(frozen=True, slots=True)
class Difference:
    """One entry that is not the same on both sides."""

    what: str
    fields: tuple[tuple[str, Any, Any], ...]  # Path, Kafka's value, Muster's value.
    kafka: Plain
    muster: Plain


def normalised(entries: list[Entry], bootstrap: str) -> list[tuple[str, Plain]]:
    """`entries` as plain data, with all that a broker makes up for itself renamed."""
    names = _Names(bootstrap)
    plain = [(entry.what, _plain(entry.seen)) for entry in entries]
    for _, value in plain:  # First what stands alone, so that no list's order decides on a name.
        names.learn(value)
    return [(names.rename_text(what), names.rename(value)) for what, value in plain]


def differences(kafka: list[tuple[str, Plain]], muster: list[tuple[str, Plain]]) -> list[Difference]:
    """Where two normalised transcripts differ, in their order."""
    found: list[Difference] = []
    for index in range(max(len(kafka), len(muster))):
        what, theirs = (
            kafka[index] if index < len(kafka) else (muster[index][0], "(the script did not get here)")
        )
        our_what, ours = muster[index] if index < len(muster) else (what, "(the script did not get here)")
        changed = tuple(_changes(theirs, ours, ""))
        if what != our_what:
            changed = (("(step)", what, our_what), *changed)
        if changed:
            found.append(Difference(what, changed, theirs, ours))
    return found


def _changes(theirs: Plain, ours: Plain, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(theirs, dict) and isinstance(ours, dict) and theirs.keys() == ours.keys():
        for name in theirs:
            yield from _changes(theirs[name], ours[name], f"{path}.{name}" if path else name)
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for index, (one, other) in enumerate(zip(theirs, ours, strict=True)):
            yield from _changes(one, other, f"{path}[{index}]")
    elif theirs != ours or type(theirs) is not type(ours):
        yield path or "(all)", theirs, ours


def _plain(value: Any) -> Plain:
    if is_dataclass(value) and not isinstance(value, type):
        name = type(value).__name__
        plain: dict[str, Any] = {"": name}
        for field in fields(value):
            plain[field.name] = _plain_field(name, field.name, getattr(value, field.name))
        return plain
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return f"bytes {bytes(value).hex()}"
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    assert isinstance(value, int), f"no plain form of {value!r}"
    return int(value)


def _plain_field(owner: str, name: str, value: Any) -> Any:
    if name == "throttle_time_ms":
        return "plausible" if value in PLAUSIBLE_THROTTLE_MS else value
    if name == "topic_id":
        return {"": "TopicId", "id": bytes(value).hex()}
    if (owner, name) in UNORDERED:
        return {"": "Unordered", "items": _plain(value)}
    return _plain(value)


class _Names:
    """The names given so far on one side."""

    def __init__(self, bootstrap: str) -> None:
        self._host, port = bootstrap.rsplit(":", 1)
        self._port = int(port)
        self._ids: dict[str, str] = {}
        self._topics: dict[str, str] = {ZERO_ID.hex(): "zero"}

    def learn(self, value: Plain) -> None:
        """Name the ids in `value` that stand in no unordered list."""
        if isinstance(value, str):
            self.rename_text(value)
        elif isinstance(value, list):
            for item in value:
                self.learn(item)
        elif isinstance(value, dict) and value[""] != "Unordered":
            for item in value.values():
                self.learn(item)

    def rename_text(self, text: str) -> str:
        return UUID.sub(lambda found: self._ids.setdefault(found[0], f"#{len(self._ids) + 1}"), text)

    def rename(self, value: Plain) -> Plain:
        if isinstance(value, str):
            return self.rename_text(value)
        if isinstance(value, list):
            return [self.rename(item) for item in value]
        if isinstance(value, dict):
            return self._rename_dict(value)
        return value

    def _rename_dict(self, value: dict[str, Any]) -> Plain:
        if value[""] == "TopicId":
            return self._topics.setdefault(value["id"], f"topic #{len(self._topics)}")
        if value[""] == "Unordered":
            known: Callable[[Any], str] = lambda item: UUID.sub(self._known, repr(item))  # noqa: E731
            return [self.rename(item) for item in sorted(value["items"], key=known)]
        renamed = {name: self.rename(item) for name, item in value.items()}
        if renamed.get("host") == self._host and renamed.get("port") == self._port:
            renamed |= {"host": "the broker's", "port": "the broker's"}
        return renamed

    def _known(self, found: re.Match[str]) -> str:
        """The name of an id, if it has one: two sides sort alike by nothing else."""
        return self._ids.get(found[0], "#?")
