"""The listeners with TLS of the configuration `secured`, their keys, and clients' ends of them.

Both brokers have the same key. `TLS` asks for a certificate and `MUTUAL` insists on one; clients of `TLSLOGIN` log
in, and what they show is not looked at.
"""

from __future__ import annotations

import asyncio
import datetime
import ssl
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

import trustme

from harness.processes import HOST
from tests.conformance.answers import Answer
from tests.conformance.connection import OPEN_TIMEOUT_S, Connection
from tests.conformance.secured import PASSWORDS
from tests.security.tls.certificates import authority, authority_pem, issued

TLS: Final = "TLS"
MUTUAL: Final = "MUTUAL"
TLS_LOGIN: Final = "TLSLOGIN"
TLS_LISTENERS: Final = {TLS: "SSL", MUTUAL: "SSL", TLS_LOGIN: "SASL_SSL"}
"""The listeners with TLS, and their protocols. On MUTUAL alice's certificates alone have a name."""

ALERT: Final = "an alert"
HUNG_UP: Final = "hung up without an alert"
PATIENCE_S: Final = 10.0
"""How long an alert is waited for. In TLS 1.3 one about a certificate comes behind the client's handshake (T6)."""

_RECORD_OF_ALERT: Final = 0x15
_USERS: Final = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
_LOGIN: Final = f"listener.name.{TLS_LOGIN.lower()}"
_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"


def tls_settings(folder: Path) -> dict[str, str]:
    """Write key and trust store into `folder`; the settings by which a broker has them."""
    folder.mkdir(parents=True, exist_ok=True)
    key, trusted = folder / "key.pem", folder / "trusted.pem"
    key.write_text(issued().pem)
    trusted.write_text(authority_pem())
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(key),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(trusted),
        f"listener.name.{TLS.lower()}.ssl.client.auth": "requested",
        f"listener.name.{MUTUAL.lower()}.ssl.client.auth": "required",
        f"listener.name.{MUTUAL.lower()}.ssl.principal.mapping.rules": "RULE:^.*CN=(alice)(,.*)?$/$1/U",
        f"{_LOGIN}.sasl.enabled.mechanisms": "PLAIN",
        f"{_LOGIN}.plain.sasl.jaas.config": f"{_PLAIN} required {_USERS};",
    }


# Clients.


def client(version: ssl.TLSVersion, shown: str = "", ciphers: str = "") -> ssl.SSLContext:
    """A client that speaks one version of TLS, and shows the certificate `shown`, one of CERTIFICATES."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority().configure_trust(context)
    if ciphers:
        context.set_ciphers(ciphers)
    context.minimum_version = context.maximum_version = version
    if shown:
        certificates()[shown].configure_cert(context)
    return context


@cache
def certificates() -> dict[str, trustme.LeafCert]:
    """What clients may show, by what is special about it."""
    key = trustme.KeyType.ECDSA
    past = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    other = trustme.CA(key_type=key)
    return {
        "good": authority().issue_cert("client.example", common_name="alice", key_type=key),
        "odd name": authority().issue_cert("client.example", common_name=' #a, "b"+c=\\<d>; ', key_type=key),
        "of another authority": other.issue_cert("client.example", common_name="alice", key_type=key),
        "expired": authority().issue_cert(
            "client.example", common_name="alice", key_type=key, not_before=past, not_after=past
        ),
    }


OnAnswer = Callable[[Answer], None]


async def connect(
    bootstrap: str, context: ssl.SSLContext, on_answer: OnAnswer = lambda answer: None
) -> Connection:
    """Connect through TLS. Raises ssl.SSLError for an alert, ConnectionError without one."""
    host, port = bootstrap.rsplit(":", 1)
    async with asyncio.timeout(OPEN_TIMEOUT_S):
        reader, writer = await asyncio.open_connection(
            host, int(port), ssl=context, server_hostname="localhost"
        )
    return Connection(reader, writer, "client", on_answer)


async def refusal(bootstrap: str, context: ssl.SSLContext) -> str:
    """How a handshake ends that is refused; which alert it is depends on the library (T18)."""
    host, port = bootstrap.rsplit(":", 1)
    try:
        async with asyncio.timeout(PATIENCE_S):
            reader, writer = await asyncio.open_connection(
                host, int(port), ssl=context, server_hostname="localhost"
            )
            try:
                return HUNG_UP if await reader.read(1) == b"" else "data"
            finally:
                writer.close()
    except ssl.SSLError as error:
        return ALERT if "ALERT" in (error.reason or "") else f"refused by the client: {error.reason}"
    except ConnectionError:
        return HUNG_UP
    except TimeoutError:
        return "not refused"


async def answer_to_bytes(bootstrap: str, data: bytes) -> str:
    """What comes of `data`, sent as it is and not followed by anything, until the broker hangs up."""
    port = bootstrap.rsplit(":", 1)[1]
    received = b""
    async with asyncio.timeout(PATIENCE_S):
        reader, writer = await asyncio.open_connection(HOST, int(port))
        writer.write(data)
        try:
            received = await reader.read()
        except ConnectionResetError:
            pass
        finally:
            writer.close()
    return ALERT if received[:1] == bytes((_RECORD_OF_ALERT,)) else HUNG_UP if not received else "data"
