"""StandardAuthorizer's decisions (A1 to A9, A21, A27): by examples, and beside a look at every ACL."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from coordinator.security import authorizer as authorizer_module
from coordinator.security.acls import CLUSTER_NAME, Acl, Operation, PatternType, Permission, ResourceType
from coordinator.security.authorizer import StandardAuthorizer
from coordinator.security.denials import LOGGED_EVERY, MAX_PRINCIPALS, OTHERS
from tests.security import acl_worlds
from tests.security.acl_worlds import acls, questions

HERE = "127.0.0.1"
OPERATIONS = [each for each in Operation if each not in (Operation.UNKNOWN, Operation.ANY, Operation.ALL)]


def acl(**changes: Any) -> Acl:
    """ALLOW READ of topic orders for alice from anywhere, with `changes`."""
    base = Acl(
        ResourceType.TOPIC,
        "orders",
        PatternType.LITERAL,
        "User:alice",
        "*",
        Operation.READ,
        Permission.ALLOW,
    )
    return base._replace(**changes)


def authorizer(*added: Acl, super_users: tuple[str, ...] = (), everyone: bool = False) -> StandardAuthorizer:
    made = StandardAuthorizer(super_users, allow_everyone=everyone)
    made.change(added)
    return made


def may(
    made: StandardAuthorizer, operation: Operation, name: str = "orders", principal: str = "User:alice"
) -> bool:
    return made.may(principal, HERE, operation, ResourceType.TOPIC, name)


@settings(max_examples=400, deadline=None)
@given(
    world=st.lists(acls, max_size=12, unique=True),
    removed=st.lists(acls, max_size=6, unique=True),
    asked=st.lists(questions, min_size=1, max_size=8),
    everyone=st.booleans(),
)
def test_decisions_are_those_of_a_look_at_every_acl(
    world: list[Acl], removed: list[Acl], asked: list[Any], everyone: bool
) -> None:
    """Also when asked again, and after some ACLs were there and went: A3 to A6, A8, A9."""
    made = StandardAuthorizer((), allow_everyone=everyone)
    extra = [each for each in removed if each not in world]
    made.change([*world, *extra])
    for question in asked:
        assert made.may(*question) == acl_worlds.may([*world, *extra], question, everyone)
    made.change(removed=extra)
    for question in (*asked, *asked):
        assert made.may(*question) == acl_worlds.may(world, question, everyone)
        assert made.may_some(*question[:4]) == acl_worlds.may_some(world, question, everyone)
        principal, host, _, resource_type, name = question
        assert list(made.permitted(principal, host, OPERATIONS, resource_type, name)) == [
            operation
            for operation in OPERATIONS
            if acl_worlds.may(world, (principal, host, operation, resource_type, name), everyone)
        ]
    assert set(made.all_acls()) == set(world)


def test_super_users_may_do_everything_and_case_matters() -> None:
    """A1: a DENY does not hold for them; `User:*` there is a user of that name."""
    deny = acl(permission=Permission.DENY, operation=Operation.ALL)
    made = authorizer(deny, super_users=("User:alice", "User:*"))
    assert may(made, Operation.ALTER)
    assert made.may_some("User:alice", HERE, Operation.WRITE, ResourceType.TOPIC)
    assert not may(made, Operation.ALTER, principal="User:Alice")
    assert may(made, Operation.ALTER, principal="User:*")
    assert not may(made, Operation.ALTER, principal="User:bob")


@pytest.mark.parametrize(
    "operation", [Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER, Operation.ALL]
)
def test_what_implies_describe_does_so_only_where_it_allows(operation: Operation) -> None:
    """A4: DENY READ leaves DESCRIBE; DENY ALL does not."""
    assert may(authorizer(acl(operation=operation)), Operation.DESCRIBE)
    allowed = acl(operation=Operation.DESCRIBE)
    denied = acl(operation=operation, permission=Permission.DENY)
    assert may(authorizer(allowed, denied), Operation.DESCRIBE) == (operation is not Operation.ALL)


def test_only_alter_configs_implies_describe_configs() -> None:
    """A4."""
    for operation in Operation:
        expected = operation in (Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS, Operation.ALL)
        assert may(authorizer(acl(operation=operation)), Operation.DESCRIBE_CONFIGS) == expected, operation


def test_a_deny_wins_whichever_pattern_it_has() -> None:
    """A5."""
    allow = acl(resource_name="*")
    for name, kind in (("orders", 3), ("ord", 4), ("*", 3), ("orders", 4)):
        deny = acl(resource_name=name, pattern_type=kind, permission=Permission.DENY, principal="User:*")
        assert not may(authorizer(allow, deny), Operation.READ)
        assert may(authorizer(allow, deny._replace(host="10.0.0.7")), Operation.READ)


def test_a_prefixed_star_is_only_a_prefix() -> None:
    """A3."""
    made = authorizer(acl(resource_name="*", pattern_type=PatternType.PREFIXED))
    assert not may(made, Operation.READ)
    assert may(made, Operation.READ, name="*orders")


def test_names_that_sort_below_the_wildcard_are_names_like_others() -> None:
    """Kafka 4.3.1 does not answer for such a name, or with -1, where there are ACLs on such names."""
    made = authorizer(acl(resource_name="!zz"), acl(resource_name="!a", pattern_type=PatternType.PREFIXED))
    assert [may(made, Operation.READ, name) for name in ("!q", "!zq", "!zz", "!ab")] == [
        False,
        False,
        True,
        True,
    ]


def test_everyone_may_only_where_no_acl_concerns_the_resource() -> None:
    """A5: one ACL, for another principal and operation, ends it; one on `*` ends it for all topics."""
    made = authorizer(acl(principal="User:bob", operation=Operation.ALTER), everyone=True)
    assert not may(made, Operation.READ)
    assert may(made, Operation.READ, name="other")
    assert made.may("User:alice", HERE, Operation.READ, ResourceType.GROUP, "orders")
    made.change([acl(resource_name="*", principal="User:bob")])
    assert not may(made, Operation.READ, name="other")
    assert made.may("User:alice", HERE, Operation.READ, ResourceType.GROUP, "orders")
    assert made.may("User:alice", HERE, Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)


def test_some_topic_is_asked_for_without_a_name() -> None:
    """A6: READ does not do, nor a pattern that a DENY covers whole; one that it covers in part does."""

    def may_write_some(*added: Acl) -> bool:
        return authorizer(*added).may_some("User:alice", HERE, Operation.WRITE, ResourceType.TOPIC)

    write = acl(operation=Operation.WRITE)
    prefixed = write._replace(resource_name="or", pattern_type=PatternType.PREFIXED)
    deny = Permission.DENY
    assert not may_write_some()
    assert not may_write_some(acl())
    assert may_write_some(write)
    assert may_write_some(acl(operation=Operation.ALL))
    assert not may_write_some(write, write._replace(permission=deny))
    assert not may_write_some(write, prefixed._replace(permission=deny))
    assert not may_write_some(prefixed, prefixed._replace(permission=deny, resource_name="o"))
    assert not may_write_some(prefixed, prefixed._replace(permission=deny)), "the same covers it whole"
    assert may_write_some(prefixed, prefixed._replace(permission=deny, resource_name="ord"))
    assert not may_write_some(prefixed, write._replace(permission=deny, resource_name="*"))
    assert may_write_some(prefixed, write._replace(permission=deny))
    assert may_write_some(prefixed, prefixed._replace(permission=deny, resource_name="orders"))


@pytest.mark.parametrize(
    ("peer", "named"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::ffff:127.0.0.1", "127.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("2001:db8::ff00:42", "2001:db8:0:0:0:0:ff00:42"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
    ],
)
def test_hosts_are_as_java_writes_them(peer: str, named: str) -> None:
    """A8."""
    question = ("User:alice", peer, Operation.READ, ResourceType.TOPIC, "orders")
    assert authorizer(acl(host=named)).may(*question)
    if named != peer:
        assert not authorizer(acl(host=peer)).may(*question)


def test_a_change_moves_the_version_and_is_in_force_at_once() -> None:
    """A9, A28."""
    made = authorizer()
    before = made.version
    assert not may(made, Operation.READ)
    made.change([acl()])
    assert made.version != before
    assert may(made, Operation.READ)
    made.change(removed=[acl()])
    assert made.version not in (before, before + 1)
    assert not may(made, Operation.READ)


def test_what_was_decided_is_kept_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authorizer_module, "MAX_KEPT", 3)
    made = authorizer(acl(resource_name="o", pattern_type=PatternType.PREFIXED))
    for name in ("o1", "o2", "x3", "o4", "o1"):
        assert may(made, Operation.READ, name) == name.startswith("o")
        assert len(made._kept) <= 3
    may(made, Operation.READ, "o" * 600)
    assert all(len(question[4] or "") < 600 for question in made._kept)


def test_lists_take_no_decision_from_those_that_requests_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Metadata of all topics, with the operations of each, asks for more than are kept."""
    monkeypatch.setattr(authorizer_module, "MAX_KEPT", 3)
    monkeypatch.setattr(authorizer_module, "MAX_KEPT_LISTED", 2)
    made = authorizer(acl())
    asked = ("User:alice", HERE, Operation.READ, ResourceType.TOPIC)
    assert made.may(*asked, "orders")
    for number in range(9):
        assert not made.permits(*asked, f"t{number}")
        assert not made.permitted("User:alice", HERE, OPERATIONS, ResourceType.TOPIC, f"t{number}")
    assert [question[4] for question in made._kept] == ["orders", "t0"]


def test_the_operations_that_are_listed_are_those_that_no_deny_takes() -> None:
    """DENY of one takes that one, DENY of ALL takes all (A4)."""
    asked = ("User:alice", HERE, OPERATIONS, ResourceType.TOPIC, "orders")
    every, deny = acl(operation=Operation.ALL), acl(permission=Permission.DENY)
    allowed = [operation for operation in OPERATIONS if operation != Operation.READ]
    assert authorizer(every, deny).permitted(*asked) == allowed
    assert not authorizer(every, deny._replace(operation=Operation.ALL)).permitted(*asked)
    assert authorizer(acl()).permitted(*asked) == [Operation.READ, Operation.DESCRIBE]


def test_super_users_are_permitted_all_operations() -> None:
    made = authorizer(super_users=("User:alice",))
    assert made.permitted("User:alice", HERE, OPERATIONS, ResourceType.TOPIC, "orders") == OPERATIONS


def test_a_decision_that_fails_is_a_denial(monkeypatch: pytest.MonkeyPatch) -> None:
    """A27: one line of the log, and nothing is kept."""
    made = authorizer(acl())
    with capture_logs() as lines:
        assert not made.may("User:alice", "not:an:address", Operation.READ, ResourceType.TOPIC, "orders")
        assert not made.may_some("User:alice", "not:an:address", Operation.READ, ResourceType.TOPIC)
        assert not made.permitted("User:alice", "not:an:address", OPERATIONS, ResourceType.TOPIC, "orders")
    failed = [line for line in lines if line["event"] == "a decision failed, denied"]
    assert [line["log_level"] for line in failed] == ["error"]
    assert not made._kept
    assert may(made, Operation.READ)


def test_denials_are_counted_and_seldom_logged() -> None:
    """A21, F14: the first of a principal and every thousandth; what is only listed counts for nothing."""
    made = authorizer()
    with capture_logs() as lines:
        for _ in range(LOGGED_EVERY + 1):
            may(made, Operation.READ, name="x" * 1_000)
        may(made, Operation.READ, principal="User:bob")
        assert not made.permits("User:carol", HERE, Operation.READ, ResourceType.TOPIC, "orders")
    assert made.denials.counts == {"User:alice": LOGGED_EVERY + 1, "User:bob": 1}
    shown = [(line["principal"], line["denied_so_far"]) for line in lines if line["event"] == "denied"]
    assert shown == [("User:alice", 1), ("User:alice", LOGGED_EVERY + 1), ("User:bob", 1)]
    assert all(len(line["resource"]) < 300 for line in lines)


def test_principals_whose_denials_are_counted_have_a_bound() -> None:
    made = authorizer()
    for number in range(MAX_PRINCIPALS + 5):
        may(made, Operation.READ, principal=f"User:{number}")
    assert len(made.denials.counts) == MAX_PRINCIPALS + 1
    assert made.denials.counts[OTHERS] == 5
