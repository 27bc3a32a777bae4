"""Which rights each API asks for: as a user without any, with each single one, and with a DENY beside all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from coordinator.security.acls import CLUSTER_NAME, Acl, Operation, Permission, ResourceType
from protocol.codec.codec import spec
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.sync_group import SyncGroupRequest
from tests.conformance.access_requests import (
    REQUESTS_OF,
    Named,
    find_transactions,
    metadata_by_id,
    offset_fetch_of_all,
)
from tests.conformance.access_scenes import USER, User, acl, things
from tests.conformance.registry import scenario
from tests.conformance.run import Run
from tests.conformance.secured import SECURED

TOPIC, GROUP, CLUSTER, TRANSACTION = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.CLUSTER,
    ResourceType.TRANSACTIONAL_ID,
)
OPERATIONS: Final = {
    "topic": (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.ALL,
    ),
    "group": (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    "cluster": (
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    "transaction": (Operation.DESCRIBE, Operation.WRITE, Operation.TWO_PHASE_COMMIT),
}
KINDS: Final = tuple(OPERATIONS)
EVERYTHING: Final = "everything"
REMOVED: Final = "(differs)"
JOIN_VERSION, DESCRIBE_VERSION = 1, 1
PRODUCE, METADATA, LIST_GROUPS, CREATE_TOPICS, LOG_DIRS, CLUSTER_DESCRIBED, LIST_TRANSACTIONS, PAGES = (
    *(0, 3, 16, 19, 35, 60, 66, 75),
)
VOTERS: Final = (80, 81)


@scenario("security A10", "security A17", "security A23", on=SECURED, in_turn=USER)
async def a_user_without_rights_is_refused_by_every_api(run: Run) -> None:
    """In every version; of topics and groups that are there nothing else is said than of those that are not."""
    user, named = User(run), await things(run)
    for key, make in REQUESTS_OF.items():
        for version in _versions(make(named, 0)):
            await user.ask(make(named, version), version, tidy=_tidy(run, key))
    await _ask_more(run, user, named)
    await user.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=["a", "b"]), 6, "share groups")


@scenario("security A4", "security A17", on=SECURED, choices=KINDS, in_turn=USER)
async def each_right_alone_shows_what_it_is_for(run: Run, kind: str) -> None:
    """Given to one of two topics, groups or transactional ids, or to the cluster."""
    user, named = User(run), await things(run)
    for operation in OPERATIONS[kind]:
        await user.has(_about(kind, named, operation))
        run.saw("the right", operation.name)
        await _ask_all(run, user, named)
    await user.has_none()


@scenario("security A4", "security A5", on=SECURED, choices=KINDS, in_turn=USER)
async def a_deny_beside_all_rights_takes_one_away(run: Run, kind: str) -> None:
    user, named = User(run), await things(run)
    for operation in OPERATIONS[kind]:
        await user.has(*_everything(run), _about(kind, named, operation, Permission.DENY))
        run.saw("what is denied", operation.name)
        await _ask_all(run, user, named)
    await user.has_none()


def _about(kind: str, named: Named, operation: Operation, permission: Permission = Permission.ALLOW) -> Acl:
    resource_type, name = {
        "topic": (TOPIC, named.topics[0]),
        "group": (GROUP, named.group),
        "cluster": (CLUSTER, CLUSTER_NAME),
        "transaction": (TRANSACTION, named.transactional_id),
    }[kind]
    return acl(operation, resource_type, name, permission)


def _everything(run: Run) -> list[Acl]:
    return [
        acl(Operation.ALL, kind, CLUSTER_NAME if kind is CLUSTER else "*")
        for kind in (TOPIC, GROUP, CLUSTER, TRANSACTION)
    ]


def _versions(request: Any) -> range:
    known = spec(type(request))
    return range(known.min_version, known.max_version + 1)


async def _ask_all(run: Run, user: User, named: Named) -> None:
    for key, make in REQUESTS_OF.items():
        version = _versions(make(named, 0))[-1]
        await user.ask(make(named, version), version, tidy=_tidy(run, key))
    await _ask_more(run, user, named)


async def _ask_more(run: Run, user: User, named: Named) -> None:
    """Other forms of some requests: by id, of everything, with empty ids, in versions with other rights."""
    for note, request, version in _more(named):
        key = spec(type(request)).api_key
        assert key is not None
        await user.ask(request, version, note, _in_order(run) if note == EVERYTHING else _tidy(run, key))


def _more(named: Named) -> Iterator[tuple[str, Any, int]]:
    yield "by id", metadata_by_id(named), 12
    yield "all topics", MetadataRequest(topics=None, include_topic_authorized_operations=True), 12
    yield "all topics", MetadataRequest(topics=[]), 0
    yield "all topics", DescribeTopicPartitionsRequest(), 0
    yield EVERYTHING, offset_fetch_of_all(named, 5), 5
    yield EVERYTHING, offset_fetch_of_all(named, 9), 9
    yield EVERYTHING, offset_fetch_of_all(named, 10), 10
    yield "transactions", find_transactions(named, 3), 3
    yield "transactions", find_transactions(named, 6), 6
    yield "clients' version", REQUESTS_OF[24](named, 3), 3
    yield "no transactional id", InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1), 5
    yield "empty group id", HeartbeatRequest(group_id="", generation_id=1, member_id="m"), 4
    yield "empty group id", REQUESTS_OF[11](_without_group(named), 9), 9
    yield (
        "no protocol",
        SyncGroupRequest(group_id=named.group, generation_id=1, member_id="m", assignments=[]),
        5,
    )
    yield "by name", REQUESTS_OF[8](named, 9), 9
    yield "by name", REQUESTS_OF[9](named, 9), 9
    yield "by name", REQUESTS_OF[1](named, 12), 12
    yield "by name", REQUESTS_OF[0](named, 12), 12


def _without_group(named: Named) -> Named:
    return Named(named.topics, named.topic_ids, named.absent, named.absent_id, ("",), named.transactional_ids)


def _tidy(run: Run, key: int) -> Any:
    """What takes out of an answer what each broker has for itself, and the order that Kafka's tables give it."""

    def tidy(reply: Any) -> None:
        if key == LIST_GROUPS:
            reply.groups = [each for each in reply.groups if each.group_id.startswith(run.name)]
        elif key == LIST_TRANSACTIONS:
            states = reply.transaction_states
            reply.transaction_states = [each for each in states if each.transactional_id.startswith(run.name)]
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
                    each for each in rows if key == PRODUCE or each.name is None or _is_of(run, each.name)
                ]
                setattr(reply, name, sorted(mine, key=lambda each: _place(run, each)))

    return tidy


def _in_order(run: Run) -> Any:
    """Of all offsets of a group Kafka has the topics in the order of a table: by the names that ids stand for."""

    def tidy(reply: Any) -> None:
        for answer in (reply, *reply.groups):
            answer.topics = sorted(answer.topics, key=lambda topic: _place(run, topic))

    return tidy


def _is_of(run: Run, name: str) -> bool:
    return name.startswith(run.name.replace("/", "-"))


def _place(run: Run, topic: Any) -> str:
    names = {topic_id: name for name, topic_id in run.topic_ids.items()}
    return str(topic.name or names.get(bytes(topic.topic_id), ""))


# Groups of the consumer protocol (KIP-848).


@scenario("security A22", on=SECURED, in_turn=USER)
async def an_expression_matches_what_its_member_may_describe(run: Run) -> None:
    """What else it matches is neither assigned nor shown; a topic that is named has to be one that may be."""
    user, named = User(run), await things(run)
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
        connection = await run.free_connection("alice")
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
