"""CreateAcls, DescribeAcls and DeleteAcls of any form, in any order (A10 to A15), beside a plain set of ACLs.

Requests go through the wire's bytes to the handlers, with a file of ACLs behind them. The rules stand here once
more, on a plain set; what is answered, what is in force and what a restart finds has to be the same. And bytes of
any kind behind the head of such a request are decoded, or are none, and change nothing that was not asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from hypothesis import strategies as st

from coordinator.security.acl_store import AclStore
from coordinator.security.acls import Acl
from harness.doubles.faulty_files import FaultyFiles
from protocol.codec.codec import decode, encode
from protocol.errors import DecodeError, ErrorCode
from protocol.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from tests.security.acl_worlds import concerns
from tests.security.fuzz.properties import Property, assert_sentence
from tests.security.test_acl_apis import World

TYPES, PATTERNS, OPERATIONS, PERMISSIONS = range(2, 8), (3, 4), range(2, 16), (2, 3)
"""The codes that an ACL may have."""
LARGEST: Final = (7, 4, 15, 3)
CLOSED: Final = "closed"
ANY, MATCH, CLUSTER = 1, 2, 4


class Request(NamedTuple):
    """One request: "create" with ACLs, "delete" and "describe" with filters; or "bytes", which are anything."""

    kind: str
    version: int
    entries: list[tuple[Any, ...]]
    data: bytes = b""


def codes(good: Iterable[int]) -> st.SearchStrategy[int]:
    listed = list(good)
    return st.sampled_from([*listed * 6, 0, 1, 1, 1, 2, 99, -1, max(listed) + 1])


texts = st.sampled_from(
    ["orders", "or", "*", "orders", "kafka-cluster", "", "o\0\n", "\U0001f512", "x" * 300]
)
principals = st.sampled_from(
    ["User:alice", "User:*", "User:alice", ":", "alice", "", "Group:x:y", "User:\U0001f512"]
)
hosts = st.sampled_from(["*", "127.0.0.1", "::1", "", "no host at all"])
entries = st.tuples(
    codes(TYPES), texts, codes(PATTERNS), principals, hosts, codes(OPERATIONS), codes(PERMISSIONS)
)
filters = st.tuples(
    codes([*TYPES, ANY, ANY]),
    st.none() | texts,
    codes([*PATTERNS, ANY, MATCH, MATCH]),
    st.none() | principals,
    st.none() | hosts,
    codes([*OPERATIONS, ANY, ANY]),
    codes([*PERMISSIONS, ANY, ANY]),
)
good_entries = st.tuples(
    st.sampled_from([2, 3]),
    st.sampled_from(["orders", "or", "*"]),
    st.sampled_from(PATTERNS),
    st.sampled_from(["User:alice", "User:*"]),
    st.just("*"),
    st.sampled_from([2, 3, 4]),
    st.sampled_from(PERMISSIONS),
)
versions = st.integers(1, 3)
requests = st.one_of(
    st.builds(Request, st.just("create"), versions, st.lists(good_entries, min_size=1, max_size=4)),
    st.builds(Request, st.just("create"), versions, st.lists(entries, max_size=4)),
    st.builds(Request, st.just("delete"), versions, st.lists(filters, max_size=3)),
    st.builds(Request, st.just("describe"), versions, st.tuples(filters).map(list)),
    st.builds(Request, st.just("bytes"), versions, st.just([]), st.binary(max_size=60)),
)
cases = st.lists(requests, min_size=1, max_size=8)


# The rules, once more.


def has_code(entry: tuple[Any, ...], code: int) -> bool:
    return code in (entry[0], entry[2], entry[5], entry[6])


def is_known(entry: tuple[Any, ...]) -> bool:
    return all(
        0 < code <= most for code, most in zip((entry[0], entry[2], entry[5], entry[6]), LARGEST, strict=True)
    )


def created(entry: tuple[Any, ...]) -> int:
    """The error of an entry beside others that are no filters."""
    kind, name, _, principal, *_ = entry
    is_good = is_known(entry) and name and ":" in principal and (kind != CLUSTER or name == "kafka-cluster")
    return ErrorCode.NONE if is_good else ErrorCode.INVALID_REQUEST


def matching(asked: tuple[Any, ...], acls: Iterable[Acl]) -> set[Acl]:
    kind, name, pattern, principal, host, operation, permission = asked
    found = set()
    for acl in acls:
        if pattern == MATCH:
            fits = name is None or concerns(acl, acl.resource_type, name)
        else:
            fits = pattern in (ANY, acl.pattern_type) and name in (None, acl.resource_name)
        fits = fits and kind in (ANY, acl.resource_type) and operation in (ANY, acl.operation)
        fits = fits and permission in (ANY, acl.permission)
        if fits and principal in (None, acl.principal) and host in (None, acl.host):
            found.add(acl)
    return found


# What has to hold.


@cache
def handlers_of() -> dict[str, type]:
    return {"create": CreateAclsRequest, "delete": DeleteAclsRequest, "describe": DescribeAclsRequest}


def check(case: list[Request]) -> str:
    """Every answer is that of the rules, and so is what is stored."""
    known: set[Acl] = set()
    outcomes = set()
    with TemporaryDirectory() as folder:
        world = World(Path(folder))
        for request in case:
            outcomes.add(PLAYERS[request.kind](world, request, known))
            assert set(world.authorizer.all_acls()) == known
        stored = AclStore(Path(folder), FaultyFiles(Path(folder))).open()
        assert len(stored) == len(known)
        assert set(stored) == known, "a restart finds others"
    return CLOSED if CLOSED in outcomes else "changed" if "changed" in outcomes else "answered"


def _create(world: World, request: Request, known: set[Acl]) -> str:
    creations = [
        AclCreation(
            resource_type=kind,
            resource_name=name,
            resource_pattern_type=pattern,
            principal=principal,
            host=host,
            operation=operation,
            permission_type=permission,
        )
        for kind, name, pattern, principal, host, operation, permission in request.entries
    ]
    answer = _ask(world, CreateAclsRequest(creations=creations), request)
    if any(has_code(entry, 0) for entry in request.entries):
        assert answer is None
        return CLOSED
    assert answer is not None
    if any(has_code(entry, ANY) or entry[2] == MATCH for entry in request.entries):
        assert [each.error_code for each in answer.results] == [-1] * len(request.entries)
        return "answered"
    expected = [created(entry) for entry in request.entries]
    assert [each.error_code for each in answer.results] == expected
    made = {Acl(*entry) for entry, error in zip(request.entries, expected, strict=True) if not error}
    for result in answer.results:
        if result.error_code:
            assert_sentence(result.error_message)
    is_changed = not made <= known
    known |= made
    return "changed" if is_changed else "answered"


def _filter(asked: tuple[Any, ...]) -> dict[str, Any]:
    names = ("resource_type_filter", "resource_name_filter", "pattern_type_filter", "principal_filter")
    return dict(zip((*names, "host_filter", "operation", "permission_type"), asked, strict=True))


def _delete(world: World, request: Request, known: set[Acl]) -> str:
    listed = [DeleteAclsFilter(**_filter(each)) for each in request.entries]
    answer = _ask(world, DeleteAclsRequest(filters=listed), request)
    if any(has_code(each, 0) for each in request.entries):
        assert answer is None
        return CLOSED
    assert answer is not None
    gone: set[Acl] = set()
    for asked, result in zip(request.entries, answer.filter_results, strict=True):
        shown = [_acl(each, each) for each in result.matching_acls]
        if not is_known(asked):
            assert (result.error_code, shown) == (ErrorCode.INVALID_REQUEST, [])
            continue
        assert result.error_code == 0
        assert len(shown) == len(set(shown))
        assert set(shown) == matching(asked, known)
        gone |= set(shown)
    known -= gone
    return "changed" if gone else "answered"


def _describe(world: World, request: Request, known: set[Acl]) -> str:
    (asked,) = request.entries
    answer = _ask(world, DescribeAclsRequest(**_filter(asked)), request)
    if has_code(asked, 0):
        assert answer is None
        return CLOSED
    assert answer is not None
    assert answer.error_code == 0
    shown = [_acl(resource, acl) for resource in answer.resources for acl in resource.acls]
    assert len(shown) == len(set(shown))
    assert set(shown) == matching(asked, known)
    return "answered"


def _bytes(world: World, request: Request, known: set[Acl]) -> str:
    """Bytes that happen to be a request are played as what they are."""
    for kind, cls in handlers_of().items():
        try:
            read: Any = decode(cls, request.version, request.data)
        except DecodeError as error:
            assert_sentence(str(error))
            continue
        if kind == "describe" or (kind == "delete" and not read.filters):
            world.start(read, request.version)
    return "answered"


def _ask(world: World, request: Any, given: Request) -> Any | None:
    """The answer, through the wire's bytes; None: the connection is closed."""
    pending = world.start(request, given.version)
    if pending.dropped_for is not None:
        assert_sentence(pending.dropped_for)
        return None
    assert pending.is_answered
    answer = pending.answer
    return decode(type(answer), given.version, encode(answer, given.version))


def _acl(resource: Any, acl: Any) -> Acl:
    return Acl(
        resource.resource_type,
        resource.resource_name,
        resource.pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission_type,
    )


PLAYERS: Final = {"create": _create, "delete": _delete, "describe": _describe, "bytes": _bytes}

ACLS: Final = Property("acls", cases, check, frozenset({"changed", "answered", CLOSED}))
