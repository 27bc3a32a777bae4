"""The walk of docs/security.md, and then that of docs/to-kafka.md: with the files of both pages, word for word."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from bench import demo_secure
from bench.demo_secure import PASSWORDS, ROOT, ROWS, SecuredFolder
from harness.kafka_broker import KafkaBroker
from harness.processes import free_port, wait_until

PAGE: Final = ROOT / "docs" / "to-kafka.md"
START_S: Final = 60.0

pytestmark = [pytest.mark.xdist_group("kafka log"), pytest.mark.timeout(300)]


class SecuredKafka(KafkaBroker):
    """A Kafka with the settings of both pages alone, in the folder that Muster ran in."""

    def __init__(self, secured: SecuredFolder) -> None:
        super().__init__(secured.folder)
        self._of_pages = properties((secured.folder / "server.properties").read_text())
        found = re.search(r"```properties\n# for-kafka.properties\n(.*?)```", PAGE.read_text(), re.DOTALL)
        assert found is not None, "the page has the settings"
        text = (
            found[1]
            .replace("localhost:9094", secured.address)
            .replace("0.0.0.0:9094", f"0.0.0.0:{secured.port}")
        )
        for port in ("9093", "9095"):
            text = text.replace(port, str(free_port()))
        self._of_pages |= properties(text)

    def _properties(self) -> dict[str, str]:
        return self._of_pages

    @property
    def log_dir(self) -> Path:
        return self.data_dir / "data"


def properties(text: str) -> dict[str, str]:
    rows = (line for line in text.splitlines() if line and not line.startswith("#"))
    return dict(line.split("=", 1) for line in rows)


@contextmanager
def running(command: list[str], folder: Path, admin: AdminClient) -> Iterator[None]:
    """A server that answers its administrator, until the end of the block."""
    with open(folder / "server.log", "wb") as log:
        server = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)

        def ended() -> str | None:
            return None if server.poll() is None else (folder / "server.log").read_text()[-3000:]

        try:
            wait_until(lambda: demo_secure._answers(admin), "its administrator is answered", START_S, ended)
            yield
        finally:
            server.terminate()
            assert server.wait(60) in (0, 143)


def test_the_pages_lead_from_nothing_to_a_secured_kafka(
    java: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    secured = SecuredFolder(tmp_path)
    secured.make_key()
    for user, password in PASSWORDS.items():
        secured.muster("scram", "add", "data", user, typed=f"{password}\n")
    admin, alice = AdminClient(secured.client("admin")), secured.client("alice")
    with running(secured.command("serve", "--config", "server.properties"), tmp_path, admin):
        for made in admin.create_topics([NewTopic("orders", 1), NewTopic("wages", 1)]).values():
            made.result(START_S)
        demo_secure.give_rights(admin)
        demo_secure.written(alice, "orders")
    assert "With secured listeners" in secured.muster("log", "to-kafka", "data")
    kafka = SecuredKafka(secured)
    kafka._prepare()
    with running(kafka._command(), tmp_path, admin):
        assert demo_secure.read(alice, "orders", "billing") == ROWS
        demo_secure.written(alice, "orders")
        with pytest.raises(KafkaException) as refused:
            demo_secure.written(alice, "wages")
        assert refused.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
