"""DescribeClientQuotas and AlterClientQuotas (Q1 to Q4), and what is kept of them over restarts."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from coordinator.admin.client_quotas import ClientQuotaApis
from coordinator.quotas import entities
from coordinator.quotas.registry import QuotaRegistry
from coordinator.topics.config_values import InvalidConfig
from protocol.errors import ErrorCode
from storage.files import StorageError
from tests.quotas.asking import Parts, alteration, described, entry, quotas_in
from tests.topics.world import World

ALICE: Parts = {"user": "alice"}


class QuotaWorld:
    """The APIs on a directory; `again` is the next life on it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.registry = world.registry.resources(QuotaRegistry)
        self.registry.open()
        apis = ClientQuotaApis(self.registry)
        world.handlers |= {48: apis.describe, 49: apis.alter}

    def alter(
        self, *changes: Any, validate_only: bool = False, version: int = 1
    ) -> list[tuple[int, str | None]]:
        answer = self.world.ask(alteration(*changes, validate_only=validate_only), version)
        return [(each.error_code, each.error_message) for each in answer.entries]

    def all(self) -> Any:
        return quotas_in(self.world.ask(described(), 1))

    def again(self) -> QuotaWorld:
        return QuotaWorld(self.world.restart())


@pytest.fixture
def quotas(tmp_path: Path) -> QuotaWorld:
    return QuotaWorld(World(tmp_path))


@pytest.mark.parametrize("version", range(2))
def test_quotas_are_set_shown_and_removed(quotas: QuotaWorld, version: int) -> None:
    both = entry(ALICE, producer_byte_rate=1_000, request_percentage=12.5)
    assert quotas.alter(both, entry({"ip": None}, connection_creation_rate=3), version=version) == [
        *((0, None), (0, None))
    ]
    set_for = {"producer_byte_rate": 1_000.0, "request_percentage": 12.5}
    shown = {(("user", "alice"),): set_for, (("ip", None),): {"connection_creation_rate": 3.0}}
    assert quotas.all() == shown
    assert quotas.again().all() == shown
    assert quotas.alter(entry(ALICE, producer_byte_rate=None, request_percentage=None)) == [(0, None)]
    assert quotas.all() == {(("ip", None),): {"connection_creation_rate": 3.0}}


def test_an_answer_leaves_when_the_change_is_on_the_disk(quotas: QuotaWorld) -> None:
    waiting = quotas.world.start(alteration(entry(ALICE, producer_byte_rate=1)), 1)
    assert quotas_in(quotas.world.start(described(), 1).answer) == {}
    assert not waiting.is_answered
    quotas.world.settle()
    assert waiting.is_answered
    assert quotas.all() == {(("user", "alice"),): {"producer_byte_rate": 1.0}}


def test_many_changes_and_long_names_make_a_short_log(quotas: QuotaWorld) -> None:
    """One request may change 10,000 quotas, of names with 3,000 bytes."""
    with capture_logs() as lines:
        quotas.alter(entry({"user": "u" * 900}, producer_byte_rate=1))
        quotas.alter(*(entry({"user": f"u{number}"}, producer_byte_rate=1) for number in range(40)))
    assert all(len(str(line)) < 600 for line in lines)
    assert len(lines) <= 3, "the first change of a request is written by itself"
    assert sum(line.get("count", 1) for line in lines) == 41
    assert "u" * 200 in lines[0]["name"]


def test_a_change_that_cannot_be_written_is_not_in_force(
    quotas: QuotaWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path, data: bytes) -> None:
        raise StorageError("write", path, "the disk is full")

    monkeypatch.setattr(quotas.world.files, "write_atomically", fail)
    ((error, _),) = quotas.alter(entry(ALICE, producer_byte_rate=1))
    assert error == ErrorCode.KAFKA_STORAGE_ERROR
    assert quotas.all() == {}


def test_two_requests_for_one_entity_change_it_one_after_the_other(quotas: QuotaWorld) -> None:
    for key in ("producer_byte_rate", "consumer_byte_rate", "request_percentage"):
        quotas.world.start(alteration(entry(ALICE, **{key: 5})), 1)
    quotas.world.settle()
    assert quotas.all()[("user", "alice"),].keys() == {
        *("producer_byte_rate", "consumer_byte_rate", "request_percentage")
    }


LONG = 2.0**63
REFUSED: list[tuple[Parts, dict[str, float], str]] = [
    ({}, {"producer_byte_rate": 1}, "Invalid empty client quota entity"),
    ({"group": "g"}, {"producer_byte_rate": 1}, "Unhandled client quota entity type: group"),
    ({"user": ""}, {"producer_byte_rate": 1}, "Empty user not supported"),
    (
        {"ip": "10.0.0.1", "user": "u"},
        {"connection_creation_rate": 1},
        "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId",
    ),
    (
        {"ip": "no.such.host.invalid"},
        {"connection_creation_rate": 1},
        "no.such.host.invalid is not a valid IP or resolvable host.",
    ),
    (ALICE, {"connection_creation_rate": 1}, "Invalid configuration key connection_creation_rate"),
    ({"ip": None}, {"producer_byte_rate": 1}, "Invalid configuration key producer_byte_rate"),
    (ALICE, {"nonsense": 1}, "Invalid configuration key nonsense"),
    (ALICE, {"producer_byte_rate": -1}, "Quota producer_byte_rate must be greater than 0"),
    (ALICE, {"request_percentage": -0.5}, "Quota request_percentage must be greater than 0"),
    (ALICE, {"request_percentage": math.nan}, "Quota request_percentage must be greater than 0"),
    (ALICE, {"consumer_byte_rate": 1.5}, "consumer_byte_rate cannot be a fractional value."),
    (
        ALICE,
        {"consumer_byte_rate": LONG * 2},
        "Proposed value for consumer_byte_rate is too large for a LONG.",
    ),
    (
        ALICE,
        {"producer_byte_rate": math.inf},
        "Proposed value for producer_byte_rate is too large for a LONG.",
    ),
    (
        {"ip": "::1"},
        {"connection_creation_rate": 2.0**31},
        "Proposed value for connection_creation_rate is too large for an INT.",
    ),
]


@pytest.mark.parametrize(("parts", "values", "words"), REFUSED)
def test_what_no_quota_may_be_is_refused(
    quotas: QuotaWorld, parts: Parts, values: dict[str, float], words: str
) -> None:
    """Q1, Q2: 42, and the entities beside it are changed."""
    beside = entry({"user": "beside"}, producer_byte_rate=1)
    assert quotas.alter(entry(parts, **values), beside) == [(ErrorCode.INVALID_REQUEST, words), (0, None)]
    assert quotas.all() == {(("user", "beside"),): {"producer_byte_rate": 1.0}}


def test_one_bad_value_keeps_the_others_of_its_entity_from_being_set(quotas: QuotaWorld) -> None:
    ((error, _),) = quotas.alter(entry(ALICE, producer_byte_rate=5, consumer_byte_rate=-5))
    assert error == ErrorCode.INVALID_REQUEST
    assert quotas.all() == {}


def test_a_key_that_is_given_twice_is_refused(quotas: QuotaWorld) -> None:
    twice = entry(ALICE, producer_byte_rate=5)
    twice.ops *= 2
    ((error, words),) = quotas.alter(twice)
    assert (error, str(words)[:25]) == (ErrorCode.INVALID_REQUEST, "Ignoring duplicate entity")
    assert quotas.all() == {}


def test_of_an_entity_that_is_named_twice_the_first_change_is_made(quotas: QuotaWorld) -> None:
    """Q3: one result, 42, and yet."""
    first, second = entry(ALICE, producer_byte_rate=5), entry(ALICE, consumer_byte_rate=6)
    ((error, words),) = quotas.alter(first, second)
    assert error == ErrorCode.INVALID_REQUEST
    assert words == "Ignoring duplicate entity ClientQuotaEntity(entries={user=alice})"
    assert quotas.all() == {(("user", "alice"),): {"producer_byte_rate": 5.0}}


def test_nothing_is_changed_where_it_is_only_to_be_checked(quotas: QuotaWorld) -> None:
    good, bad = entry(ALICE, producer_byte_rate=5), entry({"user": "bob"}, nonsense=1)
    errors = [error for error, _ in quotas.alter(good, bad, validate_only=True)]
    assert errors == [0, ErrorCode.INVALID_REQUEST]
    assert quotas.all() == {}


def test_removing_what_is_not_set_is_no_error(quotas: QuotaWorld) -> None:
    assert quotas.alter(entry(ALICE, producer_byte_rate=None, nonsense=None)) == [(0, None)]
    assert quotas.alter(entry(ALICE)) == [(0, None)]


def test_entities_are_as_many_as_are_kept(quotas: QuotaWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.admin.client_quotas.MAX_ENTITIES", 2)
    users = [entry({"user": name}, producer_byte_rate=5) for name in "abc"]
    assert [error for error, _ in quotas.alter(*users)] == [0, 0, ErrorCode.POLICY_VIOLATION]
    assert quotas.alter(entry({"user": "a"}, producer_byte_rate=6)) == [(0, None)]
    assert quotas.alter(entry({"user": "b"}, producer_byte_rate=None), users[2]) == [
        (0, None),
        (ErrorCode.POLICY_VIOLATION, "There are quotas of 2 entities already, the most that are kept."),
    ]
    assert quotas.alter(users[2]) == [(0, None)]
    long = "x" * (entities.MAX_NAME_BYTES + 1)
    ((error, _),) = quotas.alter(entry({"user": long}, producer_byte_rate=1))
    assert error == ErrorCode.POLICY_VIOLATION


ENTITIES: tuple[Parts, ...] = (
    {"user": "u", "client-id": "c"},
    {"user": "u", "client-id": None},
    {"user": "u"},
    {"user": None},
    {"client-id": "c"},
    {"client-id": None},
    {"ip": "10.0.0.1"},
    {"ip": None},
)
EXACT, DEFAULT, ANY = range(3)


@pytest.mark.parametrize(
    ("components", "is_strict", "found"),
    [
        ([], False, range(8)),
        ([], True, ()),
        ([("user", EXACT, "u")], False, (0, 1, 2)),
        ([("user", EXACT, "u")], True, (2,)),
        ([("user", DEFAULT, None)], False, (3,)),
        ([("user", ANY, None)], False, (0, 1, 2, 3)),
        ([("user", ANY, None)], True, (2, 3)),
        ([("user", ANY, None), ("client-id", DEFAULT, None)], False, (1,)),
        ([("user", EXACT, "u"), ("client-id", ANY, None)], True, (0, 1)),
        ([("client-id", EXACT, "c")], True, (4,)),
        ([("ip", ANY, None)], False, (6, 7)),
        ([("ip", EXACT, "10.0.0.1")], True, (6,)),
        ([("user", EXACT, "nobody")], False, ()),
    ],
)
def test_entities_are_found_by_all_components(
    quotas: QuotaWorld, components: list[tuple[str, int, str | None]], is_strict: bool, found: Any
) -> None:
    """Q4."""
    for parts in ENTITIES:
        key = "connection_creation_rate" if "ip" in parts else "producer_byte_rate"
        assert quotas.alter(entry(parts, **{key: 1})) == [(0, None)]
    answer = quotas.world.ask(described(*components, strict=is_strict), 1)
    assert answer.error_code == 0
    expected = {entities.entity_of(ENTITIES[place].items()) for place in found}
    assert quotas_in(answer).keys() == expected


@pytest.mark.parametrize(
    ("components", "error"),
    [
        ([("foo", EXACT, "a")], ErrorCode.UNSUPPORTED_VERSION),
        ([("", EXACT, "a")], ErrorCode.INVALID_REQUEST),
        ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([("user", DEFAULT, "x")], ErrorCode.INVALID_REQUEST),
        ([("user", ANY, "x")], ErrorCode.INVALID_REQUEST),
        ([("user", 9, None)], ErrorCode.INVALID_REQUEST),
        ([("user", ANY, None), ("user", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("ip", EXACT, "1.1.1.1"), ("user", EXACT, "a")], ErrorCode.INVALID_REQUEST),
    ],
)
@pytest.mark.parametrize("version", range(2))
def test_filters_that_make_no_sense_are_refused(
    quotas: QuotaWorld, components: list[tuple[str, int, str | None]], error: int, version: int
) -> None:
    answer = quotas.world.ask(described(*components), version)
    assert (answer.error_code, answer.entries) == (error, None)


@pytest.mark.parametrize(
    "stored",
    [
        {'{"user": "a"}': {"producer_byte_rate": "fast"}},
        {'{"user": "a"}': {"producer_byte_rate": "-1"}},
        {'{"group": "a"}': {"producer_byte_rate": "1"}},
        {"alice": {"producer_byte_rate": "1"}},
        {"[]": {"producer_byte_rate": "1"}},
    ],
)
def test_a_file_of_what_are_no_quotas_is_not_taken(tmp_path: Path, stored: Any) -> None:
    """Half of the quotas would be taken for all of them."""
    world = World(tmp_path)
    (tmp_path / "client-quotas.json").write_text(json.dumps({"format": 1, "quotas": stored}))
    with pytest.raises(InvalidConfig, match=r"client-quotas\.json"):
        QuotaWorld(world)
