"""What each client library shows its user in each cell, the same on Kafka and on Muster; and what it cannot do.

Texts are regular expressions, to be found in what the library shows: Kafka's TLS is Java's, ours OpenSSL's, and
the numbers of their alerts differ (docs/kafka-security.md T18).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.clients.secured.cells import PATIENCE_S, TOKEN, Column
from tests.clients.secured.world import FORBIDDEN, MTLS
from tests.clients.workers.secured import NOTHING, SERVED

KEPT: Final = {"rebalances": 0, "connections": "kept"}
REPLACED: Final = {"rebalances": 0, "connections": "replaced"}


SILENCE_S: Final = 4.0
"""For how long a consumer is polled that has been refused and does not say so."""


@dataclass(frozen=True, slots=True)
class Expected:
    """An error, or SERVED, its text, and the details of a member that stays; `why` is the library's reason."""

    error: str
    text: str = ""
    details: Mapping[str, object] = field(default_factory=dict)
    why: str = ""

    def problem(self, event: Mapping[str, Any]) -> str | None:
        """What the outcome that a worker reported has that is not expected."""
        seen = event["error"], event["details"]
        if seen != (self.error, dict(self.details)):
            return f"{seen} {event['text']!r}, expected {self.error} {dict(self.details)}"
        if re.search(self.text, event["text"]) is None or (not self.text and event["text"]):
            return f"{event['text']!r}, expected {self.text!r}"
        return None


INVALID: Final = "Authentication failed during authentication due to invalid credentials with SASL mechanism"
WORDS: Final = {
    "PLAIN": "Authentication failed: Invalid username or password",
    "SCRAM-SHA-256": f"{INVALID} SCRAM-SHA-256",
    "SCRAM-SHA-512": f"{INVALID} SCRAM-SHA-512",
    TOKEN: '{"status":"invalid_token"}',
}
"""The broker's sentence for what is wrong, and for a token that has expired."""

REFUSED: Final = ("wrong", "wrong, without TLS", "expired")
SERVED_COLUMNS: Final = ("right", "right, without TLS")
DISTRUSTED: Final = "a server of another authority"


def _java(way: str, column: str) -> Expected:
    if column == "re-authenticated":
        return Expected(SERVED, details=KEPT | {"logged_in_again": way != MTLS})
    if column in REFUSED and way != MTLS:
        return Expected("SaslAuthenticationException", f"^{re.escape(WORDS[way])}$")
    if column in REFUSED:
        return Expected("SslAuthenticationException", "^Failed to process post-handshake messages$")
    if column == DISTRUSTED:
        return Expected("SslAuthenticationException", "^SSL handshake failed$")
    if column.startswith("30"):
        return Expected(
            "GroupAuthorizationException", f"^Not authorized to access group: {FORBIDDEN} of java"
        )
    of_topic = rf"^Not authorized to access topics: \[{FORBIDDEN}\]$"
    if "KIP-848" not in column:
        return Expected("TopicAuthorizationException", of_topic)
    why = "its Metadata and its ConsumerGroupHeartbeat are both refused, whichever is answered first"
    return Expected("TopicAuthorizationException", rf"{of_topic}|^Topic authorization failed\.$", why=why)


def _confluent(way: str, column: str) -> Expected:
    if column == "re-authenticated":
        return Expected(SERVED, details=KEPT)
    if column in REFUSED and way != MTLS:
        return Expected("_AUTHENTICATION", f"SASL authentication error: {re.escape(WORDS[way])} ")
    if column in REFUSED:
        why = "in TLS 1.3 its handshake is over when the alert comes: to its transport that is a failed read"
        return Expected("_TRANSPORT", r"SSL routines::.* alert .*: SSL alert number \d+", why=why)
    if column == DISTRUSTED:
        return Expected("_SSL", "broker certificate could not be verified")
    if column.startswith("30"):
        return Expected(
            "GROUP_AUTHORIZATION_FAILED", r"^FindCoordinator response error: Group authorization failed\.$"
        )
    asked = {
        "29 writing": "^Broker: Topic authorization failed$",
        "29 reading": f"^Subscribed topic not available: {FORBIDDEN}: Broker: Topic authorization failed$",
        "29 reading, KIP-848": "^ConsumerGroupHeartbeat failed: Broker: Topic authorization failed$",
    }
    return Expected("TOPIC_AUTHORIZATION_FAILED", asked[column])


def _kafka_python(way: str, column: str) -> Expected:
    if column == "re-authenticated":
        return Expected(SERVED, details=KEPT)
    if column in REFUSED or column == DISTRUSTED:
        why = (
            "it tries on for bootstrap_timeout_ms; mostly it does not even see the broker's sentence, which "
            "transport._sock_recv drops if the end of the stream is read with it"
        )
        return Expected("KafkaTimeoutError", "Unable to bootstrap from", why=why)
    if column == "30":
        return Expected("GroupAuthorizationFailedError", rf"^\[Error 30\] .*: {FORBIDDEN} of kafka_python")
    if column == "29 writing":
        return Expected("TopicAuthorizationFailedError", rf"^\[Error 29\] .*: {FORBIDDEN}$")
    why = (
        "ConsumerCoordinator._handle_metadata_update raises TopicAuthorizationFailedError on the thread of its "
        "connections, where it is lost: poll() returns nothing, the log says that the topic is not authorized"
    )
    return Expected(NOTHING, why=why)


def _aiokafka(way: str, column: str) -> Expected:
    if column == "re-authenticated":
        why = "AIOKafkaConnection logs in when it connects, and never looks at session_lifetime_ms"
        return Expected(SERVED, details=KEPT) if way == MTLS else Expected(SERVED, details=REPLACED, why=why)
    if column in REFUSED and way == TOKEN:
        why = (
            "it takes the answer for a success, the reason for the server's last word, and is then hung up on"
        )
        return Expected("NodeNotReadyError", "node which is not ready", why=why)
    if column in REFUSED or column == DISTRUSTED:
        logged = {
            "a server of another authority": "CERTIFICATE_VERIFY_FAILED",
            MTLS: "Connection at .* closed",
        }
        said = (
            logged.get(column)
            or logged.get(way)
            or re.escape(f"[Error 58] SaslAuthenticationFailed: {WORDS[way]}")
        )
        return Expected(
            "KafkaConnectionError", f"(?s)^KafkaConnectionError: Unable to bootstrap from .*{said}"
        )
    if column == "30":
        return Expected("GroupAuthorizationFailedError", rf"^\[Error 30\] .*: {FORBIDDEN} of aiokafka")
    return Expected("TopicAuthorizationFailedError", rf"^\[Error 29\] .*: {FORBIDDEN}$")


_OF_LIBRARIES: Final = {
    "java": _java,
    "confluent": _confluent,
    "kafka_python": _kafka_python,
    "aiokafka": _aiokafka,
}


def expected(library: str, way: str, column: Column) -> Expected:
    """What the library shows in this cell, which is not one of those that it cannot play."""
    if column.name in SERVED_COLUMNS:
        return Expected(SERVED)
    return _OF_LIBRARIES[library](way, column.name)


def waits_s(library: str, way: str, column: Column) -> float:
    """How long the library may take to show it; if it shows nothing, how long it is watched."""
    return SILENCE_S if expected(library, way, column).error == NOTHING else PATIENCE_S


def cannot(library: str, way: str, column: Column) -> str | None:
    """Why there is no such cell, by the library's source or by what a credential is; None if there is."""
    if column.credentials == "expired" and way not in (TOKEN, MTLS):
        return "a password has no end: PLAIN and SCRAM carry no time, and no library has one to check"
    return _CANNOT.get((library, column.group_protocol))


_CANNOT: Final = {
    (
        "kafka_python",
        "consumer",
    ): "kafka.coordinator has JoinGroup alone: KafkaConsumer takes no group_protocol",
    ("aiokafka", "consumer"): "aiokafka.consumer.group_coordinator has JoinGroup alone: no group_protocol",
}
"""By library and group protocol."""
