"""A broker, Kafka's or Muster's, with every kind of secured listener, the same users, certificates and rights.

PLAINTEXT is the test's own, where it is a super user. Every other client is User:alice, who may do everything with
the topic ALLOWED and groups whose name begins so; who has another certificate, password or token is not in.
"""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Final

import trustme
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from harness.daemon import MusterDaemon
from harness.kafka_broker import KafkaBroker
from harness.processes import ServerProcess
from tests.conformance.tokens import AUDIENCE, ISSUER, java_options, key_url

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
MTLS: Final = "mTLS"
WAYS: Final = (*MECHANISMS, MTLS)
"""How clients say who they are."""
BRIEF: Final = {way: f"BRIEF{number}" for number, way in enumerate(WAYS)}
"""For each way a listener where sessions end soon, by which its connections are known from those of other ways."""
LISTENERS: Final = {
    "SASL": "SASL_PLAINTEXT",
    "TLS": "SASL_SSL",
    "MTLS": "SSL",
    **{listener: "SSL" if way == MTLS else "SASL_SSL" for way, listener in BRIEF.items()},
}
"""The protocol of each listener beside PLAINTEXT."""
SESSION_MS: Final = 10_000
"""How long a session lasts on those of BRIEF, or less by a token, with which it ends. librdkafka logs in again
when nine tenths of it are over: a busy machine has the last tenth."""
USER, PASSWORD, WRONG_PASSWORD = "alice", "alice-secret", "alice-guess"
ALLOWED, FORBIDDEN = "allowed", "forbidden"
LIBRARIES: Final = ("java", "confluent", "kafka_python", "aiokafka")
"""Client libraries, and users: by these they are refused, so that none delays the refusal of another."""
TIMEOUT_S: Final = 30.0

_SECURITY: Final = "org.apache.kafka.common.security"
_USERS: Final = " ".join(f'user_{name}="{PASSWORD}"' for name in (USER, *LIBRARIES))
_MODULES: Final = {
    "plain": f"{_SECURITY}.plain.PlainLoginModule required {_USERS};",
    "scram-sha-256": f"{_SECURITY}.scram.ScramLoginModule required;",
    "scram-sha-512": f"{_SECURITY}.scram.ScramLoginModule required;",
    "oauthbearer": f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule required;",
}


class Certificates:
    """Keys with their certificates as PEM files: the server's, and what clients may show."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        past = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
        ours, other = (trustme.CA(key_type=trustme.KeyType.ECDSA) for _ in range(2))
        self.authority = folder / "authority.pem"
        ours.cert_pem.write_to_path(self.authority)
        self.other_authority = folder / "other-authority.pem"
        other.cert_pem.write_to_path(self.other_authority)
        self.server = _store(folder / "server.pem", ours.issue_cert("127.0.0.1", "localhost"))
        self.of_clients = {
            "right": _store(folder / "right.pem", ours.issue_cert("client", common_name=USER)),
            "wrong": _store(folder / "wrong.pem", other.issue_cert("client", common_name=USER)),
            "expired": _store(
                folder / "expired.pem",
                ours.issue_cert("client", common_name=USER, not_before=past, not_after=past),
            ),
        }


def _store(file: Path, made: trustme.LeafCert) -> Path:
    """A file with the key in PKCS#8, which is all that Kafka reads, and the chain, the leaf first."""
    key = load_pem_private_key(made.private_key_pem.bytes(), None)
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file.write_bytes(text + b"".join(blob.bytes() for blob in made.cert_chain_pems))
    return file


def start_server(kind: str, folder: Path, certificates: Certificates) -> ServerProcess:
    """A broker that is not started yet: "kafka" or "muster"."""
    settings = _settings(certificates)
    if kind == "kafka":
        return KafkaBroker(folder, settings, jvm_options=java_options(), listeners=LISTENERS)
    return MusterDaemon(folder, settings, listeners=LISTENERS)


def _settings(certificates: Certificates) -> dict[str, str]:
    settings = {
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.server),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority),
        "ssl.principal.mapping.rules": "RULE:^CN=([a-z]+),.*$/$1/,DEFAULT",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "group.initial.rebalance.delay.ms": "0",
        "auto.create.topics.enable": "false",
    }
    for listener, protocol in LISTENERS.items():
        prefix = f"listener.name.{listener.lower()}"
        if listener in BRIEF.values():
            settings[f"{prefix}.connections.max.reauth.ms"] = str(SESSION_MS)
        settings |= (
            _logins(prefix) if protocol.startswith("SASL") else {f"{prefix}.ssl.client.auth": "required"}
        )
    return settings


def _logins(prefix: str) -> dict[str, str]:
    """The settings of a listener that takes every mechanism."""
    bearer = f"{prefix}.oauthbearer.sasl"
    return {f"{prefix}.{name}.sasl.jaas.config": module for name, module in _MODULES.items()} | {
        f"{bearer}.server.callback.handler.class": f"{_SECURITY}.oauthbearer.OAuthBearerValidatorCallbackHandler",
        f"{bearer}.oauthbearer.jwks.endpoint.url": key_url(),
        f"{bearer}.oauthbearer.expected.issuer": ISSUER,
        f"{bearer}.oauthbearer.expected.audience": AUDIENCE,
    }


def furnish(server: ServerProcess) -> None:
    """Make the topics, the users of SCRAM and alice's rights."""
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    for made in admin.create_topics([NewTopic(ALLOWED, 1, 1), NewTopic(FORBIDDEN, 1, 1)]).values():
        made.result(TIMEOUT_S)
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        info = ScramCredentialInfo(mechanism, 4096)
        users: list[UserScramCredentialAlteration] = [
            UserScramCredentialUpsertion(name, info, PASSWORD.encode()) for name in (USER, *LIBRARIES)
        ]
        for altered in admin.alter_user_scram_credentials(users).values():
            altered.result(TIMEOUT_S)
    bindings = [
        AclBinding(kind, ALLOWED, pattern, f"User:{USER}", "*", AclOperation.ALL, AclPermissionType.ALLOW)
        for kind, pattern in (
            (ResourceType.TOPIC, ResourcePatternType.LITERAL),
            (ResourceType.GROUP, ResourcePatternType.PREFIXED),
        )
    ]
    for created in admin.create_acls(bindings).values():
        created.result(TIMEOUT_S)
