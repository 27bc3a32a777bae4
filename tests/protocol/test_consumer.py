"""Subscription and assignment bytes: what other clients write is read, and what we write they read.

The oracles are kio (bodies only, all versions), kafka-python (all versions) and aiokafka (which
writes version 0 alone). The hex was made with Kafka 4.3.1's own classes,
`MessageUtil.toVersionPrefixedBytes(version, new ConsumerProtocolSubscription()...)`.
"""

import importlib
import io
from types import ModuleType

import pytest
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import metadata as kafka_python
from kio.serial import entity_reader, entity_writer
from kio.static.protocol import Entity

from protocol.consumer import (
    HIGHEST_VERSION,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from protocol.errors import DecodeError, EncodeError
from protocol.messages.shared import TopicPartitions

VERSIONS = range(HIGHEST_VERSION + 1)

FLIGHTS = TopicPartitions(topic="flights", partitions=[0, 3])
SUBSCRIPTION_HEAD = "0007666c69676874730006706c616e6573000000020102"
OWNED = "000000010007666c6967687473000000020000000000000003"
SUBSCRIPTION_HEX = {
    0: "000000000002" + SUBSCRIPTION_HEAD,
    1: "000100000002" + SUBSCRIPTION_HEAD + OWNED,
    2: "000200000002" + SUBSCRIPTION_HEAD + OWNED + "00000009",
    3: "000300000002" + SUBSCRIPTION_HEAD + OWNED + "00000009" + "00027231",
}
ASSIGNMENT_HEX = {version: f"{version:04x}" + OWNED + "ffffffff" for version in VERSIONS}

names = st.text(max_size=12)
user_data = st.none() | st.binary(max_size=12)
int32s = st.integers(-(2**31), 2**31 - 1)
topic_partitions = st.lists(
    st.builds(TopicPartitions, topic=names, partitions=st.lists(int32s, max_size=3)), max_size=3
)
assignments = st.builds(ConsumerProtocolAssignment, assigned_partitions=topic_partitions, user_data=user_data)


@st.composite
def versioned_subscriptions(draw: st.DrawFn) -> tuple[int, ConsumerProtocolSubscription]:
    """A version, and a subscription that says only what this version can carry."""
    version = draw(st.sampled_from(VERSIONS))
    subscription = ConsumerProtocolSubscription(
        topics=draw(st.lists(names, max_size=3)),
        user_data=draw(user_data),
        owned_partitions=draw(topic_partitions) if version >= 1 else [],
        generation_id=draw(int32s) if version >= 2 else -1,
        rack_id=draw(st.none() | names) if version >= 3 else None,
    )
    return version, subscription


def pairs(partitions: list[TopicPartitions]) -> list[tuple[str, list[int]]]:
    return [(entry.topic, entry.partitions) for entry in partitions]


def kio_module(name: str, version: int) -> ModuleType:
    return importlib.import_module(f"kio.schema.{name}.v{version}.data")


def kio_partitions(module: ModuleType, partitions: list[TopicPartitions]) -> tuple[object, ...]:
    return tuple(
        module.TopicPartition(topic=entry.topic, partitions=tuple(entry.partitions)) for entry in partitions
    )


def kio_bytes(entity: Entity) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def kio_subscription(version: int, subscription: ConsumerProtocolSubscription) -> Entity:
    module = kio_module("consumer_protocol_subscription", version)
    fields: dict[str, object] = {"topics": tuple(subscription.topics), "user_data": subscription.user_data}
    if version >= 1:
        fields["owned_partitions"] = kio_partitions(module, subscription.owned_partitions)
    if version >= 2:
        fields["generation_id"] = subscription.generation_id
    if version >= 3:
        fields["rack_id"] = subscription.rack_id
    entity: Entity = module.ConsumerProtocolSubscription(**fields)
    return entity


@pytest.mark.parametrize("version", VERSIONS)
def test_a_subscription_has_the_bytes_that_kafka_gives_it(version: int) -> None:
    subscription = ConsumerProtocolSubscription(
        topics=["flights", "planes"],
        user_data=b"\x01\x02",
        owned_partitions=[FLIGHTS],
        generation_id=9,
        rack_id="r1",
    )
    assert encode_subscription(subscription, version).hex() == SUBSCRIPTION_HEX[version]
    read = decode_subscription(bytes.fromhex(SUBSCRIPTION_HEX[version]))
    assert read.topics == subscription.topics
    assert read.user_data == subscription.user_data
    assert read.owned_partitions == ([FLIGHTS] if version >= 1 else [])
    assert read.generation_id == (9 if version >= 2 else -1)
    assert read.rack_id == ("r1" if version >= 3 else None)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_assignment_has_the_bytes_that_kafka_gives_it(version: int) -> None:
    assignment = ConsumerProtocolAssignment(assigned_partitions=[FLIGHTS])
    assert encode_assignment(assignment, version).hex() == ASSIGNMENT_HEX[version]
    assert decode_assignment(bytes.fromhex(ASSIGNMENT_HEX[version])) == assignment


@given(versioned_subscriptions())
def test_kio_and_we_agree_on_subscriptions(pair: tuple[int, ConsumerProtocolSubscription]) -> None:
    version, subscription = pair
    entity = kio_subscription(version, subscription)
    ours = encode_subscription(subscription, version)
    assert ours == version.to_bytes(2, "big") + kio_bytes(entity)
    assert entity_reader(type(entity))(ours, 2) == (entity, len(ours) - 2)
    assert decode_subscription(ours) == subscription


@given(st.sampled_from(VERSIONS), assignments)
def test_kio_and_we_agree_on_assignments(version: int, assignment: ConsumerProtocolAssignment) -> None:
    module = kio_module("consumer_protocol_assignment", version)
    entity = module.ConsumerProtocolAssignment(
        assigned_partitions=kio_partitions(module, assignment.assigned_partitions),
        user_data=assignment.user_data,
    )
    ours = encode_assignment(assignment, version)
    assert ours == version.to_bytes(2, "big") + kio_bytes(entity)
    assert entity_reader(type(entity))(ours, 2) == (entity, len(ours) - 2)
    assert decode_assignment(ours) == assignment


@given(versioned_subscriptions())
def test_kafka_python_and_we_agree_on_subscriptions(pair: tuple[int, ConsumerProtocolSubscription]) -> None:
    version, subscription = pair
    theirs = kafka_python.ConsumerProtocolSubscription(
        version=version, topics=subscription.topics, user_data=subscription.user_data
    )
    if version >= 1:
        theirs.owned_partitions = [
            kafka_python.ConsumerProtocolSubscription.TopicPartition(
                topic=each.topic, partitions=each.partitions
            )
            for each in subscription.owned_partitions
        ]
    if version >= 2:
        theirs.generation_id = subscription.generation_id
    if version >= 3:
        theirs.rack_id = subscription.rack_id
    assert theirs.encode() == encode_subscription(subscription, version)
    assert decode_subscription(theirs.encode()) == subscription
    read = kafka_python.ConsumerProtocolSubscription.decode(encode_subscription(subscription, version))
    assert (read.topics, read.user_data) == (subscription.topics, subscription.user_data)


@given(st.sampled_from(VERSIONS), assignments)
def test_kafka_python_and_we_agree_on_assignments(
    version: int, assignment: ConsumerProtocolAssignment
) -> None:
    theirs = kafka_python.ConsumerProtocolAssignment(
        version=version,
        assigned_partitions=[
            kafka_python.ConsumerProtocolAssignment.TopicPartition(
                topic=each.topic, partitions=each.partitions
            )
            for each in assignment.assigned_partitions
        ],
        user_data=assignment.user_data,
    )
    assert theirs.encode() == encode_assignment(assignment, version)
    assert decode_assignment(theirs.encode()) == assignment
    read = kafka_python.ConsumerProtocolAssignment.decode(encode_assignment(assignment, version))
    assert [(entry.topic, entry.partitions) for entry in read.assigned_partitions] == pairs(
        assignment.assigned_partitions
    )


@given(st.lists(names, max_size=3), user_data)
def test_aiokafka_and_we_agree_on_version_0_subscriptions(topics: list[str], data: bytes | None) -> None:
    subscription = ConsumerProtocolSubscription(topics=topics, user_data=data)
    theirs = ConsumerProtocolMemberMetadata(0, topics, data).encode()
    assert theirs == encode_subscription(subscription, 0)
    assert decode_subscription(theirs) == subscription


@given(assignments)
def test_aiokafka_and_we_agree_on_version_0_assignments(assignment: ConsumerProtocolAssignment) -> None:
    partitions = pairs(assignment.assigned_partitions)
    theirs = ConsumerProtocolMemberAssignment(0, partitions, assignment.user_data).encode()
    assert theirs == encode_assignment(assignment, 0)
    assert decode_assignment(theirs) == assignment


def test_aiokafka_reads_the_partitions_of_our_newest_assignment() -> None:
    ours = encode_assignment(ConsumerProtocolAssignment(assigned_partitions=[FLIGHTS]))
    assert ConsumerProtocolMemberAssignment.decode(ours).assignment == [("flights", [0, 3])]


def test_a_version_from_the_future_is_read_as_the_newest_known() -> None:
    newest = bytes.fromhex(SUBSCRIPTION_HEX[3])
    from_the_future = b"\x00\x63" + newest[2:] + b"a field we do not know"
    assert decode_subscription(from_the_future) == decode_subscription(newest)
    newest = bytes.fromhex(ASSIGNMENT_HEX[3])
    assert decode_assignment(b"\x7f\xff" + newest[2:] + b"more") == decode_assignment(newest)


def test_an_old_version_drops_what_it_cannot_carry() -> None:
    subscription = ConsumerProtocolSubscription(
        topics=["t"], owned_partitions=[FLIGHTS], generation_id=9, rack_id="r"
    )
    assert decode_subscription(encode_subscription(subscription, 0)) == ConsumerProtocolSubscription(
        topics=["t"]
    )


def test_a_version_that_does_not_exist_is_not_written() -> None:
    with pytest.raises(EncodeError):
        encode_subscription(ConsumerProtocolSubscription(topics=[]), HIGHEST_VERSION + 1)
    with pytest.raises(EncodeError):
        encode_assignment(ConsumerProtocolAssignment(assigned_partitions=[]), -1)


@pytest.mark.parametrize("data", [b"", b"\x00", b"\xff\xff\x00\x00\x00\x00", b"\x80\x00"])
def test_bytes_without_a_readable_version_are_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_subscription(data)
    with pytest.raises(DecodeError):
        decode_assignment(data)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_truncation_is_refused(version: int) -> None:
    subscription = bytes.fromhex(SUBSCRIPTION_HEX[version])
    for end in range(len(subscription)):
        with pytest.raises(DecodeError):
            decode_subscription(subscription[:end])
    assignment = bytes.fromhex(ASSIGNMENT_HEX[version])
    for end in range(len(assignment)):
        with pytest.raises(DecodeError):
            decode_assignment(assignment[:end])


def test_a_count_that_the_bytes_cannot_hold_is_refused() -> None:
    with pytest.raises(DecodeError):
        decode_subscription(b"\x00\x00\x7f\xff\xff\xff")
    with pytest.raises(DecodeError):
        decode_assignment(b"\x00\x00\x7f\xff\xff\xff")


@given(st.binary(max_size=64))
def test_garbage_is_read_or_refused_and_nothing_else(data: bytes) -> None:
    """Members send what they like: no other exception may come out of it."""
    for decode_bytes in (decode_subscription, decode_assignment):
        try:
            decode_bytes(data)
        except DecodeError:
            continue


def test_a_memoryview_is_read_like_bytes() -> None:
    metadata = bytes.fromhex(SUBSCRIPTION_HEX[3])
    assert decode_subscription(memoryview(metadata)) == decode_subscription(metadata)
