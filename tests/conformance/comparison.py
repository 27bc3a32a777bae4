"""Compares what two brokers answered to the same script, field by field.

What each broker makes up for itself is renamed one to one, in the order in which the script came to see it:
the UUIDs inside member ids, generated member ids, topic ids, producer ids, sessions of fetches, host and port,
and beside these the node's id where the sides have different ones.
Throttle times, and when a transaction began, have to be plausible. Lists whose order Kafka leaves to a hash map
are sorted. Nothing else is masked: what remains has to be equal, and where nothing had to be masked, the bytes
have to be. Bytes that no message accounts for count as a difference.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, fields, is_dataclass
from itertools import zip_longest
from types import MappingProxyType
from typing import Any, Final

from protocol.codec.packed import PackedArray

UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
GENERATED: Final = re.compile(r"[A-Za-z0-9_-]{22}")
"""The id that a broker gives to a member of the consumer protocol, if it brings none: in `member_id` and alone."""
ZERO_ID: Final = bytes(16)
PLAUSIBLE_THROTTLE_MS: Final = range(60_000)
PLAUSIBLE_AGE_S: Final = 3_600

UNORDERED: Final = {
    ("JoinGroupResponse", "members"),
    ("DescribedGroup", "members"),
    ("ListGroupsResponse", "groups"),
    ("DescribeGroupsResponse", "groups"),
    ("DeleteGroupsResponse", "results"),
    ("ListTransactionsResponse", "transaction_states"),
    ("ListTransactionsResponse", "unknown_state_filters"),
    ("DescribedTransaction", "topics"),
    ("TransactionTopic", "partitions"),
    ("AddPartitionsToTxnResponse", "results_by_transaction"),
    ("AddPartitionsToTxnResponse", "results_by_topic_v3_and_below"),
    ("AddPartitionsToTxnResult", "topic_results"),
    ("AddPartitionsToTxnTopicResult", "results_by_partition"),
    ("CreateTopicsResponse", "topics"),
    ("CreatableTopicResult", "configs"),
    ("DeleteTopicsResponse", "responses"),
    ("CreatePartitionsResponse", "results"),
    ("DeleteRecordsResponse", "topics"),
    ("DeleteRecordsTopicResult", "partitions"),
    ("DescribeConfigsResult", "configs"),
    ("DescribeLogDirsResult", "topics"),
    ("DescribeLogDirsTopic", "partitions"),
    ("ElectLeadersResponse", "replica_election_results"),
    ("ReplicaElectionResult", "partition_result"),
    ("DescribeUserScramCredentialsResponse", "results"),
    ("DescribeAclsResponse", "resources"),
    ("DescribeAclsResource", "acls"),
    ("DeleteAclsFilterResult", "matching_acls"),
    ("DescribeUserScramCredentialsResult", "credential_infos"),
    ("AlterUserScramCredentialsResponse", "results"),
    ("DescribeClientQuotasResponse", "entries"),
    ("EntryData", "entity"),
    ("EntryData", "values"),
    ("AlterClientQuotasResponse", "entries"),
    ("AlteredEntryData", "entity"),
    ("ListOffsetsResponse", "topics"),
    ("ListOffsetsTopicResponse", "partitions"),
    ("OffsetForLeaderTopicResult", "partitions"),
    ("ConsumerGroupHeartbeatAssignment", "topic_partitions"),
    ("ConsumerGroupHeartbeatTopicPartitions", "partitions"),
    ("ConsumerGroupDescribeResponse", "groups"),
    ("ConsumerGroupDescribeGroup", "members"),
    ("ConsumerGroupDescribeMember", "subscribed_topic_names"),
    ("ConsumerGroupDescribeAssignment", "topic_partitions"),
    ("ConsumerGroupDescribeTopicPartitions", "partitions"),
    ("SaslHandshakeResponse", "mechanisms"),
}
"""Lists that Kafka takes out of a hash map, by random member ids or by the partitions that groups lie on."""
UNORDERED_WHEN_ALL: Final = frozenset(
    {
        ("OffsetFetchResponse", "topics"),
        ("OffsetFetchResponseTopic", "partitions"),
        ("OffsetFetchResponseGroup", "topics"),
        ("OffsetFetchResponseTopics", "partitions"),
    }
)
"""Lists without an order in the answer to an OffsetFetch of everything; named partitions keep their order."""

NOT_REACHED: Final = "(the script did not get here)"
Plain = dict[str, Any] | list[Any] | str | int | bool | None
"""A reply as plain data, in which a dict keeps its class under "" and fields under their names."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing a script saw: who asked what, and what came back (a message, or a word like "parked")."""

    what: str
    seen: Any
    unordered: frozenset[tuple[str, str]] = frozenset()  # Lists, by class and field, beside UNORDERED.
    body: bytes | None = None  # The answer's bytes behind the correlation id, if it is one and whole.


@dataclass(frozen=True, slots=True)
class Step:
    """An entry as it is compared: with all that a broker makes up for itself renamed in `plain`."""

    what: str
    plain: Plain
    entry: Entry


@dataclass(slots=True)
class Tally:
    """How the answers were compared: those whose bytes are equal, and those that hold something renamed."""

    as_bytes: int = 0
    decoded: int = 0


@dataclass(frozen=True, slots=True)
class Difference:
    """One entry that is not the same on both sides."""

    what: str
    fields: tuple[tuple[str, Any, Any], ...]  # Path, Kafka's value, Muster's value.
    kafka: Plain
    muster: Plain


NodeIds = Mapping[str, Collection[int]]
"""The ids of the nodes that were at an address."""


def normalised(
    entries: list[Entry], *bootstraps: str, node_ids: NodeIds = MappingProxyType({})
) -> list[Step]:
    """`entries` as plain data, with all that a broker makes up for itself renamed.

    `bootstraps` are the addresses of its listeners; the addresses in `node_ids` beside them stand for the first.
    """
    names = _Names(bootstraps, node_ids)
    plain = [_plain(entry.seen, UNORDERED | entry.unordered) for entry in entries]
    for value in plain:  # First what stands alone, so that no list's order decides on a name.
        names.learn(value)
    return [
        Step(names.rename_text(entry.what), names.rename(value), entry)
        for entry, value in zip(entries, plain, strict=True)
    ]


def differences(kafka: list[Step], muster: list[Step], tally: Tally | None = None) -> list[Difference]:
    """The entries in which two normalised transcripts differ; `tally` counts the answers in them."""
    found: list[Difference] = []
    for theirs, ours in zip_longest(kafka, muster):
        if theirs is None or ours is None:
            found.append(_not_reached(theirs, ours))
            continue
        changed = tuple(_changes(theirs.plain, ours.plain, ""))
        if theirs.what != ours.what:
            changed = (("(step)", theirs.what, ours.what), *changed)
        changed += tuple(_changed_bytes(theirs.entry, ours.entry, tally or Tally()))
        if changed:
            found.append(Difference(theirs.what, changed, theirs.plain, ours.plain))
    return found


def surplus_differences(kafka: Set[str], muster: Set[str]) -> Iterator[Difference]:
    """What the answers of one side held beside their messages, and those of the other did not."""
    if kafka != muster:
        theirs, ours = sorted(kafka), sorted(muster)
        yield Difference("beside the messages", (("(bytes)", theirs, ours),), list(theirs), list(ours))


def _not_reached(theirs: Step | None, ours: Step | None) -> Difference:
    there = theirs or ours
    assert there is not None
    kafka, muster = (NOT_REACHED if each is None else each.plain for each in (theirs, ours))
    return Difference(there.what, (("(all)", kafka, muster),), kafka, muster)


def _changed_bytes(theirs: Entry, ours: Entry, tally: Tally) -> Iterator[tuple[str, Any, Any]]:
    """Messages that are the same before anything is renamed have to be the same bytes too."""
    if theirs.body is None or ours.body is None:
        return
    if theirs.body == ours.body:
        tally.as_bytes += 1
        return
    tally.decoded += 1
    if theirs.seen == ours.seen:
        yield "(bytes)", f"bytes {theirs.body.hex()}", f"bytes {ours.body.hex()}"


def _changes(theirs: Plain, ours: Plain, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(theirs, dict) and isinstance(ours, dict) and theirs.keys() == ours.keys():
        for name in theirs:
            yield from _changes(theirs[name], ours[name], f"{path}.{name}" if path else name)
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for index, (one, other) in enumerate(zip(theirs, ours, strict=True)):
            yield from _changes(one, other, f"{path}[{index}]")
    elif theirs != ours or type(theirs) is not type(ours):
        yield path or "(all)", theirs, ours


def _plain(value: Any, unordered: Set[tuple[str, str]]) -> Plain:
    if is_dataclass(value) and not isinstance(value, type):
        return _plain_message(value, unordered)
    if isinstance(value, list | tuple | PackedArray):
        return [_plain(item, unordered) for item in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return f"bytes {bytes(value).hex()}"
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, float):
        return repr(value)
    assert isinstance(value, int), f"no plain form of {value!r}"
    return int(value)


def _plain_message(message: Any, unordered: Set[tuple[str, str]]) -> Plain:
    name = type(message).__name__
    plain: dict[str, Any] = {"": name}
    for field in fields(message):
        value = getattr(message, field.name)
        if field.name == "throttle_time_ms":
            plain[field.name] = "plausible" if value in PLAUSIBLE_THROTTLE_MS else value
        elif field.name == "transaction_start_time_ms":
            plain[field.name] = "plausible" if abs(value / 1000 - time.time()) < PLAUSIBLE_AGE_S else value
        elif field.name == "producer_id" and value > 0:
            plain[field.name] = {"": "ProducerId", "id": value}
        elif field.name == "session_id" and value > 0:
            plain[field.name] = {"": "SessionId", "id": value}
        elif field.name == "topic_id":
            plain[field.name] = {"": "TopicId", "id": bytes(value).hex()}
        elif (name, field.name) in unordered and value is not None:
            plain[field.name] = {"": "Unordered", "items": _plain(value, unordered)}
        else:
            plain[field.name] = _plain(value, unordered)
    return plain


def _port(address: str) -> int:
    return int(address.rsplit(":", 1)[1])


class _Names:
    """The names given so far on one side."""

    def __init__(self, bootstraps: Sequence[str], node_ids: NodeIds) -> None:
        self._host = bootstraps[0].rsplit(":", 1)[0]
        self._node_ids = {_port(address): ids for address, ids in node_ids.items()}
        self._ports = dict.fromkeys(self._node_ids, "the broker's") | {
            _port(each): f"the broker's{f' (listener {number})' if number else ''}"
            for number, each in enumerate(bootstraps)
        }
        self._ids: dict[str, str] = {}
        self._topics: dict[str, str] = {ZERO_ID.hex(): "zero"}
        self._producers: dict[int, str] = {}
        self._sessions: dict[int, str] = {}

    def learn(self, value: Plain) -> None:
        """Name the ids in `value` that stand in no unordered list."""
        if isinstance(value, str):
            self.rename_text(value)
        elif isinstance(value, list):
            for item in value:
                self.learn(item)
        elif isinstance(value, dict) and value[""] != "Unordered":
            if GENERATED.fullmatch(str(value.get("member_id"))):
                self._name_id(value["member_id"])
            for item in value.values():
                self.learn(item)

    def rename_text(self, text: str) -> str:
        return UUID.sub(lambda found: self._name_id(found[0]), text)

    def _name_id(self, text: str) -> str:
        return self._ids.setdefault(text, f"#{len(self._ids) + 1}")

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
        if value[""] == "ProducerId":
            return self._producers.setdefault(value["id"], f"producer #{len(self._producers)}")
        if value[""] == "SessionId":
            return self._sessions.setdefault(value["id"], f"session #{len(self._sessions)}")
        if value[""] == "Unordered":
            return [self.rename(item) for item in sorted(value["items"], key=self._known_text)]
        renamed = {name: self.rename(item) for name, item in value.items()}
        if GENERATED.fullmatch(str(value.get("member_id"))):
            renamed["member_id"] = self._name_id(value["member_id"])
        port = renamed.get("port")
        if renamed.get("host") == self._host and isinstance(port, int) and port in self._ports:
            renamed |= {"host": "the broker's", "port": self._ports[port]}
            if renamed.get("node_id") in self._node_ids.get(port, ()):
                renamed["node_id"] = "the broker's"
        return renamed

    def _known_text(self, item: Plain) -> str:
        """What `item` says, with the names of ids that have one: nothing else may decide on the order."""
        return UUID.sub(lambda found: self._ids.get(found[0], "#?"), repr(self._with_names(item)))

    def _with_names(self, item: Plain) -> Plain:
        if isinstance(item, list):
            return [self._with_names(each) for each in item]
        if isinstance(item, dict):
            if item[""] == "TopicId":
                return self._topics.get(item["id"], "topic #?")
            if item[""] == "ProducerId":
                return self._producers.get(item["id"], "producer #?")
            if item[""] == "Unordered":
                return sorted(map(self._known_text, item["items"]))
            known = {name: self._with_names(each) for name, each in item.items()}
            if GENERATED.fullmatch(str(item.get("member_id"))):
                known["member_id"] = self._ids.get(str(item["member_id"]), "#?")
            return known
        return item
