"""Kafka's administration tools over secured listeners: they print on a daemon what they print on Kafka.

kafka-acls, kafka-configs and kafka-delegation-tokens, by a super user, by one without rights and with a wrong
password; and kafka-configs of a broker's secured settings (F12). What they do for a super user over PLAINTEXT is
in test_acls_tool, test_quota_tools and test_scram_users.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from harness.processes import ServerProcess, wait_until
from tests.clients.fleet import Fleet
from tests.clients.secured.world import (
    ALLOWED,
    FORBIDDEN,
    LISTENERS,
    PASSWORD,
    USER,
    WRONG_PASSWORD,
    Certificates,
    furnish,
    start_server,
)

pytestmark = pytest.mark.xdist_group("secured tools")

CONFIGS, ACLS, TOKENS = "kafka.admin.ConfigCommand", "AclCommand", "DelegationTokenCommand"
MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
IN_FORCE_S: Final = 60.0
PLAIN, ALICE, STRANGER = "plain", USER, "stranger"
"""Who runs a tool: a super user over PLAINTEXT, alice, and one with a wrong password."""

BROKER = ("--entity-type", "brokers", "--entity-name", "1")
ADD, DELETE, DESCRIBE = ("--alter", "--add-config"), ("--alter", "--delete-config"), "--describe"
NEVER = ("--max-life-time-period", "-1")
BOB = ("--allow-principal", "User:bob")
HMAC = "c2VjcmV0"

LISTENERS_CONFIGS = "listener.name.tls.max.connections,listener.name.mtls.ssl.keystore.location"
OF_BROKERS: Final = (
    (DESCRIBE, *BROKER, "--all"),
    (*ADD, "listener.name.mtls.ssl.keystore.location=STORE", *BROKER),
    (*ADD, "listener.name.tls.max.connections=400", *BROKER),
    (*ADD, "max.connections=4000", *BROKER),
    (*ADD, "ssl.keystore.password=x", *BROKER),
    (DESCRIBE, *BROKER),
    (DESCRIBE, *BROKER, "--all"),
    (*DELETE, f"{LISTENERS_CONFIGS},max.connections", *BROKER),
    (DESCRIBE, *BROKER),
)
OF_RIGHTS: Final = (
    (CONFIGS, DESCRIBE, *BROKER),
    (CONFIGS, *ADD, "max.connections=400", *BROKER),
    (CONFIGS, DESCRIBE, "--entity-type", "users", "--entity-name", USER),
    (CONFIGS, *ADD, "producer_byte_rate=5", "--entity-type", "users", "--entity-name", USER),
    (CONFIGS, *ADD, "producer_byte_rate=5", "--entity-type", "clients", "--entity-default"),
    (CONFIGS, *ADD, "connection_creation_rate=5", "--entity-type", "ips", "--entity-name", "10.0.0.1"),
    (CONFIGS, DESCRIBE, "--entity-type", "ips"),
    (CONFIGS, *ADD, "SCRAM-SHA-256=[password=x]", "--entity-type", "users", "--entity-name", USER),
    (CONFIGS, *DELETE, "SCRAM-SHA-256", "--entity-type", "users", "--entity-name", USER),
    (CONFIGS, *ADD, "retention.ms=1000000", "--entity-type", "topics", "--entity-name", ALLOWED),
    (CONFIGS, *ADD, "retention.ms=1000000", "--entity-type", "topics", "--entity-name", FORBIDDEN),
    (CONFIGS, DESCRIBE, "--entity-type", "topics", "--entity-name", FORBIDDEN),
    (ACLS, "--list"),
    (ACLS, "--add", *BOB, "--operation", "Read", "--topic", "x"),
    (ACLS, "--remove", "--force", "--topic", "x"),
    (TOKENS, "--create", *NEVER),
    (TOKENS, "--create", *NEVER, "--renewer-principal", "User:bob"),
    (TOKENS, "--create", *NEVER, "--owner-principal", "User:bob"),
    (TOKENS, "--create", *NEVER, "--renewer-principal", "Group:bob"),
    (TOKENS, "--describe"),
    (TOKENS, "--describe", "--owner-principal", "User:bob"),
    (TOKENS, "--renew", "--hmac", HMAC, "--renew-time-period", "-1"),
    (TOKENS, "--expire", "--hmac", HMAC, "--expiry-time-period", "-1"),
)
OF_LOGINS: Final = (
    (CONFIGS, *ADD, "SCRAM-SHA-256=[password=x]", "--entity-type", "users", "--entity-name", USER),
    (ACLS, "--list"),
    (TOKENS, "--describe"),
)
"""Few: each wrong password of the same user is answered later than the one before (F3)."""
OF_ACLS: Final = (
    ("--add", "--allow-principal", "bob", "--operation", "Read", "--topic", "x"),
    ("--add", *BOB, "--operation", "Fly", "--topic", "x"),
    ("--add", *BOB, "--operation", "ClusterAction", "--topic", "x"),
    ("--add", *BOB, "--topic", "x", "--resource-pattern-type", "any"),
    ("--add", *BOB, "--operation", "Read"),
    ("--add", *BOB, "--operation", "Read", "--topic", ""),
    ("--add", *BOB, "--producer"),
    ("--add", *BOB, "--consumer", "--topic", "x"),
    ("--add", *BOB, "--idempotent", "--topic", "x"),
    ("--add", "--operation", "Read", "--topic", "x"),
    ("--add", "--deny-principal", "User:bob", "--consumer", "--topic", "x", "--group", "g"),
    ("--add", "--allow-principal", "User:*", "--allow-host", "::1", "--operation", "All", "--cluster"),
    ("--list", "--topic", "x", "--resource-pattern-type", "match"),
    ("--remove", "--force", "--operation", "All", "--cluster"),
    ("--remove",),
    ("--list", "--add"),
    ("--list", "--nonsense"),
    (),
)
"""What test_acls_tool does not have, most of it refused by the tool or by the broker."""

NOT_COMPARED: Final = re.compile(
    r"\s+(?!(?:listener\.name|max\.connection|connections\.max|sasl\.|ssl\.|super\.users|authorizer|config\.prov"
    r"|delegation|principal|security|password)\S*=)\S+="
)
"""Lines of a broker's settings that are about other things than its security."""


@dataclass(frozen=True, slots=True)
class Line:
    """One command line, and who runs it."""

    who: str
    tool: str
    arguments: tuple[str, ...]


LINES: Final = (
    *(Line(PLAIN, CONFIGS, arguments) for arguments in OF_BROKERS),
    *(Line(ALICE, tool, tuple(arguments)) for tool, *arguments in OF_RIGHTS),
    *(Line(STRANGER, tool, tuple(arguments)) for tool, *arguments in OF_LOGINS),
    *(Line(PLAIN, ACLS, arguments) for arguments in OF_ACLS),
    Line(PLAIN, TOKENS, ("--create", *NEVER)),
    Line(PLAIN, TOKENS, ("--describe",)),
)


class Tools:
    """The tools on one broker; what they print has neither addresses, nor files, nor places in their code."""

    def __init__(self, server: ServerProcess, folder: Path, certificates: Certificates) -> None:
        folder.mkdir()
        self._store = str(certificates.server)
        self._files = {who: folder / f"{who}.properties" for who in (PLAIN, ALICE, STRANGER)}
        self._files[PLAIN].write_text("security.protocol=PLAINTEXT\n")
        for who, login in ((ALICE, (USER, PASSWORD)), (STRANGER, ("java", WRONG_PASSWORD))):
            self._files[who].write_text(_properties(*login, certificates))
        self._addresses = {server.bootstrap: "PLAIN"} | {
            server.bootstrap_of(listener): listener for listener in LISTENERS
        }
        self._fleets = {PLAIN: Fleet(server.bootstrap, folder)}
        self._fleets[ALICE] = self._fleets[STRANGER] = Fleet(server.bootstrap_of("TLS"), folder)
        self._folder = folder

    def close(self) -> None:
        for fleet in self._fleets.values():
            fleet.close()

    def said(self, line: Line) -> tuple[int, list[str]]:
        """The status, and the lines of both streams: those of sets and of hash maps have no order."""
        arguments = [argument.replace("STORE", self._store) for argument in line.arguments]
        found = self._fleets[line.who].ask_tool(
            line.tool, *arguments, "--command-config", str(self._files[line.who])
        )
        text = f"{found['text']}\n{found['error']}".replace(str(self._folder), "FOLDER")
        for address, name in self._addresses.items():
            text = text.replace(address, name)
        # Kafka's sentence for a refused administrator is a dump of its request (docs/kafka-security.md A10).
        text = re.sub(r"Request Request\(.*\) needs \w+ permission\.", "Cluster authorization failed.", text)
        # The operations of a resource are those of a hash set, in another order in each process.
        text = re.sub(r"\[[A-Z_, ]+\]", lambda names: ", ".join(sorted(names[0][1:-1].split(", "))), text)
        return int(found["status"]), sorted(each for each in text.splitlines() if _is_compared(each))


def _is_compared(line: str) -> bool:
    if re.match(r"\s+(at |\.\.\. \d+ more)|SLF4J|Picked up|\s*$", line):
        return False
    return "synonyms=" not in line or NOT_COMPARED.match(line) is None


def _properties(user: str, password: str, certificates: Certificates) -> str:
    properties: dict[str, Any] = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{MODULE} required username="{user}" password="{password}";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": certificates.authority,
    }
    return "".join(f"{name}={value}\n" for name, value in properties.items())


@pytest.fixture
def both(java: None, tmp_path: Path) -> Iterator[tuple[Tools, Tools]]:
    """The tools on a Kafka and on a daemon, which have the same certificates."""
    certificates = Certificates(tmp_path / "certificates")
    with (
        start_server("kafka", tmp_path / "kafka", certificates) as kafka,
        start_server("muster", tmp_path / "muster", certificates) as muster,
    ):
        tools = []
        for name, server in (("on-kafka", kafka), ("on-muster", muster)):
            furnish(server)
            tools.append(Tools(server, tmp_path / name, certificates))
        try:
            yield tools[0], tools[1]
        finally:
            for each in tools:
                each.close()


def test_the_tools_print_the_same(both: tuple[Tools, Tools]) -> None:
    kafka, muster = both
    outputs: dict[Line, list[str]] = {}
    statuses = []
    for line in LINES:
        status, text = ours = muster.said(line)
        theirs = _said_by_kafka(kafka, line, ours)
        assert theirs[1] == text, line
        assert theirs[0] == status, line
        outputs[line] = text
        statuses.append(status)
    assert {0, 1} == set(statuses)
    assert not [secret for secret in (PASSWORD, WRONG_PASSWORD) if secret in str(outputs)]
    shown = "\n".join(outputs[Line(PLAIN, CONFIGS, OF_BROKERS[0])])
    assert "listener.name.tls.plain.sasl.jaas.config=null sensitive=true" in shown
    assert "ssl.keystore.password=null sensitive=true" in shown


def _said_by_kafka(kafka: Tools, line: Line, ours: tuple[int, list[str]]) -> tuple[int, list[str]]:
    """What Kafka says to a question, again if need be: it answers before a change has reached its broker."""
    seen: list[tuple[int, list[str]]] = []

    def is_said() -> bool:
        seen.append(kafka.said(line))
        return seen[-1] == ours

    patience_s = IN_FORCE_S if DESCRIBE in line.arguments or "--list" in line.arguments else 0
    try:
        wait_until(is_said, str(line), patience_s)
    except TimeoutError:
        return seen[-1]
    return seen[-1]
