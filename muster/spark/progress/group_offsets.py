"""Fetches and commits the offsets of one group, without membership, through librdkafka.

Such a commit is refused by the cluster as soon as the group has members (UNKNOWN_MEMBER_ID), and leaves them
alone. Two of librdkafka's bugs (seen with 2.16) would end the user's whole process, and shaped this module:
an admin client aborts if it is used on when one of its requests has timed out and the broker is back (its issue
4605), so no request times out inside of it: the waiting is done here, and after any failure the client is thrown
away. And an admin's question for a group's offsets may crash, so `clients.committed_offsets` asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, Final, TypeVar

from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
)
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from muster.sentences import counted
from muster.spark.clients import committed_offsets, error_text, new_admin, new_group_reader
from muster.spark.errors import PassingError
from muster.spark.progress.positions import LiveMembersError, Positions, ProgressError, listed
from protocol.topic_partition import TopicPartition

ANSWER_TIMEOUT_S: Final = 10.0
_NEVER_S: Final = 3_600.0  # The longest timeout of a request in librdkafka; see above.
_PATIENCE: Final[Mapping[str, Any]] = {"request_timeout": _NEVER_S}
# An error reports a dead broker; librdkafka's own log would repeat it on standard error every second.
_DEFAULTS: Final = {"client.id": "muster-progress", "log_level": 0}

T = TypeVar("T")


class GroupOffsets:
    """One group's offsets, for one thread at a time. `client` has librdkafka's settings but `bootstrap.servers`.

    Raises ProgressError for settings that librdkafka refuses.
    """

    def __init__(self, bootstrap: str, group_id: str, client: Mapping[str, object]) -> None:
        self.group_id = group_id
        self._said = ""
        own = {"bootstrap.servers": bootstrap, "error_cb": self._on_error}
        self._settings: dict[str, Any] = {**_DEFAULTS, **client, **own}
        self._admin: AdminClient | None = None
        self._consumer: Consumer | None = None
        try:
            self._as_consumer()
        except (KafkaException, ValueError, TypeError) as error:
            raise ProgressError(
                f"a Kafka client cannot be made of these settings: {error_text(error)}"
            ) from None

    def require_no_members(self) -> None:
        """Raises LiveMembersError if the group has members or waits for their first join, or PassingError."""
        try:
            group = self._answer(lambda admin: admin.describe_consumer_groups([self.group_id], **_PATIENCE))
        except KafkaException as error:
            if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                return
            raise self._failed(error) from error
        if group.members or group.state not in (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD):
            members = listed([f"{member.client_id} at {member.host}" for member in group.members])
            raise LiveMembersError(
                f"group {self.group_id} is {group.state.name}, "
                f"with {counted(len(group.members), 'live member')}: {members}. "
                "Its offsets are theirs; give the query a group of its own"
            )

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The group's committed offsets of `partitions`. Raises PassingError."""
        try:
            offsets = committed_offsets(self._as_consumer(), partitions, ANSWER_TIMEOUT_S)
        except KafkaException as error:
            raise self._failed(error) from error
        self._check(offsets.refused)
        return offsets.found

    def committed_in(self, topics: frozenset[str] | None) -> dict[TopicPartition, int]:
        """The group's committed offsets in `topics`, or in all topics if None. Raises PassingError."""
        try:
            known = self._as_consumer().list_topics(timeout=ANSWER_TIMEOUT_S).topics
        except KafkaException as error:
            raise self._failed(error) from error
        wanted = known if topics is None else topics & known.keys()
        return self.committed(
            TopicPartition(topic, partition) for topic in wanted for partition in known[topic].partitions
        )

    def commit(self, positions: Positions) -> frozenset[TopicPartition]:
        """Commit `positions`; return partitions that the cluster does not have, as after their topic's deletion.

        Raises LiveMembersError, and PassingError: some of the positions may then be committed.
        """
        offsets = [ClientPartition(*where, offset) for where, offset in positions.items()]
        asked = [ConsumerGroupTopicPartitions(self.group_id, offsets)]
        try:
            done = self._answer(lambda admin: admin.alter_consumer_group_offsets(asked, **_PATIENCE))
        except KafkaException as error:
            raise self._failed(error) from error
        refused = {
            TopicPartition(at.topic, at.partition): at.error
            for at in done.topic_partitions
            if at.error is not None
        }
        return self._check(refused)

    def close(self) -> None:
        self._admin = None
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    def _check(self, errors: Mapping[TopicPartition, KafkaError]) -> frozenset[TopicPartition]:
        """The partitions that the cluster does not have. Raises the fitting error for any other error."""
        if any(error.code() == KafkaError.UNKNOWN_MEMBER_ID for error in errors.values()):
            self.require_no_members()  # Raises LiveMembersError, unless the members have just left.
        for (topic, partition), error in errors.items():
            if error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise self._failed(f"{topic}-{partition}: {error.str()}")
        return frozenset(errors)

    def _answer(self, ask: Callable[[AdminClient], dict[str, Future[T]]]) -> T:
        """The cluster's answer about the group. Raises PassingError if none comes, and KafkaException."""
        try:
            return ask(self._as_admin())[self.group_id].result(ANSWER_TIMEOUT_S)
        except FutureTimeoutError:
            raise self._failed(f"no answer in {ANSWER_TIMEOUT_S:g} s") from None

    def _as_admin(self) -> AdminClient:
        if self._admin is None:
            self._admin = new_admin(self._settings)
        return self._admin

    def _as_consumer(self) -> Consumer:
        if self._consumer is None:
            self._consumer = new_group_reader(self._settings, self.group_id)
        return self._consumer

    def _failed(self, why: object) -> PassingError:
        """Close the clients, and return the error to raise."""
        if self._admin is not None:
            self._admin.poll(0)  # This calls `_on_error`, whose error says more about the reason.
        if self._consumer is not None:
            self._consumer.poll(0)
        self.close()
        reason = error_text(why) if isinstance(why, Exception) else str(why)
        more, self._said = self._said, ""
        return PassingError(f"{reason} ({more})" if more else reason)

    def _on_error(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # Another error has the reason.
            self._said = error.str()
