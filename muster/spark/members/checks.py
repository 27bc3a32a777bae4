"""Checks what can be refused before any member starts: options, topics, log ends, and the group's present state.

The cluster is asked by a stock client. A refusal is a MembersError with a sentence.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection

from muster.spark.clients import (
    LATEST,
    committed_offsets,
    error_text,
    log_offsets,
    new_admin,
    new_consumer,
    new_group_reader,
)
from muster.spark.members.plan import MembersError, Plan, stop_group_id
from protocol.topic_partition import TopicPartition

TIMEOUT_S: Final = 20.0
_NO_SUCH_GROUP: Final = (KafkaError.GROUP_ID_NOT_FOUND, KafkaError.UNKNOWN_MEMBER_ID)

# Errors that pass: a cluster that has not had a group yet creates the coordinator's topic when it is first asked.
_PASSING: Final = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)
_AGAIN_S: Final = 0.2


def check_options(plan: Plan, attempts: int) -> None:
    """Raises MembersError for a plan that no cluster could run."""
    topics, members = plan.topics, plan.members
    if not plan.bootstrap or not plan.group_id:
        raise MembersError("bootstrap and group_id must not be empty")
    if isinstance(topics, str) or not topics or not all(isinstance(each, str) and each for each in topics):
        raise MembersError(f"topics must be a list of at least one topic's name, not {topics!r}")
    if len(set(topics)) < len(topics):
        raise MembersError(f"a topic is named twice among {', '.join(topics)}")
    if isinstance(members, bool) or not isinstance(members, int) or members < 1:
        raise MembersError(f"members must be a number from 1 on, not {members!r}")
    if not callable(plan.process):
        raise MembersError(f"process must be a function of a batch and a context, not {plan.process!r}")
    for name in ("batch_rows", "commit_interval_s", "stall_timeout_s"):
        require_positive(name, getattr(plan, name))
    require_positive("attempts", attempts)


def require_positive(name: str, value: float) -> None:
    """Raises MembersError unless `value` is above zero."""
    if not value > 0:
        raise MembersError(f"{name} must be above zero, not {value!r}")


def check_settings(plan: Plan) -> None:
    """Raises MembersError if the stock client refuses the settings, or members could not join with them."""
    try:
        new_consumer(plan.consumer_settings(0)).close()
    except (KafkaException, TypeError, ValueError) as error:
        raise MembersError(f"the client refuses its settings: {error_text(error)}") from error


class ClusterQueries:
    """The driver's questions to the cluster. Each raises MembersError if no answer comes."""

    def __init__(self, bootstrap: str, settings: Mapping[str, str]) -> None:
        self._bootstrap = bootstrap
        kept = {name: value for name, value in settings.items() if name.startswith(_CONNECTION_SETTINGS)}
        self._settings: dict[str, str | int | float | bool] = {**kept, "bootstrap.servers": bootstrap}
        self._admin = new_admin(self._settings)

    def partitions_of(self, topics: Iterable[str]) -> list[TopicPartition]:
        """All partitions of the topics. Raises MembersError, which names topics that do not exist."""
        futures = self._admin.describe_topics(TopicCollection(list(topics)), request_timeout=TIMEOUT_S)
        found: list[TopicPartition] = []
        unknown: list[str] = []
        for topic, future in futures.items():
            try:
                found += [TopicPartition(topic, each.id) for each in future.result().partitions]
            except KafkaException as error:
                if error.args[0].code() not in (
                    KafkaError.UNKNOWN_TOPIC_OR_PART,
                    KafkaError.TOPIC_EXCEPTION,
                ):
                    raise self._unanswered("describing topics", error) from error
                unknown.append(topic)
        if unknown:
            raise MembersError(f"{self._bootstrap} has no topic {' and no topic '.join(sorted(unknown))}")
        return found

    def log_ends(
        self, partitions: Iterable[TopicPartition], *, committed_only: bool
    ) -> dict[TopicPartition, int]:
        """The high watermark of each partition, or its last stable offset if `committed_only`.

        Raises MembersError.
        """
        wanted = dict.fromkeys(partitions, LATEST)
        try:
            return log_offsets(self._admin, wanted, committed_only=committed_only, timeout_s=TIMEOUT_S).all()
        except KafkaException as error:
            raise self._unanswered("listing offsets", error) from error

    def committed(self, group_id: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offsets that the group has committed, even if an open transaction is about to change them."""
        consumer = new_group_reader({**self._settings, "isolation.level": "read_uncommitted"}, group_id)
        wanted = list(partitions)

        def ask() -> dict[TopicPartition, int]:
            return committed_offsets(consumer, wanted, TIMEOUT_S).all()

        try:
            answer: dict[TopicPartition, int] | None = self._of_coordinator(
                f"fetching the offsets of group {group_id}", ask
            )
        finally:
            consumer.close()
        return answer or {}

    def check_group(self, group_id: str) -> None:
        """Raises MembersError if the group is not a consumer group, or has members that are no consumers."""

        def ask() -> Any:
            futures = self._admin.describe_consumer_groups([group_id], request_timeout=TIMEOUT_S)
            return futures[group_id].result()

        self._of_coordinator(f"describing group {group_id}", ask)

    def delete_stop_group(self, group_id: str) -> None:
        """Delete the commit that `stop` has left: it was meant for an earlier run."""
        name = stop_group_id(group_id)

        def ask() -> Any:
            return self._admin.delete_consumer_groups([name], request_timeout=TIMEOUT_S)[name].result()

        self._of_coordinator(f"deleting group {name}", ask)

    def _of_coordinator(self, doing: str, ask: Callable[[], Any]) -> Any:
        """Return the answer, None if there is no such group; ask again while the coordinator is not available."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while True:
            try:
                return ask()
            except KafkaException as error:
                code = error.args[0].code()
                if code in _NO_SUCH_GROUP:
                    return None
                if code not in _PASSING or time.monotonic() > deadline_s:
                    raise self._unanswered(doing, error) from error
            time.sleep(_AGAIN_S)

    def _unanswered(self, doing: str, error: KafkaException) -> MembersError:
        return MembersError(f"{doing} on {self._bootstrap}: {error_text(error)}")


# Prefixes of settings for a member's connection (TLS, SASL, socket timeouts), which the driver needs as well.
_CONNECTION_SETTINGS: Final = (
    "security.",
    "sasl.",
    "ssl.",
    "socket.",
    "client.dns.",
    "broker.address.",
    "log",
)


def check_committed(
    group_id: str, committed: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> None:
    """Raises MembersError if a committed offset is beyond the log's end: it was of another log of that name."""
    beyond = [
        f"{where} at {committed[where]}, and the log ends at {end}"
        for where, end in sorted(ends.items())
        if committed.get(where, 0) > end
    ]
    if beyond:
        more = f" (and {len(beyond) - 1} more)" if len(beyond) > 1 else ""
        raise MembersError(
            f"group {group_id} is on {beyond[0]}{more}: was the topic created again? "
            "Reset the group's offsets first"
        )
