"""GetTelemetrySubscriptions and PushTelemetry by plain calls: intervals, refusals, what is remembered how long.

What Kafka answers to the same is in tests/conformance/scenarios/telemetry.py.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from coordinator.telemetry.apis import LINES_PER_SECOND, TelemetryApis, TelemetryServices, shown_id
from coordinator.telemetry.decode_queue import MAX_PER_ADDRESS, DecodeQueue
from coordinator.telemetry.instances import ClientInstances
from coordinator.telemetry.reports import ClientReports, MemberOfGroup, Origin
from coordinator.telemetry.subscriptions import ClientAttributes
from harness.doubles.fake_pending import FakeConnection, FakePending
from harness.doubles.inline_workers import finished
from protocol.errors import ErrorCode
from protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from protocol.messages.push_telemetry import PushTelemetryRequest
from protocol.records.batch import Codec
from tests.otlp import pushed
from tests.topics.test_alter_configs import DELETE, METRICS, SET, change
from tests.topics.world import World

ID = bytes(range(1, 17))
OTHER_ID = bytes(range(2, 18))
OK, EARLY = ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED
INTERVAL_MS = 300_000
POLLS = pushed(
    {"org.apache.kafka.consumer.time.between.poll.max": 7.0}, {"group_id": "g", "group_member_id": "m"}
)
NOBODY = ClientAttributes("", "", "", "", "", "")
MEMBER = MemberOfGroup("g", "m", Origin("tests", "/127.0.0.1"))


class Waiting:
    """Workers whose work waits until the test has it done, and time that passes with it."""

    def __init__(self) -> None:
        self.queue: list[Callable[[], None]] = []

    def submit(self, work: Callable[[], Any], done: Callable[[Future[Any]], None]) -> None:
        self.queue.append(lambda: done(finished(work)))

    def later(self, _seconds: float, call: Callable[[], None]) -> Waiting:
        self.queue.append(call)
        return self

    def cancel(self) -> None:
        self.queue.clear()

    def work(self) -> None:
        while self.queue:
            self.queue.pop(0)()


class Broker:
    """The two APIs on registered subscriptions, with a clock that the test moves."""

    def __init__(self, world: World, most: int = 16_384) -> None:
        self.world = world
        self.now_ms = 1_000_000
        self.workers = Waiting()
        self.instances = ClientInstances(world.registry.client_metrics, most)
        self.reports = ClientReports()
        self.queue = DecodeQueue(self.workers, self.workers.later)
        services = TelemetryServices(
            self.instances, self.reports, self.queue, lambda: self.now_ms, 1_000, lambda count: bytes(count)
        )
        self.apis = TelemetryApis(services)
        self.connection = FakeConnection(client_software=("lib", "1"))
        self.asked_for: dict[bytes, int] = {}  # The subscription id that each client was told last.

    def pending(self, connection: FakeConnection | None, client_id: str = "tests") -> FakePending:
        pending = FakePending(0, client_id)
        pending.connection = connection or self.connection
        return pending

    def get(
        self, client: bytes = ID, connection: FakeConnection | None = None, client_id: str = "tests"
    ) -> Any:
        pending = self.pending(connection, client_id)
        self.apis.get_subscriptions(GetTelemetrySubscriptionsRequest(client_instance_id=client), pending)
        if not pending.answer.error_code:
            self.asked_for[client] = pending.answer.subscription_id
        return pending.answer

    def push(self, client: bytes = ID, connection: FakeConnection | None = None, **fields: Any) -> ErrorCode:
        pending = self.start_push(client, connection, **fields)
        self.workers.work()
        return ErrorCode(pending.answer.error_code)

    def start_push(self, client: bytes = ID, connection: FakeConnection | None = None, **fields: Any) -> Any:
        fields = {"subscription_id": self.asked_for.get(client, 0)} | fields
        pending = self.pending(connection)
        request = PushTelemetryRequest(**{"client_instance_id": client, "metrics": POLLS, **fields})
        self.apis.push(request, pending)
        return pending

    def push_nothing(self, client: bytes) -> ErrorCode:
        return ErrorCode(self.start_push(client, metrics=b"").answer.error_code)

    def hang_up(self, connection: FakeConnection | None = None) -> None:
        self.instances.on_disconnected(connection or self.connection)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def broker(world: World) -> Broker:
    return Broker(world)


def test_what_a_client_is_answered(broker: Broker) -> None:
    answer = broker.get()
    assert (answer.error_code, answer.client_instance_id, answer.requested_metrics) == (OK, ID, [])
    assert answer.accepted_compression_types == [Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY]
    assert (answer.push_interval_ms, answer.telemetry_max_bytes, answer.delta_temporality) == (
        INTERVAL_MS,
        1_000,
        True,
    )


def test_a_client_without_an_id_is_handed_one(world: World) -> None:
    """A UUID of version 4 that nobody has, and that tools do not take for an option."""
    made = iter([b"\xff" * 16, b"\xf8" + bytes(15), b"\1" * 16, b"\1" * 16, b"\2" * 16])
    broker = Broker(world)
    services = TelemetryServices(
        broker.instances, broker.reports, broker.queue, lambda: 1, 1_000, lambda _count: next(made)
    )
    broker.apis = TelemetryApis(services)
    ids = [broker.get(bytes(16)).client_instance_id for _ in range(3)]
    assert [shown_id(each)[0] for each in ids] == ["_", "A", "A"]
    assert [(each[6] >> 4, each[8] >> 6) for each in ids] == [(4, 2)] * 3
    assert len(set(ids)) == 3


def test_a_client_asks_once_in_an_interval(broker: Broker) -> None:
    assert broker.get().error_code == OK
    broker.now_ms += INTERVAL_MS - 1
    assert broker.get().error_code == EARLY
    broker.now_ms += 1
    assert broker.get().error_code == OK
    assert broker.get(OTHER_ID).error_code == OK


def test_a_client_pushes_once_in_an_interval_and_once_more_after_it_has_asked(broker: Broker) -> None:
    broker.get()
    assert [broker.push(), broker.push()] == [OK, EARLY]
    broker.now_ms += INTERVAL_MS - 1
    assert [broker.push(), broker.get().error_code] == [EARLY, EARLY]
    broker.now_ms += 1
    assert [broker.push(), broker.push()] == [OK, EARLY]
    broker.now_ms += INTERVAL_MS
    assert [broker.get().error_code, broker.push(), broker.push()] == [OK, OK, EARLY]


def test_after_a_push_that_was_refused_for_its_id_or_codec_a_client_may_ask_at_once(broker: Broker) -> None:
    refused: list[tuple[dict[str, Any], ErrorCode]] = [
        ({"subscription_id": 5}, ErrorCode.UNKNOWN_SUBSCRIPTION_ID),
        ({"compression_type": 9}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    ]
    for fields, error in refused:
        broker.now_ms += INTERVAL_MS
        broker.get()
        assert broker.push(**fields) == error
        assert [broker.get().error_code, broker.get().error_code] == [OK, EARLY]


def test_a_client_that_is_terminating_pushes_early_and_then_no_more(broker: Broker) -> None:
    broker.get()
    assert [broker.push(), broker.push(terminating=True)] == [OK, OK]
    broker.now_ms += INTERVAL_MS
    assert broker.push(terminating=True) == ErrorCode.INVALID_REQUEST
    assert broker.push() == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("reserved", [bytes(16), bytes(15) + b"\1"])
def test_ids_that_are_reserved_push_nothing(broker: Broker, reserved: bytes) -> None:
    assert broker.push(reserved) == ErrorCode.INVALID_REQUEST
    assert len(broker.instances) == 0


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"metrics": b"x" * 1_001}, ErrorCode.TELEMETRY_TOO_LARGE),
        ({"metrics": b"\xff"}, ErrorCode.INVALID_RECORD),
        ({"compression_type": Codec.GZIP}, ErrorCode.INVALID_RECORD),
        ({"metrics": b""}, OK),
    ],
)
def test_what_was_pushed_may_be_refused_for_itself(
    broker: Broker, fields: dict[str, Any], error: ErrorCode
) -> None:
    broker.get()
    assert broker.push(**fields) == error
    assert broker.reports.latest(MEMBER, broker.now_ms) is None


def test_a_push_is_answered_even_if_reading_it_fails_for_a_fault_of_ours(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing: dict[str, Any] = {}
    monkeypatch.setattr("coordinator.telemetry.apis.decode_push", lambda *_: nothing["figures"])
    broker.get()
    assert broker.push() == ErrorCode.INVALID_RECORD
    monkeypatch.undo()
    broker.now_ms += INTERVAL_MS
    assert broker.push() == OK


def test_what_a_client_said_is_kept_for_three_intervals(broker: Broker) -> None:
    broker.get()
    assert broker.push() == OK
    broker.now_ms += 3 * INTERVAL_MS
    latest = {"age_ms": 3 * INTERVAL_MS, "time_between_poll_max_ms": 7}
    assert broker.reports.latest(MEMBER, broker.now_ms) == latest
    assert broker.reports.latest(MEMBER, broker.now_ms + 1) is None


def test_so_many_pushes_wait_and_no_more(broker: Broker) -> None:
    most = 1 + MAX_PER_ADDRESS  # One is being decoded.
    clients = [bytes([number]) * 16 for number in range(1, most + 2)]
    for client in clients:
        broker.get(client)
    waiting = [broker.start_push(client) for client in clients]
    assert [each.is_answered for each in waiting] == [False] * most + [True]
    assert waiting[-1].answer.error_code == EARLY
    last = bytes([99]) * 16
    broker.get(last)
    assert broker.push_nothing(last) == OK, "what is empty need not wait"
    broker.workers.work()
    assert {each.answer.error_code for each in waiting[:-1]} == {OK}
    broker.now_ms += INTERVAL_MS
    assert broker.push(clients[-1]) == OK


def test_what_waits_when_the_daemon_stops_is_answered_and_not_decoded(broker: Broker) -> None:
    for client in (ID, OTHER_ID):
        broker.get(client)
    decoded, dropped = broker.start_push(ID), broker.start_push(OTHER_ID)
    broker.queue.close()
    assert (decoded.is_answered, dropped.answer.error_code) == (False, EARLY)
    broker.workers.work()
    assert (decoded.answer.error_code, len(broker.reports)) == (OK, 1)


def test_what_cannot_be_read_is_logged_some_times_a_second_and_then_counted(broker: Broker) -> None:
    with capture_logs() as lines:
        for number in range(1, 101):
            client = bytes([number]) * 16
            broker.get(client)
            assert broker.push(client, metrics=b"\xff") == ErrorCode.INVALID_RECORD
        assert len(lines) == LINES_PER_SECOND
        broker.now_ms += 1_000
        broker.get(OTHER_ID)
        broker.push(OTHER_ID, metrics=b"\xff")
    assert lines[-1]["event"] == "metrics of a client not taken"
    assert lines[-1]["and_more"] == 100 - LINES_PER_SECOND


def test_of_a_client_id_that_is_too_long_only_the_beginning_is_kept(world: World, broker: Broker) -> None:
    change(world, METRICS, "s", ("metrics", SET, "a."), ("match", SET, "client_id=c*"))
    for length, matched in ((256, ["a."]), (257, []), (32_000, [])):
        client = length.to_bytes(16)
        assert broker.get(client, client_id="c" * length).requested_metrics == matched
        kept = broker.instances.get(client, NOBODY, broker.connection, broker.now_ms)
        assert len(kept.attributes.client_id) == min(length, 257)
    change(world, METRICS, "s", ("metrics", SET, "b."))
    assert broker.get(client, client_id="c" * 32_000).requested_metrics == [], (
        "matched again, not by what is kept"
    )


def test_a_change_of_a_subscription_has_every_client_begin_anew(world: World, broker: Broker) -> None:
    before = broker.get().subscription_id
    assert broker.get().error_code == EARLY
    change(
        world,
        METRICS,
        "s",
        ("metrics", SET, "a."),
        ("interval.ms", SET, "1000"),
        ("match", SET, "client_id=tests"),
    )
    assert broker.push(subscription_id=before) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    answer = broker.get()
    assert (answer.error_code, answer.requested_metrics, answer.push_interval_ms) == (OK, ["a."], 1_000)
    change(world, METRICS, "s", *((name, DELETE, None) for name in ("metrics", "interval.ms", "match")))
    answer = broker.get()
    assert (answer.error_code, answer.requested_metrics, answer.subscription_id) == (OK, [], before)


def test_a_client_is_matched_by_its_connection_and_what_it_said_of_its_library(
    world: World, broker: Broker
) -> None:
    match = (
        "client_software_name=lib,client_software_version=1,client_source_address=127.*,client_source_port=9"
    )
    change(world, METRICS, "s", ("metrics", SET, "a."), ("match", SET, match))
    assert broker.get().requested_metrics == ["a."]
    assert broker.get(OTHER_ID, FakeConnection(8, ("lib", "1"))).requested_metrics == []
    assert broker.get(b"\7" * 16, FakeConnection(9, ("bil", "1"))).requested_metrics == []


def test_a_client_whose_connection_is_closed_is_forgotten_but_not_what_it_said(broker: Broker) -> None:
    other = FakeConnection(port=8)
    broker.get()
    broker.get(OTHER_ID, other)
    assert broker.push() == OK
    broker.hang_up()
    assert [ID in broker.instances, OTHER_ID in broker.instances] == [False, True]
    assert broker.reports.latest(MEMBER, broker.now_ms) is not None
    assert broker.get().error_code == OK
    broker.hang_up(FakeConnection(port=7))  # One that never asked.
    assert len(broker.instances) == 2


def test_a_silent_client_is_forgotten_after_three_intervals(broker: Broker) -> None:
    broker.get()
    broker.now_ms += 3 * INTERVAL_MS - 1
    broker.get(OTHER_ID)
    assert ID in broker.instances
    broker.now_ms += 1
    broker.push(OTHER_ID)
    assert ID not in broker.instances


def test_a_client_that_pushes_often_is_remembered_for_a_minute(world: World, broker: Broker) -> None:
    change(world, METRICS, "s", ("interval.ms", SET, "100"))
    broker.get()
    broker.now_ms += 59_999
    broker.get(OTHER_ID)
    assert ID in broker.instances
    broker.now_ms += 1
    broker.get(OTHER_ID)
    assert ID not in broker.instances


def test_of_more_clients_than_are_remembered_the_one_longest_silent_goes(world: World) -> None:
    broker = Broker(world, most=2)
    for client in (ID, OTHER_ID):
        broker.get(client)
    broker.get(ID)
    broker.get(b"\7" * 16)
    assert [ID in broker.instances, OTHER_ID in broker.instances] == [True, False]
    assert len(broker.instances) == 2
