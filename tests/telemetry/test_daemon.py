"""Clients' metrics in a whole daemon: off unless they are asked for, and in the history when a member goes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from coordinator.daemon.startup import StartupError
from coordinator.effects import GroupEvent, HistoryRow
from coordinator.groups.causes import DEPARTURES, Cause, CauseKind
from coordinator.history.client_metrics import with_client_metrics
from coordinator.history.events import decode_event, encode_event, worded
from coordinator.server.api_table import MAX_SOFTWARE_CHARS, api_table
from coordinator.telemetry.telemetry import MISSING
from harness.daemon_thread import Daemon
from harness.doubles.fake_pending import FakeConnection, FakePending
from harness.wire import WireClient
from muster.groups.event_records import read_event
from protocol.errors import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from protocol.messages.push_telemetry import PushTelemetryRequest
from storage.files import Files
from tests.otlp import pushed

FEW: dict[str, Any] = {"offsets_topic_num_partitions": 1, "transaction_state_log_num_partitions": 1}
HELLO = ApiVersionsRequest(client_software_name="tests", client_software_version="1")
KEYS = {71, 72}
SAID = {"age_ms": 400, "time_between_poll_max_ms": 312_000}


def advertised(client: WireClient) -> set[int]:
    return {api.api_key for api in client.ask(HELLO, 4).api_keys} & KEYS


def test_without_the_setting_they_are_neither_advertised_nor_served(tmp_path: Path) -> None:
    with Daemon(tmp_path, Files(), **FEW) as daemon, WireClient(daemon.bootstrap) as client:
        assert advertised(client) == set()
        with pytest.raises(ConnectionError):
            client.ask(GetTelemetrySubscriptionsRequest(), 0)


def test_with_it_they_are_and_a_closed_connection_ends_what_is_known_of_its_client(tmp_path: Path) -> None:
    with Daemon(tmp_path, Files(), muster_client_metrics=True, telemetry_max_bytes=100, **FEW) as daemon:
        with WireClient(daemon.bootstrap) as client:
            assert advertised(client) == KEYS
            answer = client.ask(GetTelemetrySubscriptionsRequest(), 0)
            own, asked = answer.client_instance_id, answer.subscription_id
            assert answer.telemetry_max_bytes == 100
            push = PushTelemetryRequest(
                client_instance_id=own, subscription_id=asked, metrics=pushed({"a": 1})
            )
            early = ErrorCode.THROTTLING_QUOTA_EXCEEDED
            assert [client.ask(push, 0).error_code for _ in range(2)] == [ErrorCode.NONE, early]
            large = PushTelemetryRequest(
                client_instance_id=own, subscription_id=asked, metrics=bytes(101), terminating=True
            )
            assert client.ask(large, 0).error_code == ErrorCode.TELEMETRY_TOO_LARGE
        errors = set()
        while (
            ErrorCode.NONE not in errors
        ):  # The daemon sees the end of the first connection in its own time.
            with WireClient(daemon.bootstrap) as client:
                errors.add(client.ask(push, 0).error_code)
        assert errors <= {ErrorCode.NONE, ErrorCode.INVALID_REQUEST, early}


def test_without_the_library_the_daemon_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("opentelemetry")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    daemon = Daemon(tmp_path, Files(), muster_client_metrics=True, **FEW)
    with pytest.raises(StartupError) as refused:
        daemon._run()
    assert str(refused.value) == MISSING
    assert "pip install opentelemetry-proto" in MISSING
    assert "muster[" not in MISSING, "on the index that name is another project's"


@pytest.mark.parametrize(
    ("version", "request_", "software"),
    [
        (3, HELLO, ("tests", "1")),
        (0, ApiVersionsRequest(), ("unknown", "unknown")),
        (3, ApiVersionsRequest(client_software_name="no!", client_software_version="1"), ("before", "0")),
        (
            3,
            ApiVersionsRequest(client_software_name="n" * 300, client_software_version="v" * 300),
            ("n" * MAX_SOFTWARE_CHARS, "v" * MAX_SOFTWARE_CHARS),
        ),
    ],
)
def test_what_a_client_says_of_its_library_is_kept_for_its_connection(
    version: int, request_: ApiVersionsRequest, software: tuple[str, str]
) -> None:
    pending = FakePending(version)
    pending.connection = FakeConnection(client_software=("before", "0"))
    handle: Any = api_table({})[18].handle
    handle(request_, pending)
    assert pending.connection.client_software == software


def row(kind: CauseKind, **cause: Any) -> HistoryRow:
    of_member = {"member_id": "m", "client_id": "app-1", "client_host": "/10.0.0.9", **cause}
    return HistoryRow("g", 7, "Stable", "PreparingRebalance", Cause(kind, **of_member), 5, 1, 1)


@pytest.mark.parametrize("kind", list(CauseKind))
def test_what_a_client_said_is_beside_its_departure_and_nothing_else(kind: CauseKind) -> None:
    asked: list[tuple[object, ...]] = []

    def latest(*member: object) -> dict[str, int]:
        asked.append(member)
        return SAID

    event = worded(with_client_metrics(row(kind), latest))
    assert event.client_metrics == (SAID if kind in DEPARTURES else None)
    assert asked == ([("g", "m", "app-1", "/10.0.0.9")] if kind in DEPARTURES else [])


def test_an_event_is_as_it_was_where_nothing_is_known_of_the_client() -> None:
    plain = row(CauseKind.MEMBER_LEFT)
    assert with_client_metrics(plain, lambda *_: None) is plain
    unnamed = row(CauseKind.REBALANCE_TIMEOUT, client_id=None, client_host=None)
    assert with_client_metrics(unnamed, lambda *_: SAID) is unnamed


def test_the_other_fields_of_a_phase_stay() -> None:
    phase = {"phase_ms": {"PreparingRebalance": 4}}
    event = worded(with_client_metrics(row(CauseKind.SYNC_TIMEOUT)._replace(phase=phase), lambda *_: SAID))
    assert (event.phase_ms, event.client_metrics) == ({"PreparingRebalance": 4}, SAID)


def test_the_figures_are_read_back_and_others_than_times_refused() -> None:
    event = worded(with_client_metrics(row(CauseKind.MEMBER_LEFT), lambda *_: SAID))
    key, value = encode_event(event)
    assert value.endswith(b',"client_metrics":{"age_ms":400,"time_between_poll_max_ms":312000}}')
    assert decode_event(value) == read_event(key, value) == event
    for wrong in (b'"x"', b"-1", b"1.5", b"true", b"null"):
        with pytest.raises(ValueError, match="client_metrics"):
            read_event(key, value.replace(b"312000", wrong))
    with pytest.raises(ValueError, match="client_metrics"):
        read_event(key, value.replace(b'{"age_ms":400,"time_between_poll_max_ms":312000}', b"[]"))


def test_events_without_figures_have_no_such_field() -> None:
    assert b"client_metrics" not in encode_event(GroupEvent("g", 1, "Stable", "Stable", "r", 1))[1]
