"""DescribeAcls, CreateAcls and DeleteAcls where there is an authorizer (A10 to A15), by their handlers."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from coordinator.admin import acls as acls_module
from coordinator.admin.acls import AclApis
from coordinator.security import acl_store
from coordinator.security.acl_registry import AclRegistry
from coordinator.security.acl_store import AclStore
from coordinator.security.acls import Operation, ResourceType
from coordinator.security.authorizer import StandardAuthorizer
from harness.doubles.fake_pending import FakePending
from harness.doubles.faulty_files import FaultyFiles
from harness.doubles.inline_workers import InlineWorkers
from protocol.codec.codec import decode, encode, spec
from protocol.errors import ErrorCode
from protocol.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)

ACLS = range(1, 4)
INVALID = ErrorCode.INVALID_REQUEST
ANY = 1


class World:
    """The handlers on a directory."""

    def __init__(self, directory: Path) -> None:
        self.files = FaultyFiles(directory)
        self.workers = InlineWorkers()
        self.authorizer = StandardAuthorizer()
        self.registry = AclRegistry(self.authorizer, AclStore(directory, self.files), self.workers)
        self.registry.open()
        self.handlers = AclApis(self.registry, self.workers).handlers()

    def start(self, request: Any, version: int = 3) -> FakePending:
        pending = FakePending(version)
        key = spec(type(request)).api_key
        assert key is not None
        self.handlers[key](decode(type(request), version, encode(request, version)), pending)
        return pending

    def ask(self, request: Any, version: int = 3) -> Any:
        pending = self.start(request, version)
        assert pending.dropped_for is None, pending.dropped_for
        assert pending.is_answered
        return pending.answer

    def create(self, *creations: AclCreation, version: int = 3) -> list[int]:
        answer = self.ask(CreateAclsRequest(creations=list(creations)), version)
        return [result.error_code for result in answer.results]

    def described(self, version: int = 3, **changes: Any) -> set[tuple[Any, ...]]:
        answer = self.ask(DescribeAclsRequest(**given_filter(**changes)), version)
        assert (answer.error_code, answer.error_message) == (0, "")
        return {
            (resource.resource_name, resource.pattern_type, acl.principal, acl.operation)
            for resource in answer.resources
            for acl in resource.acls
        }

    def may(self, name: str, operation: Operation = Operation.READ) -> bool:
        return self.authorizer.may("User:alice", "127.0.0.1", operation, ResourceType.TOPIC, name)


def creation(name: str = "orders", **changes: Any) -> AclCreation:
    given = {"resource_type": 2, "resource_pattern_type": 3, "principal": "User:alice", "host": "*"}
    return AclCreation(**{**given, "resource_name": name, "operation": 3, "permission_type": 3, **changes})


def given_filter(**changes: Any) -> dict[str, Any]:
    names = ("resource_name_filter", "principal_filter", "host_filter")
    codes = ("resource_type_filter", "pattern_type_filter", "operation", "permission_type")
    return {**dict.fromkeys(names), **dict.fromkeys(codes, ANY), **changes}


def deletion(**changes: Any) -> DeleteAclsFilter:
    return DeleteAclsFilter(**given_filter(**changes))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.parametrize("version", ACLS)
def test_what_is_made_is_shown_and_in_force_until_it_is_removed(world: World, version: int) -> None:
    assert world.create(
        creation(), creation("or", resource_pattern_type=4, operation=4), version=version
    ) == [0, 0]
    assert world.described(version) == {("orders", 3, "User:alice", 3), ("or", 4, "User:alice", 4)}
    assert world.may("orders")
    assert world.may("origin", Operation.WRITE)
    wanted = deletion(resource_name_filter="orders", pattern_type_filter=2)
    (result,) = world.ask(DeleteAclsRequest(filters=[wanted]), version).filter_results
    assert (result.error_code, result.error_message) == (0, None)
    assert [(acl.error_code, acl.error_message, acl.resource_name) for acl in result.matching_acls] == [
        (0, None, "orders"),
        (0, None, "or"),
    ]
    assert world.described(version) == set()
    assert not world.may("orders")


def test_a_code_of_nothing_closes_the_connection(world: World) -> None:
    """A12."""
    for name in ("resource_type", "resource_pattern_type", "operation", "permission_type"):
        request = CreateAclsRequest(creations=[creation(), creation("other", **{name: 0})])
        assert world.start(request).dropped_for, name
    for name in ("resource_type_filter", "pattern_type_filter", "operation", "permission_type"):
        assert world.start(DescribeAclsRequest(**given_filter(**{name: 0}))).dropped_for, name
        assert world.start(DeleteAclsRequest(filters=[deletion(), deletion(**{name: 0})])).dropped_for, name
    assert world.described() == set()


@pytest.mark.parametrize(
    "name", ["resource_type", "resource_pattern_type", "operation", "permission_type", "match"]
)
def test_what_is_only_fit_for_a_filter_fails_all(world: World, name: str) -> None:
    """A13: -1 for all entries, also for those that are wrong by themselves, and nothing is made."""
    changes: dict[str, Any] = {"resource_pattern_type": 2} if name == "match" else {name: ANY}
    assert world.create(creation(), creation(""), creation(**changes)) == [-1, -1, -1]
    assert world.described() == set()


def test_bad_entries_are_refused_beside_good_ones(world: World) -> None:
    """A12, A13: and what is there already, or twice, is made once and is no error."""
    bad = [
        creation("x", resource_type=4),
        creation(""),
        creation(principal="alice"),
        *(creation(resource_type=code) for code in (8, 99, -1)),
        creation(resource_pattern_type=5),
        creation(operation=16),
        creation(permission_type=4),
    ]
    good = [
        creation(),
        creation(),
        creation("kafka-cluster", resource_type=4),
        creation(host="no host at all"),
    ]
    good += [creation(principal=":"), creation("User:bob", resource_type=7, operation=13)]
    assert world.create(*bad, *good) == [INVALID] * len(bad) + [0] * len(good)
    assert world.create(*good) == [0] * len(good)
    assert world.authorizer.acl_count == len(good) - 1


def test_a_description_of_codes_beyond_the_range_finds_nothing(world: World) -> None:
    """A12."""
    world.create(creation())
    for name in ("resource_type_filter", "pattern_type_filter", "operation", "permission_type"):
        assert world.described(**{name: 99}) == world.described(**{name: -1}) == set(), name
    assert len(world.described()) == 1


def test_filters_are_refused_one_by_one_and_may_report_the_same_acl(world: World) -> None:
    """A12, A14."""
    world.create(creation(), creation("other"))
    filters = [
        deletion(resource_type_filter=99),
        deletion(pattern_type_filter=5),
        deletion(operation=16),
        deletion(permission_type=4),
        deletion(resource_name_filter="nope"),
        deletion(resource_name_filter="orders"),
        deletion(resource_name_filter="orders", principal_filter="User:alice", host_filter="*"),
    ]
    results = world.ask(DeleteAclsRequest(filters=filters)).filter_results
    assert [(result.error_code, len(result.matching_acls)) for result in results] == [
        *[(INVALID, 0)] * 4,
        (0, 0),
        (0, 1),
        (0, 1),
    ]
    pattern, entry = "Unknown patternFilter.", "Unknown entryFilter."
    assert [result.error_message for result in results] == [pattern, pattern, entry, entry, None, None, None]
    assert world.described() == {("other", 3, "User:alice", 3)}
    assert world.ask(DeleteAclsRequest(filters=[])).filter_results == []
    assert world.create() == []


def test_too_many_at_once_are_refused_for_all(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A14: 44 for what would be made, 42 for what would go; nothing changes, and bad entries stay 42."""
    monkeypatch.setattr(acl_store, "MAX_CHANGED", 2)
    assert world.create(*map(creation, "abc"), creation("")) == [ErrorCode.POLICY_VIOLATION] * 3 + [INVALID]
    assert world.described() == set()
    world.create(*map(creation, "ab"))
    world.create(creation("c"))
    filters = [deletion(resource_name_filter="nope"), deletion(), deletion(operation=99)]
    results = world.ask(DeleteAclsRequest(filters=filters)).filter_results
    assert [(result.error_code, result.matching_acls) for result in results] == [(INVALID, [])] * 3
    assert len({result.error_message for result in results}) == 1
    assert len(world.described()) == 3


def test_those_without_room_are_refused_one_by_one(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_store, "MAX_ACLS", 1)
    assert world.create(creation(), creation("more"), creation()) == [0, ErrorCode.POLICY_VIOLATION, 0]
    assert world.described() == {("orders", 3, "User:alice", 3)}


def test_a_disk_that_fails_changes_nothing(world: World) -> None:
    world.create(creation())
    world.files.fail_always("rename")
    failed = ErrorCode.KAFKA_STORAGE_ERROR
    assert world.create(creation("other"), creation("")) == [failed, INVALID]
    results = world.ask(DeleteAclsRequest(filters=[deletion(), deletion(operation=99)])).filter_results
    assert [result.error_code for result in results] == [failed, failed]
    assert world.may("orders")
    assert not world.may("other")


def test_an_answer_waits_for_the_disk(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A9, A16: nothing is in force, and nothing answered, before the file is written; then both at once."""
    held: list[Any] = []
    monkeypatch.setattr(world.workers, "submit", lambda work, done: held.append((work, done)))
    pending = world.start(CreateAclsRequest(creations=[creation()]))
    ((work, done),) = held
    worked: Future[Any] = Future()
    worked.set_result(work())
    assert not pending.is_answered
    assert not world.may("orders")
    before = world.authorizer.version
    done(worked)
    assert pending.is_answered
    assert world.may("orders")
    assert world.authorizer.version != before


def test_what_changes_nothing_moves_no_version(world: World) -> None:
    """What was prepared by decisions stays so."""
    world.create(creation())
    before = world.authorizer.version
    world.create(creation(), creation(""))
    world.ask(DeleteAclsRequest(filters=[deletion(resource_name_filter="nope")]))
    assert world.authorizer.version == before


def test_many_acls_are_described_aside(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acls_module, "DESCRIBED_ON_LOOP", 2)
    world.create(*map(creation, "abc"))
    pending = world.start(DescribeAclsRequest(**given_filter()))
    assert pending.was_made_aside
    assert {resource.resource_name for resource in pending.answer.resources} == set("abc")
    world.ask(DeleteAclsRequest(filters=[deletion(resource_name_filter="a")]))
    assert not world.start(DescribeAclsRequest(**given_filter())).was_made_aside


def test_a_restart_finds_what_was_acknowledged(world: World, tmp_path: Path) -> None:
    world.create(creation(), creation("other", operation=2, permission_type=2))
    again = World(tmp_path)
    assert again.described() == world.described()
    assert again.may("orders")
    assert not again.may("other")


def test_the_answer_about_many_removed_acls_is_made_aside(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Filters count as the ACLs do: each is a row of the answer, also where all are refused."""
    monkeypatch.setattr(acls_module, "DESCRIBED_ON_LOOP", 3)
    world.create(*map(creation, "abcd"))
    named = deletion(resource_name_filter="a")
    pending = world.start(DeleteAclsRequest(filters=[named, named]))
    assert pending.was_made_aside
    assert [len(result.matching_acls) for result in pending.answer.filter_results] == [1, 1]
    assert not world.start(DeleteAclsRequest(filters=[named, named, named])).was_made_aside
    monkeypatch.setattr(acl_store, "MAX_FILTERS", 3)
    refused = world.start(DeleteAclsRequest(filters=[named] * 4))
    assert refused.was_made_aside
    assert [result.error_code for result in refused.answer.filter_results] == [INVALID] * 4
