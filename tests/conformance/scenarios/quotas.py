"""Quotas of users, clients and addresses: how they are set and shown, and what clients over them are told.

The numbers are those of section Q of docs/kafka-security.md. Each script has client ids of its own, so that nobody
else's requests are throttled; throttle times are compared with what the windows make of the sizes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.list_groups import ListGroupsRequest
from protocol.records.records import Record, encode_batch
from tests.conformance.admin_lines import QUOTAS
from tests.conformance.registry import scenario
from tests.conformance.run import Run
from tests.conformance.topic_scenes import ask, eventually, make_topic, quietly, topic_name
from tests.topics.requests import produce_request

IN_TURN: Final = "quotas"
"""Some ask for all quotas that there are."""
EXACT, DEFAULT, ANY = range(3)
LATE_MS: Final = 1_500
"""How much later than it may be an answer may come on a busy machine."""

Parts = Mapping[str, str | None]


def entry(parts: Parts, **quotas: float | None) -> EntryData:
    """What changes for one entity; None removes a quota."""
    return EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in parts.items()],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in quotas.items()],
    )


def alteration(*entries: EntryData, validate_only: bool = False) -> AlterClientQuotasRequest:
    return AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)


def described(*components: tuple[str, int, str | None], strict: bool = False) -> DescribeClientQuotasRequest:
    asked = [ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components]
    return DescribeClientQuotasRequest(components=asked, strict=strict)


async def change(run: Run, *entries: EntryData) -> None:
    """Set quotas, out of the transcript; returns when the broker has them in force."""
    reply = await quietly(run, alteration(*entries), 1)
    assert not any(each.error_code for each in reply.entries), reply
    for each in entries:
        wanted = {op.key: op.value for op in each.ops if not op.remove}
        gone = {op.key for op in each.ops if op.remove}
        asked = [
            (part.entity_type, DEFAULT if part.entity_name is None else EXACT, part.entity_name)
            for part in each.entity
        ]

        def is_so(reply: Any, wanted: Mapping[str, float] = wanted, gone: set[str] = gone) -> bool:
            found = {value.key: value.value for entity in reply.entries for value in entity.values}
            return wanted.items() <= found.items() and not gone & found.keys()

        await eventually(run, described(*asked, strict=True), 1, is_so)


@scenario(
    "6 AlterClientQuotas", "security Q1", "security Q3", "security Q4", versions=QUOTAS, in_turn=IN_TURN
)
async def quotas_are_set_shown_and_removed(run: Run, version: int) -> None:
    user, client = f"{run.group}-u", f"{run.group}-c"
    entities: tuple[Parts, ...] = (
        {"user": user},
        {"user": user, "client-id": client},
        {"user": user, "client-id": None},
        {"client-id": client},
        {"ip": "10.1.2.3"},
        {"ip": "2001:db8::1"},
    )
    entries = [
        entry(parts, connection_creation_rate=7)
        if "ip" in parts
        else entry(parts, producer_byte_rate=1e9, consumer_byte_rate=2e9, request_percentage=150.5)
        for parts in entities
    ]
    await ask(run, alteration(*entries, validate_only=True), version, "only checked")
    await ask(run, described(("user", EXACT, user)), version, "nothing was set")
    await ask(run, alteration(*entries), version)
    await change(run, *entries)
    for components, strict in (
        ((("user", EXACT, user),), False),
        ((("user", EXACT, user),), True),
        ((("user", EXACT, user), ("client-id", ANY, None)), False),
        ((("user", ANY, None), ("client-id", EXACT, client)), True),
        ((("user", EXACT, user), ("client-id", DEFAULT, None)), True),
        ((("client-id", EXACT, client),), True),
        ((("client-id", EXACT, client),), False),
        ((("client-id", EXACT, f"{client}-nobody"),), False),
        ((("ip", ANY, None),), False),
        ((("ip", EXACT, "2001:db8::1"),), True),
        ((), False),
        ((), True),
    ):
        await ask(run, described(*components, strict=strict), version, f"{len(components)}, strict {strict}")
    unset = [
        entry(parts, connection_creation_rate=None)
        if "ip" in parts
        else entry(parts, producer_byte_rate=None, consumer_byte_rate=None, request_percentage=None)
        for parts in entities
    ]
    await ask(run, alteration(*unset), version, "removed")
    await change(run, *unset)
    await ask(run, alteration(*unset), version, "removed again")
    await ask(run, described(), version, "none is left")


@scenario(
    "6 AlterClientQuotas: refusals",
    "security Q1",
    "security Q2",
    "security Q3",
    versions=QUOTAS,
    in_turn=IN_TURN,
)
async def what_no_quota_may_be_is_refused(run: Run, version: int) -> None:
    user: Parts = {"user": f"{run.group}-u"}
    refused: list[tuple[Parts, dict[str, float | None]]] = [
        ({}, {"producer_byte_rate": 1}),
        ({"group": "g"}, {"producer_byte_rate": 1}),
        ({"user": ""}, {"producer_byte_rate": 1}),
        ({"client-id": ""}, {"producer_byte_rate": 1}),
        ({"ip": ""}, {"connection_creation_rate": 1}),
        ({"ip": "10.0.0.1", "user": "u"}, {"connection_creation_rate": 1}),
        ({"ip": "10.0.0.1", "client-id": "c"}, {"connection_creation_rate": 1}),
        ({"ip": "no.such.host.invalid"}, {"connection_creation_rate": 1}),
        ({"ip": "10.0.0.1"}, {"producer_byte_rate": 1}),
        ({"ip": "10.0.0.1"}, {"connection_creation_rate": 1.5}),
        ({"ip": "10.0.0.1"}, {"connection_creation_rate": 2.0**31}),
        (user, {"connection_creation_rate": 1}),
        (user, {"nonsense": 1}),
        (user, {"producer_byte_rate": -1}),
        (user, {"consumer_byte_rate": 1.5}),
        (user, {"consumer_byte_rate": 2.0**64}),
        (user, {"producer_byte_rate": float("inf")}),
        (user, {"request_percentage": -0.5}),
        (user, {"controller_mutation_rate": -2}),
    ]
    for number, (parts, quotas) in enumerate(refused):
        await ask(run, alteration(entry(parts, **quotas)), version, f"{number}")
    zero = entry(user, producer_byte_rate=1)
    zero.ops[0].value = 0.0
    await ask(run, alteration(zero), version, "zero")
    await ask(run, alteration(entry(user, producer_byte_rate=5, nonsense=1)), version, "one of two keys")
    await ask(run, alteration(entry(user, nonsense=None)), version, "an unknown key removed")
    await ask(run, alteration(entry(user)), version, "nothing to do")
    await ask(run, alteration(), version, "no entity")
    twice = entry(user, producer_byte_rate=5)
    twice.ops *= 2
    await ask(run, alteration(twice), version, "a key twice")
    double = entry({}, producer_byte_rate=5)
    double.entity = [EntityData(entity_type="user", entity_name=name) for name in ("a", user["user"])]
    await ask(run, alteration(double, validate_only=True), version, "a type twice")
    good, bad = entry(user, producer_byte_rate=5), entry({"user": "x"}, nonsense=1)
    await ask(run, alteration(good, bad), version, "a good one beside a bad one")
    await ask(run, alteration(good, entry(user, consumer_byte_rate=6)), version, "an entity twice")
    await change(run, entry(user, producer_byte_rate=5))
    await ask(run, described(("user", EXACT, user["user"])), version, "what was set all the same")
    await change(run, entry(user, producer_byte_rate=None, consumer_byte_rate=None))


def is_about(got_ms: int, expected_ms: float) -> bool:
    """Whether a throttle time is within a tenth of the expected one, and 60 ms for the clock's steps."""
    return abs(got_ms - expected_ms) <= expected_ms / 10 + 60


async def is_muted(run: Run, actor: str, since_s: float, expected_ms: int) -> bool:
    """Whether the next request on the same connection is answered when the time is over, and not before."""
    connection = await run.free_connection(actor)
    await connection.send(ListGroupsRequest(), 4)
    waited_ms = (time.monotonic() - since_s) * 1_000
    return expected_ms * 0.9 <= waited_ms <= expected_ms * 1.1 + LATE_MS


def batch_of(size: int) -> bytes:
    return bytes(encode_batch([Record(key=None, value=b"x" * size, timestamp_ms=1_790_000_000_000)]))


@scenario("6 quotas: Produce", "security Q9", "security Q10", "security Q15", choices=(1, 0), in_turn=IN_TURN)
async def a_producer_over_its_rate_is_answered_and_muted(run: Run, acks: int) -> None:
    """Q9, Q10, Q15: ten seconds' worth passes; over that the answer tells the wait, and the mute keeps it."""
    topic, actor = await make_topic(run), f"{run.group}-p"
    await change(run, entry({"client-id": actor}, producer_byte_rate=10_000))
    connection = await run.free_connection(actor)
    first = await connection.send(produce_request(batch_of(60_000), topic), 9)
    run.saw("below the limit", first)
    since_s = time.monotonic()
    request = produce_request(batch_of(60_000), topic)
    request.acks = acks
    if acks:
        over = await connection.send(request, 9)
        run.saw("over the limit", over.responses)
        run.saw("throttled", is_about(over.throttle_time_ms, 2_000))
        run.saw("answered at once", time.monotonic() - since_s < 1.5)
    else:
        connection.send_without_answer(request, 9)
    run.saw("muted", await is_muted(run, actor, since_s, 2_000))
    await change(run, entry({"client-id": actor}, producer_byte_rate=None))
    connection = await run.free_connection(actor)
    run.saw(
        "no longer", (await connection.send(produce_request(batch_of(60_000), topic), 9)).throttle_time_ms
    )


@scenario("6 quotas: Fetch", "security Q11", in_turn=IN_TURN)
async def a_consumer_over_its_rate_gets_nothing(run: Run) -> None:
    """Q11: an empty answer with its wait, the session untouched, what was not sent not counted.

    How many bytes the cut to ten seconds' worth leaves is not compared: Kafka cuts within a batch.
    """
    topic, actor = await make_topic(run), f"{run.group}-f"
    await quietly(run, produce_request(batch_of(30_000), topic), 9)
    await change(run, entry({"client-id": actor}, consumer_byte_rate=7_000))

    def fetch(offset: int, session_id: int = 0, epoch: int = 0) -> FetchRequest:
        wanted = [FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)]
        return FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=1 << 20,
            session_id=session_id,
            session_epoch=epoch,
            topics=[FetchTopic(topic=topic, partitions=wanted)],
        )

    connection = await run.free_connection(actor)
    opened = await connection.send(fetch(0), 11)
    run.saw("below the limit", [opened.throttle_time_ms, _bytes_of(opened)])
    await quietly(run, produce_request(batch_of(60_000), topic), 9)
    since_s = time.monotonic()
    over = await connection.send(fetch(1, opened.session_id, 1), 11)
    run.saw("over the limit", [over.error_code, over.session_id == opened.session_id, over.responses])
    run.saw("throttled", is_about(over.throttle_time_ms, 2_950))
    run.saw("answered at once", time.monotonic() - since_s < 1)
    await change(run, entry({"client-id": actor}, consumer_byte_rate=700_000))
    run.hang_up(actor)
    connection = await run.free_connection(actor)
    later = await connection.send(fetch(1, opened.session_id, 2), 11)
    run.saw("the session went on", [later.throttle_time_ms, later.error_code, _bytes_of(later)])
    await change(run, entry({"client-id": actor}, consumer_byte_rate=2_000))
    run.hang_up(actor)
    connection = await run.free_connection(actor)
    unopened = await connection.send(fetch(0), 11)
    run.saw("none is opened", [unopened.session_id, unopened.responses, unopened.throttle_time_ms > 0])
    await change(run, entry({"client-id": actor}, consumer_byte_rate=None))


def _bytes_of(reply: Any) -> int:
    return sum(len(part.records or b"") for topic in reply.responses for part in topic.partitions)


@scenario("6 quotas: partitions made and removed", "security Q13", in_turn=IN_TURN)
async def partitions_beyond_the_permits_are_refused(run: Run) -> None:
    """Q13: 11 s at once and below zero; then 89 per topic, and old versions pass, each with its wait."""
    actor = f"{run.group}-m"
    await change(run, entry({"client-id": actor}, controller_mutation_rate=0.1))

    def creation(*names: str, count: int = 1) -> CreateTopicsRequest:
        topics = [
            CreatableTopic(name=topic_name(run, name), num_partitions=count, replication_factor=1)
            for name in names
        ]
        return CreateTopicsRequest(topics=topics, timeout_ms=10_000)

    def growth(count: int) -> CreatePartitionsRequest:
        topics = [CreatePartitionsTopic(name=topic_name(run, "a"), count=count, assignments=None)]
        return CreatePartitionsRequest(topics=topics, timeout_ms=10_000)

    deletion = DeleteTopicsRequest(topic_names=[topic_name(run, "a")], timeout_ms=10_000)
    for note, request, version, expected_ms in (
        ("more than there is", creation("a", count=3), 7, 0),
        ("two of them", creation("b", "c"), 7, 19_000),
        ("one that is there", creation("a"), 7, 0),
        ("strict from 6", creation("d"), 6, 19_000),
        ("before 6", creation("e"), 5, 29_000),
        ("strict from 3", growth(5), 3, 29_000),
        ("fewer", growth(2), 3, 0),
        ("before 3", growth(5), 2, 49_000),
        ("strict from 5", deletion, 5, 49_000),
        ("before 5", deletion, 4, 99_000),
    ):
        run.hang_up(actor)
        connection = await run.free_connection(actor)
        reply = await connection.send(request, version)
        wait_ms = reply.throttle_time_ms
        run.saw(f"{note}: the wait", is_about(wait_ms, expected_ms) if expected_ms else wait_ms)
        results = getattr(reply, "topics", None) or getattr(reply, "results", None) or reply.responses
        run.saw(note, sorted((each.name, each.error_code, each.error_message) for each in results))
    await change(run, entry({"client-id": actor}, controller_mutation_rate=None))


@scenario("6 quotas: time", "security Q12", in_turn=IN_TURN)
async def time_that_was_taken_is_throttled_for_a_second_at_most(run: Run) -> None:
    """Q12: how long is each broker's own matter; here there is next to nothing left."""
    actor = f"{run.group}-t"
    await change(run, entry({"client-id": actor}, request_percentage=1e-6))
    connection = await run.free_connection(actor)
    since_s = time.monotonic()
    reply = await connection.send(ListGroupsRequest(), 4)
    run.saw("throttled", reply.throttle_time_ms)
    run.saw("muted", await is_muted(run, actor, since_s, 1_000))
    await change(run, entry({"client-id": actor}, request_percentage=None))
