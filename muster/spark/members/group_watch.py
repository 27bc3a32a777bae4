"""A member's questions to the coordinator: whether the run is done, and whether it was stopped.

*Done* shows in the group's offsets, since all members have them in common and a retry of the stage begins with
them: every partition is committed up to the log end known at the start. Where a store of the user's
decides on positions, the group's offsets may be ahead of it; then only commits with this run's mark count.
*Stop* is a commit to a group of its own (`plan.stop_group_id`), for no client outside can commit to a group
that has members.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from muster.spark.clients import new_consumer
from muster.spark.members.plan import MembersError, Plan
from protocol.topic_partition import TopicPartition

ASK_INTERVAL_S: Final = 0.5
ANSWER_TIMEOUT_S: Final = 2.0  # Per request: a member that waits for an answer does not poll.
_PARTITIONS_SHOWN_MAX: Final = 5


class GroupWatch:
    """Asks the coordinator at most once in ASK_INTERVAL_S per question; in between the last answer counts."""

    def __init__(self, plan: Plan, consumer: Consumer) -> None:
        self._plan = plan
        self._consumer = consumer
        self._stop_group = new_consumer(plan.watch_settings())
        self._next_ask_s = {"done": 0.0, "stop": 0.0}
        self._answered_s = self._moved_s = time.monotonic()
        self._offsets: dict[TopicPartition, int] = {}
        self._is_done = self._is_stopped = False

    def close(self) -> None:
        self._stop_group.close()

    def moved(self) -> None:
        """Record that this member has just read something, so that the group does not count as stalled."""
        self._moved_s = time.monotonic()

    def is_stopped(self) -> bool:
        """Whether `members.stop` was called for the group."""
        if not self._is_stopped and self._may_ask("stop"):
            asked = [ClientPartition(topic, 0) for topic in self._plan.topics]
            answer = self._ask(self._stop_group, asked)
            self._is_stopped = any(each.offset >= 0 for each in answer)
        return self._is_stopped

    def is_done(self) -> bool:
        """Whether everything that the run is to read is committed. Raises MembersError if the group is stalled."""
        ends = self._plan.ends
        if ends is not None and not self._is_done and self._may_ask("done"):
            answer = self._ask(self._consumer, [ClientPartition(*where) for where in ends])
            if answer:
                self._is_done = not unfinished(self._plan, answer)
                self._check_progress(answer)
        return self._is_done

    def _may_ask(self, question: str) -> bool:
        now_s = time.monotonic()
        if now_s < self._next_ask_s[question]:
            return False
        self._next_ask_s[question] = now_s + ASK_INTERVAL_S
        return True

    def _ask(self, consumer: Consumer, partitions: list[ClientPartition]) -> list[ClientPartition]:
        """The committed offsets; empty without an answer. Raises MembersError after `stall_timeout_s` without."""
        try:
            answer = consumer.committed(partitions, ANSWER_TIMEOUT_S)
            errors = [each.error for each in answer if each.error is not None]
            if errors:
                raise KafkaException(errors[0])
        except KafkaException as error:
            if time.monotonic() - self._answered_s > self._plan.stall_timeout_s:
                raise MembersError(
                    f"the coordinator of group {self._plan.group_id} has not answered for "
                    f"{self._plan.stall_timeout_s:g} s: {error}"
                ) from error
            return []
        self._answered_s = time.monotonic()
        return answer

    def _check_progress(self, answer: list[ClientPartition]) -> None:
        """Record changed offsets. Raises MembersError if nothing has changed for `stall_timeout_s`."""
        offsets = {TopicPartition(each.topic, each.partition): each.offset for each in answer}
        if offsets != self._offsets:
            self._offsets = offsets
            self.moved()
        still_s = time.monotonic() - self._moved_s
        if not self._is_done and still_s > self._plan.stall_timeout_s:
            raise MembersError(stall_message(self._plan, answer, still_s))


def unfinished(plan: Plan, committed: list[ClientPartition]) -> list[ClientPartition]:
    """The partitions of which something is still to be read or committed."""
    ends: Mapping[TopicPartition, int] = plan.ends or {}

    def is_finished(each: ClientPartition) -> bool:
        if plan.positions is not None:
            return bool(each.metadata == plan.end_mark)
        return bool(each.offset >= ends[TopicPartition(each.topic, each.partition)])

    return [each for each in committed if not is_finished(each)]


def stall_message(plan: Plan, committed: list[ClientPartition], still_s: float) -> str:
    """The message about a group that committed nothing for `still_s` seconds, with its unfinished partitions."""
    ends = plan.ends or {}
    left = unfinished(plan, committed)
    shown = [
        f"{where} at {max(each.offset, 0)} of {ends[where]}"
        for each in left[:_PARTITIONS_SHOWN_MAX]
        for where in (TopicPartition(each.topic, each.partition),)
    ]
    more = f" and {len(left) - len(shown)} more" if len(left) > len(shown) else ""
    return (
        f"group {plan.group_id} has not moved for {still_s:.0f} s, and {len(left)} partitions "
        f"are not at their ends: {', '.join(shown)}{more}"
    )
