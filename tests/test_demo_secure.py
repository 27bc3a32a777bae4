"""`make demo-secure` does what docs/security.md says: the walk succeeds, and all else is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient

from bench.demo_secure import FILES, KEY, PAGE, ROOT, DemoError, not_let_in
from harness.daemon import MusterDaemon
from harness.processes import HOST, free_port


def test_the_page_has_what_the_demo_takes_from_it() -> None:
    text = PAGE.read_text()
    assert {name for name, _ in FILES.findall(text)} == {
        "server.properties",
        "admin.properties",
        "alice.properties",
    }
    assert KEY.search(text)


def test_the_walk_of_the_page_ends_well() -> None:
    command = [sys.executable, "-m", "bench.demo_secure"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("refused, as it has to be") == 6
    assert "a wrong password: _AUTHENTICATION\n" in done.stdout


def test_no_answer_and_a_client_that_is_let_in_are_no_refusals(tmp_path: Path) -> None:
    nowhere: dict[str, Any] = {"bootstrap.servers": f"{HOST}:{free_port()}", "log_level": 0}
    refusals = {KafkaError._AUTHENTICATION}
    with pytest.raises(DemoError, match="does not answer its administrator before it"):
        not_let_in("nobody", {KafkaError._TRANSPORT}, nowhere, AdminClient(nowhere))
    with MusterDaemon(tmp_path) as daemon:
        there: dict[str, Any] = {"bootstrap.servers": daemon.bootstrap, "log_level": 0}
        admin = AdminClient(there)
        for error_codes in (refusals, {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN}):
            with pytest.raises(DemoError, match="nothing listens"):
                not_let_in("nobody", error_codes, nowhere, admin)
        with pytest.raises(DemoError, match="it was not refused"):
            not_let_in("anybody", refusals, there, admin)
