"""A guard with ACLs in memory, a handler that notes what it sees, and questions about what shows of what.

The checks are asked as the server asks them; answers are encoded and decoded in the version of the request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Final, NamedTuple

from coordinator.access.table import CHECKS
from coordinator.security.acls import CLUSTER_NAME, Acl, Operation, PatternType, Permission, ResourceType
from coordinator.security.authorizer import StandardAuthorizer
from coordinator.security.session import Session
from coordinator.server.access_guard import AccessGuard
from coordinator.server.pending import Pending
from harness.doubles.fake_pending import FakePending
from harness.doubles.topics import Topics
from protocol.codec.codec import spec
from protocol.messages import RESPONSES
from protocol.messages.describe_producers import DescribeProducersRequest, TopicResponse
from tests.conformance.access_requests import Named

CLIENT: Final = "User:alice"
TOPIC, GROUP, CLUSTER, TRANSACTION = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.CLUSTER,
    ResourceType.TRANSACTIONAL_ID,
)
TYPES: Final = (TOPIC, GROUP, CLUSTER, TRANSACTION)
ANYTHING: Final = "*"

Right = tuple[Operation, ResourceType]


def acl(
    operation: Operation,
    resource_type: ResourceType,
    name: str = ANYTHING,
    permission: Permission = Permission.ALLOW,
) -> Acl:
    """One about `name`, or about all resources of the type."""
    if resource_type is CLUSTER:
        name = CLUSTER_NAME
    return Acl(resource_type, name, PatternType.LITERAL, CLIENT, "*", operation, permission)


def everything() -> list[Acl]:
    return [acl(Operation.ALL, resource_type) for resource_type in TYPES]


class Traits(NamedTuple):
    """What a log line says of the API."""

    name: str


class AskedPending(FakePending):
    """A request of the client, with the fields of the server's own."""

    def __init__(self, version: int) -> None:
        super().__init__(version)
        self.session = Session(CLIENT)
        self.api = Traits("Asked")
        self.correlation_id = 7
        self.frame_bytes = 0
        self.asides: list[Callable[[], Any]] = []

    def reply_aside(self, make: Callable[[], Any], run: Any) -> None:
        self.asides.append(make)
        self.reply(make())


@dataclass
class KnownFacts:
    """What checks go by beside rights."""

    topics: Topics
    creates_topics: bool = False
    deletes_topics: bool = True
    has_consumer_groups: bool = True


@dataclass
class World:
    """A guard, and what its handler saw last."""

    acls: list[Acl] = field(default_factory=list)
    facts: KnownFacts = field(default_factory=lambda: KnownFacts(Topics(one=3, two=3, three=3)))
    everyone: bool = False
    seen: Any = None

    def __post_init__(self) -> None:
        self.rights = StandardAuthorizer(allow_everyone=self.everyone)
        self.rights.change(self.acls)

    def asked(
        self, request: Any, version: int, answer: Callable[[Any, Any], Any] | Any = None
    ) -> AskedPending:
        """Ask; the handler answers with `answer`, a response or a function, or else with an empty response."""
        key = key_of(request)
        pending, self.seen = AskedPending(version), None

        def handle(request: Any, pending: Any) -> None:
            self.seen = request
            if callable(answer):
                answer(request, pending)
            else:
                pending.reply(RESPONSES[key]() if answer is None else answer)

        self.guard(key).handle(handle, request, _as_pending(pending))
        return pending

    def answered(self, request: Any, version: int, answer: Any = None) -> Any:
        """What the client is answered, as it reads it."""
        pending = self.asked(request, version, answer)
        assert pending.is_answered, f"{request} was not answered"
        return pending.answer

    def guard(self, key: int) -> AccessGuard:
        return AccessGuard(CHECKS[key], self.rights, self.facts)


def _as_pending(pending: Any) -> Pending:
    taken: Pending = pending
    return taken


def key_of(request: Any) -> int:
    key = spec(type(request)).api_key
    assert key is not None
    return key


def named(world: World) -> Named:
    """Three topics that are all there, so that nothing is refused for any other reason than rights."""
    topics = tuple(world.facts.topics.names())
    ids = tuple(world.facts.topics.topic_id(name) or b"" for name in topics)
    return Named(
        topics=topics[:2],
        topic_ids=ids[:2],
        absent=topics[2],
        absent_id=ids[2],
        groups=("g1", "g2"),
        transactional_ids=("t1", "t2"),
    )


def codes(message: Any) -> set[int]:
    """All error codes anywhere in a message, but 0."""
    return {code for code in _codes(message) if code}


def _codes(message: Any) -> Iterator[int]:
    if isinstance(message, list):
        for each in message:
            yield from _codes(each)
    elif is_dataclass(message) and not isinstance(message, type):
        for each in fields(message):
            value = getattr(message, each.name)
            if each.name.endswith("error_code"):
                yield value
            else:
                yield from _codes(value)


def answer_rows(request: Any, pending: Any) -> None:
    """As a handler that finds nothing; DescribeProducers has a row for each topic, also of an impossible name."""
    response = RESPONSES[key_of(request)]()
    if isinstance(request, DescribeProducersRequest):
        response.topics = [TopicResponse(name=topic.name) for topic in request.topics]
    pending.reply(response)
