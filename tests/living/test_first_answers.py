"""How long a client waits for a daemon that starts on an empty directory, with all defaults."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.daemon import MusterDaemon
from harness.wire import WireClient
from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import FindCoordinatorRequest

READY_S = 15.0  # Under a second where nothing else runs, and some three where ten other things do.
FIRST_ANSWER_S = 1.0  # Beside other tests a process may stand still for longer.


@pytest.mark.measured
def test_it_is_ready_in_seconds_and_names_a_coordinator_within_one(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    daemon = MusterDaemon(tmp_path)
    began_s = time.monotonic()
    with daemon, WireClient(daemon.bootstrap) as client:
        ready_s = time.monotonic() - began_s
        answer = client.ask(FindCoordinatorRequest(key="first"), 3)
        found_s = time.monotonic() - began_s - ready_s
    assert (answer.error_code, answer.port) == (ErrorCode.NONE, daemon.port)
    record_property("figure", f"ready in {ready_s:.2f} s, a coordinator {found_s * 1000:.0f} ms later")
    assert ready_s <= READY_S
    assert found_s <= FIRST_ANSWER_S
