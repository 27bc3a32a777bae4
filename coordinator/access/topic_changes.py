"""The checks of the APIs that make, widen and delete topics.

Kafka shuffles some of these answers, or has them in the order of a table, so that their order tells nothing of
topics that may not be seen; here they are in the order of the request, which tells as little.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final

from coordinator.access.asker import Asker
from coordinator.access.verdict import Verdict, passes
from coordinator.security.acls import Operation
from coordinator.topics.names import CLUSTER_METADATA_TOPIC
from protocol.codec.primitives import ZERO_UUID
from protocol.errors import ErrorCode
from protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

TOPIC_STATES_SINCE: Final = 6
"""Version of DeleteTopics from which on a topic may be named by its id."""
CONFIGS_SINCE: Final = 5
"""Version of CreateTopics from which on the answer shows the settings of the new topic."""
DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
NOT_CREATED: Final = "Authorization failed."
NOT_DELETED: Final = "Topic authorization failed."


def check_create_topics(request: CreateTopicsRequest, asker: Asker) -> Verdict:
    """CreateTopics: names that are there twice, or never allowed; then CREATE of the cluster or of each topic.

    Settings of a new topic are shown with DESCRIBE_CONFIGS of it.
    """
    once = _once(topic.name for topic in request.topics) - {CLUSTER_METADATA_TOPIC}
    creates_all = asker.permits_cluster(Operation.CREATE)
    denied = set() if creates_all else asker.denied_topics(Operation.CREATE, once)
    hidden = {name for name in once - denied if not asker.permits_topic(Operation.DESCRIBE_CONFIGS, name)}
    if not denied and (not hidden or asker.version < CONFIGS_SINCE):
        return passes(request)

    def complete(response: CreateTopicsResponse) -> CreateTopicsResponse:
        for topic in response.topics:
            if topic.name in hidden and not topic.error_code:
                topic.topic_config_error_code = DENIED
                topic.num_partitions = topic.replication_factor = -1
                topic.configs = []
        names = (topic.name for topic in request.topics)
        return CreateTopicsResponse(topics=_by_name(names, response.topics, _not_created))

    allowed = CreateTopicsRequest(
        topics=[topic for topic in request.topics if topic.name not in denied],
        timeout_ms=request.timeout_ms,
        validate_only=request.validate_only,
    )
    return Verdict(allowed, complete=complete)


def _not_created(name: str) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=DENIED, error_message=NOT_CREATED)


def _once(names: Iterable[str]) -> set[str]:
    return {name for name, count in Counter(names).items() if count == 1}


def _by_name(names: Iterable[str], answers: Iterable[Any], refusal: Callable[[str], Any]) -> list[Any]:
    """Return a row for each name, in their order: the answer, or where there is none the refusal."""
    answered = {answer.name: answer for answer in answers}
    return [answered.get(name) or refusal(name) for name in dict.fromkeys(names)]


def check_create_partitions(request: CreatePartitionsRequest, asker: Asker) -> Verdict:
    """CreatePartitions: names that are there twice; then ALTER of each topic, whether it exists or not."""
    denied = asker.denied_topics(Operation.ALTER, _once(topic.name for topic in request.topics))
    if not denied:
        return passes(request)

    def complete(response: CreatePartitionsResponse) -> CreatePartitionsResponse:
        names = (topic.name for topic in request.topics)
        return CreatePartitionsResponse(results=_by_name(names, response.results, _not_widened))

    allowed = CreatePartitionsRequest(
        topics=[topic for topic in request.topics if topic.name not in denied],
        timeout_ms=request.timeout_ms,
        validate_only=request.validate_only,
    )
    return Verdict(allowed, complete=complete)


def _not_widened(name: str) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=name, error_code=DENIED)


def check_delete_topics(request: DeleteTopicsRequest, asker: Asker) -> Verdict:
    """DeleteTopics: the form; unknown ids; DELETE of the cluster, or for each topic, as `_refusal` has it."""
    if not asker.facts.deletes_topics or asker.permits_cluster(Operation.DELETE):
        return passes(request)
    by_state = asker.version >= TOPIC_STATES_SINCE
    asked = request.topics if by_state else [DeleteTopicState(name=name) for name in request.topic_names]
    named = Counter((each.name, each.topic_id) for each in asked)
    denied = {
        key: row
        for key, times in named.items()
        if times == 1 and (row := _refusal(key[0], key[1], asker)) is not None
    }
    if not denied:
        return passes(request)
    kept = [each for each in asked if (each.name, each.topic_id) not in denied]
    keys = [(each.name, each.topic_id) for each in kept]

    def complete(response: DeleteTopicsResponse) -> DeleteTopicsResponse:
        answered = dict(zip(dict.fromkeys(keys), response.responses, strict=True))
        return DeleteTopicsResponse(responses=[denied.get(key) or answered[key] for key in named])

    allowed = DeleteTopicsRequest(
        topics=kept if by_state else [],
        topic_names=[] if by_state else [each.name or "" for each in kept],
        timeout_ms=request.timeout_ms,
    )
    return Verdict(allowed, complete=complete)


def _refusal(name: str | None, topic_id: bytes, asker: Asker) -> DeletableTopicResult | None:
    """Return the answer to who may not delete the topic; None: the handler answers.

    By name: without DESCRIBE an error, there or not; that a topic is absent; without DELETE the same error. By
    id: an error without DELETE, with the topic's name for who has DESCRIBE.
    """
    is_by_id = name is None
    if is_by_id == (topic_id == ZERO_UUID):
        return None  # Neither or both.
    if is_by_id:
        name = asker.name_of(topic_id)
    if name is None or (
        asker.may_topic(Operation.DELETE, name) and (is_by_id or asker.may_topic(Operation.DESCRIBE, name))
    ):
        return None
    is_described = asker.may_topic(Operation.DESCRIBE, name)
    if not is_by_id and is_described and asker.topics.topic_id(name) is None:
        return None
    return DeletableTopicResult(
        name=None if is_by_id and not is_described else name,
        topic_id=topic_id,
        error_code=DENIED,
        error_message=NOT_DELETED,
    )
