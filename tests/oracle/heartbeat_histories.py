"""Histories of one consumer group, as Histories.java plays them with Kafka's own group manager, played with ours.

Each line is a step as JSON: a topic that is made or grows, the clock, a timer that fired, or a heartbeat; the
last two with the records that were written and what was answered. What has no order in Kafka is sorted on both
sides: the topics and partitions of answers and of what members have. In those of Migrations.java the group is a
classic one at times: its lines are in `classic_lines`.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from coordinator.effects import CoordinatorRecord, Effects, Moment, RequestContext
from coordinator.groups.classic.shard_groups import ShardGroups
from coordinator.groups.consumer.classic_checks import MigrationPolicy
from coordinator.groups.consumer.classic_members import heartbeat, join, leave, on_classic_timer, sync
from coordinator.groups.consumer.downgrade import join_instead
from coordinator.groups.consumer.expressions import compiled
from coordinator.groups.consumer.heartbeat import consumer_group_heartbeat
from coordinator.groups.consumer.leave import on_revocation_timer, on_session_timer
from coordinator.groups.consumer.record_schemas import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from coordinator.groups.consumer.refusal import Refused
from coordinator.groups.consumer.regexes import RegexesResolved, ResolveRegexes, on_regexes_resolved
from coordinator.groups.consumer.replay import replay_record
from coordinator.groups.consumer.shard_groups import ConsumerGroups, ConsumerGroupSettings
from coordinator.groups.consumer.subscriptions import ResolvedRegex
from coordinator.groups.consumer.timers import (
    ClassicJoinTimer,
    ClassicSyncTimer,
    MemberSessionTimer,
    RevocationTimer,
)
from coordinator.groups.group_settings import GroupSettings
from coordinator.groups.record_schemas import GroupMetadataKey, GroupMetadataValue
from coordinator.topic_catalog import TopicImage
from harness.doubles.courses import at_once
from harness.doubles.topics import Topics as TopicList
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatTopicPartitions,
)
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import MemberIdentity
from protocol.messages.sync_group import SyncGroupRequest
from tests.oracle.classic_lines import (
    classic_group_of,
    compare_downgraded,
    group_metadata,
    partitions_of,
    value_of_group,
)
from tests.oracle.java_names import camel_case, snake_case

GROUP = "g"
VERSION = 1
CLIENT_ID, CLIENT_HOST = "cid", "localhost/127.0.0.1"  # What the driver of Kafka's class says.
TYPES = {
    GroupMetadataKey: 2,
    ConsumerGroupMetadataKey: 3,
    ConsumerGroupPartitionMetadataKey: 4,
    ConsumerGroupMemberMetadataKey: 5,
    ConsumerGroupTargetAssignmentMetadataKey: 6,
    ConsumerGroupTargetAssignmentMemberKey: 7,
    ConsumerGroupCurrentMemberAssignmentKey: 8,
    ConsumerGroupRegularExpressionKey: 16,
}
TIMERS = {
    "session-timeout": MemberSessionTimer,
    "rebalance-timeout": RevocationTimer,
    "join": ClassicJoinTimer,
    "sync": ClassicSyncTimer,
}
TARGET = 7
UUID_BYTES = 16
LEFT_OUT_WHEN_ZERO = {"metadataHash", "assignmentTimestamp"}  # Tagged fields with their defaults.


class Topics:
    """The topics of one history."""

    def __init__(self) -> None:
        self.by_name: dict[str, TopicImage] = {}
        self.version = 0  # The history says itself when a group looks at them again.
        self.version_with_new_topics = -1

    def names(self) -> list[str]:
        return list(self.by_name)

    def image(self, name: str) -> TopicImage | None:
        return self.by_name.get(name)

    def topic_name(self, topic_id: bytes) -> str | None:
        return next((each.name for each in self.by_name.values() if each.topic_id == topic_id), None)


class Player:
    """Plays the lines of one history; `mismatch` says where ours went another way."""

    def __init__(self, head: dict[str, Any]) -> None:
        self.seed = head["history"]
        self.topics = Topics()
        settings = ConsumerGroupSettings(
            assignment_interval_ms=head["interval"],
            max_size=head["maxSize"],
            migration_policy=MigrationPolicy(head.get("group.consumer.migration.policy", "upgrade")),
            classic_max_size=int(head.get("group.max.size", 1_000)),
        )
        self.shard = ConsumerGroups(settings, self.topics)
        self.now_ms = 1_000_000
        self.timers: dict[Any, int] = {}
        self.wanted: list[ResolveRegexes] = []
        self.former_topics: set[str] = set()  # Kafka does not unsubscribe a group that it downgrades.
        self.refused: list[str] = []  # What waited in a classic group that the last heartbeat upgraded.

    def play(self, line: dict[str, Any]) -> None:
        """Raises AssertionError where ours answers or writes something else."""
        if "topic" in line:
            self._change_topic(line)
        elif "resolved" in line:
            self._resolve(line)
        elif "now" in line:
            self._move_to(line["now"])
        elif "timer" in line:
            self._fire(line)
        elif "request" in line:
            self._send(line)
        elif "classic" in line:
            self.shard.classic_groups[GROUP] = classic_group_of(line["classic"])
        elif "upgraded" in line:
            assert (GROUP not in self.shard.classic_groups) == line["upgraded"], "upgraded, or not"
            assert self.refused == (line["parked"] if line["upgraded"] else []), "other requests are answered"
        elif "downgraded" in line:
            assert compare_downgraded(line, self.shard.classic_groups.pop(GROUP), self.timers)
            self.timers.clear()
            self.wanted.clear()
        elif "instead" in line:
            self._join_instead(line)
        else:
            self._play_classic(line)

    def _change_topic(self, line: dict[str, Any]) -> None:
        name = line["topic"]
        self.topics.by_name[name] = TopicImage(name, uuid_of(line["id"]), [()] * line["partitions"])
        if line["isNew"]:
            self.topics.version_with_new_topics = line["version"]
        group = self.shard.groups.get(GROUP)
        if group is not None and (name in group.subscriptions.topics() or name in self.former_topics):
            self.shard.soft(GROUP).refresh_at_ms = None

    def _resolve(self, line: dict[str, Any]) -> None:
        assert self.wanted, "no run was asked for"
        wanted = self.wanted.pop(0)
        resolved = {
            regex: ResolvedRegex(
                tuple(filter(compiled(regex).fullmatch, self.topics.by_name)), line["resolved"], self.now_ms
            )
            for regex in wanted.regexes
        }
        effects = Effects()
        event = RegexesResolved(wanted.group_id, resolved)
        on_regexes_resolved(self.shard, event, Moment(self.now_ms, self.now_ms), effects)
        self._compare_records(line["records"], effects)
        self._carry_out(effects)

    def _move_to(self, now_ms: int) -> None:
        """Timers of ours that are due before may only be armed again: Kafka's are set anew with each heartbeat."""
        while due := [key for key, deadline_ms in self.timers.items() if deadline_ms < now_ms]:
            key = min(due, key=lambda each: self.timers[each])
            self.now_ms = self.timers.pop(key)
            assert self._on_timer(key).records == [], f"{key} fired, and Kafka's did not"
        self.now_ms = now_ms

    def _fire(self, line: dict[str, Any]) -> None:
        kind = next(each for each in TIMERS if line["timer"].startswith(each))
        key = TIMERS[kind](GROUP, line["timer"].removeprefix(f"{kind}-{GROUP}-"))
        assert self.timers.pop(key, None) == self.now_ms, f"{key} is not due"
        self._compare_records(line.get("records", []), self._on_timer(key))

    def _on_timer(self, key: Any) -> Effects:
        effects = Effects()
        moment = Moment(self.now_ms, self.now_ms)
        if isinstance(key, MemberSessionTimer):
            on_session_timer(self.shard, key, moment, effects)
        elif isinstance(key, RevocationTimer):
            on_revocation_timer(self.shard, key, moment, effects)
        else:
            on_classic_timer(self.shard, key, moment, effects)
        self._carry_out(effects)
        return effects

    def _send(self, line: dict[str, Any]) -> None:
        effects = Effects()
        context = RequestContext(object(), VERSION, CLIENT_ID, CLIENT_HOST)
        moment = Moment(self.now_ms, self.now_ms)
        consumer_group_heartbeat(self.shard, request_of(line["request"]), context, moment, effects)
        *refused, reply = effects.replies
        assert reply.reply_to is context.reply_to
        assert {each.response.error_code for each in refused} <= {ErrorCode.REBALANCE_IN_PROGRESS}
        self.refused = sorted(str(each.reply_to) for each in refused)
        answer = (reply.response.error_code, reply.response.error_message)
        error = line.get("error", 0)
        # Of an unknown error a broker sends no message.
        message = None if error == ErrorCode.UNKNOWN_SERVER_ERROR else line.get("message")
        assert answer == (error, message), f"another answer: {answer}"
        if "response" in line:
            assert normal(as_json(reply.response)) == normal(line["response"]), "another answer"
        self._compare_records(line.get("records", []), effects)
        self._carry_out(effects)

    def _join_instead(self, line: dict[str, Any]) -> None:
        """A classic member joins a group without members; of its answer and timers other tests know."""
        classic = ShardGroups(GroupSettings(), TopicList())
        classic.groups = self.shard.classic_groups
        context = RequestContext(object(), 5, CLIENT_ID, CLIENT_HOST, drawn_uuid(None))
        moment, effects = Moment(self.now_ms, self.now_ms), Effects()
        join_instead(self.shard, classic, join_of(line["instead"]), context, moment, effects)
        self._compare_records(line["records"], effects)
        effects.timers.clear()
        self._carry_out(effects)
        assert GROUP not in self.shard.groups
        self.shard.classic_groups.clear()
        self.wanted.clear()
        self.timers.clear()

    def _play_classic(self, line: dict[str, Any]) -> None:
        """A request of a classic member; of a refusal only the error goes over the wire."""
        group, effects, moment = self.shard.groups[GROUP], Effects(), Moment(self.now_ms, self.now_ms)
        response: Any = None
        try:
            if "join" in line:
                ours = join_of(line["join"])
                # The id that Kafka's class drew.
                drawn = drawn_uuid(line.get("response", {}).get("memberId"))
                context = RequestContext(object(), 5, CLIENT_ID, CLIENT_HOST, drawn)
                response = at_once(join(self.shard, group, ours, context, moment, effects), moment)
                error = response.error_code
            elif "sync" in line:
                response = sync(self.shard, group, sync_of(line["sync"]), moment, effects)
                error = response.error_code
            elif "beat" in line:
                error = heartbeat(self.shard, group, beat_of(line["beat"]), moment, effects)
            else:
                said = line["leave"]["members"]
                leaving = [
                    MemberIdentity(member_id=each["memberId"], group_instance_id=each["groupInstanceId"])
                    for each in said
                ]
                context = RequestContext(object(), 5, CLIENT_ID, CLIENT_HOST)
                errors = leave(self.shard, group, leaving, context, moment, effects)
                theirs = [each["errorCode"] for each in line["response"]["members"]]
                assert errors == theirs, f"other errors: {errors}"
                error = 0
        except Refused as refused:
            error = refused.error
            effects.records.clear()
        wanted = line.get("error", line.get("response", {}).get("errorCode", 0))
        assert error == wanted, f"another error: {error}"
        if response is not None and "response" in line:
            theirs = line["response"]
            for name in set(theirs) - {"members", "throttleTimeMs"}:
                value = as_json(getattr(response, snake_case(name)))
                if name == "assignment":
                    assert partitions_of(response.assignment) == partitions_of(b64decode(theirs[name]))
                else:
                    assert value == theirs[name], f"another answer: {name} {value}"
        theirs_in_order = line.get("records", [])
        is_downgrade = any(each["type"] == TYPES[GroupMetadataKey] for each in theirs_in_order)
        if (
            "leave" in line and not is_downgrade
        ):  # In the order of a set of members, which is another one in each JVM.
            order = [
                each.key.member_id
                for each in effects.records
                if isinstance(each, CoordinatorRecord) and hasattr(each.key, "member_id")
            ]
            theirs_in_order.sort(key=lambda each: order.index(each["key"].get("memberId", order[-1])))
        self._compare_records(theirs_in_order, effects)
        self._carry_out(effects)

    def _carry_out(self, effects: Effects) -> None:
        before = self._topics()
        for record in effects.records:
            assert isinstance(record, CoordinatorRecord)
            if not isinstance(record.key, GroupMetadataKey):
                replay_record(self.shard.groups, record.key, record.value)
        gone = before - self._topics()
        self.former_topics = self.former_topics | gone if effects.then else self.former_topics - gone
        self.wanted += [each for each in effects.background if isinstance(each, ResolveRegexes)]
        for key, deadline_ms in effects.timers:
            if deadline_ms is None:
                self.timers.pop(key, None)
            else:
                self.timers[key] = deadline_ms
        effects.timers.clear()

    def _topics(self) -> set[str]:
        group = self.shard.groups.get(GROUP)
        return set() if group is None else group.subscriptions.topics()

    @staticmethod
    def _compare_records(theirs: list[dict[str, Any]], effects: Effects) -> None:
        ours = [
            {"type": TYPES[type(each.key)], "key": as_json(each.key), "value": value_as_json(each.value)}
            for each in effects.records
            if isinstance(each, CoordinatorRecord)
        ]
        theirs = [
            group_metadata(each) if each["type"] == TYPES[GroupMetadataKey] else each for each in theirs
        ]
        assert [normal(each) for each in ours] == [normal(each) for each in theirs], "other records"
        assert [*map(_target, ours)] == [*map(_target, theirs)], "targets in another order"


def drawn_uuid(member_id: str | None) -> str:
    """The UUID of which a member id was made; any other one where none was."""
    return urlsafe_b64decode(f"{member_id}==").hex() if member_id else "00" * UUID_BYTES


def _target(record: dict[str, Any]) -> list[Any] | None:
    """What a target's record lists, as it lists it: its order is that of the next computation, too."""
    if record["type"] != TARGET or record["value"] is None:
        return None
    return [(each["topicId"], each["partitions"]) for each in record["value"]["topicPartitions"]]


def played(lines: Iterable[str]) -> Iterator[int]:
    """Play histories; yield the seed of each that came out equal. AssertionError at the first other one."""
    player = None
    for number, text in enumerate(lines):
        line = json.loads(text)
        if "history" in line:
            if player is not None:
                yield player.seed
            player = Player(line)
            continue
        assert player is not None
        try:
            player.play(line)
        except AssertionError as other:
            raise AssertionError(f"history {player.seed}, line {number}: {other}\n{text}") from other
    if player is not None:
        yield player.seed


def request_of(said: dict[str, Any]) -> ConsumerGroupHeartbeatRequest:
    """Return the request that Kafka's JSON describes."""
    owned = said["topicPartitions"]
    return ConsumerGroupHeartbeatRequest(
        group_id=said["groupId"],
        member_id=said["memberId"],
        member_epoch=said["memberEpoch"],
        instance_id=said["instanceId"],
        rack_id=said["rackId"],
        rebalance_timeout_ms=said["rebalanceTimeoutMs"],
        subscribed_topic_names=said["subscribedTopicNames"],
        subscribed_topic_regex=said["subscribedTopicRegex"],
        server_assignor=said["serverAssignor"],
        topic_partitions=None
        if owned is None
        else [
            ConsumerGroupHeartbeatTopicPartitions(
                topic_id=uuid_of(each["topicId"]), partitions=each["partitions"]
            )
            for each in owned
        ],
    )


def join_of(said: dict[str, Any]) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=said["groupId"],
        session_timeout_ms=said["sessionTimeoutMs"],
        rebalance_timeout_ms=said["rebalanceTimeoutMs"],
        member_id=said["memberId"],
        group_instance_id=said["groupInstanceId"],
        protocol_type=said["protocolType"],
        protocols=[
            JoinGroupRequestProtocol(name=each["name"], metadata=b64decode(each["metadata"]))
            for each in said["protocols"]
        ],
    )


def sync_of(said: dict[str, Any]) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=said["groupId"],
        generation_id=said["generationId"],
        member_id=said["memberId"],
        group_instance_id=said["groupInstanceId"],
        protocol_type=said["protocolType"],
        protocol_name=said["protocolName"],
    )


def beat_of(said: dict[str, Any]) -> HeartbeatRequest:
    return HeartbeatRequest(
        group_id=said["groupId"],
        generation_id=said["generationId"],
        member_id=said["memberId"],
        group_instance_id=said["groupInstanceId"],
    )


def uuid_of(text: str) -> bytes:
    """The 16 bytes of a UUID in Kafka's form."""
    return urlsafe_b64decode(text + "==")


def as_json(value: Any) -> Any:
    """A message or record as Kafka's JSON has it."""
    if is_dataclass(value):
        return {camel_case(each.name): as_json(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, list | tuple):
        return [as_json(each) for each in value]
    if isinstance(value, bytes):  # A UUID is written in another alphabet than what is just bytes.
        is_uuid = len(value) == UUID_BYTES
        return urlsafe_b64encode(value).decode().rstrip("=") if is_uuid else b64encode(value).decode()
    return value


def value_as_json(value: Any) -> Any:
    """A record's value as Kafka's JSON has it; that of a classic group as `group_metadata` has it."""
    return value_of_group(value) if isinstance(value, GroupMetadataValue) else as_json(value)


def normal(value: Any) -> Any:
    """The same without what is null or left out by default, and with what has no order sorted."""
    if isinstance(value, list):
        values = [normal(each) for each in value]
        is_by_topic = bool(values) and isinstance(values[0], dict) and "topicId" in values[0]
        return sorted(values, key=lambda each: str(each["topicId"])) if is_by_topic else values
    if not isinstance(value, dict):
        return value
    kept = {
        name: normal(each)
        for name, each in value.items()
        if each is not None and not (name in LEFT_OUT_WHEN_ZERO and each == 0)
    }
    if "topicId" in kept:
        epochs = kept.pop("assignmentEpochs", None) or [None] * len(kept["partitions"])
        kept["partitions"] = sorted(zip(kept["partitions"], epochs, strict=True), key=lambda pair: pair[0])
    return kept
