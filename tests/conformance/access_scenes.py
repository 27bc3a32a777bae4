"""What scenes about rights share: a user with the rights that a scene gives it, and questions as that user.

ACLs are made and removed over the plain listener, by a super user. Each time one more goes with them, of a group
that nothing else is about: once it counts, the others do, as a broker puts what one request changed in force at
once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Final

from coordinator.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from protocol.errors import ErrorCode
from protocol.messages.acls import AclCreation, CreateAclsRequest, DeleteAclsFilter, DeleteAclsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.conformance.access_requests import Named
from tests.conformance.run import Run
from tests.conformance.topic_scenes import eventually, make_topic, quietly, topic_name

HOST: Final = "*"
UNNAMED: Final = ""
"""In place of the principal, until it is known whom a right is given to."""
ACLS_VERSION: Final = 3
FIND_VERSION: Final = 4
ABSENT_ID: Final = b"\x07" * 16
WAIT_S: Final = 20.0
REFUSED_TEXT: Final = "(an error of rights)"


def acl(
    operation: Operation,
    resource_type: ResourceType,
    name: str,
    permission: Permission = Permission.ALLOW,
    pattern: PatternType = PatternType.LITERAL,
) -> Acl:
    """An ACL of the user that it is given to."""
    return Acl(resource_type, name, pattern, UNNAMED, HOST, operation, permission)


@dataclass
class User:
    """A user whose rights change within a scene; no other scene played beside it has the same."""

    run: Run
    name: str
    _marks: int = 0
    _given: list[Acl] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.run.logs_in(self.name)

    async def has(self, *acls: Acl) -> None:
        """Give the user these ACLs and no other, or who is named in them; returns when they are in force."""
        await self.has_none()
        self._marks += 1
        given = [*acls, acl(Operation.DESCRIBE, ResourceType.GROUP, self._mark)]
        self._given = [each._replace(principal=each.principal or f"User:{self.name}") for each in given]
        made = await quietly(
            self.run, CreateAclsRequest(creations=list(map(_creation, self._given))), ACLS_VERSION
        )
        failed = [each.error_message for each in made.results if each.error_code]
        assert not failed, failed
        await self._until_mark(ErrorCode.NONE)

    async def has_none(self) -> None:
        """Take away what the user was given."""
        if self._given:
            given, self._given = self._given, []
            await quietly(self.run, DeleteAclsRequest(filters=list(map(_filter, given))), ACLS_VERSION)
            await self._until_mark(ErrorCode.GROUP_AUTHORIZATION_FAILED)

    @property
    def _mark(self) -> str:
        return f"{self.run.name}-mark-{self._marks}"

    async def _until_mark(self, error: ErrorCode) -> None:
        deadline = time.monotonic() + WAIT_S
        while True:
            connection = await self.run.free_connection(self.name)
            reply = await connection.send(FindCoordinatorRequest(coordinator_keys=[self._mark]), FIND_VERSION)
            if reply.coordinators[0].error_code == error:
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"the ACLs of {self._mark} never counted")
            await asyncio.sleep(0.02)

    async def ask(
        self, request: Any, version: int, note: str = "", tidy: Callable[[Any], None] | None = None
    ) -> Any:
        """Ask as the user, and enter the answer into the transcript, without texts that repeat the request."""
        asked = await self.run.send(self.name, request, version, note)
        try:
            reply = await asked.reply
        except ConnectionError:
            self.run.hang_up(self.name)
            self.run.saw(asked.what, "closed")
            return None
        before = repr(reply)
        tidy_texts(reply)
        if tidy is not None:
            tidy(reply)
        if repr(reply) == before:  # Nothing was taken out: its bytes are compared too.
            return await self.run.answer(asked)
        self.run.saw(asked.what, reply)
        return reply


def _creation(given: Acl) -> AclCreation:
    return AclCreation(
        resource_type=given.resource_type,
        resource_name=given.resource_name,
        resource_pattern_type=given.pattern_type,
        principal=given.principal,
        host=given.host,
        operation=given.operation,
        permission_type=given.permission,
    )


def _filter(given: Acl) -> DeleteAclsFilter:
    return DeleteAclsFilter(
        resource_type_filter=given.resource_type,
        resource_name_filter=given.resource_name,
        pattern_type_filter=given.pattern_type,
        principal_filter=given.principal,
        host_filter=given.host,
        operation=given.operation,
        permission_type=given.permission,
    )


def tidy_texts(message: Any) -> None:
    """Kafka's texts of 31 hold a dump of the request (A10)."""
    if isinstance(message, list):
        for each in message:
            tidy_texts(each)
    if not is_dataclass(message) or isinstance(message, type):
        return
    for each in fields(message):
        value = getattr(message, each.name)
        is_refused = getattr(message, "error_code", 0) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        if each.name == "error_message" and value and is_refused:
            setattr(message, each.name, REFUSED_TEXT)
        else:
            tidy_texts(value)


async def things(run: Run) -> Named:
    """Make two topics; name what else the requests are about, none of which exists."""
    topics = tuple([await make_topic(run, suffix) for suffix in ("one", "two")])
    found = await eventually(
        run, _metadata_of(topics), 12, lambda reply: not any(t.error_code for t in reply.topics)
    )
    ids = {topic.name: bytes(topic.topic_id) for topic in found.topics}
    run.topic_ids.update(ids)
    return Named(
        topics=topics,
        topic_ids=tuple(ids[name] for name in topics),
        absent=topic_name(run, "absent"),
        absent_id=ABSENT_ID,
        groups=(f"{run.name}-g1", f"{run.name}-g2"),
        transactional_ids=(f"{run.name}-t1", f"{run.name}-t2"),
    )


def _metadata_of(topics: tuple[str, ...]) -> Any:
    from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in topics])
