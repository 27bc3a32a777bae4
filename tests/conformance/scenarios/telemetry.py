"""GetTelemetrySubscriptions and PushTelemetry (KIP-714), beside a Kafka with a receiver: docs/kafka.md, section 6.

Clients bring ids of their own, so that the ids of what they are asked for are the same on both sides.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import Any, Final

from protocol.errors import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from protocol.messages.push_telemetry import PushTelemetryRequest
from protocol.records.batch import Codec
from protocol.records.compression import compress
from tests.conformance.admin_lines import TELEMETRY as VERSIONS
from tests.conformance.registry import scenario
from tests.conformance.run import Run
from tests.conformance.scenarios.client_metrics import CLIENT_METRICS, until_listed
from tests.conformance.scenarios.configs import SET, Operations, incremental, replaced
from tests.conformance.targets import MAX_PUSH_BYTES, TELEMETRY
from tests.conformance.topic_scenes import quietly
from tests.otlp import pushed

METRICS: Final = pushed({"org.apache.kafka.consumer.time.between.poll.max": 7.0})
OK, EARLY = ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED
ZERO: Final = bytes(16)
IN_TURN: Final = "a change of any subscription has all clients begin anew"


class Client:
    """A client with an id of its own; its client id is the run's name."""

    def __init__(self, run: Run, name: str = "client") -> None:
        self.run = run
        self.name = name
        self.actor = f"{run.name}-{name}"
        self.id = uuid.uuid5(uuid.NAMESPACE_DNS, self.actor).bytes
        self.subscription_id = 0

    async def get(self, error: int | None = OK, note: str = "") -> Any:
        request = GetTelemetrySubscriptionsRequest(client_instance_id=self.id)
        reply = await self.run.answer(await self.run.send(self.actor, request, 0, note), error)
        if not reply.error_code:
            self.subscription_id = reply.subscription_id
        return reply

    async def push(self, error: int | None = OK, note: str = "", **fields: Any) -> Any:
        fields = {"client_instance_id": self.id, "subscription_id": self.subscription_id, **fields}
        request = PushTelemetryRequest(**{"metrics": METRICS, **fields})
        return await self.run.answer(await self.run.send(self.actor, request, 0, note), error)


async def subscribe(run: Run, name: str, *changes: tuple[str, str]) -> None:
    operations: Operations = tuple((key, SET, value) for key, value in changes)
    await quietly(run, incremental(CLIENT_METRICS, name, *operations), 1)
    await until_listed(run, name)


async def unsubscribe(run: Run, *names: str) -> None:
    for name in names:
        await quietly(run, replaced(CLIENT_METRICS, name), 1)
        await until_listed(run, name, is_listed=False)


@scenario("6 GetTelemetrySubscriptions", versions=VERSIONS, on=TELEMETRY, in_turn=IN_TURN)
async def a_client_that_no_subscription_matches_is_asked_for_nothing(run: Run, version: int) -> None:
    client = Client(run)
    reply = await client.get()
    run.expect(reply.push_interval_ms == 300_000, "five minutes")
    await client.get(EARLY, "at once again")
    first = await (await run.send("new", GetTelemetrySubscriptionsRequest(), 0)).reply
    second = await (await run.send("other", GetTelemetrySubscriptionsRequest(), 0)).reply
    ids = [first.client_instance_id, second.client_instance_id]
    run.saw("ids handed out", [ZERO in ids, ids[0] == ids[1], sorted({each[6] >> 4 for each in ids})])


@scenario("6 GetTelemetrySubscriptions", versions=VERSIONS, on=TELEMETRY, in_turn=IN_TURN)
async def a_client_is_asked_for_what_all_subscriptions_want_that_match_it(run: Run, version: int) -> None:
    mine = ("match", f"client_id={run.name}-.*")
    names = [f"{run.name}-{letter}" for letter in "abcd"]
    client = Client(run, "first")
    await subscribe(run, names[0], mine, ("metrics", "org.apache.kafka.consumer.,org.apache.kafka.producer."))
    await client.get(note="one subscription")
    more = ",".join(f"org.apache.kafka.{number}." for number in range(30))
    await subscribe(run, names[1], mine, ("metrics", more), ("interval.ms", "100000"))
    await client.get(note="two: asked anew, before the interval is over")
    await client.get(EARLY, "and again")
    await subscribe(run, names[2], ("match", f"{mine[1]},client_source_port=1"), ("interval.ms", "1000"))
    await Client(run, "second").get(note="one that does not match")
    await subscribe(run, names[3], mine, ("metrics", "x.,*"), ("interval.ms", "3000000"))
    await Client(run, "third").get(note="all")
    await unsubscribe(run, *names)
    await Client(run, "fourth").get(note="none any more")


@scenario("6 GetTelemetrySubscriptions", versions=VERSIONS, on=TELEMETRY, in_turn=IN_TURN)
async def a_client_is_matched_by_what_it_says_of_itself(run: Run, version: int) -> None:
    client = Client(run)
    mine = f"client_id={client.actor}"
    shown = "client_instance_id=[A-Za-z0-9_-]{22}"
    patterns = (
        *("client_software_name=unknown", "client_software_version=unknown", "client_software_name=lib.*"),
        *(
            "client_software_version=[0-9.]+",
            "client_source_address=127[.]0[.]0[.]1",
            "client_source_port=[0-9]+",
        ),
        *("client_source_address=/127[.]0[.]0[.]1", shown, "client_instance_id=x", "client_software_name=ib"),
    )
    for has_said in (False, True):
        if has_said:
            said = ApiVersionsRequest(client_software_name="lib-x", client_software_version="1.2.3")
            connection = await run.free_connection(client.actor)
            await connection.send(said, 3)
        for pattern in patterns:
            name = f"{run.name}-{has_said}-{pattern.partition('=')[0]}-{patterns.index(pattern)}"
            await subscribe(run, name, ("match", f"{mine},{pattern}"), ("interval.ms", "1000"))
            again = Client(run)
            again.id = uuid.uuid5(uuid.NAMESPACE_DNS, name).bytes
            await again.get(note=f"{pattern} {has_said}")
            await unsubscribe(run, name)


@scenario("6 PushTelemetry", versions=VERSIONS, on=TELEMETRY, in_turn=IN_TURN)
async def pushes_are_taken_one_in_an_interval(run: Run, version: int) -> None:
    client = Client(run)
    await client.get()
    await client.push(note="the first, early")
    await client.push(EARLY, "the second at once")
    await client.get(EARLY, "asked at once")
    await client.push(
        ErrorCode.UNKNOWN_SUBSCRIPTION_ID, "the last, of another", subscription_id=1, terminating=True
    )
    await client.push(ErrorCode.INVALID_REQUEST, "after the last")
    await client.push(EARLY, "and once more")
    await client.push(note="the last", terminating=True)
    await client.push(ErrorCode.INVALID_REQUEST, "the last again", terminating=True)
    for reserved in (ZERO, bytes(15) + b"\1"):
        await client.push(ErrorCode.INVALID_REQUEST, f"{reserved[-1]}", client_instance_id=reserved)
    name = f"{run.name}-s"
    await subscribe(run, name, ("match", f"client_id={client.actor}"), ("interval.ms", "300"))
    await client.push(ErrorCode.UNKNOWN_SUBSCRIPTION_ID, "what is asked for has changed")
    await client.get(note="at once after that")
    await client.push(EARLY, "a refused push counts as one, and what was asked at once does not")
    await asyncio.sleep(0.4)
    await client.push(note="after an interval")
    await client.push(EARLY, "within one")
    await unsubscribe(run, name)


@scenario("6 PushTelemetry", versions=VERSIONS, on=TELEMETRY, in_turn=IN_TURN)
async def pushes_that_are_refused(run: Run, version: int) -> None:
    """Each by a client of its own, which has asked before."""
    large = bytes(MAX_PUSH_BYTES + 1)
    pushes: dict[str, dict[str, Any]] = {
        "no metrics": {"metrics": b""},
        "no metrics, of a codec": {"metrics": b"", "compression_type": Codec.ZSTD},
        "another id": {"subscription_id": 5},
        "codec 5": {"compression_type": 5},
        "codec -1": {"compression_type": -1},
        "too large": {"metrics": large},
        "too large and of no codec": {"metrics": large, "compression_type": 9},
        "no metrics data": {"metrics": b"\xff\xff\xff"},
        "a cut one": {"metrics": METRICS[:-1]},
        "unknown fields": {"metrics": b"\x98\x06\x01"},
        "fields of another kind": {"metrics": b"\x08\x01"},
    }
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        pushes[f"{codec.name}"] = {"compression_type": codec, "metrics": compress(codec, METRICS)}
        pushes[f"{codec.name}, but it is not"] = {"compression_type": codec, "metrics": METRICS}
        pushes[f"{codec.name}, cut"] = {
            "compression_type": codec,
            "metrics": compress(codec, METRICS * 9)[:-9],
        }
        whole = b"\x9a\x06\xfd\x1f" + bytes(
            MAX_PUSH_BYTES - 3
        )  # A field that is not known, of the rest's size.
        pushes[f"{codec.name}, a byte too large"] = {
            "compression_type": codec,
            "metrics": compress(codec, whole),
        }
        full = b"\x9a\x06\xfc\x1f" + bytes(MAX_PUSH_BYTES - 4)
        pushes[f"{codec.name}, as large as may be"] = {
            "compression_type": codec,
            "metrics": compress(codec, full),
        }
    for note, fields in pushes.items():
        client = Client(run, note)
        await client.get()
        await client.push(None, note, **fields)
        await client.get(None, f"{note}: asked at once after it")


@scenario("6 PushTelemetry", versions=VERSIONS, on=TELEMETRY, in_turn=IN_TURN)
async def a_client_that_connects_again_is_a_new_one(run: Run, version: int) -> None:
    client = Client(run)
    await client.get()
    await client.push()
    await client.push(EARLY, "early")
    run.hang_up(client.actor)
    await asyncio.sleep(0.3)
    await client.push(note="connected again")
    await client.get(EARLY, "asked after it")
