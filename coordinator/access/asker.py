"""One request's client as the checks of rights see it: what it may do, and the facts that checks go by.

Knows no socket and no authorizer: it is given functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from coordinator.security.acls import CLUSTER_NAME, Operation, ResourceType


class Client(Protocol):
    """What a client may do, as the authorizer sees it."""

    def may(self, operation: Operation, resource_type: ResourceType, name: str, /) -> bool:
        """Whether it may do an operation to the resource of this type and name."""

    def permits(self, operation: Operation, resource_type: ResourceType, name: str, /) -> bool:
        """As `may`, where a no refuses nothing that was asked for: it is not logged as a denial."""

    def permitted(
        self, operations: Sequence[Operation], resource_type: ResourceType, name: str, /
    ) -> Sequence[Operation]:
        """Those of `operations` that it `permits`."""

    def may_some(self, operation: Operation, resource_type: ResourceType, /) -> bool:
        """Whether there is a resource of this type to which it may do an operation (A6)."""


OPERATIONS_OF: Final = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
}
"""The operations that answers speak of, by what they are done to (A17)."""


class KnownTopics(Protocol):
    """The topics there are."""

    def topic_name(self, topic_id: bytes, /) -> str | None:
        """The name of the topic with this id; None: there is none."""

    def topic_id(self, topic: str, /) -> bytes | None:
        """The id of the topic of this name; None: there is none."""

    def partition_count(self, topic: str, /) -> int | None:
        """Number of its partitions; None: there is no such topic."""


class Facts(Protocol):
    """What checks go by beside rights."""

    @property
    def topics(self) -> KnownTopics: ...
    @property
    def creates_topics(self) -> bool:
        """Whether topics are made because metadata of them is asked for (`auto.create.topics.enable`)."""

    @property
    def deletes_topics(self) -> bool:
        """Whether clients may delete topics at all (`delete.topic.enable`)."""

    @property
    def has_consumer_groups(self) -> bool:
        """Whether groups of the consumer protocol are served now (KIP-848)."""


class Asker:
    """The client of one request of `version`; what it may do to a topic is looked up once (A22)."""

    __slots__ = ("_client", "_of_topics", "facts", "topics", "version")

    def __init__(self, version: int, client: Client, facts: Facts) -> None:
        self._client = client
        self._of_topics: dict[tuple[Operation, str], bool] = {}
        self.version = version
        self.facts = facts
        self.topics = facts.topics

    def may(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        if resource_type is ResourceType.TOPIC:
            return self.may_topic(operation, name)
        return self._client.may(operation, resource_type, name)

    def may_some(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether there is a resource of this type to which the client may do `operation` (A6)."""
        return self._client.may_some(operation, resource_type)

    def may_topic(self, operation: Operation, name: str) -> bool:
        known = self._of_topics.get((operation, name))
        if known is None:
            known = self._client.may(operation, ResourceType.TOPIC, name)
            self._of_topics[operation, name] = known
        return known

    def permits_topic(self, operation: Operation, name: str) -> bool:
        """As `may_topic`, where a no only hides what was not asked for by name, or leaves another way."""
        known = self._of_topics.get((operation, name))
        return self._client.permits(operation, ResourceType.TOPIC, name) if known is None else known

    def may_group(self, operation: Operation, group_id: str) -> bool:
        return self._client.may(operation, ResourceType.GROUP, group_id)

    def permits_group(self, operation: Operation, group_id: str) -> bool:
        """As `may_group`, where a no only hides what was not asked for by name."""
        return self._client.permits(operation, ResourceType.GROUP, group_id)

    def may_transaction(self, operation: Operation, transactional_id: str) -> bool:
        return self._client.may(operation, ResourceType.TRANSACTIONAL_ID, transactional_id)

    def may_cluster(self, operation: Operation) -> bool:
        return self._client.may(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def permits_cluster(self, operation: Operation) -> bool:
        """As `may_cluster`, where another right does as well."""
        return self._client.permits(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def denied_topics(self, operation: Operation, names: Iterable[str]) -> set[str]:
        """Those of `names` to which the client may not do `operation`, whether there are such topics or not."""
        return {name for name in set(names) if not self.may_topic(operation, name)}

    def describes(self, name: str) -> bool:
        """Whether the client may know of the topic of this name."""
        return self.permits_topic(Operation.DESCRIBE, name)

    def name_of(self, topic_id: bytes) -> str | None:
        """Name of the topic with this id; None: there is none."""
        return self.topics.topic_name(topic_id)

    def operations(self, resource_type: ResourceType, name: str) -> int:
        """The operations that the client may do to the resource: a bit for each, by its code (A17)."""
        permitted = self._client.permitted(OPERATIONS_OF[resource_type], resource_type, name)
        return sum([1 << operation for operation in permitted])

    def cluster_operations(self) -> int:
        """The operations that it may do to the cluster; 0 without DESCRIBE (A17)."""
        is_shown = self.may_cluster(Operation.DESCRIBE)
        return self.operations(ResourceType.CLUSTER, CLUSTER_NAME) if is_shown else 0
