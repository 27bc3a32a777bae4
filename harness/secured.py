"""A broker with secured listeners, Kafka's or Muster's by the same settings, and files of clients for them.

`with SecuredBroker(folder, KafkaBroker) as broker: broker.properties("TLS", "java", folder / "c.properties")`.
PLAINTEXT is for the harness; SASL is SASL_PLAINTEXT with PLAIN, TLS is SASL_SSL with SCRAM-SHA-512, MTLS is SSL
with client certificates. Its certificates are of an authority of its own (trustme). Knows nothing of pytest.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import trustme
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
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
from harness.processes import HOST

PROTOCOLS: Final = {"SASL": "SASL_PLAINTEXT", "TLS": "SASL_SSL", "MTLS": "SSL"}
"""The protocol of each listener beside PLAINTEXT."""

USER: Final = "alice"
PASSWORD: Final = 'alice\'s "secret"; \\ of 0'
"""With all that a JAAS text has to escape."""

CANARY: Final = "secret"
"""A part of the password that is looked for where it must not be."""

SCRAM: Final = "SCRAM-SHA-512"
MECHANISMS: Final = {"SASL": "PLAIN", "TLS": SCRAM}
"""The mechanism of each listener where clients log in."""

MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    SCRAM: "org.apache.kafka.common.security.scram.ScramLoginModule",
}
ADMIN_TIMEOUT_S: Final = 30.0


def jaas_text(options: dict[str, str], mechanism: str = "PLAIN") -> str:
    """A JAAS text of the mechanism with these options."""
    quoted = {name: value.replace("\\", "\\\\").replace('"', '\\"') for name, value in options.items()}
    words = (f'{name}="{value}"' for name, value in quoted.items())
    return " ".join((MODULES[mechanism], "required", *words)) + ";"


class Certificates:
    """An authority, the server's key with its chain, and a client's, as PEM files in a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        authority = trustme.CA()
        self.authority = folder / "authority.pem"
        authority.cert_pem.write_to_path(self.authority)
        self.server = self._store(folder / "server.pem", authority.issue_cert(HOST, "localhost"))
        self.client = self._store(folder / "client.pem", authority.issue_cert("client", common_name="client"))

    def _store(self, store: Path, made: trustme.LeafCert) -> Path:
        """A keystore in PEM: the key in PKCS#8, which is all that Kafka reads, and the chain, the leaf first."""
        key = load_pem_private_key(made.private_key_pem.bytes(), None)
        text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        store.write_bytes(text + b"".join(blob.bytes() for blob in made.cert_chain_pems))
        return store


class SecuredBroker:
    """A broker that is started on entry."""

    def __init__(self, folder: Path, kind: type[KafkaBroker | MusterDaemon]) -> None:
        self.certificates = Certificates(folder / "certificates")
        is_kafka = issubclass(kind, KafkaBroker)
        self.server = kind(folder / "broker", self._settings(in_a_file=is_kafka), listeners=PROTOCOLS)

    def __enter__(self) -> SecuredBroker:
        self.server.__enter__()
        admin = AdminClient({"bootstrap.servers": self.bootstrap("PLAINTEXT"), "log_level": 0})
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        (made,) = admin.alter_user_scram_credentials(
            [UserScramCredentialUpsertion(USER, info, PASSWORD.encode())]
        ).values()
        made.result(ADMIN_TIMEOUT_S)
        return self

    def __exit__(self, *error: object) -> None:
        self.server.__exit__(*error)

    def bootstrap(self, listener: str) -> str:
        """The address of a listener."""
        return self.server.bootstrap_of(listener)

    def _settings(self, *, in_a_file: bool) -> dict[str, str]:
        settings = {
            **{
                f"listener.name.{listener.lower()}.sasl.enabled.mechanisms": mechanism
                for listener, mechanism in MECHANISMS.items()
            },
            "listener.name.mtls.ssl.client.auth": "required",
            "group.initial.rebalance.delay.ms": "0",
        }
        for name in ("tls", "mtls"):
            settings |= {
                f"listener.name.{name}.ssl.keystore.type": "PEM",
                f"listener.name.{name}.ssl.keystore.location": str(self.certificates.server),
                f"listener.name.{name}.ssl.truststore.type": "PEM",
                f"listener.name.{name}.ssl.truststore.location": str(self.certificates.authority),
            }
        # In a properties file a backslash escapes; on a command line it does not.
        text = jaas_text({f"user_{USER}": PASSWORD})
        text = text.replace("\\", "\\\\") if in_a_file else text
        settings["listener.name.sasl.plain.sasl.jaas.config"] = text
        settings[f"listener.name.tls.{SCRAM.lower()}.sasl.jaas.config"] = jaas_text({}, SCRAM)
        return settings

    def properties(self, listener: str, dialect: str, file: Path, **others: str) -> Path:
        """Write the file of a client for this listener, in the names of "java" or of "librdkafka"; return it."""
        named = {"bootstrap.servers": self.bootstrap(listener), **self.security(listener, dialect), **others}
        escaped = {name: value.replace("\\", "\\\\").replace("\n", "\\n") for name, value in named.items()}
        file.write_text("".join(f"{name}={value}\n" for name, value in escaped.items()))
        return file

    def security(self, listener: str, dialect: str, password: str = PASSWORD) -> dict[str, str]:
        """The properties that a client needs to speak to this listener."""
        properties = {"security.protocol": PROTOCOLS[listener]}
        is_java = dialect == "java"
        if listener != "MTLS":
            mechanism = MECHANISMS[listener]
            login = {"sasl.jaas.config": jaas_text({"username": USER, "password": password}, mechanism)}
            librdkafka = {"sasl.username": USER, "sasl.password": password}
            properties |= (
                {"sasl.mechanism": mechanism, **login}
                if is_java
                else {"sasl.mechanisms": mechanism, **librdkafka}
            )
        if listener != "SASL":
            trusted = str(self.certificates.authority)
            java = {"ssl.truststore.type": "PEM", "ssl.truststore.location": trusted}
            properties |= java if is_java else {"ssl.ca.location": trusted}
        if listener == "MTLS":
            own = str(self.certificates.client)
            java = {"ssl.keystore.type": "PEM", "ssl.keystore.location": own}
            properties |= java if is_java else {"ssl.certificate.location": own, "ssl.key.location": own}
        return properties
