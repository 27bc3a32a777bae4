"""Which rights each API asks for: as a user without any, with each single one, and with a DENY beside all."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from coordinator.security.acls import CLUSTER_NAME, Acl, Operation, PatternType, Permission, ResourceType
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from protocol.messages.fetch import PartitionData
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.sync_group import SyncGroupRequest
from tests.conformance.access_requests import (
    OWNER,
    REQUESTS_OF,
    Named,
    fetch_as_replica,
    find_transactions,
    metadata_by_id,
    offset_fetch_of_all,
    produce_in_transaction,
)
from tests.conformance.access_scenes import User, acl, things
from tests.conformance.registry import scenario
from tests.conformance.rights_matrix import Matrix, versions
from tests.conformance.run import Run
from tests.conformance.scenarios.configs import BROKER, SET, incremental
from tests.conformance.secured import SECURED, WITHOUT_RIGHTS
from tests.conformance.topic_scenes import topic_name

TOPIC, GROUP, CLUSTER, TRANSACTION, USER = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.CLUSTER,
    ResourceType.TRANSACTIONAL_ID,
    ResourceType.USER,
)
PREFIXED: Final = PatternType.PREFIXED
OPERATIONS: Final = tuple(op for op in Operation if Operation.ALL <= op <= Operation.TWO_PHASE_COMMIT)
OF_USERS: Final = (Operation.ALL, Operation.ALTER, Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS)
"""What may be done to users, and what may not: a single API asks for the former."""
KINDS: Final = {"topic": TOPIC, "group": GROUP, "cluster": CLUSTER, "transaction": TRANSACTION, "user": USER}
SUPER_USER: Final = "admin"
EVERYTHING: Final = "everything"
SHARE: Final = "share groups"
REPLICA: Final = "as a replica"
REMOVED: Final = "(differs)"
JOIN_VERSION, DESCRIBE_VERSION = 1, 1
PRODUCE, METADATA, LIST_GROUPS, CREATE_TOPICS, LOG_DIRS, CLUSTER_DESCRIBED, LIST_TRANSACTIONS, PAGES = (
    *(0, 3, 16, 19, 35, 60, 66, 75),
)
VOTERS: Final = (80, 81)


@scenario("security A1", "security A10", "security A17", "security A23", on=SECURED)
async def a_user_without_rights_is_refused_by_every_api(run: Run) -> None:
    """In every version; of topics and groups that are there nothing else is said than of those that are not.

    A super user passes, whatever is denied to it.
    """
    user, named = User(run, "no_rights"), await things(run)
    matrix = Matrix(run, named, questions(named), _tidy)
    refused = await matrix.ask(user.name, "without rights")
    run.logs_in(SUPER_USER)
    await matrix.ask(SUPER_USER, "a super user")
    denials = [each._replace(permission=Permission.DENY) for each in _everything(run)]
    await user.has(*[each._replace(principal=f"User:{SUPER_USER}") for each in denials])
    denied = await matrix.ask(SUPER_USER, "a super user to whom all is denied")
    run.expect(not _refusals(denied), "DENY does not hold for a super user")
    run.expect(bool(_refusals(refused)), "and others are refused")
    await user.has_none()


@scenario("security A4", "security A17", on=SECURED, choices=KINDS)
async def each_right_alone_shows_what_it_is_for(run: Run, kind: str) -> None:
    """Each operation, given to one of two topics, groups or transactional ids, or to the cluster, or a user."""
    user, named = User(run, f"{kind}_rights"), await things(run)
    matrix = Matrix(run, named, questions(named), _tidy)
    for operation in OF_USERS if kind == "user" else OPERATIONS:
        await user.has(_about(kind, named, operation))
        await matrix.ask(user.name, f"{operation.name} alone")
    await user.has_none()


@scenario("security A4", "security A5", on=SECURED, choices=KINDS)
async def a_deny_beside_all_rights_takes_one_away(run: Run, kind: str) -> None:
    user, named = User(run, f"{kind}_denied"), await things(run)
    matrix = Matrix(run, named, questions(named), _tidy)
    for operation in OF_USERS if kind == "user" else OPERATIONS:
        await user.has(*_everything(run), _about(kind, named, operation, Permission.DENY))
        await matrix.ask(user.name, f"all but {operation.name}")
    await user.has_none()


def _refusals(texts: list[str]) -> list[str]:
    return [text for text in texts if re.search(r"'error_code': (29|30|31|53)\b", text)]


def _about(kind: str, named: Named, operation: Operation, permission: Permission = Permission.ALLOW) -> Acl:
    name = {
        "topic": named.topics[0],
        "group": named.group,
        "cluster": CLUSTER_NAME,
        "transaction": named.transactional_id,
        "user": f"User:{OWNER}",
    }[kind]
    return acl(operation, KINDS[kind], name, permission)


def _everything(run: Run) -> list[Acl]:
    """All rights to all that the requests of this run are about, and nothing that other scenes are."""
    prefixes = {TOPIC: topic_name(run, ""), GROUP: f"{run.name}-", TRANSACTION: f"{run.name}-", USER: "User:"}
    return [
        acl(Operation.ALL, CLUSTER, CLUSTER_NAME),
        *(acl(Operation.ALL, kind, name, pattern=PREFIXED) for kind, name in prefixes.items()),
    ]


def questions(named: Named) -> Iterator[tuple[str, Any, int]]:
    """The request of every API in every version, and other forms of some.

    By id, of everything, with empty ids, in versions with other rights.
    """
    for make in REQUESTS_OF.values():
        for version in versions(make(named, 0)):
            yield "", make(named, version), version
    yield "by id", metadata_by_id(named), 12
    yield "all topics", MetadataRequest(topics=None, include_topic_authorized_operations=True), 12
    yield "all topics", MetadataRequest(topics=[]), 0
    yield "all topics", DescribeTopicPartitionsRequest(), 0
    for version in range(2, 11):
        yield EVERYTHING, offset_fetch_of_all(named, version), version
    for version in range(1, 7):
        yield "transactions", find_transactions(named, version), version
    yield SHARE, FindCoordinatorRequest(key_type=2, coordinator_keys=["a", "b"]), 6
    for version in range(6):
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)
        yield "no transactional id", request, version
    yield "empty group id", HeartbeatRequest(group_id="", generation_id=1, member_id="m"), 4
    yield "empty group id", REQUESTS_OF[11](_without_group(named), 9), 9
    for version in (3, 11, 12, 13):
        yield "in a transaction", produce_in_transaction(named, version), version
    for version in (4, 14, 15, 18):
        yield REPLICA, fetch_as_replica(named, version), version
    yield (
        "no protocol",
        SyncGroupRequest(group_id=named.group, generation_id=1, member_id="m", assignments=[]),
        5,
    )


def _without_group(named: Named) -> Named:
    return replace(named, groups=("",))


def _tidy(note: str, key: int, reply: Any, named: Named) -> None:
    """Take out what each broker has for itself, and the order that Kafka's tables give to an answer."""
    if key == LIST_GROUPS:
        reply.groups = [each for each in reply.groups if each.group_id in named.groups]
    elif key == LIST_TRANSACTIONS:
        states = reply.transaction_states
        reply.transaction_states = [
            each for each in states if each.transactional_id in named.transactional_ids
        ]
    elif key in (CLUSTER_DESCRIBED, METADATA):
        reply.cluster_id = REMOVED
    elif key in VOTERS:
        reply.error_message = REMOVED  # It names the cluster's id.
    elif key == CREATE_TOPICS:
        for topic in reply.topics:
            topic.configs = [] if not topic.configs else topic.configs[:1]
    elif key == LOG_DIRS:
        for each in reply.results:
            each.log_dir, each.total_bytes, each.usable_bytes = REMOVED, 0, 0
    for name in ("topics", "responses"):
        rows = getattr(reply, name, None)
        if rows and key in (PRODUCE, METADATA, PAGES):
            mine = [
                each for each in rows if key == PRODUCE or each.name is None or each.name in named.all_topics
            ]
            setattr(reply, name, sorted(mine, key=lambda each: _place(named, each)))
    if note == REPLICA:  # Only whether it may be asked: there are no replicas here.
        for topic in reply.responses:
            errors = {each.error_code for each in topic.partitions} & {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
            topic.partitions = [
                PartitionData(partition_index=0, high_watermark=0, error_code=error) for error in errors
            ]
    if note == SHARE:  # Why there are none is said by who has none.
        for answer in reply.coordinators:
            answer.error_message = REMOVED if answer.error_code == ErrorCode.INVALID_REQUEST else ""
    if note == EVERYTHING:  # Kafka has the topics of a group by what their names hash to.
        for answer in (reply, *reply.groups):
            answer.topics = sorted(answer.topics, key=lambda topic: _place(named, topic))


def _place(named: Named, topic: Any) -> str:
    names = dict(zip(named.topic_ids, named.topics, strict=True))
    return str(topic.name or names.get(bytes(topic.topic_id), ""))


# Settings of the broker.

ALTERED: Final = (
    *(("log.cleaner.threads", "1"), ("log.cleaner.threads", "x"), ("num.partitions", "3")),
    *(("super.users", "x"), ("retention.ms", "x"), ("ssl.client.auth", "required"), ("ssl.client.auth", "x")),
    *(("ssl.engine.factory.class", "x"), ("listeners", "x"), ("min.insync.replicas", "1")),
    *(("listener.name.sasl.plain.sasl.jaas.config", "x"), ("listener.name.sasl.foo", "x")),
    *(("listener.name.sasl.connections.max.reauth.ms", value) for value in ("5", "x")),
    ("listener.name.sasl.log.cleanup.policy", "x"),
)
"""Settings with a value; those that only Muster refuses are asked for without the right alone."""


@scenario("security A22", on=SECURED, choices=("1", "all"))
async def settings_of_the_broker_are_looked_at_before_the_right(run: Run, scope: str) -> None:
    """By their errors: words differ for some that are refused."""
    run.logs_in(WITHOUT_RIGHTS)
    for name, value in ALTERED:
        request = incremental(BROKER, "" if scope == "all" else scope, (name, SET, value), validate_only=True)
        connection = await run.free_connection(WITHOUT_RIGHTS)
        answer = await connection.send(request, 1)
        run.saw(f"{name}={value}", answer.responses[0].error_code)


# Groups of the consumer protocol (KIP-848).


@scenario("security A22", on=SECURED)
async def an_expression_matches_what_its_member_may_describe(run: Run) -> None:
    """What else it matches is neither assigned nor shown; a topic that is named has to be one that may be."""
    user, named = User(run, "expression_rights"), await things(run)
    shown, hidden = named.topics
    rights = (acl(Operation.READ, GROUP, named.group), acl(Operation.DESCRIBE, TOPIC, shown))
    await user.has(*rights)
    pattern = f"{run.name.replace('/', '-')}-.*"
    first = await user.ask(_joining(named, subscribed_topic_regex=pattern), JOIN_VERSION, tidy=_without_delay)
    epoch = first.member_epoch

    async def beat(reply: Any) -> bool:
        nonlocal epoch
        epoch = reply.member_epoch
        return reply.assignment is not None and bool(reply.assignment.topic_partitions)

    assigned = first
    while not await beat(assigned):
        again = ConsumerGroupHeartbeatRequest(group_id=named.group, member_id="m" * 22, member_epoch=epoch)
        connection = await run.free_connection(user.name)
        assigned = await connection.send(again, JOIN_VERSION)
    run.saw("assigned", assigned.assignment)
    for topics in ([hidden], [shown, hidden], [shown]):
        await user.ask(
            _joining(named, subscribed_topic_names=topics, member_id="n" * 22),
            JOIN_VERSION,
            str(topics),
            _without_delay,
        )
    await user.ask(ConsumerGroupDescribeRequest(group_ids=[named.group]), DESCRIBE_VERSION, tidy=_by_members)
    await user.has(acl(Operation.DESCRIBE, GROUP, named.group))
    await user.ask(
        ConsumerGroupDescribeRequest(group_ids=list(named.groups), include_authorized_operations=True),
        DESCRIBE_VERSION,
        "without the topic",
    )
    await user.has_none()


def _joining(named: Named, **changes: Any) -> ConsumerGroupHeartbeatRequest:
    fields: dict[str, Any] = {
        "member_id": "m" * 22,
        "member_epoch": 0,
        "rebalance_timeout_ms": 60_000,
        "topic_partitions": [],
    }
    return ConsumerGroupHeartbeatRequest(group_id=named.group, **(fields | changes))


def _without_delay(reply: Any) -> None:
    """When a target is computed is each broker's own affair, and so which heartbeat brings partitions."""
    reply.assignment = None


def _by_members(reply: Any) -> None:
    """Who has which partitions by now depends on heartbeats; here it matters that the group is shown."""
    for group in reply.groups:
        group.group_state, group.members = REMOVED, []
